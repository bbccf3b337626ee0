"""Models by whose failures the samples of a release were chosen: a test on these samples is biased against them."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import OuterRef, Subquery

from evaluation import registry
from evaluation.models import Run, RunEndpoint
from generation.common.model_names import canonical_model_name
from generation.models import BatchRole, Call, Endpoint, Facet, Release, ReleasedSample
from generation.recipes import registry as recipes


@dataclass(frozen=True, slots=True)
class Selection:
    """The models that took part in choosing a release's samples, by the names that `canonical_model_name` makes of theirs."""

    names: frozenset[str]

    def includes(self, endpoint: Endpoint, reported: str = "") -> bool:
        """Whether samples were chosen by what this model got wrong, whatever endpoint it was asked through, and in whichever
        version. `reported`: the name under which its server answered."""
        return bool({canonical_model_name(name) for name in (endpoint.model, endpoint.name, reported)} & self.names)


def selection(release: Release) -> Selection:
    """Who chose the samples: the models bound to roles that select, and those that the samples name in a facet."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    bound = set(BatchRole.objects.filter(batch__in=batches).values_list("role", "endpoint__model"))
    selecting = {role.name for role in recipes.recipe(release.benchmark).roles if role.selects} if bound else set()
    names = {model for role, model in bound if role in selecting}
    if facet := registry.protocol(release.benchmark).chosen_by:
        named = Facet.objects.filter(rubric__sample__release=release, name=facet).order_by()
        names.update(named.values_list("value", flat=True).distinct())
    return Selection(frozenset(filter(None, map(canonical_model_name, names))))


def selecting_models(run: Run) -> tuple[str, ...]:
    """The tested models of a run by whose failures its samples were chosen, by name."""
    found = selection(run.release)
    if not found.names:
        return ()
    reported = reported_names([run])
    tested = run.endpoints.all()
    return tuple(sorted(each.name for each in tested if found.includes(each, reported.get((run.pk, each.pk), ""))))


def reported_names(runs: Iterable[Run]) -> dict[tuple[int, int], str]:
    """(run, endpoint) -> the name under which the endpoint's server answered first: one query."""
    answered = Call.objects.filter(job=OuterRef("run"), endpoint=OuterRef("endpoint"), error="").exclude(model="")
    first = Subquery(answered.order_by("pk").values("model")[:1])
    rows = RunEndpoint.objects.filter(run__in=[run.pk for run in runs]).order_by()
    told = rows.annotate(reported=first).values_list("run", "endpoint", "reported")
    return {(run, endpoint): name or "" for run, endpoint, name in told}
