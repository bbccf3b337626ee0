"""Everything that is read. Blindness lives here: pages, API and exports ask `reviews_shown_to` and get the same refusal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from review import errors, settling, sql
from review.blocks import Dialogue, Diff, Text, Turn
from review.citations import Citation
from review.machine import ADJUDICATORS, Ground, Opinion, Phase, Role, State, Verdict
from review.models import Assignment, Case, Draft, Event, FirstLook, Review, User
from review.permissions import Can, UserRole, allowed
from review.settling import SettledRubric
from review.spec import CaseSpec, answers_from_json

Hold = Assignment.Hold


def counted() -> QuerySet[Review]:
    """The reviews that count: all but those taken back."""
    return Review.objects.filter(retraction__isnull=True)


def reviewed_by_simulated() -> bool:
    """Whether any review that counts is a simulated physician's."""
    return counted().filter(physician__simulated=True).exists()


def opinions(case: Case) -> list[Opinion]:
    """The reviews of a case as the machine reads them, in order."""
    rows = counted().filter(case=case).order_by("id").values_list("role", "phase", "verdict", "inadequate")
    return [Opinion(Role(role), Phase(phase), Verdict(verdict), bad) for role, phase, verdict, bad in rows]


def in_hand(physician: User) -> QuerySet[Assignment]:
    """What the physician holds now: first what was begun longest ago."""
    return Assignment.objects.filter(physician=physician, hold=Hold.HELD).select_related("case").order_by("id")


_TAKES = (Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER)
_LEAVES = (Event.Kind.RELEASED, Event.Kind.DECLINED)
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
_GIVES_BACK = (Event.Kind.RELEASED, Event.Kind.EXPIRED, Event.Kind.DECLINED, Event.Kind.REASSIGNED)


def given_back(physician: User, within: timedelta) -> int:
    """How many cases the physician has looked at and given back or declined lately."""
    since = timezone.now() - within
    return Event.objects.filter(actor=physician, kind__in=_LEAVES, at__gte=since).count()


def once_held(physician: User, assignment: Assignment) -> bool:
    """Whether the physician held this assignment before (and lost it)."""
    return Event.objects.filter(
        case_id=assignment.case_id, actor=physician, kind__in=_TAKES, data__role=assignment.role
    ).exists()


def holder_on_record(assignment: Assignment) -> int | None:
    """Who holds this assignment according to the trail: the last to take it who has not given it back or let it expire."""
    last = (
        Event.objects.filter(
            case_id=assignment.case_id,
            kind__in=[*_TAKES, *_GIVES_BACK],
            data__role=assignment.role,
        )
        .order_by("-id")
        .first()
    )
    return last.actor_id if last is not None and last.kind in _TAKES else None


def assignment_of(physician: User, assignment_id: int) -> Assignment:
    """The physician's own assignment. Raises NotYours for any other, whether it exists or not."""
    own = Assignment.objects.filter(pk=assignment_id, physician=physician)
    # A page asks many times whether the first look was taken; `first_look_of` finds the answer here.
    found = own.select_related("case").prefetch_related("first_looks").first()
    if found is None:
        raise errors.NotYours
    found.physician = physician
    return found


def draft_of(assignment: Assignment, physician: User) -> Draft | None:
    """What the physician has typed for the phase that is due."""
    return Draft.objects.filter(assignment=assignment, physician=physician, phase=assignment.phase).first()


def last_draft(physician: User, assignment_id: int) -> Draft | None:
    """What the physician typed last in an assignment, whoever holds it now."""
    return Draft.objects.filter(assignment=assignment_id, physician=physician).order_by("-saved_at", "-id").first()


def undoable(physician: User) -> "Undoable | None":
    """The physician's last review, as long as it seems that nobody has built on it; whether it is so `retract` decides."""
    found = sql.first(_UNDOABLE, physician.pk)
    return Undoable(*found) if found else None


@dataclass(frozen=True, slots=True)
class Undoable:
    """A review that can be taken back: its primary key and the title of its case."""

    pk: int
    title: str


