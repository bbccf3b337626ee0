"""The pages of review: thin edges over services and queries."""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from review import accounts, eligibility, errors, queries, services, signing, training, trust
from review.access import arrived, person, posted_token, requires
from review.forms import PasswordForm, PersonForm, PriorityForm, WithdrawForm
from review.machine import ADJUDICATORS, Phase, Role, State, Verdict
from review.models import Assignment, Case, User
from review.paging import page_of
from review.permissions import Can, UserRole
from review.questions import Answers, Problem, with_first_look
from review.reading import Change, changes, compare, named, nameless, offers, plain
from review.sheet import Correction, answers_from_post, corrections, said, sheet, tidy
from review.spec import CaseSpec, answers_from_json

# The physician's pages ------------------------------------------------------------------------------------------------


@requires(Can.REVIEW)
@require_GET
def workbench(request: HttpRequest) -> HttpResponse:
    """Where a physician's day begins: the case in hand or the next one, what waits, the own week."""
    me = person(request)
    in_hand = list(queries.in_hand(me))
    week = timezone.now() - timedelta(days=7)
    return render(
        request,
        "review/home.html",
        {
            "current": in_hand[0] if in_hand else None,
            "further": in_hand[1:],
            "waiting": eligibility.waiting_for(me),
            "last": queries.undoable(me),
            "lease_minutes": services.lease() // timedelta(minutes=1),
            "week": queries.submitted_by(me).filter(submitted_at__gte=week).count(),
            "lately": trust.my_week(me, week),
        },
    )


@requires(Can.REVIEW)
@require_GET
def peek(request: HttpRequest) -> HttpResponse:
    """The first look at the case that most likely comes next, to be shown while it is being claimed.

    Nothing is claimed by it and nothing revealed: a case that asks for no first look is not shown before it is taken.
    """
    following = eligibility.peek(person(request))
    if following is None or not queries.looks_first(following):
        return HttpResponse(status=204)
    return render(request, "review/_peek.html", {"case": following, "blocks": following.frozen.first_look})


@requires(Can.REVIEW)
@require_POST
def next_case(request: HttpRequest) -> HttpResponse:
    """Claim a case, or go on with the one in hand."""
    return _go_on(request)


def _go_on(request: HttpRequest) -> HttpResponseRedirect:
    taken = services.claim_next(person(request))
    if taken is None:
        hindered = eligibility.hindrance(person(request))
        messages.info(request, str(hindered) if hindered else _("No case waits for you now."))
        return redirect("review:workbench")
    return redirect("review:case", taken.pk)


