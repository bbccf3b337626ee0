"""Which cases a physician may take, in which order, and why. Read only; see `claims` for claiming.

Free work is a stored queue: an open assignment carries what it requires of its reviewer and its
place in the order, as an index, so that the next case is one read of the first free row
(`first_round`) however many wait. What is left only if there is no such row is searched
(`search_rounds`).

Missing data about a physician excludes nothing: no specialty, languages or stages on record means
any. The one exception is the hospital: if a policy requires a different hospital from the
primary's, only physicians with a hospital on record are eligible. A case whose language is unknown
is offered to nobody until an admin sets its language or reserves the case.

The order: first cases of which the physician has not seen an earlier version, then by priority,
then cases closest to completion, then the oldest. A row that somebody else has locked is skipped,
so that people who claim at once get different ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Lower, Trim
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from review.calibration import queries
from review.cases.services import STAGE_RANK
from review.models import Assignment, Case, Declined, Event, Review, User
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import UserRole
from review.rules.state_machine import ADJUDICATORS, Phase, Role, State
from review.turns.turn import turn_rows

Hold = Assignment.Hold
COUNT_LIMIT = 100  # stop counting available cases here; nobody needs the exact number beyond
QUEUE = ("-priority", "turn", "case_id")  # the index `assignment_queue`

WHY_RESERVED = gettext_noop("An admin reserved this case for you.")
WHY_TRAINING = gettext_noop("Training: cases with a known answer come first.")
WHY_ADJUDICATOR = gettext_noop("The first two reviewers disagree, and you have not worked on this case.")
WHY_SECONDARY = gettext_noop("Second review: another physician has already reviewed this case.")
WHY_FRESH = gettext_noop("Version %(version)s: you have not seen an earlier version.")
WHY_SEEN = gettext_noop("Version %(version)s: you have seen an earlier version, but no other case is available.")
WHY_LEFT = gettext_noop("Another physician left this case unfinished.")
WHY_AGAIN = gettext_noop("You returned this case to the queue earlier, but no other case is available.")
WHY_PRIORITY = gettext_noop("An admin gave this case priority.")
WHY_NEXT = gettext_noop("This is one of the cases that have waited longest.")


@dataclass(frozen=True, slots=True)
class SearchRound:
    """One round of the search for a case: assignments in their order, with the physician's turn.

    Attributes:
        reason: why the physician gets a case of this round, if that depends on the round alone.
        lapsed: the rows still name a holder, whose lease has run out.
        untested: the physician, if the rows also have work that requires a calibration, and
            adjudications that come too early for them: only a row that is found is looked at, as
            that takes statements of its own.
    """

    rows: QuerySet[Assignment]
    reason: str = ""
    lapsed: bool = False
    untested: User | None = None

    def lock_first(self) -> Assignment | None:
        """Lock the first row that nobody else has locked.

        A row that comes too early stays locked until the claim ends, and others skip it meanwhile.
        """
        rows = self.rows.select_for_update(skip_locked=True, of=("self",))
        found = rows.first()
        while found is not None and self.untested is not None:
            if found.calibration and found.calibration not in queries.passed_benchmarks(self.untested):
                rows = rows.exclude(calibration=found.calibration)
            elif _comes_too_early(found, self.untested):
                rows = rows.exclude(turn=found.turn, case__benchmark=found.case.benchmark)
            else:
                return found
            found = rows.first()
        return found


@dataclass(frozen=True, slots=True)
class ChosenWork:
    """The work that a physician has chosen: of a benchmark, at a stage; empty: any."""

    benchmark: str = ""
    stage: str = ""

    @property
    def condition(self) -> Q:
        """The condition on an assignment."""
        if self.benchmark:
            condition = Q(case__benchmark=self.benchmark)
        else:
            condition = Q()
        if self.stage in STAGE_RANK:
            return condition & Q(turn=STAGE_RANK[State(self.stage)])
        return condition


ANY = ChosenWork()


@dataclass(frozen=True, slots=True)
class WorkAvailable:
    """How many cases of a benchmark a physician could take at a stage, at most COUNT_LIMIT."""

    benchmark: str
    stage: State
    cases: int


def available_work(physician: User) -> list[WorkAvailable]:
    """What the physician could take now, by benchmark and stage, those closest to the end first.

    One small statement for each benchmark that has open cases.
    """
    rows = _available(physician)
    result = []
    for benchmark in Case.objects.filter(closed_at=None).order_by("benchmark").values_list("benchmark").distinct():
        of_benchmark = rows.filter(case__benchmark=benchmark[0])
        for stage, turn in STAGE_RANK.items():
            if count := of_benchmark.filter(turn=turn)[:COUNT_LIMIT].count():
                result.append(WorkAvailable(benchmark[0], stage, count))
    return result


def first_round(physician: User, chosen: ChosenWork = ANY) -> SearchRound:
    """The first of `search_rounds` over work that is reserved for nobody, in a short statement."""
    released = Event.objects.filter(actor=physician, kind=Event.Kind.RELEASED, case=OuterRef("case"))
    rows = turn_rows(physician).filter(
        _fitting(physician, trained=True),
        _free_for(physician),
        ~Exists(released),
        ~_seen_earlier_version(physician),
        chosen.condition,
        hold=Hold.OPEN,
        reserved_for=None,
    )
    return SearchRound(rows.order_by(*QUEUE, "pk"), untested=physician)


def search_rounds(physician: User, chosen: ChosenWork = ANY, *, reserved_too: bool = True) -> Iterator[SearchRound]:
    """The rounds of the search for the physician's next case, in order.

    Does not check pause, daily cap and training. `reserved_too`: also search what is reserved for
    the physician.
    """
    now = timezone.now()

    def in_order(condition: Q, reason: str, *, lapsed: bool = False) -> SearchRound:
        rows = turn_rows(physician).filter(condition)
        return SearchRound(rows.order_by(*QUEUE, "pk"), reason, lapsed=lapsed)

    opened = Q(hold=Hold.OPEN)
    lapsed = Q(hold=Hold.HELD, phase=Phase.COMMIT, lease_until__lt=now)
    reserved, unreserved = Q(reserved_for=physician), Q(reserved_for=None)
    released = Event.objects.filter(actor=physician, kind=Event.Kind.RELEASED)
    returned = Q(Exists(released.filter(case=OuterRef("case"))))
    returned_cases = Q(case__in=released.values("case"))
    seen, permitted = _seen_earlier_version(physician), _permitted(physician) & chosen.condition
    suitable = unreserved & _suitable(physician) & permitted

    if reserved_too:
        yield in_order(reserved & opened & permitted & ~returned, WHY_RESERVED)
    yield in_order(opened & suitable & ~returned & ~seen, "")
    yield in_order(opened & suitable & ~returned, WHY_SEEN)
    # The sweeper will soon reopen an assignment whose lease has run out. Until then its holder may
    # just be reading slowly, so take it over only if there is nothing else.
    yield in_order(lapsed & suitable & ~returned, WHY_LEFT, lapsed=True)
    if reserved_too:
        yield in_order(reserved & opened & permitted & returned_cases, WHY_AGAIN)
    yield in_order(opened & suitable & returned_cases, WHY_AGAIN)
    yield in_order(lapsed & suitable & returned_cases, WHY_AGAIN, lapsed=True)


def first_candidate(physician: User, rounds: Iterable[SearchRound]) -> int | None:
    """The key of the first row of the first round that has one, without locking it.

    One statement, hence one snapshot: with one per round, a row that the sweeper reopens in between
    would be missed by both the round over lapsed rows and the one over open rows.
    """
    choices = [Subquery(search.rows.values("pk")[:1]) for search in rounds]
    key: int | None = User.objects.filter(pk=physician.pk).values_list(Coalesce(*choices), flat=True).get()
    return key


def claim_reason(assignment: Assignment, physician: User, search: SearchRound) -> str:
    """Why the physician gets `assignment`: a msgid, in which %(version)s is the case's version."""
    case = assignment.case
    if case.kind == Case.Kind.CALIBRATION and queries.training_comes_first(physician, case.benchmark):
        return WHY_TRAINING
    if case.is_copy:
        # A copy mixed in among real work must look like it: the reason cannot be the reservation.
        if search.reason == WHY_AGAIN:
            return search.reason
        return _first_review_reason(case)
    if search.reason:
        return search.reason
    if assignment.priority > 0:
        return WHY_PRIORITY
    if assignment.role in ADJUDICATORS:
        return WHY_ADJUDICATOR
    if assignment.role == Role.SECONDARY:
        return WHY_SECONDARY
    return _first_review_reason(case)


