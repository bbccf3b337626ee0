"""The workbench: thin views over services and queries."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from review import errors
from review.access import visibility
from review.answers import signatures
from review.answers.posted_answers import tidy
from review.answers.side_by_side import plain
from review.assignments import case_page, claims, eligibility, first_look, queries, retraction, services
from review.assignments.forms import PostedReview, posted_wordings, read_posted
from review.common.decorators import posted_token, redirect_with_receipt, requires, signed_in_account
from review.labels import ACHIEVED
from review.models import Assignment, Draft
from review.quality import reliability
from review.rewordings import queries as rewordings_queries
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can
from review.rules.questions import Answers, Problem
from review.rules.state_machine import Phase

SHOWN = 50  # wordings that wait for an answer


@requires(Can.REVIEW)
@require_GET
def workbench(request: HttpRequest) -> HttpResponse:
    """Where a physician's day begins: the case in hand or the next one, what waits, and the week so far."""
    me = signed_in_account(request)
    in_hand = list(visibility.current_assignments(me))
    week = timezone.now() - timedelta(days=7)
    this_week = visibility.reviews_by(me).filter(submitted_at__gte=week).count()
    return render(
        request,
        "review/assignments/home.html",
        {
            "current": in_hand[0] if in_hand else None,
            "further": in_hand[1:],
            "waiting": eligibility.count_available(me),
            "rewordings": list(rewordings_queries.waiting_for(me).defer("case__spec")[:SHOWN]),
            "last": queries.retractable_review(me),
            "lease_minutes": claims.lease() // timedelta(minutes=1),
            "week": this_week,
            "new": not this_week and not visibility.reviews_by(me).exists(),
            "lately": reliability.my_week(me, week),
        },
    )


@requires(Can.REVIEW)
@require_GET
def peek(request: HttpRequest) -> HttpResponse:
    """The first look at the case that most likely comes next, to be shown while it is being claimed.

    Nothing is claimed by it and nothing revealed: a case that asks for no first look is not shown before it is taken.
    """
    following = eligibility.likely_next_case(signed_in_account(request))
    if following is None or not visibility.looks_first(following):
        return HttpResponse(status=204)
    return render(request, "review/assignments/_peek.html", {"case": following, "blocks": following.frozen.first_look})


@requires(Can.REVIEW)
@require_POST
def next_case(request: HttpRequest) -> HttpResponse:
    """Claim a case, or go on with the one in hand."""
    return _go_on(request)


def _go_on(request: HttpRequest, local: str = "") -> HttpResponse:
    taken = claims.claim_next(signed_in_account(request))
    if taken is None:
        hindered = eligibility.blocking_reason(signed_in_account(request))
        messages.info(request, str(hindered) if hindered else _("No cases are available for you right now."))
        return redirect_with_receipt(redirect("review:workbench"), local)
    return _to_case(request, taken.pk, local, taken)


def _to_case(
    request: HttpRequest, assignment_id: int, local: str = "", known: Assignment | None = None
) -> HttpResponse:
    """Lead to a case after something was posted. Where a script has asked for it (app.js), the page is the answer itself, as to
    a GET of its own address, which the script then shows: a redirect costs another request. `known`: the reader's own
    assignment as `queries.assignment_of` reads it, where it was read already."""
    if "here" not in request.GET:
        return redirect_with_receipt(redirect("review:case", assignment_id), local)
    address = reverse("review:case", args=[assignment_id])
    request.method, request.path, request.path_info, request.META["QUERY_STRING"] = "GET", address, address, ""
    request.GET = request.POST = QueryDict()
    request.shown_at = address  # type: ignore[attr-defined]
    return _case(request, assignment_id, local, known)


