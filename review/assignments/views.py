"""The workbench: thin views over services and queries."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from review import errors
from review.access import visibility
from review.answers import signatures
from review.answers.answer_form import corrections
from review.answers.posted_answers import without_blank_rows
from review.answers.side_by_side import plain_text
from review.assignments import case_page, case_queue, claims, first_look, queries, refused_forms, retraction, services
from review.assignments.forms import PostedReview, read_posted
from review.calibration import practice
from review.cases.services import lease
from review.common.decorators import (
    posted_token,
    redirect_saying,
    redirect_with_receipt,
    requires,
    show_at,
    signed_in_account,
)
from review.labels import STAGES, SUBMISSION_EFFECTS, benchmark_label
from review.models import Draft, Review
from review.people.forms import OwnLanguagesForm
from review.quality import reliability
from review.rewordings import queries as rewordings_queries
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can
from review.rules.questions import Answers
from review.rules.state_machine import Phase, Role
from review.rules.text import whole_number
from review.turns.turn import ReviewTurn, turn_of

MAX_REWORDINGS = 50  # listed on the workbench
TOO_LATE = (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted)


@requires(Can.REVIEW, "GET")
def workbench(request: HttpRequest) -> HttpResponse:
    """A physician's start page: the held case or the next one, pending requests, the last week."""
    me = signed_in_account(request)
    held = list(visibility.assignments_held_by(me))
    work, pace = case_queue.available_work(me), reliability.own_pace(me)
    week_ago = timezone.now() - timedelta(days=7)
    is_new = not visibility.reviews_by(me).exists()
    current = first_benchmark = languages = None
    if held:
        current = held[0]
    if is_new and work:
        first = case_queue.likely_next_case(me)
        if first and first.benchmark in practice.names():
            first_benchmark = first.benchmark
    if is_new and not me.languages and not me.has_usable_password():
        # The others were asked with their first password.
        languages = OwnLanguagesForm()
    cases_waiting = sum(each.cases for each in work)
    reviews_this_week = visibility.reviews_by(me).filter(submitted_at__gte=week_ago).count()
    return render(
        request,
        "review/assignments/home.html",
        {
            "current": current,
            "other_assignments": held[1:],
            "waiting": min(cases_waiting, case_queue.COUNT_LIMIT),
            "senior_needed": not work and case_queue.needs_senior(me),
            "work": [(each, _minutes(each, pace)) for each in work],
            "rewordings": list(rewordings_queries.waiting_for(me).defer("case__spec")[:MAX_REWORDINGS]),
            "retractable": queries.retractable_review(me),
            "lease_minutes": lease() // timedelta(minutes=1),
            "reviews_this_week": reviews_this_week,
            "is_new_reviewer": is_new,
            "languages": languages,
            "first_benchmark": first_benchmark,
            "recent_work": reliability.my_week(me, week_ago),
        },
    )


def _minutes(work: case_queue.WorkAvailable, pace: Mapping[tuple[str, str], float]) -> int | None:
    """How long the work takes at one's own pace, in whole minutes; None while that is not known."""
    own = pace.get((work.benchmark, work.stage))
    if own is None:
        return None
    return max(1, round(own * work.cases))


def _chosen_work(request: HttpRequest) -> case_queue.ChosenWork:
    """The work that was chosen on the workbench, until another is chosen."""
    return case_queue.ChosenWork(*request.session.get("chosen_work", ("", "")))


@requires(Can.REVIEW, "POST")
def next_case(request: HttpRequest) -> HttpResponse:
    """Claim a case of the chosen work, or continue with the one that is held."""
    chosen = [request.POST.get(name, "")[:64].replace("\0", "") for name in ("benchmark", "stage")]
    if any(chosen):
        request.session["chosen_work"] = chosen
    else:
        request.session.pop("chosen_work", None)
    return _claim_and_show(request)


