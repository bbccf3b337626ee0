"""The page of attempts, and the reopening of what a careless physician approved."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from generation.batches import queries
from generation.models import SampleVersion
from generation.outcomes import attempts as outcomes_attempts
from generation.outcomes import forms, reopening
from review.cases.forms import WithdrawForm
from review.common.decorators import redirect_refused, refusal_text, requires, signed_in_account
from review.people.queries import physician
from review.rules.permissions import Can


@requires(Can.PRODUCE, "GET")
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
    by = outcomes_attempts.grouping(filters.cleaned_data["by"])
    benchmark = filters.cleaned_data["benchmark"]
    context = {
        "filters": filters,
        "by": by,
        "rows": outcomes_attempts.attempts(benchmark, by),
        "simulated": SampleVersion.objects.filter(sample__benchmark=benchmark, simulated=True).exists(),
    }
    return render(request, "generation/outcomes/attempts.html", context)


@requires(Can.OVERSEE, "POST")
def reopen(request: HttpRequest, person_id: int) -> HttpResponse:
    """Have approved samples reviewed again that a careless physician reviewed."""
    physician(person_id)
    form = WithdrawForm(request.POST)
    if not form.is_valid():
        return redirect_refused(request, refusal_text(form), "review:reviewer", person_id)
    result = reopening.reopen(person_id, actor=signed_in_account(request), reason=form.cleaned_data["reason"])
    messages.success(request, _("Cases that others will review again: %(n)s.") % {"n": result.cases})
    if result.kept:
        messages.info(
            request,
            _("Left as they are, as the first reviewer was asked about the wording: %(n)s.") % {"n": result.kept},
        )
    return redirect("review:reviewer", person_id)
