"""The page of attempts."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from generation.batches import queries
from generation.models import SampleVersion
from generation.outcomes import attempts as outcomes_attempts
from generation.outcomes import forms
from review.common.decorators import requires
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