def _claim_and_show(request: HttpRequest, local: str = "", submitted: Review | None = None) -> HttpResponse:
    """Claim a case and show it.

    `submitted`: the review before it. It can be undone; work of another benchmark or stage is
    announced.
    """
    me = signed_in_account(request)
    claimed = claims.claim_next(me, _chosen_work(request))
    if claimed is None:
        blocked = case_queue.blocking_reason(me)
        chosen = request.session.pop("chosen_work", None)
        none_left = _("Nothing is left of the work that you chose. Choose other work, or take any case.")
        if chosen:
            nothing = none_left
        else:
            nothing = _("No cases are available for you right now.")
        if case_queue.needs_senior(me):
            nothing = f"{nothing} {_('The cases that are open need a senior physician.')}"
        messages.info(request, str(blocked or nothing))
        return redirect_with_receipt(redirect("review:workbench"), local)
    turn = ReviewTurn(me, claimed)
    retractable = None
    if submitted is not None:
        before = (submitted.case.benchmark, Role(submitted.role).stage)
        if before != (turn.case.benchmark, turn.role.stage):
            work = {"benchmark": benchmark_label(turn.case.benchmark), "stage": STAGES[turn.role.stage]}
            messages.warning(request, _("The next case is other work: %(benchmark)s, %(stage)s.") % work)
        if queries.is_retractable(submitted):
            retractable = submitted
    return _show_turn_after_post(request, turn, local, retractable)


def _show_turn_after_post(
    request: HttpRequest, turn: ReviewTurn, local: str, retractable: Review | None = None
) -> HttpResponse:
    """Respond to a post with the page of a case.

    Without a script this is a redirect. With one (app.js), the page itself is the response, as to a
    GET of its address, which the script then shows in the address bar: that saves a request.
    """
    address = reverse("review:case", args=[turn.assignment.pk])
    if "here" not in request.GET:
        return redirect_with_receipt(redirect(address), local)
    request.method, request.path, request.path_info, request.META["QUERY_STRING"] = "GET", address, address, ""
    request.GET = request.POST = QueryDict()
    show_at(request, address)
    return _show_turn(request, turn, local, retractable)


