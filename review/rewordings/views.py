"""The page on which a primary reviewer accepts a rewording or objects to it."""

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from review import errors
from review.access import visibility
from review.common.decorators import redirect_saying, requires, signed_in_account
from review.rewordings import queries, services
from review.rules.permissions import Can


class ObjectionForm(forms.Form):
    """Why the meaning has changed."""

    reason = forms.CharField(
        label=gettext_lazy("Reason for the objection"), max_length=4000, widget=forms.Textarea(attrs={"rows": 3})
    )


@requires(Can.REVIEW, "GET")
def rewording(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """The rubrics whose wording differs from the one that the user approved."""
    return _page(request, rewording_id, ObjectionForm())


@requires(Can.REVIEW, back="review:rewording")
def accept(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """Accept the wording."""
    try:
        services.accept(signed_in_account(request), rewording_id)
    except errors.RewordingLapsed:
        return _page(request, rewording_id, ObjectionForm(), status=409)
    return redirect_saying(request, _("Wording accepted. The case is approved."), "review:workbench")


@requires(Can.REVIEW, back="review:rewording")
def object_to(request: HttpRequest, rewording_id: int) -> HttpResponse:
    """Object to the wording, with a reason."""
    form = ObjectionForm(request.POST)
    if not form.is_valid():
        return _page(request, rewording_id, form, status=422)
    try:
        services.object_to(signed_in_account(request), rewording_id, form.cleaned_data["reason"])
    except errors.RewordingLapsed:
        return _page(request, rewording_id, form, status=409)
    return redirect_saying(request, _("Objection recorded. The case goes to adjudication."), "review:workbench")


def _page(request: HttpRequest, rewording_id: int, form: ObjectionForm, status: int = 200) -> HttpResponse:
    me = signed_in_account(request)
    rewording = queries.rewording_of(me, rewording_id)
    context = {
        "rewording": rewording,
        "case": rewording.case,
        "spec": rewording.case.localized_spec,
        "rubrics": queries.reworded_rubrics(rewording),
        "waits": queries.waiting_for(me).filter(pk=rewording.pk).exists(),
        "outcome": getattr(rewording, "outcome", None),
        "own": visibility.reviews_by(me).filter(case=rewording.case).first(),
        "form": form,
        "simulated": rewording.case.simulated,
    }
    return render(request, "review/rewordings/rewording.html", context, status=status)
