"""Which cases a physician may take, in which order, and why. Read only; see `claims` for claiming.

Free work is a stored queue: an open assignment carries what it requires of its reviewer and its
place in the order, as an index, so that the next case is one read of the first rows (`candidates`)
however many wait. What is left only if there is no such row is searched (`search_rounds`).

Missing data about a physician excludes nothing: no specialty, languages or stages on record means
any. The one exception is the hospital: if a policy requires a different hospital from the
primary's, only physicians with a hospital on record are eligible. A case whose language is unknown
is offered to nobody until an admin sets its language or reserves the case.

The order: first cases of which the physician has not seen an earlier version, then by priority,
then cases closest to completion, then the oldest. Within a band of cases opened one after another
each physician has their own order, so that people who claim at once get different rows. Nothing
waits forever, because the oldest band is emptied first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Lower, Trim
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from review.calibration import queries
from review.cases.services import TURNS
from review.models import Assignment, Case, Declined, Event, Review, User
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import UserRole
from review.rules.state_machine import ADJUDICATORS, Phase, Role, State

Hold = Assignment.Hold
BAND = 64  # cases (by primary key) that are ordered differently for each physician
WINDOW = 2 * BAND  # rows read per claim: the whole oldest band, with both adjudicators' rows
COUNT_LIMIT = 100  # stop counting available cases here; nobody needs the exact number beyond
QUEUE = ("-priority", "turn", "case_id")  # the index `assignment_queue`
PRIME = 65_537  # modulus of the hash that orders a band

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
    """One round of the search for a case that `candidates` leave: assignments in their order.

    Attributes:
        reason: why the physician gets a case of this round, if that depends on the round alone.
        lapsed: the rows still name a holder, whose lease has run out.
    """

    rows: QuerySet[Assignment]
    reason: str = ""
    lapsed: bool = False

    def lock_first(self) -> Assignment | None:
        """Lock the first row that nobody else has locked; with its case."""
        return self.rows.select_related("case").select_for_update(skip_locked=True, of=("self",)).first()


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
        if self.stage in TURNS:
            return condition & Q(turn=TURNS[State(self.stage)])
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
        for stage, turn in TURNS.items():
            if count := of_benchmark.filter(turn=turn)[:COUNT_LIMIT].count():
                result.append(WorkAvailable(benchmark[0], stage, count))
    return result


FIRST_ROUND = SearchRound(Assignment.objects.none())  # what `candidates` returns, which has no reason of its own


def search_rounds(physician: User, chosen: ChosenWork = ANY, *, reserved_too: bool = True) -> Iterator[SearchRound]:
    """The rounds of the search for the physician's next case, in order.

    Does not check pause, daily cap and training. `reserved_too`: also search what is reserved for
    the physician.
    """
    now = timezone.now()
    opened = Q(hold=Hold.OPEN)
    lapsed = Q(hold=Hold.HELD, phase=Phase.COMMIT, lease_until__lt=now)
    reserved, unreserved = Q(reserved_for=physician), Q(reserved_for=None)
    released = Event.objects.filter(actor=physician, kind=Event.Kind.RELEASED)
    returned = Q(Exists(released.filter(case=OuterRef("case"))))
    returned_cases = Q(case__in=released.values("case"))
    seen, permitted = _seen_earlier_version(physician), _permitted(physician) & chosen.condition
    suitable = unreserved & _suitable(physician) & permitted

    if reserved_too:
        yield _search_round(reserved & opened & permitted & ~returned, WHY_RESERVED)
    yield _search_round(opened & suitable & ~returned & ~seen, "")
    yield _search_round(opened & suitable & ~returned, WHY_SEEN)
    # The sweeper will soon reopen an assignment whose lease has run out. Until then its holder may
    # just be reading slowly, so take it over only if there is nothing else.
    yield _search_round(lapsed & suitable & ~returned, WHY_LEFT, lapsed=True)
    if reserved_too:
        yield _search_round(reserved & opened & permitted & returned_cases, WHY_AGAIN)
    yield _search_round(opened & suitable & returned_cases, WHY_AGAIN)
    yield _search_round(lapsed & suitable & returned_cases, WHY_AGAIN, lapsed=True)


def candidates(physician: User, chosen: ChosenWork = ANY) -> list[int]:
    """The first rows of the queue that the physician may take, in the order of their offer: keys.

    None of them is reserved, was returned by the physician, or is a version of which they have seen
    an earlier one. One statement; one more if the rows contain adjudications, and one if they
    contain later versions. Does not check pause, daily cap and training.
    """
    fitting = _fitting(physician, trained=False)
    returned = Event.objects.filter(actor=physician, kind=Event.Kind.RELEASED, case=OuterRef("case"))
    free = Assignment.objects.filter(
        fitting,
        _free_for(physician),
        ~Exists(returned),
        chosen.condition,
        hold=Hold.OPEN,
        reserved_for=None,
    )
    rows = list(free.order_by(*QUEUE).values_list("pk", "priority", "turn", "case", "case__version")[:WINDOW])
    adjudications = {pk for pk, _priority, turn, _case, _version in rows if turn == TURNS[State.ADJUDICATION]}
    too_early: set[int] = set()
    if adjudications:
        suitable = Assignment.objects.filter(_experienced(physician, fitting), pk__in=adjudications)
        too_early = adjudications - set(suitable.values_list("pk", flat=True))
    later = [case for _pk, _priority, _turn, case, version in rows if version > 1]
    seen: set[int] = set()
    if later:
        earlier = Review.objects.filter(
            case__lineage=OuterRef("lineage"), case__version__lt=OuterRef("version"), physician=physician
        )
        seen = set(Case.objects.filter(Exists(earlier), pk__in=later).values_list("pk", flat=True))
    factor, term = _order_coefficients(physician)
    places = []
    for pk, priority, turn, case, _version in rows:
        if pk not in too_early and case not in seen:
            places.append((-priority, turn, case // BAND, (case * factor + term) % PRIME, case, pk))
    return [place[-1] for place in sorted(places)]


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


def likely_next_case(physician: User, chosen: ChosenWork = ANY) -> Case | None:
    """The case that `claim_next` would most likely return next. Claims and locks nothing.

    Ignores a case that the physician already holds. Somebody else may claim the case first, and a
    training case may come in between.
    """
    if blocking_reason(physician) is not None:
        return None
    reserved = Assignment.objects.filter(reserved_for=physician, hold=Hold.OPEN).exists()
    if reserved:
        first = []
    else:
        first = candidates(physician, chosen)[:1]
    key = first[0] if first else first_candidate(physician, search_rounds(physician, chosen))
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
    """How many cases the physician has answered since midnight, in the time zone of the request.

    The daily cap limits this number: returning or declining a case costs nothing, and at most one
    more case is in progress.
    """
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    answers = Review.objects.filter(physician=physician, phase=Phase.COMMIT, submitted_at__gte=midnight)
    return answers.values("case").distinct().count()


def ineligibility(physician: User, assignment: Assignment) -> object | None:
    """Why even an admin cannot give `assignment` to `physician`, as a sentence; else None."""
    if Assignment.objects.filter(case=assignment.case_id, physician=physician).exists():
        return _("This physician already has a role in this case.")
    if Declined.objects.filter(case=assignment.case_id, physician=physician).exists():
        return _("This physician declined this case, or an admin reopened their role.")
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


def _suitable(physician: User, *, trained: bool = False) -> Q:
    """Conditions an admin may waive by reserving the case.

    Stage, specialty, language, training, experience. trained: whether to count the physician as
    trained in any case.
    """
    fitting = _fitting(physician, trained=trained)
    return fitting & _experienced(physician, fitting)


def _fitting(physician: User, *, trained: bool) -> Q:
    """Those of these conditions that look at one case alone."""
    if trained:
        suitable = Q()
    else:
        suitable = Q(calibration__in=["", *queries.passed_benchmarks(physician)])
    if physician.stages:
        suitable &= Q(turn__in=[TURNS[State(stage)] for stage in physician.stages])
    if specialties := physician.matching_specialties:
        suitable &= Q(specialty__in=["", *specialties])
    # A case in an unknown language waits until an admin sets the language or reserves the case.
    suitable &= ~Q(language=UNDETERMINED)
    if physician.languages:
        suitable &= Q(language__in=["", *(name.partition("-")[0].lower() for name in physician.languages)])
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
    is_adjudication = Q(turn=TURNS[State.ADJUDICATION])
    mine = Q(reserved_for=None) | Q(reserved_for=physician)
    open_to_me = Assignment.objects.filter(fitting, _permitted(physician), mine, hold=Hold.OPEN)
    earlier = open_to_me.filter(~is_adjudication, case__benchmark=OuterRef("case__benchmark"))
    return ~is_adjudication | Q(enough) | ~Q(Exists(earlier))


def _seen_earlier_version(physician: User) -> Q:
    """The physician has reviewed an earlier version of the case."""
    case = {"case__lineage": OuterRef("case__lineage"), "case__version__lt": OuterRef("case__version")}
    return Q(case__version__gt=1) & Q(Exists(Review.objects.filter(**case, physician=physician)))


def _search_round(condition: Q, reason: str, *, lapsed: bool = False) -> SearchRound:
    return SearchRound(Assignment.objects.filter(condition).order_by(*QUEUE, "pk"), reason, lapsed=lapsed)


def _order_coefficients(physician: User) -> tuple[int, int]:
    """The coefficients (a, b) of the account's hash function h(x) = (a x + b) mod PRIME.

    These functions form a pairwise independent family (Carter and Wegman 1979).
    """
    digest = sha256(f"order/{physician.username}".encode()).digest()
    return 1 + int.from_bytes(digest[:8]) % (PRIME - 1), int.from_bytes(digest[8:16]) % PRIME
