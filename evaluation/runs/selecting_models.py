"""Models whose failures selected the samples of a release, which biases the test against them."""

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
    """The models whose failures selected a release's samples, by `canonical_model_name`."""

    names: frozenset[str]

    def includes(self, endpoint: Endpoint, reported: str = "") -> bool:
        """Whether this model's failures selected samples, through any endpoint and in any version.

        `reported`: the model name in the server's replies.
        """
        names = [canonical_model_name(name) for name in (endpoint.model, endpoint.name, reported)]
        return not self.names.isdisjoint(names)


def selection(release: Release) -> Selection:
    """The selection of a release: models in selecting roles, and those that its facet names."""
    batches = ReleasedSample.objects.filter(release=release).order_by().values("version__draft__batch").distinct()
    bound = set(BatchRole.objects.filter(batch__in=batches).values_list("role", "endpoint__model"))
    names: set[str] = set()
    if bound:
        selecting = {role.name for role in recipes.recipe(release.benchmark).roles if role.selects}
        names = {model for role, model in bound if role in selecting}
    if facet := registry.protocol(release.benchmark).chosen_by:
        named = Facet.objects.filter(rubric__sample__release=release, name=facet).order_by()
        names.update(named.values_list("value", flat=True).distinct())
    canonical = {canonical_model_name(name) for name in names}
    return Selection(frozenset(canonical - {""}))


def selecting_models(run: Run) -> tuple[str, ...]:
    """The names of tested models whose failures selected the run's samples."""
    chosen = selection(run.release)
    if not chosen.names:
        return ()
    reported = reported_names([run])
    names = []
    for endpoint in run.endpoints.all():
        if chosen.includes(endpoint, reported.get((run.pk, endpoint.pk), "")):
            names.append(endpoint.name)
    return tuple(sorted(names))


def reported_names(runs: Iterable[Run]) -> dict[tuple[int, int], str]:
    """(run, endpoint) -> the model name in the first reply of the endpoint. Makes one query."""
    answered = Call.objects.filter(job=OuterRef("run"), endpoint=OuterRef("endpoint"), error="").exclude(model="")
    first = Subquery(answered.order_by("pk").values("model")[:1])
    rows = RunEndpoint.objects.filter(run__in=[run.pk for run in runs]).order_by()
    names = {}
    for run, endpoint, name in rows.annotate(reported=first).values_list("run", "endpoint", "reported"):
        names[run, endpoint] = name or ""
    return names
