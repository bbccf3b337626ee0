"""Models by whose failures the samples of a release were chosen: a test on these samples is biased against them."""

import re
from dataclasses import dataclass

from evaluation import registry
from evaluation.models import Run
from generation.models import BatchRole, Endpoint, Facet, Release, ReleasedSample
from generation.recipes import registry as recipes


@dataclass(frozen=True, slots=True)
class Selection:
    """The models that took part in choosing a release's samples, by the names that `_plain` makes of theirs."""

    names: frozenset[str]

    def includes(self, endpoint: Endpoint) -> bool:
        """Whether samples were chosen by what this model got wrong, whatever endpoint it was asked through."""
        return bool({_plain(endpoint.model), _plain(endpoint.name)} & self.names)


def selection(release: Release) -> Selection:
    """Who chose the samples: the models bound to roles that select, and those that the samples name in a facet."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    bound = set(BatchRole.objects.filter(batch__in=batches).values_list("role", "endpoint__model"))
    selecting = {role.name for role in recipes.recipe(release.benchmark).roles if role.selects} if bound else set()
    names = {model for role, model in bound if role in selecting}
    if facet := registry.protocol(release.benchmark).chosen_by:
        named = Facet.objects.filter(rubric__sample__release=release, name=facet).order_by()
        names.update(named.values_list("value", flat=True).distinct())
    return Selection(frozenset(filter(None, map(_plain, names))))


def selecting_models(run: Run) -> tuple[str, ...]:
    """The tested models of a run by whose failures its samples were chosen, by name."""
    found = selection(run.release)
    return tuple(sorted(each.name for each in run.endpoints.all() if found.includes(each))) if found.names else ()


def _plain(name: str) -> str:
    """A model's name as different providers write it alike: 'openai/GPT-5' and 'gpt-5'."""
    return re.sub(r"[\W_]+", "-", name.rpartition("/")[2].casefold()).strip("-")