def _first_review_reason(case: Case) -> str:
    """The reason given for a first review. A repeat gives the reason that its original gave."""
    if case.repeats is not None and case.repeats.assignment.reason == WHY_SEEN:
        return WHY_SEEN
    if case.version > 1:
        return WHY_FRESH
    return WHY_NEXT


def likely_next_case(physician: User) -> Case | None:
    """The case that `claim_next` would most likely return next. Claims and locks nothing.

    Ignores a case that the physician already holds. Somebody else may claim the case first, and a
    training case may come in between.
    """
    if blocking_reason(physician) is not None:
        return None
    key = first_candidate(physician, search_rounds(physician))
    # A filter by None would find the cases without assignments.
    if key is None:
        return None
    return Case.objects.filter(assignments=key).first()


def needs_senior(physician: User) -> bool:
    """Whether a case is open that is kept from this physician only because they are not senior."""
    return not physician.senior and _available(physician, senior=True).filter(senior=True).exists()


def out_of_reach() -> QuerySet[Assignment]:
    """The open assignments that no physician could take, even after training."""
    rows = Assignment.objects.filter(hold=Hold.OPEN, reserved_for=None, case__kind=Case.Kind.WORK)
    reviewers = User.objects.filter(role=UserRole.PHYSICIAN, is_active=True, paused_at=None)
    for physician in reviewers:
        rows = rows.exclude(_fitting(physician, trained=True) & _free_for(physician))
    return rows


