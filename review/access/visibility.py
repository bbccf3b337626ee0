"""Who may see what of a case. Blinding is enforced here, identically for pages, API and exports."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from django.db.models import Exists, Q, QuerySet
from django.utils import timezone
from django.utils.translation import get_language

from review import errors
from review.models import Assignment, Case, Event, FirstLook, Review, RewordingOutcome, User
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.consolidation import answers_decision, comparable_rubrics
from review.rules.permissions import Can, may_read
from review.rules.state_machine import Consent, Declaration, Opinion, Phase, Role, State, Verdict, position

Hold = Assignment.Hold


def counted_reviews() -> QuerySet[Review]:
    """The reviews that count: all that were not retracted."""
    return Review.objects.filter(retraction__isnull=True)


def opinions(case: Case, reviews: Collection[Review] | None = None) -> list[Opinion]:
    """The reviews of a case as input to the state machine, in order of submission.

    Pass `reviews` if the reviews that count are already loaded.
    """
    if reviews is None:
        reviews = list(counted_reviews().filter(case=case).order_by("id"))
    policy, form = case.frozen.policy, case.frozen.form
    several_roles = any(review.role != Role.PRIMARY for review in reviews)
    compared_part = answers_decision if policy.third_decides else comparable_rubrics if policy.settle_wording else None
    result = []
    for review in reviews:
        opinion = Opinion(Role(review.role), Phase(review.phase), Verdict(review.verdict), review.inadequate)
        if not (compared_part and several_roles):
            result.append(opinion)
            continue
        answers = answers_from_json(review.answers)
        declared = Declaration(answers.declaration) if answers.declaration else None
        outcomes = RewordingOutcome.objects.filter(rewording__review=review).values_list("consent", flat=True)
        given = outcomes.first() if declared is Declaration.WORDING else None
        consent = Consent(given) if given else None
        result.append(replace(opinion, wording=compared_part(form, answers), declared=declared, consent=consent))
    return result


def current_assignments(physician: User) -> QuerySet[Assignment]:
    """The assignments that the physician holds now, the oldest first."""
    return Assignment.objects.filter(physician=physician, hold=Hold.HELD).select_related("case").order_by("id")


CLAIMS = (Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER)
RELEASED_BY_HOLDER = (Event.Kind.RELEASED, Event.Kind.DECLINED)
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
_HOLD_ENDS = (*RELEASED_BY_HOLDER, Event.Kind.EXPIRED, Event.Kind.REASSIGNED)


def count_released_cases(physician: User, within: timedelta) -> int:
    """How many times the physician returned or declined a case during the last `within`."""
    since = timezone.now() - within
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
    return last.actor_id if last is not None and last.kind in CLAIMS else None


def requires_first_look(case: Case) -> bool:
    """Whether physicians judge the text of this case before its traps are revealed to them."""
    return _policy_flag(case, "reveal_first_look")


def _policy_flag(case: Case, name: str) -> bool:
    # Lists call this for every row; building `frozen` for each would be slow.
    return bool(case.spec["policy"].get(name))


def first_look_of(assignment: Assignment, physician: User) -> FirstLook | None:
    """The physician's own first look at this case, or None if they have not committed one."""
    # There is at most one per person who held the assignment. `all()` reuses prefetched rows.
    return next((look for look in assignment.first_looks.all() if look.physician_id == physician.pk), None)


def is_revealed(user: User, assignment: Assignment) -> bool:
    """Whether `user` may see what the case hides until the first look is committed."""
    if may_read(user, Can.OVERSEE) or not requires_first_look(assignment.case):
        return True
    return first_look_of(assignment, user) is not None


def spec_for_stage(assignment: Assignment, case: Case | None = None) -> CaseSpec:
    """The case with the questions of the assignment's stage. Pass `case` if already loaded."""
    spec = (case or assignment.case).frozen
    return replace(spec, form=spec.form.at(Role(assignment.role).stage))


