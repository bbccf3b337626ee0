"""Which cases a physician may take, in which order, and why. Read only; see `claims` for claiming.

Missing data about a physician excludes nothing: no specialty, languages or stages on record means
any. The one exception is the hospital: if a policy requires a different hospital from the
primary's, only physicians with a hospital on record are eligible. A case whose language is unknown
is offered to nobody until an admin sets its language or reserves the case.

The order: first cases of which the physician has not seen an earlier version, then by priority,
then cases closest to completion, then the oldest. Within a band of cases opened one after another
each physician has their own order, so that people who claim at once get different rows. Nothing
waits forever, because the oldest band is emptied first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from review.calibration import queries
from review.models import Assignment, Case, Declined, Review, User
from review.rules.case_spec import UNDETERMINED
from review.rules.state_machine import ADJUDICATORS, Phase, Policy, Role, State

BAND = 64  # cases (by primary key) that are ordered differently for each physician
WINDOW = 2 * BAND  # rows considered per claim: the whole oldest band, with both adjudicators' rows
TURNS = {State.ADJUDICATION: 0, State.SECONDARY: 1, State.PRIMARY: 2}
COUNT_LIMIT = 100  # stop counting available cases here; nobody needs the exact number beyond
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


def reviewer_requirements(case: Case, role: Role, policy: Policy) -> dict[str, Any]:
    """The fields of an assignment with its queue position and the requirements for its reviewer."""
    return {
        "priority": case.priority,
        "turn": TURNS[role.stage],
        "language": case.language.partition("-")[0].lower(),
        "specialty": case.specialty.strip().casefold(),
        "calibration": case.benchmark if policy.calibrated_only else "",
        "other_hospital": policy.other_hospital,
    }


@dataclass(frozen=True, slots=True)
class SearchRound:
    """One round of the search for a case: a SELECT of assignment keys, in the order of the offer.

    Plain SQL, because building the query in the ORM takes longer than running it.

    Attributes:
        reason: why the physician gets a case of this round, if that depends on the round alone.
        lapsed: the rows still name a holder, whose lease has run out.
    """

    sql: str
    params: tuple[Any, ...]
    reason: str = ""
    lapsed: bool = False

    def locking_select(self) -> tuple[str, tuple[Any, ...]]:
        """A SELECT of the first row not locked by others, which it locks, and its parameters."""
        lock = " FOR UPDATE OF a SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
        return f"{self.sql} LIMIT 1{lock}", self.params

    def peek_key(self) -> int | None:
        """The key of the first row, without locking it and even if somebody else has locked it."""
        return first_candidate([self])


def search_rounds(physician: User, *, reserved_for_me: bool | None = None) -> Iterator[SearchRound]:
    """The rounds of the search for the physician's next case, in order.

    Does not check pause, daily cap and training. Pass `reserved_for_me` if the result of
    `has_reservations` is already known.
    """
    if reserved_for_me is None:
        reserved_for_me = queries.has_reservations(physician)
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    opened = _Where("w.hold = 'open'")
    lapsed = _Where("w.hold = 'held' AND w.phase = 'commit' AND w.lease_until < %s", (now,))
    reserved = _Where("w.reserved_for_id = %s", (physician.pk,))
    unreserved = _Where("w.reserved_for_id IS NULL")
    # Check the reservation again on the locked row, like the hold: an admin may have reserved it
    # for somebody else in the meantime.
    still_mine = _Where("(a.reserved_for_id IS NULL OR a.reserved_for_id = %s)", (physician.pk,))
    still_open = _STILL_OPEN & still_mine
    still_lapsed = _Where("a.lease_until < %s", (now,)) & still_mine
    returned, seen = _released_earlier(physician), _seen_earlier_version(physician)
    permitted = _permitted(physician)
    # Calibration cases are reserved for the physician. Without any reservation none was passed, so
    # there is nothing to look up.
    passed = queries.passed_benchmarks(physician) if reserved_for_me else ()
    suitable = unreserved & _suitable(physician, passed) & permitted

    if reserved_for_me:
        yield _search_window(reserved & opened & permitted & ~returned, WHY_RESERVED, still=still_open)
    yield _search_window(opened & suitable & ~returned & ~seen, "", physician, still=still_open)
    yield _search_window(opened & suitable & ~returned, WHY_SEEN, physician, still=still_open)
    # The sweeper will soon reopen an assignment whose lease has run out. Until then its holder may
    # just be reading slowly, so take it over only if there is nothing else.
    yield _search_window(lapsed & suitable & ~returned, WHY_LEFT, still=still_lapsed, lapsed=True)
    returned_cases = _Where(
        "w.case_id IN (SELECT v.case_id FROM review_event v WHERE v.actor_id = %s AND v.kind = 'released')",
        (physician.pk,),
    )
    if reserved_for_me:
        yield _search_window(reserved & opened & permitted & returned_cases, WHY_AGAIN, still=still_open)
    yield _search_window(opened & suitable & returned_cases, WHY_AGAIN, still=still_open)
    yield _search_window(lapsed & suitable & returned_cases, WHY_AGAIN, still=still_lapsed, lapsed=True)


def first_candidate(rounds: Iterable[SearchRound]) -> int | None:
    """The key of the first row of the first round that has one, without locking it.

    One statement, hence one snapshot: with one per round, a row that the sweeper reopens in between
    would be missed by both the round over lapsed rows and the one over open rows.
    """
    searches = list(rounds)
    choices = ", ".join(f"({search.sql} LIMIT 1)" for search in searches)
    with connection.cursor() as cursor:
        params = [value for search in searches for value in search.params]
        cursor.execute(f"SELECT COALESCE({choices}, NULL)", params)
        key: int | None = cursor.fetchone()[0]
    return key


def claim_reason(assignment: Assignment, physician: User, search: SearchRound) -> str:
    """Why the physician gets `assignment`: a msgid, in which %(version)s is the case's version."""
    case = assignment.case
    if case.kind == Case.Kind.CALIBRATION and queries.training_comes_first(physician, case.benchmark):
        return WHY_TRAINING
    if case.is_copy:
        # A copy mixed in among real work must look like it: the reason cannot be the reservation.
        return search.reason if search.reason == WHY_AGAIN else _first_review_reason(case)
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
    if case.repeats is not None and case.repeats.assignment.why == WHY_SEEN:
        return WHY_SEEN
    return WHY_FRESH if case.version > 1 else WHY_NEXT