def _available(physician: User, *, senior: bool = False) -> QuerySet[Assignment]:
    mine = Q(reserved_for=None) | Q(reserved_for=physician)
    permitted = _permitted(physician, senior=senior)
    return Assignment.objects.filter(mine, _suitable(physician), permitted, hold=Hold.OPEN)


def blocking_reason(physician: User) -> object | None:
    """Why this physician may not take any new case, as a sentence; None if they may."""
    if physician.paused_at is not None:
        return _("An admin has paused your account. You cannot take new cases for now.")
    if physician.daily_cap is not None and done_today(physician) >= physician.daily_cap:
        return _("You have reached your daily case limit.")
    return None


def done_today(physician: User) -> int:
    """How many cases the physician has answered since midnight, in the time zone of the site.

    The daily cap limits this number: returning or declining a case costs nothing, and at most one
    more case is in progress. The zone that a browser names would begin a day at will.
    """
    now = timezone.localtime(timezone=ZoneInfo(settings.MHB_TIME_ZONE))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    answers = Review.objects.filter(physician=physician, phase=Phase.COMMIT, submitted_at__gte=midnight)
    return answers.values("case").distinct().count()


def ineligibility(physician: User, assignment: Assignment) -> object | None:
    """Why even an admin cannot give `assignment` to `physician`, as a sentence; else None."""
    others = Assignment.objects.filter(case=assignment.case_id).exclude(pk=assignment.pk)
    if others.filter(Q(physician=physician) | Q(reserved_for=physician)).exists():
        return _("This physician already has a role in this case.")
    if Declined.objects.filter(case=assignment.case_id, physician=physician).exists():
        return _("This physician declined this case, lost their role in it, or read it in another role.")
    if assignment.other_hospital and not physician.hospital.strip():
        return _(
            "This case requires a different hospital from the first reviewer's, and this physician has "
            "no hospital on record."
        )
    if assignment.senior and not physician.senior:
        return _("This role requires a senior physician, and this physician is not marked as one.")
    case = assignment.case
    earlier = Review.objects.filter(case__lineage=case.lineage, case__version__lt=case.version, physician=physician)
    if case.fresh_eyes_required and earlier.exists():
        return _("This physician has reviewed an earlier version, and this case requires someone who has not seen one.")
    if not Assignment.objects.filter(_permitted(physician), pk=assignment.pk).exists():
        return _("This physician works at the first reviewer's hospital, and this case requires a different one.")
    return None