@requires(Can.REVIEW)
@require_GET
def case(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """The workbench with one case; what was submitted already is read on its own page."""
    me = person(request)
    try:
        assignment = queries.assignment_of(me, assignment_id)
    except errors.NotYours:
        if (kept := queries.last_draft(me, assignment_id)) is None:
            raise
        return _lost(request, errors.LeaseLost(), assignment_id, answers_from_json(kept.answers))
    if assignment.hold == Assignment.Hold.HELD and assignment.token is not None:
        # Opening the page is a sign of life; without script it is the only one beside saving. Right after a claim or a
        # reveal the lease is as good as new, and the page need not be a writer.
        if not services.fresh(assignment):
            assignment.lease_until = services.heartbeat(me, assignment.pk, assignment.token).lease_until
        return _workbench(request, assignment)
    own = queries.submitted_by(me).filter(assignment=assignment).first()
    if own is None:
        raise errors.CaseClosed
    return redirect("review:mine-detail", own.pk)


@requires(Can.REVIEW)
def draft(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Keep what was typed: the autosave's target (answers a fragment) and the button's (answers the page)."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = _posted(request, assignment_id)
    try:
        saved = services.save_draft(posted.me, assignment_id, posted.token, posted.answers, revision=posted.revision)
    except errors.StaleDraft as stale:
        return _stale(request, stale, assignment_id, posted)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, posted.answers)
    if not _is_htmx(request):
        if "do" not in request.POST:
            messages.success(request, _("Your draft is saved."))
        return arrived(
            redirect("review:case", assignment_id), posted.local, anchor=_row_asked_for(request, posted.answers)
        )
    assignment = saved.assignment
    context = {"draft": saved, "rows": _wordings(posted, assignment), "oob": True, **_lease(assignment)}
    return render(request, "review/_saved.html", context)


def _row_asked_for(request: HttpRequest, answers: Answers) -> str:
    """Where a page that was loaded to add a row, or to take one away, is to be read on."""
    do = request.POST.get("do", "")
    if do == "add-citation":
        return f"citation-{len(answers.citations)}-reference"
    if do == "add-rubric":
        return f"added-{len(answers.added)}-criterion"
    return {"remove-citation": "evidence", "remove-rubric": "added"}.get(do.split(".")[0], "")


@requires(Can.REVIEW)
def reveal(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """End the first look: its answers stand, and the traps, the changes and the rubrics are shown."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = _posted(request, assignment_id)
    try:
        services.reveal(posted.me, assignment_id, posted.token, posted.answers)
    except errors.Incomplete as incomplete:
        return _sent_back(request, incomplete, assignment_id, posted, posted.answers)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, posted.answers)
    return arrived(redirect("review:case", assignment_id), posted.local)


@requires(Can.REVIEW)
def submit(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Submit the review that is due; then the next phase of this case, the next case, or the front page."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = _posted(request, assignment_id)
    typed = answers = tidy(posted.answers)
    if "keep" in request.POST:
        assignment = queries.assignment_of(posted.me, assignment_id)
        answers = _kept_as_committed(_own_answers(posted.me, assignment), answers)
    try:
        with signing.counted(request, posted.me, assignment_id, posted.token):
            services.submit(
                posted.me,
                assignment_id,
                posted.token,
                answers,
                password=request.POST.get("password", ""),
                code=request.POST.get("code", ""),
                revision=posted.revision,
            )
    except (errors.Incomplete, errors.SignatureRefused) as refused:
        # What was typed, not the kept answer: whoever kept it only to be sent back may have drafted another.
        return _sent_back(request, refused, assignment_id, posted, typed)
    except (errors.LeaseLost, errors.CaseClosed, errors.AlreadySubmitted) as late:
        return _lost(request, late, assignment_id, answers)
    again = queries.in_hand(posted.me).filter(pk=assignment_id).first()
    if again is not None and again.phase == Phase.CONFIRM:
        messages.success(request, _("Your own answer is committed. Now compare it with the first reviewer's."))
        return arrived(redirect("review:case", assignment_id), posted.local)
    if again is not None:
        messages.success(request, _("Your vote is committed. The two votes differ: read both and vote once more."))
        return arrived(redirect("review:case", assignment_id), posted.local)
    messages.success(request, _("Submitted."))
    return arrived(redirect("review:workbench") if "stop" in request.POST else _go_on(request), posted.local)


@requires(Can.REVIEW)
@require_POST
def retract(request: HttpRequest, review_id: int) -> HttpResponse:
    """Take the own review back and go on with it as a draft."""
    taken_back = services.retract(person(request), review_id)
    messages.success(request, _("Your review is taken back. It is a draft again."))
    return redirect("review:case", taken_back.pk)


@requires(Can.REVIEW)
def release(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Give the case back; what was typed is kept for its author."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    posted = _posted(request, assignment_id)
    with suppress(errors.StaleDraft):  # another window has saved a later one, which stands
        services.save_draft(posted.me, assignment_id, posted.token, posted.answers, revision=posted.revision)
    services.release(posted.me, assignment_id, posted.token)
    messages.success(request, _("The case is given back. Your draft is kept."))
    return arrived(redirect("review:workbench"), posted.local)


@requires(Can.REVIEW)
def heartbeat(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Renew the lease while the page is open before somebody's eyes."""
    if request.method != "POST":
        return redirect("review:case", assignment_id)
    me = person(request)
    try:
        assignment = services.heartbeat(me, assignment_id, posted_token(request))
    except errors.LeaseLost as lost:
        kept = queries.last_draft(me, assignment_id)
        return _lost(request, lost, assignment_id, answers_from_json(kept.answers) if kept else Answers())
    return render(request, "review/_lease.html", _lease(assignment))


@requires(Can.REVIEW)
@require_GET
def mine(request: HttpRequest) -> HttpResponse:
    """What the physician has submitted, newest first."""
    return render(request, "review/mine.html", {"page": page_of(queries.submitted_by(person(request)), request)})


@requires(Can.REVIEW)
@require_GET
def mine_detail(request: HttpRequest, review_id: int) -> HttpResponse:
    """One own review to read again, and beside it what the physician may know of the others."""
    me = person(request)
    review = queries.own_review(me, review_id)
    spec = review.case.frozen
    voices = nameless(me, queries.reviews_shown_to(me, review.case))
    context = {
        "review": review,
        "case": review.case,
        "spec": spec,
        "comparison": compare(spec.form, voices),
        "voices": voices,
        "simulated": review.case.simulated,
    }
    return render(request, "review/mine_detail.html", context)


@dataclass(frozen=True, slots=True)
class _Posted:
    """A posted form of the workbench. `local`: the name under which the browser keeps what was typed."""

    me: User
    case: Case
    token: uuid.UUID
    revision: int
    answers: Answers
    local: str


def _posted(request: HttpRequest, assignment_id: int) -> _Posted:
    me = person(request)
    assignment = queries.posted_to(assignment_id)
    case = assignment.case
    # What others wrote can only be taken over where it is open to read: not while the first two answer blind.
    blind = assignment.phase == Phase.COMMIT and assignment.role not in ADJUDICATORS
    others = {} if blind else offers(nameless(me, queries.reviews_shown_to(me, case, assignment)))
    # `over`: the version that the physician has chosen to replace, in place of the one that this page was made from.
    revision = request.POST.get("over") or request.POST.get("revision", "")
    return _Posted(
        me=me,
        case=case,
        token=posted_token(request),
        revision=int(revision) if revision.isascii() and revision.isdigit() and len(revision) < 10 else 0,
        answers=answers_from_post(case.frozen.form, request.POST, others),
        local=request.POST.get("local", ""),
    )


def _wordings(posted: _Posted, assignment: Assignment) -> Sequence[Correction]:
    """The wording of each rubric as it was just typed against the one that was generated; none before the first look."""
    if not posted.answers.rubrics or not queries.is_revealed(posted.me, assignment):
        return ()
    return corrections(posted.case.frozen.form, posted.answers)


def _local(me: User, assignment: Assignment, looking: bool) -> str:
    """The name under which a browser keeps what this person types at this point of this case."""
    return f"mhb-draft:{me.pk}:{assignment.public_id}:{assignment.phase}{':first' if looking else ''}"


def _stale(request: HttpRequest, stale: errors.StaleDraft, assignment_id: int, posted: _Posted) -> HttpResponse:
    assignment = queries.assignment_of(posted.me, assignment_id)
    if not _is_htmx(request):
        return _workbench(
            request, assignment, answers=posted.answers, status=stale.status, stale=stale, seen=posted.revision
        )
    other = queries.draft_of(assignment, posted.me)
    context = {"error": stale, "id": assignment_id, "revision": other.revision if other else 0}
    return render(request, "review/_stale.html", context, status=stale.status)


def _sent_back(
    request: HttpRequest,
    refused: errors.Incomplete | errors.SignatureRefused,
    assignment_id: int,
    posted: _Posted,
    answers: Answers,
) -> HttpResponse:
    """The workbench with what is wrong. What was typed is kept first: the page may be closed before it is sent again."""
    stale = None
    try:
        services.save_draft(posted.me, assignment_id, posted.token, answers, revision=posted.revision)
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
        return _workbench(request, assignment, problems=refused.problems, **said)
    return _workbench(request, assignment, unsigned=refused, **said)


def _lost(request: HttpRequest, late: errors.ReviewError, assignment_id: int, typed: Answers) -> HttpResponse:
    """The case is in other hands: what was typed, to be read and copied."""
    me = person(request)
    assignment = queries.posted_to(assignment_id)
    context = {
        "error": late,
        "local": f"mhb-draft:{me.pk}:{assignment.public_id}:",
        "kept": plain(assignment.case.frozen.form, typed),
        # Not where another window's version is the one kept (the detail says so), nor after the answer was given.
        "stored": isinstance(late, errors.LeaseLost | errors.CaseClosed) and not late.detail,
    }
    return render(
        request, "review/_lost.html" if _is_htmx(request) else "review/kept.html", context, status=late.status
    )


def _is_htmx(request: HttpRequest) -> bool:
    return bool(getattr(request, "htmx", False))


def _lease(assignment: Assignment) -> dict[str, object]:
    left = (assignment.lease_until - timezone.now()).total_seconds() if assignment.lease_until else 0
    return {"assignment": assignment, "seconds_left": max(int(left), 0)}


def _own_answers(me: User, assignment: Assignment) -> Answers | None:
    """What the holder submitted in this case before: the start of the confirmation, of the second vote."""
    own = queries.submitted_by(me).filter(assignment=assignment).first()
    return answers_from_json(own.answers) if own else None


def _kept_as_committed(own: Answers | None, typed: Answers) -> Answers:
    """The blind answer; why it approves what the first reviewer rejected can only be said now."""
    if own is None:
        return typed
    if own.verdict != Verdict.APPROVE or not typed.dissent_code:
        return own
    return replace(own, dissent_code=typed.dissent_code, reason=typed.reason)


def _workbench(
    request: HttpRequest,
    assignment: Assignment,
    *,
    answers: Answers | None = None,
    problems: Sequence[Problem] = (),
    status: int = 200,
    stale: errors.StaleDraft | None = None,
    seen: int = 0,
    unsigned: errors.SignatureRefused | None = None,
    arrived: str = "",
) -> HttpResponse:
    me = person(request)
    spec = queries.case_shown_to(me, assignment)
    kept = queries.draft_of(assignment, me)
    if answers is None:
        # In the first phase nothing of this assignment's that counts was submitted yet.
        before = _own_answers(me, assignment) if kept is None and assignment.phase != Phase.COMMIT else None
        answers = answers_from_json(kept.answers) if kept else before or Answers()
    first, looking = None, False
    if spec.policy.reveal_first_look:
        first = queries.first_look_of(assignment, me)
        looking = first is None
    if first is not None:
        answers = with_first_look(spec.form, answers, answers_from_json(first.answers))
    given = [question.key for question in spec.form.questions if first is not None and question.first_look]
    voices = [] if looking else nameless(me, queries.reviews_shown_to(me, assignment.case, assignment))
    blind = assignment.phase == Phase.COMMIT
    rejected_before = assignment.phase == Phase.CONFIRM and any(
        voice.role == Role.PRIMARY and voice.answers.verdict == Verdict.REJECT for voice in voices
    )
    context = {
        "case": assignment.case,
        "spec": spec,
        "draft": kept,
        "sheet": sheet(spec.form, answers, problems, offers(voices), given, rejected_before=rejected_before),
        "voices": voices,
        "comparison": compare(spec.form, voices) if len(voices) > 1 else None,
        "changes": None if looking else _changes(assignment.case, spec),
        "why": said(assignment.why) % {"version": assignment.case.version},
        "blind": blind,
        "looking": looking,
        "takes_next": not looking
        and not (assignment.role == Role.SECONDARY and blind and spec.policy.secondary_confirms),
        "folded": blind and not spec.policy.reveal_first_look,
        "local": _local(me, assignment, looking),
        "stage": Role(assignment.role).stage,
        "stale": stale,
        "seen": seen,
        "unsigned": unsigned,
        "arrived": arrived,
        "signs_as": signing.name(me),
        "has_second_factor": spec.policy.sign_with_second_factor and signing.has_second_factor(me),
        "last": queries.undoable(me),
        "waiting": eligibility.waiting_for(me),
        "simulated": assignment.case.simulated,
        **_lease(assignment),
    }
    return render(request, "review/case.html", context, status=status)


def _changes(case: Case, spec: CaseSpec) -> list[Change] | None:
    """What this version changed; None for a first version, and where the one before is not kept."""
    # The lineage of the spec: a copy for training shows what its sample's version changed, like any other case.
    earlier = Case.objects.filter(lineage=spec.lineage, version=case.version - 1)
    before = earlier.first() if case.version > 1 else None
    return changes(before.frozen, spec) if before else None


# The admin's pages ----------------------------------------------------------------------------------------------------


@requires(Can.OVERSEE)
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Where all cases stand, and who holds what."""
    chosen = request.GET.get("benchmark", "")
    funnel = queries.funnel(chosen or None)
    steps = [
        {
            "state": state,
            "count": funnel.counts[state],
            "oldest": funnel.oldest.get(state),
            "href": reverse("review:cases")
            + "?"
            + urlencode({"state": state, **({"benchmark": chosen} if chosen else {})}),
        }
        for state in State
    ]
    context = {
        "steps": steps,
        "largest": max([*funnel.counts.values(), 1]),
        "unreviewed": funnel.unreviewed,
        "empty": not (any(funnel.counts.values()) or funnel.unreviewed),
        "holds": queries.holds()[:50],
        "benchmark": chosen,
        "benchmarks": queries.benchmarks(),
        "now": timezone.now(),
    }
    return render(request, "review/overview.html", context)


@requires(Can.OVERSEE)
@require_GET
def cases(request: HttpRequest) -> HttpResponse:
    """All cases, filtered by what stands in the address."""
    asked = {name: request.GET.get(name, "").replace("\0", "") for name in ("state", "benchmark", "text", "kind")}
    sort = request.GET.get("sort", "")
    found = queries.cases(**asked)
    if sort.removeprefix("-") in {"title", "state", "priority", "opened_at"}:
        found = found.order_by(sort, "-id")
    context = {
        "page": page_of(found, request),
        "asked": asked,
        "sort": sort,
        "states": list(State),
        "kinds": Case.Kind.choices,
        "benchmarks": queries.benchmarks(),
    }
    return render(request, "review/cases.html", context)


@requires(Can.OVERSEE)
@require_GET
def history(request: HttpRequest, case_id: int) -> HttpResponse:
    """Everything about one case."""
    return _history(request, get_object_or_404(Case, pk=case_id))


def _history(request: HttpRequest, case: Case, *, refused: WithdrawForm | PriorityForm | None = None) -> HttpResponse:
    spec = case.frozen
    voices = named(queries.reviews_shown_to(person(request), case))
    context = {
        "case": case,
        "spec": spec,
        "comparison": compare(spec.form, voices),
        "voices": voices,
        "trail": queries.trail(case),
        "holds": queries.holds(case),
        "versions": queries.versions(case),
        "final": State(case.state).final,
        "reviewers": list(queries.reviewers()),
        "settled": training.was_settled(case),
        "withdraw_form": refused if isinstance(refused, WithdrawForm) else WithdrawForm(),
        "priority_form": refused
        if isinstance(refused, PriorityForm)
        else PriorityForm(initial={"priority": case.priority}),
        "simulated": case.simulated,
    }
    return render(request, "review/history.html", context, status=422 if refused else 200)


@requires(Can.OVERSEE)
def withdraw(request: HttpRequest, case_id: int) -> HttpResponse:
    """Take a case away from the physicians, with a reason."""
    if request.method != "POST":
        return redirect("review:history", case_id)
    case = get_object_or_404(Case, pk=case_id)
    form = WithdrawForm(request.POST)
    if not form.is_valid():
        return _history(request, case, refused=form)
    services.withdraw(case_id, actor=person(request), reason=form.cleaned_data["reason"])
    messages.success(request, _("The case is withdrawn."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
def priority(request: HttpRequest, case_id: int) -> HttpResponse:
    """Hand a case out earlier or later than the others."""
    if request.method != "POST":
        return redirect("review:history", case_id)
    case = get_object_or_404(Case, pk=case_id)
    form = PriorityForm(request.POST)
    if not form.is_valid():
        return _history(request, case, refused=form)
    services.prioritise(case_id, actor=person(request), priority=form.cleaned_data["priority"])
    messages.success(request, _("The priority is changed."))
    return redirect("review:history", case_id)


@requires(Can.OVERSEE)
@require_GET
def people(request: HttpRequest) -> HttpResponse:
    """All accounts with what they have done."""
    return render(request, "review/people.html", {"page": page_of(queries.people(), request, size=100)})


@requires(Can.OVERSEE)
def person_new(request: HttpRequest) -> HttpResponse:
    """Make an account."""
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = accounts.add_person(form.save(commit=False), form.cleaned_data["password"], actor=person(request))
        messages.success(request, _("The account %(name)s is made.") % {"name": made.username})
        return redirect("review:people")
    return render(request, "review/person_new.html", {"form": form}, status=422 if form.is_bound else 200)


@requires(Can.OVERSEE)
@require_GET
def person_detail(request: HttpRequest, person_id: int) -> HttpResponse:
    """One account: what it has done, and the doors to close it or give it a new password."""
    return _person(request, _account(person_id))


def _account(person_id: int) -> User:
    found = queries.people().filter(pk=person_id).first()
    if found is None:
        raise Http404
    return found


def _person(request: HttpRequest, shown: User, refused: PasswordForm | None = None) -> HttpResponse:
    context = {
        "shown": shown,
        "form": refused or PasswordForm(user=shown),
        "own": shown.pk == person(request).pk,
        "recent": queries.submitted_by(shown)[:20],
        "standings": training.standings(shown) if shown.role == UserRole.PHYSICIAN else [],
        "today": eligibility.done_today(shown),
        "left_hour": queries.given_back(shown, queries.HOUR),
        "left_limit": settings.MHB_RELEASES_PER_HOUR,
        "has_second_factor": signing.has_second_factor(shown),
        "may_take_over": accounts.may_take_over(shown, person(request)),
        "account_trail": accounts.account_trail(shown)[:20],
    }
    return render(request, "review/person.html", context, status=422 if refused else 200)


@requires(Can.OVERSEE)
def person_active(request: HttpRequest, person_id: int) -> HttpResponse:
    """Close an account or open it again."""
    if request.method == "POST":
        shown = accounts.set_active(_account(person_id).pk, request.POST.get("active") == "1", actor=person(request))
        done = _("%(name)s may sign in again.") if shown.is_active else _("%(name)s can no longer sign in.")
        messages.success(request, done % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_second_factor(request: HttpRequest, person_id: int) -> HttpResponse:
    """Take away the second factor of somebody who has lost it."""
    if request.method == "POST":
        shown = accounts.take_second_factor(_account(person_id).pk, actor=person(request))
        messages.success(request, _("%(name)s has no second factor any more.") % {"name": shown.username})
    return redirect("review:person", person_id)


@requires(Can.OVERSEE)
def person_password(request: HttpRequest, person_id: int) -> HttpResponse:
    """Give somebody a new password."""
    if request.method != "POST":
        return redirect("review:person", person_id)
    shown = _account(person_id)
    form = PasswordForm(request.POST, user=shown)
    if not form.is_valid():
        return _person(request, shown, refused=form)
    accounts.set_password(person_id, form.cleaned_data["password"], actor=person(request))
    messages.success(request, _("%(name)s has a new password.") % {"name": shown.username})
    return redirect("review:person", person_id)
