"""The pages of who works on what: declining and reporting for physicians, handing over and pausing for admins."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from review import accounts, errors, queries, services, training
from review.access import arrived, person, posted_token, requires
from review.forms import AboutForm, DeclineForm, ProblemForm, WithdrawForm
from review.machine import Role
from review.models import Assignment, Case, Declined, User
from review.permissions import Can


@requires(Can.REVIEW)
def decline(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Decline the case in hand for good, with a reason; the same page has the form that reports a problem."""
    me = person(request)
    assignment = queries.assignment_of(me, assignment_id)
    form = DeclineForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        reason = Declined.Reason(form.cleaned_data["reason"])
        services.decline(me, assignment_id, posted_token(request), reason, form.cleaned_data["text"])
        messages.success(request, _("Declined. You are not offered this case again."))
        return arrived(redirect("review:workbench"), request.POST.get("local", ""))
    return _aside(request, assignment, declining=form)


@requires(Can.REVIEW)
def problem(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Tell the admins that something is wrong with a case."""
    me = person(request)
    assignment = queries.assignment_of(me, assignment_id)
    if request.method != "POST":
        return redirect("review:decline", assignment_id)
    form = ProblemForm(request.POST)
    if not form.is_valid():
        return _aside(request, assignment, reporting=form)
    services.report_problem(me, assignment_id, form.cleaned_data["text"])
    messages.success(request, _("Reported. The admins are told."))
    return arrived(redirect("review:case", assignment_id), request.POST.get("local", ""))


def _aside(
    request: HttpRequest,
    assignment: Assignment,
    *,
    declining: DeclineForm | None = None,
    reporting: ProblemForm | None = None,
) -> HttpResponse:
    refused = any(form is not None and form.is_bound for form in (declining, reporting))
    context = {
        "assignment": assignment,
        "declining": declining or DeclineForm(),
        "reporting": reporting or ProblemForm(),
    }
    return render(request, "review/decline.html", context, status=422 if refused else 200)


@requires(Can.OVERSEE)
def reassign(request: HttpRequest, case_id: int) -> HttpResponse:
    """Take a role from its holder: for anybody, or for the physician chosen."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        chosen = request.POST.get("physician", "")
        to = User.objects.filter(pk=int(chosen)).first() if chosen.isascii() and chosen.isdigit() else None
        if request.POST.get("role") not in set(Role) or (chosen and to is None):
            raise Http404
        try:
            services.reassign(case_id, Role(request.POST["role"]), to=to, actor=person(request))
        except errors.NotReserved as refused:
            messages.error(request, refused.detail or refused.message)
        else:
            messages.success(
                request, _("It is reserved for %(name)s.") % {"name": to} if to else _("Anybody may take it now.")
            )
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def specialty(request: HttpRequest, case_id: int) -> HttpResponse:
    """Say of which specialty whoever reviews a case has to be."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        wanted = request.POST.get("specialty", "").replace("\0", "")[:100]
        services.set_specialty(case_id, wanted, actor=person(request))
        messages.success(request, _("The specialty is changed."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def set_back(request: HttpRequest, case_id: int) -> HttpResponse:
    """Open a role anew whose holder has answered and left before the confirmation or the second vote."""
    get_object_or_404(Case, pk=case_id)
    if request.method == "POST":
        form = WithdrawForm(request.POST)
        if request.POST.get("role") not in set(Role):
            raise Http404
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            services.set_back(case_id, Role(request.POST["role"]), actor=person(request), reason=reason)
            messages.success(request, _("The role is open again, for another physician."))
        else:
            messages.error(request, _("Say why the role is set back."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def person_edit(request: HttpRequest, person_id: int) -> HttpResponse:
    """Change what is recorded about a person."""
    shown = get_object_or_404(User, pk=person_id)
    form = AboutForm(request.POST or None, instance=shown)
    if request.method == "POST" and form.is_valid():
        accounts.edit_person(person_id, form.cleaned_data, actor=person(request))
        messages.success(request, _("%(name)s is changed.") % {"name": shown.username})
        return redirect("review:person", person_id)
    return render(
        request, "review/person_edit.html", {"shown": shown, "form": form}, status=422 if form.is_bound else 200
    )


@requires(Can.OVERSEE)
def person_pause(request: HttpRequest, person_id: int) -> HttpResponse:
    """Hand a physician no new cases, or hand out again."""
    get_object_or_404(User, pk=person_id)
    if request.method == "POST":
        shown = accounts.set_paused(person_id, request.POST.get("paused") == "1", actor=person(request))
        done = _("%(name)s takes no new cases.") if shown.paused_at else _("%(name)s takes cases again.")
        messages.success(request, done % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_calibration(request: HttpRequest, person_id: int) -> HttpResponse:
    """Offer a physician the calibration cases anew."""
    shown = get_object_or_404(User, pk=person_id)
    if request.method == "POST":
        count = training.give_again(shown, actor=person(request))
        messages.success(request, _("Calibration cases offered again: %(n)s.") % {"n": count})
    return redirect("review:person", person_id)
