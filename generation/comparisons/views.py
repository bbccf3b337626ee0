"""Pages of comparisons."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from generation.batches.views import SAMPLES_SHOWN
from generation.comparisons import queries
from generation.models import BatchRole, SampleVersion
from review.common.decorators import requires
from review.common.paging import keyset_page
from review.rules.blocks import Dialogue, Text, Turn
from review.rules.diffing import align_turns
from review.rules.permissions import Can


@requires(Can.PRODUCE, "GET")
def comparisons(request: HttpRequest) -> HttpResponse:
    """All comparisons of two prompt sets."""
    page = keyset_page(queries.comparisons(), request, size=25, newest_first=True)
    return render(request, "generation/comparisons/comparisons.html", {"page": page})


@requires(Can.PRODUCE, "GET")
def comparison(request: HttpRequest, pk: int) -> HttpResponse:
    """One comparison: both batches, their paired counts, and each record with both outcomes."""
    comparison = queries.comparison(pk)
    page = keyset_page(queries.paired_drafts(comparison), request, size=SAMPLES_SHOWN)
    context = {
        "comparison": comparison,
        "compared": queries.compare_arms(comparison),
        "simulated": BatchRole.objects.filter(batch__comparison=comparison, endpoint__simulated=True).exists(),
        "page": page,
        "pairs": queries.pairs(comparison, page.rows),
    }
    return render(request, "generation/comparisons/comparison.html", context)


@requires(Can.PRODUCE, "GET")
def comparison_record(request: HttpRequest, pk: int, record_id: int) -> HttpResponse:
    """The results of both prompt sets for one record, side by side with the differences marked."""
    comparison = queries.comparison(pk)
    endpoint_filter = {}
    if name := request.GET.get("endpoint"):
        endpoint_filter = {"endpoint__name": name}
    draft = queries.paired_drafts(comparison).filter(record=record_id, **endpoint_filter).order_by("pk").first()
    if draft is None:
        raise Http404
    [pair] = queries.pairs(comparison, [draft])
    versions: list[SampleVersion | None] = []
    turns = []
    for side in pair.sides:
        version = None
        if side.version:
            with_rubrics = SampleVersion.objects.select_related("case").prefetch_related("rubrics")
            version = with_rubrics.get(pk=side.version.pk)
            turns.append(_turns(version))
        versions.append(version)
    aligned = []
    if len(turns) == 2 and all(turns):
        aligned = align_turns(*turns)
    context = {
        "comparison": comparison,
        "record": pair.record,
        "endpoint": pair.endpoint,
        "simulated": any(version.simulated for version in versions if version),
        "sides": list(zip(pair.sides, versions, strict=True)),
        "aligned": aligned,
    }
    return render(request, "generation/comparisons/comparison_record.html", context)


def _turns(version: SampleVersion) -> tuple[Turn, ...]:
    """A version's text as a model under test sees it, turn by turn."""
    spec = version.case.frozen
    turns: list[Turn] = []
    for block in spec.first_look or spec.blocks:
        if isinstance(block, Dialogue):
            turns += block.turns
        elif isinstance(block, Text):
            turns.append(Turn(block.title, block.text))
    return tuple(turns)
