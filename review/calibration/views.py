"""The pages of training: cases with a known answer, and how physicians answered them."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review.calibration import queries, services
from review.calibration.forms import ExpectedForm
from review.common.decorators import requires, signed_in_account
from review.models import CalibrationItem, Case
from review.rules.case_spec import answers_from_json, spec_from_json
from review.rules.permissions import Can


@requires(Can.OVERSEE)
@require_GET
def calibration(request: HttpRequest) -> HttpResponse:
    """All calibration cases, and who has passed where."""
    context = {
        "items": queries.answered(queries.items()),
        "results": queries.results(),
        "pass_percent": round(100 * queries.PASS_SHARE),
        "pass_items": queries.PASS_ITEMS,
    }
    return render(request, "review/calibration/calibration.html", context)


@requires(Can.OVERSEE)
def calibration_new(request: HttpRequest, case_id: int) -> HttpResponse:
    """Make a calibration case out of a closed one; what physicians settled on stands in the form."""
    case = get_object_or_404(Case, pk=case_id)
    form = ExpectedForm(request.POST or None, form=case.frozen.form, expected=queries.suggested(case))
    if request.method == "POST" and form.is_valid():
        services.make_item(case, form.answers(), actor=signed_in_account(request))
        messages.success(request, _("Calibration case created."))
        return redirect("review:calibration")
    context = {"form": form, "title": case.title, "blocks": case.frozen.blocks, "language": case.language}
    return render(request, "review/calibration/calibration_item.html", context, status=422 if form.is_bound else 200)


@requires(Can.OVERSEE)
def calibration_item(request: HttpRequest, item_id: int) -> HttpResponse:
    """One calibration case: its text, its known answers, and a switch that takes it out of use."""
    item = get_object_or_404(CalibrationItem, pk=item_id)
    spec = spec_from_json(item.spec)
    form = ExpectedForm(
        request.POST if "active" not in request.POST and request.POST else None,
        form=spec.form,
        expected=answers_from_json(item.expected),
    )
    if request.method == "POST" and "active" in request.POST:
        services.change_item(item, actor=signed_in_account(request), active=request.POST["active"] == "1")
        messages.success(
            request, _("Calibration case activated.") if item.active else _("Calibration case deactivated.")
        )
        return redirect("review:calibration")
    if form.is_bound and form.is_valid():
        services.change_item(item, actor=signed_in_account(request), expected=form.answers())
        messages.success(request, _("Known answers saved."))
        return redirect("review:calibration")
    context = {"form": form, "title": item.title, "item": item, "blocks": spec.blocks, "language": spec.language}
    return render(request, "review/calibration/calibration_item.html", context, status=422 if form.is_bound else 200)
