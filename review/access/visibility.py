"""Who may see what of a case. Blindness lives here: pages, API and exports ask and get the same refusal."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from django.db.models import Exists, Q, QuerySet
from django.utils import timezone
from django.utils.translation import get_language

from review import errors
from review.common import sql
from review.models import Assignment, Case, Event, FirstLook, Review, RewordingOutcome, User
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.consolidation import decided_answers, standing_wording
from review.rules.permissions import Can, allowed
from review.rules.state_machine import Consent, Declaration, Opinion, Phase, Role, State, Verdict, position

Hold = Assignment.Hold


def counted_reviews() -> QuerySet[Review]:
    """The reviews that count: all but those taken back."""
    return Review.objects.filter(retraction__isnull=True)


def reviewed_by_simulated() -> bool:
    """Whether any review that counts is a simulated physician's."""
    return counted_reviews().filter(physician__simulated=True).exists()


def opinions(case: Case, reviews: Collection[Review] | None = None) -> list[Opinion]:
    """The reviews of a case as the machine reads them, in order. `reviews`: those that count, where they are at hand."""
    if reviews is None:
        reviews = list(counted_reviews().filter(case=case).order_by("id"))
    policy, form = case.frozen.policy, case.frozen.form
    several = any(each.role != Role.PRIMARY for each in reviews)
    compared = decided_answers if policy.third_decides else standing_wording if policy.settle_wording else None
    found = []
    for each in reviews:
        plain = Opinion(Role(each.role), Phase(each.phase), Verdict(each.verdict), each.inadequate)
        if not (compared and several):
            found.append(plain)
            continue
        answers = answers_from_json(each.answers)
        declared = Declaration(answers.declaration) if answers.declaration else None
        consent = _consent(each) if declared is Declaration.WORDING else None
        found.append(replace(plain, wording=compared(form, answers), declared=declared, consent=consent))
    return found


def _consent(review: Review) -> Consent | None:
    said = RewordingOutcome.objects.filter(rewording__review=review).values_list("consent", flat=True).first()
    return Consent(said) if said else None


def current_assignments(physician: User) -> QuerySet[Assignment]:
    """What the physician holds now: first what was begun longest ago."""
    return Assignment.objects.filter(physician=physician, hold=Hold.HELD).select_related("case").order_by("id")


_TAKES = (Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER)
LEAVES = (Event.Kind.RELEASED, Event.Kind.DECLINED)
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
_GIVES_BACK = (Event.Kind.RELEASED, Event.Kind.EXPIRED, Event.Kind.DECLINED, Event.Kind.REASSIGNED)


def count_given_back(physician: User, within: timedelta) -> int:
    """How many cases the physician has looked at and given back or declined lately."""
    since = timezone.now() - within
    return Event.objects.filter(actor=physician, kind__in=LEAVES, at__gte=since).count()


def has_held(physician: User, assignment: Assignment) -> bool:
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


def looks_first(case: Case) -> bool:
    """Whether physicians judge the text of this case before its traps are revealed to them."""
    return _policy_says(case, "reveal_first_look")


def _adjudicates_blind(case: Case) -> bool:
    return _policy_says(case, "adjudicators_blind")


def _policy_says(case: Case, what: str) -> bool:
    if "frozen" in case.__dict__:
        return bool(getattr(case.frozen.policy, what))
    return bool(case.spec["policy"].get(what))  # not `frozen`: this is asked for every row of lists


def first_look_of(assignment: Assignment, physician: User) -> FirstLook | None:
    """The physician's own first look at this case, if it was taken."""
    if physician.pk in assignment.looks_read:
        return assignment.looks_read[physician.pk]
    # One a person who has held it, so few; and without a query where they were fetched with the assignment.
    return next((look for look in assignment.first_looks.all() if look.physician_id == physician.pk), None)


def is_revealed(user: User, assignment: Assignment) -> bool:
    """Whether `user` may see what the case hides before a first look."""
    if allowed(user, Can.OVERSEE) or not looks_first(assignment.case):
        return True
    return first_look_of(assignment, user) is not None


def asked_of(assignment: Assignment, case: Case | None = None) -> CaseSpec:
    """The case with the questions of the assignment's stage. `case`: its row, where that is at hand."""
    spec = (case or assignment.case).frozen
    return replace(spec, form=spec.form.at(Role(assignment.role).stage))


def case_shown_to(user: User, assignment: Assignment) -> CaseSpec:
    """The case as `user` may see it now, in this assignment; that it is the user's own, `assignment_of` decides.

    Before the first look where the policy asks for one: the text as a model under test would see it and the questions of the
    first look; no trap, no rubric, no other question, and nothing of why an earlier version was rejected.
    """
    spec = asked_of(assignment).in_language(get_language() or "")
    if is_revealed(user, assignment):
        return spec
    return replace(spec, blocks=spec.first_look, form=spec.form.first_look, asked_for=())