@requires(Can.REVIEW, "GET")
def case(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """The page of a held case. A case that was submitted redirects to the page of the review."""
    turn = turn_of(signed_in_account(request), assignment_id, own=False)
    if turn.is_own:
        return _show_turn(request, turn)
    if (draft := queries.last_draft(turn.physician, assignment_id)) is None:
        raise errors.NotAssigned
    return _render_lost(request, errors.LeaseLost(), turn, answers_from_json(draft.answers))


def _show_turn(
    request: HttpRequest, turn: ReviewTurn, received_local: str = "", retractable: Review | None = None
) -> HttpResponse:
    me, assignment = turn.physician, turn.assignment
    if turn.is_due and assignment.token is not None:
        # Opening the page renews the lease; without a script, only saving does so too. Right after
        # a claim or a reveal the lease is new, and the page need not write.
        if not claims.recently_renewed(assignment):
            assignment.lease_until = claims.heartbeat(me, assignment.pk, assignment.token).lease_until
        refusal = refused_forms.take(request, assignment.pk)
        return case_page.render_case(
            request, turn, refusal=refusal, received_local=received_local, retractable=retractable
        )
    own = visibility.reviews_by(me).filter(assignment=assignment).first()
    if own is not None:
        return redirect("review:mine-detail", own.pk)
    if turn.draft is None:
        raise errors.CaseClosed
    return _render_lost(request, errors.CaseClosed(), turn, turn.answers)


@requires(Can.REVIEW, back="review:case")
def draft(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Save a draft: by autosave (returns a fragment) or by the button (returns the page)."""
    posted = read_posted(request, assignment_id)
    try:
        saved = _save(posted, posted.answers)
    except errors.StaleDraft as stale:
        return _render_stale(request, stale, posted)
    except TOO_LATE as late:
        return _render_lost(request, late, posted.turn, posted.answers)
    if not _is_htmx(request):
        if "do" not in request.POST:
            messages.success(request, _("Draft saved."))
        return redirect_with_receipt(
            redirect("review:case", assignment_id), posted.local, anchor=_anchor_after_reload(request, posted.answers)
        )
    answers = without_blank_rows(posted.answers)
    context = {
        "draft": saved,
        "rows": corrections(posted.turn.shows.form, posted.answers),
        "asks_why": posted.turn.needs_reason(answers),
        "needs_declaration": posted.turn.needs_declaration(answers),
        "oob": True,
        **case_page.lease_context(saved.assignment),
    }
    return render(request, "review/assignments/_saved.html", context)


def _save(posted: PostedReview, answers: Answers) -> Draft:
    return services.save_draft(posted.turn, posted.token, answers, revision=posted.revision)


def _anchor_after_reload(request: HttpRequest, answers: Answers) -> str:
    """The anchor to continue at after the page was reloaded to add or remove a row."""
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


@requires(Can.REVIEW, back="review:case")
def reveal(request: HttpRequest, assignment_id: int) -> HttpResponseBase:
    """Commit the first look, and show the traps, the changes and the rubrics."""
    if "do" in request.POST:
        return draft(request, assignment_id)
    posted = read_posted(request, assignment_id)
    try:
        turn = first_look.reveal(posted.turn, posted.token, posted.answers, revision=posted.revision)
    except errors.Incomplete as incomplete:
        return _render_refused(request, incomplete, posted, posted.answers)
    except TOO_LATE as late:
        return _render_lost(request, late, posted.turn, posted.answers)
    return _show_turn_after_post(request, turn, posted.local)


@requires(Can.REVIEW, back="review:case")
def submit(request: HttpRequest, assignment_id: int) -> HttpResponseBase:
    """Submit the review; then show the next phase of this case, the next case, or the workbench.

    A button that adds or removes a row is named `do`: it only saves the draft.
    """
    if "do" in request.POST:
        return draft(request, assignment_id)
    posted = read_posted(request, assignment_id)
    turn, token = posted.turn, posted.token
    answers = without_blank_rows(posted.answers)
    signature = {name: request.POST.get(name, "") for name in ("password", "code")}
    try:
        if "agreed" not in request.POST and (faults := turn.unconfirmed(answers)):
            raise errors.Incomplete(faults)
        with signatures.count_refused_signatures(request, turn, token):
            if signed := whole_number(request.POST.get("sign", "")):
                review = services.sign_proposal(turn, token, signed, **signature)
            else:
                review = services.submit(turn, token, answers, **signature, revision=posted.revision)
    except (errors.Incomplete, errors.SignatureRefused) as refused:
        return _render_refused(request, refused, posted, answers)
    except TOO_LATE as late:
        return _render_lost(request, late, turn, answers)
    if turn.following is not None:
        committed = _("Your vote is committed. The two votes differ. Read both verdicts and rubrics, then vote again.")
        if turn.following.phase is Phase.CONFIRM:
            committed = _("Your answer is committed. Now compare it with the first reviewer's answer.")
        messages.success(request, committed)
        return _show_turn_after_post(request, turn.following, posted.local)
    messages.success(
        request, str(SUBMISSION_EFFECTS.get(visibility.submission_effect(review), SUBMISSION_EFFECTS["submitted"]))
    )
    if "stop" in request.POST:
        return redirect_with_receipt(redirect("review:workbench"), posted.local)
    return _claim_and_show(request, posted.local, review)


@requires(Can.REVIEW, "POST")
def retract(request: HttpRequest, review_id: int) -> HttpResponse:
    """Retract a review, and show its case with the answers as a draft."""
    assignment = retraction.retract(signed_in_account(request), review_id, request.POST.get("reason", ""))
    return redirect_saying(request, _("Submission undone. Your review is a draft again."), "review:case", assignment.pk)


@requires(Can.REVIEW, back="review:case")
def release(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Return the case to the queue, after saving the draft."""
    posted = read_posted(request, assignment_id)
    try:
        with suppress(errors.StaleDraft):  # another window has saved a later draft; keep that one
            _save(posted, posted.answers)
        claims.release(posted.turn.physician, assignment_id, posted.token)
    except TOO_LATE as late:
        return _render_lost(request, late, posted.turn, posted.answers)
    messages.success(request, _("Case returned to the queue. Your draft is kept."))
    return redirect_with_receipt(redirect("review:workbench"), posted.local)


@requires(Can.REVIEW, back="review:case")
def heartbeat(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Renew the lease while the page is open and visible."""
    me = signed_in_account(request)
    try:
        assignment = claims.heartbeat(me, assignment_id, posted_token(request))
    except errors.LeaseLost as lost:
        draft, typed = queries.last_draft(me, assignment_id), Answers()
        if draft:
            typed = answers_from_json(draft.answers)
        return _render_lost(request, lost, turn_of(me, assignment_id, own=False), typed)
    return render(request, "review/assignments/_lease.html", case_page.lease_context(assignment))


def _render_stale(request: HttpRequest, stale: errors.StaleDraft, posted: PostedReview) -> HttpResponse:
    assignment_id = posted.turn.assignment.pk
    turn = turn_of(posted.turn.physician, assignment_id)
    if not _is_htmx(request):
        show_at(request, reverse("review:case", args=[assignment_id]))
        return case_page.render_case(
            request,
            turn,
            answers=posted.answers,
            refusal=refused_forms.RefusedForm(agreed="agreed" in request.POST),
            status=stale.status,
            stale=stale,
            seen_revision=posted.revision,
        )
    context = {"error": stale, "id": assignment_id, "revision": turn.draft.revision if turn.draft else 0}
    return render(request, "review/assignments/_stale.html", context, status=stale.status)


def _render_refused(
    request: HttpRequest,
    refused: errors.Incomplete | errors.SignatureRefused,
    posted: PostedReview,
    answers: Answers,
) -> HttpResponse:
    """The page of the case with the problems of the posted form.

    The answers are saved first: the page may be closed before they are posted again. Without a
    script, the saved answers are shown by a redirect, so that Back posts nothing again.
    """
    stale, assignment_id = None, posted.turn.assignment.pk
    refusal = refused_forms.refusal_of(request, refused)
    try:
        _save(posted, answers)
        if "here" not in request.GET:
            refused_forms.keep(request, assignment_id, refusal)
            return redirect_with_receipt(redirect("review:case", assignment_id), posted.local)
    except errors.OverLimits:  # which the page says, beside the text as it was typed
        pass
    except errors.StaleDraft as error:  # another window has saved a later draft; keep that one
        stale = error
    except TOO_LATE as late:
        return _render_lost(request, late, posted.turn, answers)
    received_local = posted.local
    if stale:
        received_local = ""
    show_at(request, reverse("review:case", args=[assignment_id]))
    return case_page.render_case(
        request,
        turn_of(posted.turn.physician, assignment_id),
        answers=answers,
        refusal=refusal,
        status=refused.status,
        stale=stale,
        seen_revision=posted.revision,
        received_local=received_local,
    )


def _render_lost(request: HttpRequest, late: errors.ReviewError, turn: ReviewTurn, typed: Answers) -> HttpResponse:
    """A page for a physician who no longer holds the case, with the typed answers to copy."""
    context = {
        "error": late,
        "local": f"mhb-draft:{turn.physician.pk}:{turn.assignment.public_id}:",
        "kept": plain_text(turn.shows.form, typed),
        # False if another window's version was kept (`detail` says so) or the review was submitted.
        "stored": isinstance(late, errors.LeaseLost | errors.CaseClosed) and not late.detail,
    }
    template = "review/assignments/kept.html"
    if _is_htmx(request):
        template = "review/assignments/_lost.html"
    return render(request, template, context, status=late.status)


def _is_htmx(request: HttpRequest) -> bool:
    return bool(getattr(request, "htmx", False))