_LAST = """SELECT m.id FROM review_review m
    WHERE m.physician_id = %s AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = m.id)
    ORDER BY m.id DESC LIMIT 1"""
_UNDOABLE = f"""\
SELECT r.id, c.title FROM review_review r
JOIN review_case c ON c.id = r.case_id JOIN review_assignment a ON a.id = r.assignment_id
WHERE r.id = ({_LAST}) AND a.phase = r.phase
    AND (c.closed_at IS NULL OR c.kind <> 'work')
    AND NOT EXISTS (SELECT 1 FROM review_assignment h WHERE h.case_id = r.case_id AND h.hold = 'held' AND h.id <> a.id)
    AND NOT EXISTS (
        SELECT 1 FROM review_review n WHERE n.case_id = r.case_id AND n.id > r.id
            AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = n.id)
    )
"""  # noqa: S608 -- composed of this module's constants


def looks_first(case: Case) -> bool:
    """Whether physicians judge the text of this case before its traps are revealed to them."""
    return bool(case.spec["policy"].get("reveal_first_look"))  # not `frozen`: this is asked for every row of lists


def first_look_of(assignment: Assignment, physician: User) -> FirstLook | None:
    """The physician's own first look at this case, if it was taken."""
    # One a person who has held it, so few; and without a query where they were fetched with the assignment.
    return next((look for look in assignment.first_looks.all() if look.physician_id == physician.pk), None)


def is_revealed(user: User, assignment: Assignment) -> bool:
    """Whether `user` may see what the case hides before a first look."""
    if allowed(user, Can.OVERSEE) or not looks_first(assignment.case):
        return True
    return first_look_of(assignment, user) is not None


def case_shown_to(user: User, assignment: Assignment) -> CaseSpec:
    """The case as `user` may see it now, in this assignment; that it is the user's own, `assignment_of` decides.

    Before the first look where the policy asks for one: the text as a model under test would see it and the questions of the
    first look; no trap, no rubric, no other question, and nothing of why an earlier version was rejected.
    """
    spec = assignment.case.frozen
    if is_revealed(user, assignment):
        return spec
    return replace(spec, blocks=spec.first_look, form=spec.form.first_look, asked_for=())


def reviews_shown_to(user: User, case: Case, own: Assignment | None = None) -> QuerySet[Review]:
    """The reviews of `case` that `user` may read now. `own`: the user's assignment in it, where it is at hand.

    Who oversees cases reads all that was submitted. A physician reads the own ones; as secondary the primary's, once the
    own blind answer is committed; as adjudicator the first two physicians' at once and the other adjudicator's when both
    have voted; when the case is closed, all of a case in which the physician had a role. Before the first look, where the
    policy asks for one, nobody reads anything: what others say names the traps. Reviews taken back are shown to nobody.
    """
    everything = counted().filter(case=case).select_related("physician", "guideline")
    if allowed(user, Can.OVERSEE):
        return everything
    if own is None or own.case_id != case.pk or own.physician_id != user.pk:
        own = Assignment.objects.filter(case=case, physician=user).prefetch_related("first_looks").first()
    if own is None:
        return everything.none()
    own.case = case
    if State(case.state).final:
        # Somebody who held the case without committing before it ended (withdrawn) has no claim to what others wrote.
        return everything.filter(Exists(counted().filter(case=case, physician=user)))
    if not is_revealed(user, own):
        return everything.none()
    seen = Q(physician=user)
    role = Role(own.role)
    if role is Role.SECONDARY and own.phase == Phase.CONFIRM:
        seen |= Q(role=Role.PRIMARY)
    if role.stage is State.ADJUDICATION:
        seen |= Q(role__in=[Role.PRIMARY, Role.SECONDARY])
        if own.phase == Phase.DISCUSS:
            seen |= Q(phase=Phase.COMMIT)
    return everything.filter(seen)


def submitted_by(physician: User) -> QuerySet[Review]:
    """The physician's own reviews that count, newest first."""
    return counted().filter(physician=physician).select_related("case").order_by("-id")


def own_review(physician: User, review_id: int) -> Review:
    """One of the physician's own reviews. Raises NotYours for any other, whether it exists or not."""
    found = submitted_by(physician).filter(pk=review_id).first()
    if found is None:
        raise errors.NotYours
    return found