def likely_next_case(physician: User) -> Case | None:
    """The case that `claim_next` would most likely return next. Claims and locks nothing.

    Ignores a case that the physician already holds. Somebody else may claim the case first, and a
    training case may come in between.
    """
    if blocking_reason(physician) is not None:
        return None
    for search in search_rounds(physician):
        key = search.peek_key()
        if key is not None:
            return Case.objects.get(assignments=key)
    return None


def count_available(physician: User) -> int:
    """How many cases the physician could take now, at most COUNT_LIMIT."""
    statement, params = available_count_select(physician, queries.passed_benchmarks(physician))
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return int(cursor.fetchone()[0])


def available_count_select(physician: User, passed: Iterable[str] = ()) -> tuple[str, tuple[Any, ...]]:
    """A SELECT that counts the cases which the physician could take now, and its parameters.

    Args:
        passed: benchmarks whose calibration the physician has passed; empty if nothing was ever
            reserved for them.
    """
    available_to_me = _Where("(w.reserved_for_id IS NULL OR w.reserved_for_id = %s)", (physician.pk,))
    rows = _Where("w.hold = 'open'") & available_to_me & _suitable(physician, passed) & _permitted(physician)
    inner = f"SELECT 1 AS one FROM {_TABLES} WHERE {rows.sql} LIMIT {COUNT_LIMIT}"  # noqa: S608
    return f"SELECT COUNT(*) FROM ({inner}) AS waiting", rows.params  # noqa: S608


def blocking_reason(physician: User) -> object | None:
    """Why this physician may not take any new case, as a sentence; None if they may."""
    if physician.paused_at is not None:
        return _("An admin has paused your account. You cannot take new cases for now.")
    if physician.daily_cap is not None and done_today(physician) >= physician.daily_cap:
        return _("You have reached your daily case limit.")
    return None


def done_today(physician: User, now: datetime | None = None) -> int:
    """How many cases the physician has answered since midnight UTC.

    The daily cap limits this number: returning or declining a case costs nothing, and at most one
    more case is in progress.
    """
    midnight = (now or timezone.now()).replace(hour=0, minute=0, second=0, microsecond=0)
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
    case = assignment.case
    earlier = Review.objects.filter(case__lineage=case.lineage, case__version__lt=case.version, physician=physician)
    if case.fresh_eyes_required and earlier.exists():
        return _("This physician has reviewed an earlier version, and this case requires someone who has not seen one.")
    permitted = _Where("w.id = %s", (assignment.pk,)) & _permitted(physician)
    if _search_window(permitted).peek_key() is None:
        return _("This physician works at the first reviewer's hospital, and this case requires a different one.")
    return None


# --------------------------------------------------------------------------------------------- SQL

_TABLES = "review_assignment w JOIN review_case c ON c.id = w.case_id"


@dataclass(frozen=True, slots=True)
class _Where:
    """A condition on an assignment `w` and its case `c`."""

    sql: str
    params: tuple[Any, ...] = ()

    def __and__(self, other: "_Where") -> "_Where":
        return _Where(f"{self.sql} AND {other.sql}", (*self.params, *other.params))

    def __invert__(self) -> "_Where":
        return _Where(f"NOT ({self.sql})", self.params)


