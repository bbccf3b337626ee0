"""Pages of attempts and comparisons."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from generation.batches import queries
from generation.batches.views import SAMPLES_SHOWN
from generation.models import BatchRole, SampleVersion
from generation.outcomes import attempts as outcomes_attempts
from generation.outcomes import comparisons as outcomes_comparisons
from generation.outcomes import forms
from review.common.decorators import requires
from review.common.paging import keyset_page
from review.rules.blocks import Dialogue, Text, Turn
from review.rules.diffing import align_turns
from review.rules.permissions import Can


@require_safe
@requires(Can.PRODUCE)
def attempts(request: HttpRequest) -> HttpResponse:
    """Attempts to approval by trap, prompt and generator."""
    query = request.GET.copy()
    if not query.get("benchmark"):
        query["benchmark"] = queries.latest_benchmark()
    if not query.getlist("by"):
        query.setlist("by", ["prompt", "generator"])
    filters = forms.AttemptFilters(query)
    if not filters.is_valid():
        raise Http404
    by = [name for name in outcomes_attempts.GROUPINGS if name in filters.cleaned_data["by"]]
    benchmark = filters.cleaned_data["benchmark"]
    context = {
        "filters": filters,
        "by": by,
        "rows": outcomes_attempts.attempts(benchmark, by),
        "simulated": SampleVersion.objects.filter(sample__benchmark=benchmark, simulated=True).exists(),
    }
    return render(request, "generation/outcomes/attempts.html", context)


@require_safe
@requires(Can.PRODUCE)
def comparisons(request: HttpRequest) -> HttpResponse:
    """All comparisons of two prompt sets."""
    page = keyset_page(outcomes_comparisons.comparisons(), request, size=25, newest_first=True)
    return render(request, "generation/outcomes/comparisons.html", {"page": page})


@require_safe
@requires(Can.PRODUCE)
def comparison(request: HttpRequest, pk: int) -> HttpResponse:
    """One comparison: both batches, their paired counts, and each record with both outcomes."""
    comparison = get_object_or_404(outcomes_comparisons.comparisons(), pk=pk)
    page = keyset_page(outcomes_comparisons.paired_drafts(comparison), request, size=SAMPLES_SHOWN)
    context = {
        "comparison": comparison,
        "compared": outcomes_comparisons.compare_arms(comparison),
        "simulated": BatchRole.objects.filter(batch__comparison=comparison, endpoint__simulated=True).exists(),
        "page": page,
        "pairs": outcomes_comparisons.pairs(comparison, page.rows),
    }
    return render(request, "generation/outcomes/comparison.html", context)


@require_safe
@requires(Can.PRODUCE)
def comparison_record(request: HttpRequest, pk: int, record_id: int) -> HttpResponse:
    """The results of both prompt sets for one record, side by side with the differences marked."""
    comparison = get_object_or_404(outcomes_comparisons.comparisons(), pk=pk)
    endpoint_filter = {"endpoint__name": name} if (name := request.GET.get("endpoint")) else {}
    draft = (
        outcomes_comparisons.paired_drafts(comparison)
        .filter(record=record_id, **endpoint_filter)
        .order_by("pk")
        .first()
    )
    if draft is None:
        raise Http404
    [pair] = outcomes_comparisons.pairs(comparison, [draft])
    versions = [
        SampleVersion.objects.select_related("case").prefetch_related("rubrics").get(pk=side.version.pk)
        if side.version
        else None
        for side in pair.sides
    ]
    shown = [_turns(version) if version else () for version in versions]
    context = {
        "comparison": comparison,
        "record": pair.record,
        "endpoint": pair.endpoint,
        "simulated": any(version.simulated for version in versions if version),
        "sides": list(zip(pair.sides, versions, strict=True)),
        "aligned": align_turns(shown[0], shown[1]) if all(shown) else (),
    }
    return render(request, "generation/outcomes/comparison_record.html", context)


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