def case_shown_to(user: User, assignment: Assignment) -> CaseSpec:
    """The case as `user` may see it now, in this assignment.

    The caller must have checked that the assignment is the user's own (`queries.assignment_of`).
    If the policy requires a first look and the user has not committed it, the result holds the text
    as a model under test would see it and the first-look questions: no trap, no rubric, no other
    question, and no reason why an earlier version was rejected.
    """
    spec = spec_for_stage(assignment).in_language(get_language() or "")
    if is_revealed(user, assignment):
        return spec
    return replace(spec, blocks=spec.first_look, form=spec.form.first_look, asked_for=())


def reviews_shown_to(user: User, case: Case, own: Assignment | None = None) -> QuerySet[Review]:
    """The reviews of `case` that `user` may read now. Retracted reviews are shown to nobody.

    - Users who oversee cases read everything that was submitted.
    - Physicians read their own reviews.
    - The secondary also reads the primary's, once their own blind answer is committed.
    - Adjudicators read the first two physicians' reviews at once or, if the policy makes them vote
      blind, after both adjudicators have voted. They read each other's vote after both have voted.
      If what is approved must be signed, the first second vote is a proposal that the other reads.
    - When the case is closed, everyone who submitted a review in it reads all of them.
    - If the policy requires a first look, a physician who has not committed theirs reads nothing:
      the reviews name the traps.

    Pass `own` if the user's assignment in the case is already loaded.
    """
    if may_read(user, Can.OVERSEE):
        return _reviews_of(case)
    if own is None or own.case_id != case.pk or own.physician_id != user.pk:
        own = assignment_in(case, user)
    if own is None:
        return Review.objects.none()
    own.case = case
    if State(case.state).final:
        # A physician who held the case but submitted nothing before it ended (for example because
        # it was withdrawn) is not entitled to what others wrote.
        return _reviews_of(case).filter(Exists(counted_reviews().filter(case=case, physician=user)))
    if not is_revealed(user, own):
        return Review.objects.none()
    readable = Q(physician=user)
    role = Role(own.role)
    if role.stage is not State.ADJUDICATION and own.phase == Phase.COMMIT and own.hold == Hold.HELD:
        return Review.objects.none()  # the user has no review here that counts yet
    if role is Role.SECONDARY and own.phase == Phase.CONFIRM:
        readable |= Q(role=Role.PRIMARY)
    if role.stage is State.ADJUDICATION and (
        own.phase == Phase.DISCUSS or not _policy_flag(case, "adjudicators_blind")
    ):
        readable |= Q(role__in=[Role.PRIMARY, Role.SECONDARY])
        if own.phase == Phase.DISCUSS:
            readable |= Q(phase=Phase.COMMIT)
            if _policy_flag(case, "signed_wording"):
                readable |= Q(phase=Phase.DISCUSS)
    return _reviews_of(case).filter(readable)


def assignment_in(case: Case, physician: User) -> Assignment | None:
    """The physician's assignment in a case; None if they have none."""
    return Assignment.objects.filter(case=case, physician=physician).prefetch_related("first_looks").first()


def _reviews_of(case: Case) -> QuerySet[Review]:
    return counted_reviews().filter(case=case).select_related("physician", "guideline")


def objection_shown_to(reviews: Collection[Review]) -> RewordingOutcome | None:
    """The primary's objection to the secondary's wording, if there is one.

    `reviews` are those that the reader may read; None unless they include both reviewers'.
    """
    secondary = next((review for review in reversed([*reviews]) if review.role == Role.SECONDARY), None)
    if secondary is None or all(review.role != Role.PRIMARY for review in reviews):
        return None
    return RewordingOutcome.objects.filter(rewording__review=secondary, consent=Consent.OBJECTED).first()


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
    return case.state if State(case.state).final and case.kind == Case.Kind.WORK else ""


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


def assignments_of(case: Case) -> QuerySet[Assignment]:
    """All assignments of `case`, with their holders."""
    return _assignments().filter(case=case).order_by("id")


def held_assignments() -> QuerySet[Assignment]:
    """All assignments that physicians hold now, the one whose lease ends first coming first."""
    return _assignments().filter(hold=Hold.HELD).order_by("lease_until")


def _assignments() -> QuerySet[Assignment]:
    return Assignment.objects.select_related("case", "physician", "reserved_for")