def reviews_shown_to(user: User, case: Case, own: Assignment | None = None) -> QuerySet[Review]:
    """The reviews of `case` that `user` may read now. `own`: the user's assignment in it, where it is at hand.

    Who oversees cases reads all that was submitted. Physicians read their own; as secondary the primary's, once the
    own blind answer is committed; as adjudicator the first two physicians' at once (where the policy says so, when both
    adjudicators have voted) and the other adjudicator's when both have voted; when the case is closed, all of a case in
    which the physician had a role. Before the first look, where the policy asks for one, nobody reads anything: what
    others say names the traps. Reviews taken back are shown to nobody.
    """
    if allowed(user, Can.OVERSEE):
        return _all_of(case)
    if own is None or own.case_id != case.pk or own.physician_id != user.pk:
        own = part_in(case, user)
    if own is None:
        return Review.objects.none()
    own.case = case
    if State(case.state).final:
        # Somebody who held the case without committing before it ended (withdrawn) has no claim to what others wrote.
        return _all_of(case).filter(Exists(counted_reviews().filter(case=case, physician=user)))
    if not is_revealed(user, own):
        return Review.objects.none()
    seen = Q(physician=user)
    role = Role(own.role)
    if role.stage is not State.ADJUDICATION and own.phase == Phase.COMMIT and own.hold == Hold.HELD:
        return Review.objects.none()  # nothing of the user's own counts yet
    if role is Role.SECONDARY and own.phase == Phase.CONFIRM:
        seen |= Q(role=Role.PRIMARY)
    if role.stage is State.ADJUDICATION and (own.phase == Phase.DISCUSS or not _adjudicates_blind(case)):
        seen |= Q(role__in=[Role.PRIMARY, Role.SECONDARY])
        if own.phase == Phase.DISCUSS:
            seen |= Q(phase=Phase.COMMIT)
    return _all_of(case).filter(seen)


_PART = """SELECT {a}, {f} FROM review_assignment a
LEFT JOIN review_firstlook f ON f.assignment_id = a.id AND f.physician_id = a.physician_id
WHERE a.case_id = %s AND a.physician_id = %s ORDER BY a.id LIMIT 1"""


def part_in(case: Case, physician: User) -> Assignment | None:
    """The physician's assignment in a case, with the first look."""
    for assignment, looked in sql.instances(_PART, (case.pk, physician.pk), a=Assignment, f=FirstLook):
        assignment.looks_read[physician.pk] = looked
        return assignment  # type: ignore[no-any-return]
    return None


def _all_of(case: Case) -> QuerySet[Review]:
    return counted_reviews().filter(case=case).select_related("physician", "guideline")


def objection_shown_to(reviews: Collection[Review]) -> RewordingOutcome | None:
    """The primary's objection to the secondary's wording, where both of their reviews may be read: `reviews` are those."""
    second = next((each for each in reversed([*reviews]) if each.role == Role.SECONDARY), None)
    if second is None or all(each.role != Role.PRIMARY for each in reviews):
        return None
    found = RewordingOutcome.objects.filter(rewording__review=second, consent=Consent.OBJECTED)
    return found.first()


def reviews_by(physician: User) -> QuerySet[Review]:
    """The physician's own reviews that count, newest first."""
    return counted_reviews().filter(physician=physician).select_related("case").order_by("-id")


def own_review(physician: User, review_id: int) -> Review:
    """One of the physician's own reviews. Raises NotYours for any other, whether it exists or not."""
    found = reviews_by(physician).filter(pk=review_id).first()
    if found is None:
        raise errors.NotYours
    return found


def outcome_shown_to(reader: User, review: Review) -> str:
    """How the case of `review` ended, as far as `reader` may know it; empty: not yet, or never.

    The state of an open case tells what a sealed answer said. A copy (calibration, repeat) ends with this one answer: its
    state would tell it from the cases that are work.
    """
    case = review.case
    if allowed(reader, Can.OVERSEE):
        return case.state
    return case.state if State(case.state).final and case.kind == Case.Kind.WORK else ""


def achieved(review: Review) -> str:
    """What a review that was just submitted has brought about, as far as its author may know it: a key of `labels.ACHIEVED`.

    Of a primary it follows from their verdict alone, by the policy of the sample's own case: so it is the same for a copy
    (calibration, repeat), which closes at once. Nothing tells what a sealed answer said.
    """
    case, role = review.case, Role(review.role)
    if case.kind == Case.Kind.VALIDATION:
        return "submitted"
    if role is Role.PRIMARY:
        work = case if case.kind == Case.Kind.WORK else _original(case)
        own = Opinion(role, Phase(review.phase), Verdict(review.verdict), review.inadequate)
        alone = position(work.frozen.policy, [own]).state if work is not None else State.SECONDARY
        return str(alone) if alone.final else "first-of-two"
    if State(case.state).final:
        return f"{case.ground}-{case.state}"
    if role is Role.SECONDARY:
        if review.phase == Phase.CONFIRM and case.state == State.SECONDARY:
            return "rewording"
        return "adjudication" if review.phase == Phase.CONFIRM else "submitted"
    return "voted"


def _original(copy: Case) -> Case | None:
    spec = copy.frozen
    return Case.objects.filter(lineage=spec.lineage, version=spec.version, kind=Case.Kind.WORK).first()


def held_assignments(case: Case | None = None) -> QuerySet[Assignment]:
    """The assignments of `case`; without one, all that physicians hold now, the oldest lease first."""
    rows = Assignment.objects.select_related("case", "physician", "reserved_for")
    return rows.filter(case=case).order_by("id") if case else rows.filter(hold=Hold.HELD).order_by("lease_until")