def outcome_shown_to(reader: User, review: Review) -> str:
    """How the case of `review` ended, as far as `reader` may know it; empty: not yet, or never.

    The state of an open case tells what a sealed answer said. A copy (calibration, repeat) ends with the own answer: its
    state would tell it from the cases that are work.
    """
    case = review.case
    if allowed(reader, Can.OVERSEE):
        return case.state
    return case.state if State(case.state).final and case.kind == Case.Kind.WORK else ""


def posted_to(assignment_id: int) -> Assignment:
    """An assignment with its case, to read a posted form by. Shows nothing: who may act on it the services decide."""
    found = Assignment.objects.filter(pk=assignment_id).select_related("case").first()
    if found is None:
        raise errors.NotYours
    return found


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many cases stand in each state, and since when the oldest one waits. `unreviewed`: those nobody was to review."""

    counts: dict[str, int]
    oldest: dict[str, datetime]
    unreviewed: int = 0


def funnel(benchmark: str | None = None) -> Funnel:
    """Counts of cases by state; every state is named, empty ones with 0. Copies for training are not counted, and cases that
    nobody was to review are counted apart."""
    rows = Case.objects.filter(kind=Case.Kind.WORK, **({"benchmark": benchmark} if benchmark else {}))
    by_state = rows.values("state", aside=Q(ground=Ground.UNREVIEWED)).annotate(n=Count("id"), oldest=Min("opened_at"))
    every = list(by_state.order_by())
    found = {row["state"]: row for row in every if not row["aside"]}
    return Funnel(
        unreviewed=sum(row["n"] for row in every if row["aside"]),
        counts={state.value: found[state]["n"] if state in found else 0 for state in State},
        oldest={
            state: row["oldest"] for state, row in found.items() if not State(state).final and row["oldest"] is not None
        },
    )


def cases(*, state: str = "", benchmark: str = "", text: str = "", kind: str = "") -> QuerySet[Case]:
    """Cases for the admin's board, newest first. Without a `kind`, those that count: copies for training have their own."""
    found = Case.objects.filter(kind=kind or Case.Kind.WORK).order_by("-id")
    if state:
        found = found.filter(state=state)
    if benchmark:
        found = found.filter(benchmark=benchmark)
    if text:
        found = found.filter(Q(title__icontains=text) | Q(lineage__icontains=text))
    return found


def trail(case: Case) -> QuerySet[Event]:
    """Everything that happened to a case, in order."""
    return Event.objects.filter(case=case).select_related("actor")


def holds(case: Case | None = None) -> QuerySet[Assignment]:
    """The assignments of `case`; without one, all that physicians hold now, the oldest lease first."""
    rows = Assignment.objects.select_related("case", "physician", "reserved_for")
    return rows.filter(case=case).order_by("id") if case else rows.filter(hold=Hold.HELD).order_by("lease_until")


def versions(case: Case) -> QuerySet[Case]:
    """All versions of the same sample, the first one first."""
    return Case.objects.filter(lineage=case.lineage).order_by("version")


def benchmarks() -> list[str]:
    """The benchmarks that have cases."""
    return list(Case.objects.values_list("benchmark", flat=True).distinct().order_by("benchmark"))


def people() -> QuerySet[User]:
    """All accounts by name, each with `done` (cases with a review of theirs, copies aside), `held` (cases in hand) and
    `left` (cases given back or declined within a week)."""
    lately = Event.objects.filter(actor=OuterRef("pk"), kind__in=_LEAVES, at__gte=timezone.now() - WEEK)
    left = lately.order_by().values("actor")
    done = counted().filter(physician=OuterRef("pk"), case__kind=Case.Kind.WORK).order_by().values("physician")
    held = Assignment.objects.filter(physician=OuterRef("pk"), hold=Hold.HELD).order_by().values("physician")
    return User.objects.annotate(
        done=Coalesce(Subquery(done.annotate(n=Count("case", distinct=True)).values("n")), 0),
        left=Coalesce(Subquery(left.annotate(n=Count("pk")).values("n")), 0),
        held=Coalesce(Subquery(held.annotate(n=Count("pk")).values("n")), 0),
    ).order_by("-is_active", "role", "username")


