"""Reviews, holders and outcomes of cases, as far as somebody may know them (see `review.turns`)."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from review import errors
from review.models import Assignment, Case, Event, Review, RewordingOutcome, User
from review.rules.case_spec import answers_from_json
from review.rules.consolidation import answers_decision, comparable_rubrics
from review.rules.permissions import Can, may_read
from review.rules.state_machine import Consent, Declaration, Opinion, Phase, Role, State, Verdict, position
from review.turns.turn import counted_reviews as counted_reviews

Hold = Assignment.Hold


def opinions(case: Case, reviews: Collection[Review]) -> list[Opinion]:
    """The reviews of a case that count, in order of submission, as input to the state machine."""
    policy, form = case.frozen.policy, case.frozen.form
    several_roles = any(review.role != Role.PRIMARY for review in reviews)
    compared_part = None
    if policy.settle_wording:
        compared_part = comparable_rubrics
    if policy.third_decides:
        compared_part = answers_decision
    result = []
    for review in reviews:
        opinion = Opinion(Role(review.role), Phase(review.phase), Verdict(review.verdict), review.inadequate)
        if not (compared_part and several_roles):
            result.append(opinion)
            continue
        answers = answers_from_json(review.answers)
        declared = None
        if answers.declaration:
            declared = Declaration(answers.declaration)
        outcomes = RewordingOutcome.objects.filter(rewording__review=review).values_list("consent", flat=True)
        consent = None
        if declared is Declaration.WORDING and (given := outcomes.first()):
            consent = Consent(given)
        result.append(replace(opinion, wording=compared_part(form, answers), declared=declared, consent=consent))
    return result


def assignments_held_by(physician: User) -> QuerySet[Assignment]:
    """The assignments that the physician holds now, the oldest first."""
    return Assignment.objects.filter(physician=physician, hold=Hold.HELD).select_related("case").order_by("id")


CLAIMS = (Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER)
RELEASED_BY_HOLDER = (Event.Kind.RELEASED, Event.Kind.DECLINED)
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
_HOLD_ENDS = (*RELEASED_BY_HOLDER, Event.Kind.EXPIRED, Event.Kind.REASSIGNED)


def count_released_cases(physician: User) -> int:
    """How many times the physician returned or declined a case during the last hour."""
    since = timezone.now() - HOUR
    return Event.objects.filter(actor=physician, kind__in=RELEASED_BY_HOLDER, at__gte=since).count()


def claims_of(assignment: Assignment, *ends: Event.Kind) -> QuerySet[Event]:
    """The events by which physicians took this assignment, and of these further kinds."""
    kinds = [*CLAIMS, *ends]
    return Event.objects.filter(case_id=assignment.case_id, kind__in=kinds, data__role=assignment.role)


def holder_on_record(assignment: Assignment) -> int | None:
    """The account that holds this assignment according to the audit trail, or None.

    That is the last one to claim it, unless the hold ended since.
    """
    last = claims_of(assignment, *_HOLD_ENDS).order_by("-id").first()
    if last is not None and last.kind in CLAIMS:
        return last.actor_id
    return None


def reviews_by(physician: User) -> QuerySet[Review]:
    """The physician's own reviews that count, newest first."""
    return counted_reviews().filter(physician=physician).select_related("case").order_by("-id")


def own_review(physician: User, review_id: int) -> Review:
    """One of the physician's own reviews. Raises NotAssigned for any other, existing or not."""
    review = reviews_by(physician).filter(pk=review_id).first()
    if review is None:
        raise errors.NotAssigned
    return review


def outcome_shown_to(reader: User, review: Review) -> str:
    """The state in which the case of `review` closed, or "" if `reader` may not know it (yet).

    The state of an open case would give away what a sealed answer said. A copy (calibration,
    repeat) closes with this one answer, so its state would set it apart from real work.
    """
    case = review.case
    if may_read(reader, Can.OVERSEE):
        return case.state
    if State(case.state).final and case.kind == Case.Kind.WORK:
        return case.state
    return ""


def submission_effect(review: Review) -> str:
    """What the review just submitted led to, as far as its author may know.

    For a primary this follows from their own verdict and the policy of the sample's real case, so
    that a copy (calibration, repeat), which closes at once, reads the same. No effect gives away
    what a sealed answer said.

    Returns: a key of `labels.SUBMISSION_EFFECTS`.
    """
    case, role = review.case, Role(review.role)
    if case.kind == Case.Kind.VALIDATION:
        return "submitted"
    if role is Role.PRIMARY:
        work = case if case.kind == Case.Kind.WORK else _original(case)
        own = Opinion(role, Phase(review.phase), Verdict(review.verdict), review.inadequate)
        if work is not None:
            alone = position(work.frozen.policy, [own]).state
        else:
            alone = State.SECONDARY
        if alone.final:
            return str(alone)
        return "first-of-two"
    if State(case.state).final:
        return f"{case.ground}-{case.state}"
    if role is Role.SECONDARY:
        if review.phase == Phase.CONFIRM and case.state == State.SECONDARY:
            return "rewording"
        if review.phase == Phase.CONFIRM:
            return "adjudication"
        return "submitted"
    return "voted"


def _original(copy: Case) -> Case | None:
    spec = copy.frozen
    return Case.objects.filter(lineage=spec.lineage, version=spec.version, kind=Case.Kind.WORK).first()
