"""Pages beside the workbench: own submitted reviews, declining a case, reporting a problem."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from review.access import visibility
from review.answers.marked_text import marks
from review.answers.side_by_side import anonymous_columns, compare
from review.assignments import claims, queries
from review.assignments.forms import DeclineForm, ProblemForm
from review.common.decorators import posted_token, redirect_with_receipt, requires, signed_in_account
from review.common.paging import page_of
from review.models import Assignment, Declined
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can


@requires(Can.REVIEW)
@require_GET
def mine(request: HttpRequest) -> HttpResponse:
    """What the physician has submitted, newest first."""
    return render(
        request,
        "review/assignments/mine.html",
        {"page": page_of(visibility.reviews_by(signed_in_account(request)), request)},
    )


@requires(Can.REVIEW)
@require_GET
def mine_detail(request: HttpRequest, review_id: int) -> HttpResponse:
    """One own review to read again, and beside it what the physician may know of the others."""
    me = signed_in_account(request)
    review = visibility.own_review(me, review_id)
    spec = review.case.shown
    voices = anonymous_columns(me, visibility.reviews_shown_to(me, review.case))
    context = {
        "review": review,
        "case": review.case,
        "spec": spec,
        "comparison": compare(spec.form, voices),
        "voices": voices,
        "marks": marks(spec, spec.form, answers_from_json(review.answers).highlights, voices),
        "simulated": review.case.simulated,
    }
    return render(request, "review/assignments/mine_detail.html", context)


@requires(Can.REVIEW)
def decline(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Decline the case in hand for good, with a reason; the same page has the form that reports a problem."""
    me = signed_in_account(request)
    assignment = queries.assignment_of(me, assignment_id)
    form = DeclineForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        reason = Declined.Reason(form.cleaned_data["reason"])
        claims.decline(me, assignment_id, posted_token(request), reason, form.cleaned_data["text"])
        messages.success(request, _("Case declined. It will not be offered to you again."))
        return redirect_with_receipt(redirect("review:workbench"), request.POST.get("local", ""))
    return _aside(request, assignment, declining=form)


@requires(Can.REVIEW)
def problem(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Tell the admins that something is wrong with a case."""
    me = signed_in_account(request)
    assignment = queries.assignment_of(me, assignment_id)
    if request.method != "POST":
        return redirect("review:decline", assignment_id)
    form = ProblemForm(request.POST)
    if not form.is_valid():
        return _aside(request, assignment, reporting=form)
    claims.report_problem(me, assignment_id, form.cleaned_data["text"])
    messages.success(request, _("Problem reported. The admins will be notified."))
    return redirect_with_receipt(redirect("review:case", assignment_id), request.POST.get("local", ""))


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
    return render(request, "review/assignments/decline.html", context, status=422 if refused else 200)


@requires(Can.REVIEW)
@require_GET
def recent_sources(request: HttpRequest) -> HttpResponse:
    """The sources that the physician cited last, to be cited again."""
    found = queries.recent_sources(signed_in_account(request))
    return render(request, "review/assignments/_recent_sources.html", {"sources": found})
