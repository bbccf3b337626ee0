"""The page on which a primary reviewer sees another wording, and accepts it or objects."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from review import errors
from review.access import visibility
from review.common.decorators import requires, signed_in_account
from review.rewordings import queries, services
from review.rules.permissions import Can


class ObjectionForm(forms.Form):
    """Why the meaning is another."""

    reason = forms.CharField(
        label=gettext_lazy("Reason for the objection"), max_length=4000, widget=forms.Textarea(attrs={"rows": 3})
    )


@requires(Can.REVIEW)
@require_GET
def rewording(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """The rubrics whose wording would be another than the reader approved."""
    return _page(request, rewording_id, ObjectionForm())


@requires(Can.REVIEW)
def accept(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """Agree to the wording."""
    if request.method != "POST":
        return redirect("review:rewording", rewording_id)
    try:
        services.accept(signed_in_account(request), rewording_id)
    except errors.RewordingLapsed:
        return _page(request, rewording_id, ObjectionForm(), status=409)
    messages.success(request, _("Wording accepted. The case is approved."))
    return redirect("review:workbench")


@requires(Can.REVIEW)
def object_to(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """Object to the wording, with a reason."""
    if request.method != "POST":
        return redirect("review:rewording", rewording_id)
    form = ObjectionForm(request.POST)
    if not form.is_valid():
        return _page(request, rewording_id, form, status=422)
    try:
        services.object_to(signed_in_account(request), rewording_id, form.cleaned_data["reason"])
    except errors.RewordingLapsed:
        return _page(request, rewording_id, form, status=409)
    messages.success(request, _("Objection recorded. The case goes to adjudication."))
    return redirect("review:workbench")


def _page(request: HttpRequest, rewording_id: int, form: ObjectionForm, status: int = 200) -> HttpResponse:
    me = signed_in_account(request)
    found = queries.rewording_of(me, rewording_id)
    context = {
        "rewording": found,
        "case": found.case,
        "spec": found.case.shown,
        "rubrics": queries.reworded_rubrics(found),
        "waits": queries.waiting_for(me).filter(pk=found.pk).exists(),
        "outcome": getattr(found, "outcome", None),
        "own": visibility.reviews_by(me).filter(case=found.case).first(),
        "form": form,
        "simulated": found.case.simulated,
    }
    return render(request, "review/rewordings/rewording.html", context, status=status)