def reviewers() -> QuerySet[User]:
    """Physicians to whom a case can be handed, by name."""
    return User.objects.filter(role=UserRole.PHYSICIAN, is_active=True).order_by("username")


@dataclass(frozen=True, slots=True)
class Settled:
    """What the physicians agreed on in an approved case, or why it was rejected.

    rubrics and citations are of an approved case, reasons and `reducible` (another version can mend it) of a rejected one.
    answers: role/phase -> answers, for the export.
    """

    state: State
    ground: str
    rubrics: tuple[SettledRubric, ...]
    citations: tuple[Citation, ...]
    reasons: tuple[str, ...]
    reducible: bool
    answers: dict[str, dict[str, Any]]

    @property
    def standing(self) -> tuple[SettledRubric, ...]:
        """The rubrics that were not removed."""
        return tuple(rubric for rubric in self.rubrics if not rubric.removed)


def settled(case: Case) -> Settled:
    """The result of a closed case, from the reviews that count.

    Rubrics stand as the last to see everybody's left them (see `settling.rubrics`). Evidence is that of all who approved.
    Reasons are those of all who speak for rejection; whether they can be mended, say those who decided: the adjudicators
    where it came to them, else all who rejected. A rubric found inadequate can always be mended.
    """
    reviews = list(counted().filter(case=case).order_by("id"))
    last = _last_of_each_role(reviews)
    spec, said = case.frozen, {role: answers_from_json(review.answers) for role, review in last.items()}
    adjudicators = [answers for role, answers in said.items() if role in ADJUDICATORS]
    both = [answers for role, answers in said.items() if role not in ADJUDICATORS]
    approved, rejected = case.state == State.APPROVED, case.state == State.REJECTED
    # A secondary who has not confirmed never saw the primary's answers: then both decide.
    deciding = adjudicators or (both[-1:] if spec.policy.secondary_confirms else both)
    rejections = [answers for answers in adjudicators or both if answers.verdict == Verdict.REJECT]
    reasons = dict.fromkeys(reason for answers in said.values() for reason in settling.reasons(spec.form, answers))
    return Settled(
        state=State(case.state),
        ground=case.ground,
        rubrics=settling.rubrics(spec.form, deciding) if approved else (),
        citations=settling.citations([each for each in said.values() if each.verdict == Verdict.APPROVE])
        if approved
        else (),
        reasons=tuple(reasons) if rejected else (),
        reducible=rejected and (any(r.inadequate for r in last.values()) or settling.reducible(spec.form, rejections)),
        answers={f"{review.role}/{review.phase}": review.answers for review in reviews},
    )


def _last_of_each_role(reviews: Iterable[Review]) -> dict[Role, Review]:
    """The last word of each role that has spoken, in the order of the workflow."""
    last = {Role(review.role): review for review in reviews}
    return {role: last[role] for role in Role if role in last}


@dataclass(frozen=True, slots=True)
class Passage:
    """A running text of a case: what a comment can point at. `source`: as it was before it was changed."""

    block: int
    turn: int
    text: str
    source: bool = False

    @property
    def key(self) -> str:
        """Its name on the page (`data-passage`), counted from 1."""
        return f"{self.block + 1}.{self.turn + 1}{'.source' if self.source else ''}"


def passages(spec: CaseSpec) -> Iterator[Passage]:
    """The running texts of what is shown of a case; a changed text as it is shown comes before its source."""
    for number, block in enumerate(spec.blocks):
        match block:
            case Text():
                yield Passage(number, 0, block.text)
            case Dialogue(turns=turns):
                yield from _turns(number, turns)
            case Diff():
                yield from _turns(number, block.after)
                yield from _turns(number, block.before, source=True)


def _turns(block: int, turns: Iterable[Turn], *, source: bool = False) -> Iterator[Passage]:
    return (Passage(block, number, turn.text, source) for number, turn in enumerate(turns))
