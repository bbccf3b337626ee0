"""A physician's pages besides the workbench: own reviews, declining a case, reporting a problem."""

from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from review import errors
from review.access import visibility
from review.answers import signatures
from review.answers.marked_text import marks
from review.answers.posted_answers import without_blank_rows
from review.answers.side_by_side import anonymous_columns, compare
from review.assignments import case_page, claims, correction, queries
from review.assignments.forms import DeclineForm, OwnReviewsForm, ProblemForm, posted_correction
from review.audit.trail import record_read
from review.cases.services import load_progress
from review.common.decorators import (
    posted_token,
    redirect_saying,
    redirect_with_receipt,
    render_form,
    requires,
    signed_in_account,
)
from review.common.paging import offset_page
from review.models import Assignment, Declined
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can
from review.rules.state_machine import Phase
from review.turns.turn import readable_reviews, turn_of


@requires(Can.REVIEW, "GET")
def mine(request: HttpRequest) -> HttpResponse:
    """The physician's submitted reviews, filtered and sorted by the URL."""
    own = visibility.reviews_by(signed_in_account(request))
    benchmarks = own.order_by("case__benchmark").values_list("case__benchmark", flat=True).distinct()
    form = OwnReviewsForm(request.GET, benchmarks=list(benchmarks))
    rows = own.filter(**form.filters).order_by(*form.sorted_by)
    return render(request, "review/assignments/mine.html", {"page": offset_page(rows, request), "form": form})


@requires(Can.REVIEW, "GET")
def mine_detail(request: HttpRequest, review_id: int) -> HttpResponse:
    """One of the physician's reviews, next to the other reviews that they may read."""
    me = signed_in_account(request)
    review = visibility.own_review(me, review_id)
    record_read(me, review.case)
    spec = review.case.localized_spec
    columns = anonymous_columns(me, readable_reviews(me, review.case))
    context = {
        "review": review,
        "case": review.case,
        "spec": spec,
        "comparison": compare(spec.form, columns),
        "columns": columns,
        "marks": marks(spec, answers_from_json(review.answers).highlights, columns),
        "simulated": review.case.simulated,
        "correctable": correction.is_correctable(review, load_progress(review.case, locked=False)),
        "retractable": queries.is_retractable(review),
    }
    return render(request, "review/assignments/mine_detail.html", context)


@requires(Can.REVIEW)
def correct(request: HttpRequest, review_id: int) -> HttpResponse:
    """Correct one of the physician's reviews in place.

    A button that adds or removes a row is named `do`: it only shows the page again.
    """
    me = signed_in_account(request)
    review = visibility.own_review(me, review_id)
    turn = turn_of(me, review.assignment_id)
    if request.method != "POST":
        if not correction.is_correctable(review, load_progress(review.case, locked=False)):
            raise errors.NotCorrectable
        record_read(me, review.case)
        return case_page.render_correction(request, turn, review)
    answers = posted_correction(request, turn, review)
    reason = request.POST.get("correction", "").replace("\0", "")
    page = partial(case_page.render_correction, request, turn, review, answers=answers, reason=reason)
    if "do" in request.POST:
        return page()
    answers = without_blank_rows(answers)
    signature = {name: request.POST.get(name, "") for name in ("password", "code")}
    try:
        with signatures.count_refused_signatures(request, turn, turn.assignment.token):
            corrected = correction.correct(me, review_id, answers, reason=reason, **signature)
    except (errors.EmptyText, errors.TooLong, errors.NotCorrectable) as refused:
        return page(reason_error=refused.message, status=refused.status)
    except errors.Incomplete as refused:
        return page(refused_for=refused.problems, status=refused.status)
    except errors.SignatureRefused as refused:
        return page(signature_error=refused, status=refused.status)
    return redirect_saying(request, _("Review corrected."), "review:mine-detail", corrected.pk)


@requires(Can.REVIEW)
def decline(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Decline a held case for good. The page also has the form to report a problem."""
    me = signed_in_account(request)
    assignment = turn_of(me, assignment_id).assignment
    form = DeclineForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        reason = Declined.Reason(form.cleaned_data["reason"])
        claims.decline(me, assignment_id, posted_token(request), reason, form.cleaned_data["text"])
        messages.success(request, _("Case declined. It will not be offered to you again."))
        return redirect_with_receipt(redirect("review:workbench"), request.POST.get("local", ""))
    return _render_decline_page(request, assignment, decline_form=form)


@requires(Can.REVIEW)
def problem(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Tell the admins that something is wrong with a case."""
    me = signed_in_account(request)
    assignment = turn_of(me, assignment_id).assignment
    if request.method != "POST":
        return redirect("review:decline", assignment_id)
    form = ProblemForm(request.POST)
    if not form.is_valid():
        return _render_decline_page(request, assignment, problem_form=form)
    claims.report_problem(me, assignment_id, form.cleaned_data["text"])
    messages.success(request, _("Problem reported. The admins will be notified."))
    return redirect_with_receipt(redirect("review:case", assignment_id), request.POST.get("local", ""))


def _render_decline_page(
    request: HttpRequest,
    assignment: Assignment,
    *,
    decline_form: DeclineForm | None = None,
    problem_form: ProblemForm | None = None,
) -> HttpResponse:
    refused = any(form is not None and form.is_bound for form in (decline_form, problem_form))
    context = {
        "assignment": assignment,
        "declinable": assignment.phase == Phase.COMMIT and assignment.hold == Assignment.Hold.HELD,
        "decline_form": decline_form or DeclineForm(),
        "problem_form": problem_form or ProblemForm(),
    }
    return render_form(request, "review/assignments/decline.html", context, refused=refused)


@requires(Can.REVIEW, "GET")
def recent_sources(request: HttpRequest) -> HttpResponse:
    """The sources that the physician cited last, offered for another citation."""
    sources = queries.recent_sources(signed_in_account(request))
    return render(request, "review/assignments/_recent_sources.html", {"sources": sources})
