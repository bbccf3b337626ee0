"""The page that starts the validation of a run's judge."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from evaluation.errors import EvaluationError
from evaluation.judges import services
from evaluation.judges.forms import ValidationForm
from evaluation.runs.kind import RUNS
from review.common.decorators import refusals_on, requires, signed_in_account
from review.rules.permissions import Can


@requires(Can.MEASURE, acting=True)
def validation(request: HttpRequest, pk: int) -> HttpResponse:
    """Draw responses of a run for physicians to judge."""
    run = RUNS.get(pk)
    if request.method == "POST":
        form = ValidationForm(run, request.POST)
    else:
        form = ValidationForm(run)
    if form.is_valid():
        with refusals_on(form, EvaluationError):
            services.start_validation(pk, **form.values, actor=signed_in_account(request))
            messages.success(request, _("Physicians can now take these responses from their queue."))
            return redirect("evaluation:run", pk)
    status = 200
    if form.errors:
        status = 422
    return render(request, "evaluation/judges/validation.html", {"run": run, "form": form}, status=status)