def _permitted(physician: User) -> _Where:
    """Conditions no admin can waive: one role per case, not declined, not excluded by policy."""
    me, hospital = physician.pk, physician.hospital.strip()
    own_role = _Where(
        "EXISTS (SELECT 1 FROM review_assignment o WHERE o.case_id = w.case_id AND o.physician_id = %s)", (me,)
    )
    declined = _Where(
        "EXISTS (SELECT 1 FROM review_declined d WHERE d.case_id = w.case_id AND d.physician_id = %s)", (me,)
    )
    same_hospital = _Where("w.other_hospital")
    if hospital:
        same_hospital &= _Where(
            "EXISTS (SELECT 1 FROM review_assignment p JOIN review_user u ON u.id = p.physician_id"
            " WHERE p.case_id = w.case_id AND p.role = 'primary' AND LOWER(TRIM(u.hospital)) = LOWER(%s))",
            (hospital,),
        )
    stale = _seen_earlier_version(physician) & _Where("c.fresh_eyes_required")
    return ~own_role & ~declined & ~same_hospital & ~stale


def _suitable(physician: User, passed: Iterable[str]) -> _Where:
    """Conditions an admin may waive by reserving the case: stage, specialty, language, training.

    Args:
        passed: benchmarks whose calibration the physician has passed.
    """
    suitable = _blank_or_one_of("calibration", passed)
    if physician.stages:
        suitable &= _one_of("turn", [TURNS[State(stage)] for stage in physician.stages])
    if specialties := physician.matching_specialties:
        suitable &= _blank_or_one_of("specialty", specialties)
    # A case in an unknown language waits until an admin sets the language or reserves the case.
    suitable &= _Where(f"w.language <> '{UNDETERMINED}'")
    if physician.languages:
        languages = [language.partition("-")[0].lower() for language in physician.languages]
        suitable &= _blank_or_one_of("language", languages)
    return suitable


def _blank_or_one_of(column: str, values: Iterable[str]) -> _Where:
    """The column is blank (no requirement) or one of `values`.

    The blank is a literal, not a parameter. PostgreSQL plans a claim once for all parameter values:
    with a parameter it would expect hardly any row to match, and read all open rows.
    """
    options = tuple(values)
    return _Where(f"w.{column} IN (''{', %s' * len(options)})", options)


def _one_of(column: str, values: Sequence[object]) -> _Where:
    return _Where(f"w.{column} IN ({', '.join(['%s'] * len(values))})", tuple(values))


def _seen_earlier_version(physician: User) -> _Where:
    """The physician has reviewed an earlier version of the case."""
    return _Where(
        "c.version > 1 AND EXISTS (SELECT 1 FROM review_case e JOIN review_review r ON r.case_id = e.id"
        " WHERE e.lineage = c.lineage AND e.version < c.version AND r.physician_id = %s)",
        (physician.pk,),
    )


def _released_earlier(physician: User) -> _Where:
    """The physician has returned the case to the queue before."""
    return _Where(
        "EXISTS (SELECT 1 FROM review_event v WHERE v.case_id = w.case_id AND v.actor_id = %s AND v.kind = 'released')",
        (physician.pk,),
    )


_STILL_OPEN = _Where("a.hold = 'open'")


def _search_window(
    rows: _Where, reason: str = "", physician: User | None = None, *, still: _Where = _STILL_OPEN, lapsed: bool = False
) -> SearchRound:
    """A search of the first WINDOW of `rows` by the index `assignment_queue`.

    Within each band, rows come in `physician`'s own order.

    Args:
        still: checked on the locked row, whose current values are visible after waiting for the
            lock. Neither database may use it to find the rows. SQLite would read all open rows by
            the index on `hold`, so it is wrapped in CASE. PostgreSQL expects few rows to pass it,
            and would read the whole table and search the window for each row, so the window is an
            array, which it looks up by key.
    """
    window = f"SELECT w.id FROM {_TABLES} WHERE {rows.sql} ORDER BY w.priority DESC, w.turn, w.case_id LIMIT {WINDOW}"  # noqa: S608
    order = _order_coefficients(physician) if physician is not None else (0, 0)
    within = f"= ANY(ARRAY({window}))" if connection.vendor == "postgresql" else f"IN ({window})"
    return SearchRound(
        f"SELECT a.id FROM review_assignment a WHERE a.id {within} AND CASE WHEN {still.sql} THEN 1 ELSE 0 END = 1"  # noqa: S608
        f" ORDER BY a.priority DESC, a.turn, a.case_id / {BAND}, (a.case_id * %s + %s) %% {PRIME}, a.case_id, a.id",
        (*rows.params, *still.params, *order),
        reason,
        lapsed=lapsed,
    )


def _order_coefficients(physician: User) -> tuple[int, int]:
    """The coefficients (a, b) of the account's hash function h(x) = (a x + b) mod PRIME.

    These functions form a pairwise independent family (Carter and Wegman 1979).
    """
    digest = sha256(f"order/{physician.username}".encode()).digest()
    return 1 + int.from_bytes(digest[:8]) % (PRIME - 1), int.from_bytes(digest[8:16]) % PRIME