@requires(Can.REVIEW)
@require_GET
def case(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """The workbench with one case; what was submitted already is read on its own page."""
    return _case(request, assignment_id)


def _case(request: HttpRequest, assignment_id: int, arrived: str = "", known: Assignment | None = None) -> HttpResponse:
    me = signed_in_account(request)
    try:
        assignment = known or queries.assignment_of(me, assignment_id)
    except errors.NotYours:
        if (kept := queries.last_draft(me, assignment_id)) is None:
            raise
        return _lost(request, errors.LeaseLost(), assignment_id, answers_from_json(kept.answers))
    if assignment.hold == Assignment.Hold.HELD and assignment.token is not None:
        # Opening the page is a sign of life; without script it is the only one beside saving. Right after a claim or a
        # reveal the lease is as good as new, and the page need not be a writer.
        if not claims.fresh(assignment):
            assignment.lease_until = claims.heartbeat(me, assignment.pk, assignment.token).lease_until
        return case_page.show(request, assignment, arrived=arrived)
    own = visibility.reviews_by(me).filter(assignment=assignment).first()
    if own is None:
        raise errors.CaseClosed
    return redirect("review:mine-detail", own.pk)


@requires(Can.REVIEW)
def draft(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Keep what was typed: the autosave's target (answers a fragment) and the button's (answers the page)."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = read_posted(request, assignment_id)
    try:
        saved = _save(posted, posted.answers)
    except errors.StaleDraft as stale:
        return _stale(request, stale, assignment_id, posted)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, posted.answers)
    if not _is_htmx(request):
        if "do" not in request.POST:
            messages.success(request, _("Draft saved."))
        return redirect_with_receipt(
            redirect("review:case", assignment_id), posted.local, anchor=_row_asked_for(request, posted.answers)
        )
    assignment = saved.assignment
    context = {
        "draft": saved,
        "rows": posted_wordings(posted),
        "rewords": case_page.rewords(posted.me, posted.assignment, tidy(posted.answers)),
        "oob": True,
        **case_page.lease_of(assignment),
    }
    return render(request, "review/assignments/_saved.html", context)


def _save(posted: PostedReview, answers: Answers) -> Draft:
    return services.save_draft(
        posted.me, posted.assignment.pk, posted.token, answers, revision=posted.revision, posted=posted.assignment
    )


def _row_asked_for(request: HttpRequest, answers: Answers) -> str:
    """Where a page that was loaded to add a row, or to take one away, is to be read on."""
    do = request.POST.get("do", "")
    if do in ("add-citation", "add-search"):
        return f"citation-{len(answers.citations)}-reference"
    if do == "add-rubric":
        return f"added-{len(answers.added)}-criterion"
    if do == "add-highlight":
        return f"highlight-{len(answers.highlights)}-quote"
    return {"remove-citation": "evidence", "remove-rubric": "added", "remove-highlight": "highlights"}.get(
        do.split(".")[0], ""
    )


@requires(Can.REVIEW)
def reveal(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """End the first look: its answers stand, and the traps, the changes and the rubrics are shown."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = read_posted(request, assignment_id)
    try:
        looked = first_look.reveal(posted.me, assignment_id, posted.token, posted.answers, posted=posted.assignment)
    except errors.Incomplete as incomplete:
        return _sent_back(request, incomplete, assignment_id, posted, posted.answers)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, posted.answers)
    return _to_case(request, assignment_id, posted.local, looked.assignment)


@requires(Can.REVIEW)
def submit(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Submit the review that is due; then the next phase of this case, the next case, or the front page."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = read_posted(request, assignment_id)
    typed = answers = tidy(posted.answers)
    if "keep" in request.POST:
        if posted.assignment.physician_id != posted.me.pk:
            raise errors.NotYours
        answers = case_page.kept_as_committed(case_page.own_answers(posted.me, posted.assignment), answers)
    try:
        if "agreed" not in request.POST and (wrong := _unconfirmed(posted, answers)):
            raise errors.Incomplete(wrong)
        with signatures.count_refused_signatures(request, posted.me, posted.assignment, posted.token):
            review = services.submit(
                posted.me,
                assignment_id,
                posted.token,
                answers,
                password=request.POST.get("password", ""),
                code=request.POST.get("code", ""),
                revision=posted.revision,
                posted=posted.assignment,
            )
    except (errors.Incomplete, errors.SignatureRefused) as refused:
        # What was typed, not the kept answer: who kept it only to be sent back may have drafted another.
        return _sent_back(request, refused, assignment_id, posted, typed)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, answers)
    again = review.assignment if review.assignment.hold == Assignment.Hold.HELD else None
    if again is not None and again.phase == Phase.CONFIRM:
        messages.success(request, _("Your answer is committed. Now compare it with the first reviewer's answer."))
        return _to_case(request, assignment_id, posted.local)
    if again is not None:
        messages.success(
            request,
            _("Your vote is committed. The two votes differ. Read both verdicts and rubrics, then vote again."),
        )
        return _to_case(request, assignment_id, posted.local)
    messages.success(request, str(ACHIEVED.get(visibility.achieved(review), ACHIEVED["submitted"])))
    if "stop" in request.POST:
        return redirect_with_receipt(redirect("review:workbench"), posted.local)
    return _go_on(request, posted.local)


@requires(Can.REVIEW)
@require_POST
def retract(request: HttpRequest, review_id: int) -> HttpResponse:
    """Take one's review back and go on with it as a draft."""
    taken_back = retraction.retract(signed_in_account(request), review_id)
    messages.success(request, _("Submission undone. Your review is a draft again."))
    return redirect("review:case", taken_back.pk)


@requires(Can.REVIEW)
def release(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Give the case back; what was typed is kept for its author."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = read_posted(request, assignment_id)
    with suppress(errors.StaleDraft):  # another window has saved a later one, which stands
        _save(posted, posted.answers)
    claims.release(posted.me, assignment_id, posted.token)
    messages.success(request, _("Case returned to the queue. Your draft is kept."))
    return redirect_with_receipt(redirect("review:workbench"), posted.local)


@requires(Can.REVIEW)
def heartbeat(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Renew the lease while the page is open before somebody's eyes."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    me = signed_in_account(request)
    try:
        assignment = claims.heartbeat(me, assignment_id, posted_token(request))
    except errors.LeaseLost as lost:
        kept = queries.last_draft(me, assignment_id)
        return _lost(request, lost, assignment_id, answers_from_json(kept.answers) if kept else Answers())
    return render(request, "review/assignments/_lease.html", case_page.lease_of(assignment))


def _stale(request: HttpRequest, stale: errors.StaleDraft, assignment_id: int, posted: PostedReview) -> HttpResponse:
    assignment = queries.assignment_of(posted.me, assignment_id)
    if not _is_htmx(request):
        return case_page.show(
            request, assignment, answers=posted.answers, status=stale.status, stale=stale, seen=posted.revision
        )
    other = queries.draft_of(assignment, posted.me)
    context = {"error": stale, "id": assignment_id, "revision": other.revision if other else 0}
    return render(request, "review/assignments/_stale.html", context, status=stale.status)


def _sent_back(
    request: HttpRequest,
    refused: errors.Incomplete | errors.SignatureRefused,
    assignment_id: int,
    posted: PostedReview,
    answers: Answers,
) -> HttpResponse:
    """The workbench with what is wrong. What was typed is kept first: the page may be closed before it is sent again."""
    stale = None
    try:
        _save(posted, answers)
    except errors.StaleDraft as newer:  # another window has saved a later one, which stands
        stale = newer
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, answers)
    assignment = queries.assignment_of(posted.me, assignment_id)
    said: dict[str, Any] = {
        "answers": answers,
        "status": refused.status,
        "stale": stale,
        "seen": posted.revision,
        "arrived": "" if stale else posted.local,
    }
    if isinstance(refused, errors.Incomplete):
        return case_page.show(request, assignment, wrong=refused.problems, **said)
    return case_page.show(request, assignment, unsigned=refused, **said)


def _lost(request: HttpRequest, late: errors.ReviewError, assignment_id: int, typed: Answers) -> HttpResponse:
    """The case is in other hands: what was typed, to be read and copied."""
    me = signed_in_account(request)
    assignment = queries.posted_to(me, assignment_id)
    context = {
        "error": late,
        "local": f"mhb-draft:{me.pk}:{assignment.public_id}:",
        "kept": plain(assignment.case.shown.form, typed),
        # Not where another window's version is the one kept (the detail says so), nor after the answer was given.
        "stored": isinstance(late, errors.LeaseLost | errors.CaseClosed) and not late.detail,
    }
    return render(
        request,
        "review/assignments/_lost.html" if _is_htmx(request) else "review/assignments/kept.html",
        context,
        status=late.status,
    )


def _unconfirmed(posted: PostedReview, answers: Answers) -> list[Problem]:
    assignment = posted.assignment
    if assignment.physician_id != posted.me.pk or assignment.token != posted.token:
        return []  # refused as such
    return case_page.unconfirmed(posted.me, assignment, answers)


def _is_htmx(request: HttpRequest) -> bool:
    return bool(getattr(request, "htmx", False))