# -------------------------------------------------------------------------------------- conditions


def _permitted(physician: User, *, senior: bool = False) -> Q:
    """Conditions no admin can waive: one role per case, not declined, not excluded by policy.

    senior: whether to count the physician as senior in any case.
    """
    stale = _seen_earlier_version(physician) & Q(case__fresh_eyes_required=True)
    return _free_for(physician, senior=senior) & ~stale


def _free_for(physician: User, *, senior: bool = False) -> Q:
    """Those of these conditions that do not look at earlier versions."""
    of_case = Assignment.objects.filter(case=OuterRef("case"))
    declined = Declined.objects.filter(case=OuterRef("case"), physician=physician)
    elsewhere = Q(other_hospital=False)
    if hospital := physician.hospital.strip():
        primary = of_case.filter(role=Role.PRIMARY).alias(hospital=Lower(Trim("physician__hospital")))
        elsewhere |= ~Q(Exists(primary.filter(hospital=Lower(Value(hospital)))))
    if senior or physician.senior:
        rank = Q()
    else:
        rank = Q(senior=False)
    return rank & ~Exists(of_case.filter(physician=physician)) & ~Exists(declined) & elsewhere


def _suitable(physician: User) -> Q:
    """Conditions an admin may waive by reserving the case.

    Stage, specialty, language, training, experience.
    """
    fitting = _fitting(physician, trained=False)
    return fitting & _experienced(physician, fitting)


def _fitting(physician: User, *, trained: bool) -> Q:
    """Those of these conditions that look at one case alone.

    trained: whether to count the physician as trained in any case.
    """
    if trained:
        suitable = Q()
    else:
        suitable = Q(calibration__in=["", *queries.passed_benchmarks(physician)])
    if physician.stages:
        suitable &= Q(turn__in=[STAGE_RANK[State(stage)] for stage in physician.stages])
    if specialties := physician.matching_specialties:
        suitable &= Q(specialty__in=["", *specialties])
    # A case in an unknown language waits until an admin sets the language or reserves the case.
    suitable &= ~Q(language=UNDETERMINED)
    if physician.languages:
        suitable &= Q(language__in=["", *physician.matching_languages])
    return suitable


def _experienced(physician: User, fitting: Q) -> Q:
    """The physician has finished enough cases of the benchmark to adjudicate others of it.

    Otherwise they do first and second reviews of it before, as long as there are any that they may
    take and an admin has not restricted them to adjudication.
    """
    if not settings.MHB_CASES_BEFORE_ADJUDICATION or physician.stages == [State.ADJUDICATION]:
        return Q()
    finished = Review.objects.filter(
        physician=physician, phase=Phase.COMMIT, case__benchmark=OuterRef("case__benchmark"), retraction=None
    )
    counts = finished.values("case__benchmark").annotate(cases=Count("case", distinct=True))
    enough = Exists(counts.filter(cases__gte=settings.MHB_CASES_BEFORE_ADJUDICATION).values("cases"))
    is_adjudication = Q(turn=STAGE_RANK[State.ADJUDICATION])
    mine = Q(reserved_for=None) | Q(reserved_for=physician)
    open_to_me = Assignment.objects.filter(fitting, _permitted(physician), mine, hold=Hold.OPEN)
    earlier = open_to_me.filter(~is_adjudication, case__benchmark=OuterRef("case__benchmark"))
    return ~is_adjudication | Q(enough) | ~Q(Exists(earlier))


def _comes_too_early(assignment: Assignment, physician: User) -> bool:
    """Whether an adjudication has to wait until the physician is experienced."""
    if assignment.turn != STAGE_RANK[State.ADJUDICATION]:
        return False
    experienced = _experienced(physician, _fitting(physician, trained=False))
    return not Assignment.objects.filter(experienced, pk=assignment.pk).exists()


def _seen_earlier_version(physician: User) -> Q:
    """The physician has reviewed an earlier version of the case."""
    case = {"case__lineage": OuterRef("case__lineage"), "case__version__lt": OuterRef("case__version")}
    return Q(case__version__gt=1) & Q(Exists(Review.objects.filter(**case, physician=physician)))
