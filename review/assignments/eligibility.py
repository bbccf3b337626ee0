"""Which cases a physician may take, in which order, and why. Read only: `review.assignments.claims` does the taking.

What is not recorded about a physician excludes nothing: no specialty, no languages and no stages mean any. The one exception
is the hospital, where a policy asks for another one than the primary's: there, only who has one on record takes part. A case
whose language is unknown is offered to nobody before an admin has set it, or reserved the case.

The order: cases with fresh eyes first (who reviewed an earlier version comes after everybody else), then by priority, then
what is nearly done, then the oldest. Inside a band of cases opened next to one another each physician has an order of the
own, so that people who press at once land on different rows, and nothing waits for ever: the oldest band is emptied first.
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

BAND = 64  # cases (by primary key) whose order is each physician's own
WINDOW = 2 * BAND  # rows that a claim looks at: the oldest band whole, with both adjudicators' rows
TURNS = {State.ADJUDICATION: 0, State.SECONDARY: 1, State.PRIMARY: 2}
WAITING_COUNTED = 100  # nobody reads the hundred-first: counting stops there
PRIME = 65_537

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


def asked_of(case: Case, role: Role, policy: Policy) -> dict[str, Any]:
    """The fields of an assignment that say what its case asks of its reviewer."""
    return {
        "priority": case.priority,
        "turn": TURNS[role.stage],
        "language": case.language.partition("-")[0].lower(),
        "specialty": case.specialty.strip().casefold(),
        "calibration": case.benchmark if policy.calibrated_only else "",
        "other_hospital": policy.other_hospital,
    }


@dataclass(frozen=True, slots=True)
class Pass:
    """One round of looking for a case: a SELECT of assignments' keys in the order in which they are offered.

    Written out in SQL, because the ORM takes longer to build it than the database to answer it. `why`: where the round
    itself is the reason. `lapsed`: the rows still name a holder, whose lease has run out.
    """

    sql: str
    params: tuple[Any, ...]
    why: str = ""
    lapsed: bool = False

    def first(self) -> tuple[str, tuple[Any, ...]]:
        """A SELECT of the key of the first row that nobody else is just taking, and locks it; with its parameters."""
        lock = " FOR UPDATE OF a SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
        return f"{self.sql} LIMIT 1{lock}", self.params

    def peek(self) -> int | None:
        """The same key, read only, even while the row is being taken."""
        return first_of([self])


def passes(physician: User, *, reserved_for_me: bool | None = None) -> Iterator[Pass]:
    """Where the next case is looked for, one after the other. Pause, cap and training are not asked here.

    reserved_for_me: what `anything_reserved` says, where it was asked.
    """
    if reserved_for_me is None:
        reserved_for_me = queries.anything_reserved(physician)
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    opened = _Where("w.hold = 'open'")
    lapsed = _Where("w.hold = 'held' AND w.phase = 'commit' AND w.lease_until < %s", (now,))
    own, nobodys = _Where("w.reserved_for_id = %s", (physician.pk,)), _Where("w.reserved_for_id IS NULL")
    # Whose it is is asked again of the locked row, like the hold: an admin may have just reserved it for somebody else.
    still_mine = _Where("(a.reserved_for_id IS NULL OR a.reserved_for_id = %s)", (physician.pk,))
    still_open = _STILL_OPEN & still_mine
    still_lapsed = _Where("a.lease_until < %s", (now,)) & still_mine
    given_back, seen = _given_back(physician), _seen(physician)
    permitted = _permitted(physician)
    # Calibration cases are reserved for the person: where nothing is, none was passed, and nothing has to be looked up.
    fitting = nobodys & _fits(physician, queries.passed_benchmarks(physician) if reserved_for_me else ()) & permitted

    if reserved_for_me:
        yield _window(own & opened & permitted & ~given_back, WHY_RESERVED, still=still_open)
    yield _window(opened & fitting & ~given_back & ~seen, "", physician, still=still_open)
    yield _window(opened & fitting & ~given_back, WHY_SEEN, physician, still=still_open)
    # A lease that has run out is given back by the sweeper soon enough. Until then its holder may be a slow reader: only
    # who would have nothing else takes it over.
    yield _window(lapsed & fitting & ~given_back, WHY_LEFT, still=still_lapsed, lapsed=True)
    again = _Where(
        "w.case_id IN (SELECT v.case_id FROM review_event v WHERE v.actor_id = %s AND v.kind = 'released')",
        (physician.pk,),
    )
    if reserved_for_me:
        yield _window(own & opened & permitted & again, WHY_AGAIN, still=still_open)
    yield _window(opened & fitting & again, WHY_AGAIN, still=still_open)
    yield _window(lapsed & fitting & again, WHY_AGAIN, still=still_lapsed, lapsed=True)


def first_of(found: Iterable[Pass]) -> int | None:
    """The key of the first row of the first pass that has one, read only.

    In one statement, so of one moment: between two, a row that the sweeper frees would be missed by both the pass over open
    rows and the one over lapsed rows.
    """
    rounds = list(found)
    choices = ", ".join(f"({each.sql} LIMIT 1)" for each in rounds)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COALESCE({choices}, NULL)", [value for each in rounds for value in each.params])
        key: int | None = cursor.fetchone()[0]
    return key


def why(assignment: Assignment, physician: User, found: Pass) -> str:
    """Why the physician gets `assignment`, in one line: a msgid, in which %(version)s is the case's version."""
    case = assignment.case
    if case.kind == Case.Kind.CALIBRATION and queries.up_front(physician, case.benchmark):
        return WHY_TRAINING
    if case.is_copy:
        # Mixed in among others, a copy must look like them: it is reserved for the person, and nothing may say so.
        return found.why if found.why == WHY_AGAIN else _of_version(case)
    if found.why:
        return found.why
    if assignment.priority > 0:
        return WHY_PRIORITY
    if assignment.role in ADJUDICATORS:
        return WHY_ADJUDICATOR
    if assignment.role == Role.SECONDARY:
        return WHY_SECONDARY
    return _of_version(case)


def _of_version(case: Case) -> str:
    """The reason for a first review. Seen again, a case has the reason that its physician was given before."""
    if case.repeats is not None and case.repeats.assignment.why == WHY_SEEN:
        return WHY_SEEN
    return WHY_FRESH if case.version > 1 else WHY_NEXT


def likely_next_case(physician: User) -> Case | None:
    """The case that `claim_next` would most likely hand out next. Nothing is taken and nothing is locked.

    A case in hand is not counted. Somebody else may be faster, and training may come in between.
    """
    if blocking_reason(physician) is not None:
        return None
    for found in passes(physician):
        key = found.peek()
        if key is not None:
            return Case.objects.get(assignments=key)
    return None


def count_available(physician: User) -> int:
    """How many cases the physician could take now, counted up to WAITING_COUNTED."""
    statement, params = counting(physician, queries.passed_benchmarks(physician))
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return int(cursor.fetchone()[0])


def counting(physician: User, passed: Iterable[str] = ()) -> tuple[str, tuple[Any, ...]]:
    """The SELECT that counts them, and its parameters. passed: as of `_fits`; none where nothing was ever reserved."""
    whose = _Where("(w.reserved_for_id IS NULL OR w.reserved_for_id = %s)", (physician.pk,))
    found = _Where("w.hold = 'open'") & whose & _fits(physician, passed) & _permitted(physician)
    inner = f"SELECT 1 AS one FROM {_TABLES} WHERE {found.sql} LIMIT {WAITING_COUNTED}"  # noqa: S608
    return f"SELECT COUNT(*) FROM ({inner}) AS waiting", found.params  # noqa: S608


def blocking_reason(physician: User) -> object | None:
    """Why this physician gets no new case at all, as a sentence; None: nothing stands in the way."""
    if physician.paused_at is not None:
        return _("An admin has paused your account. You cannot take new cases for now.")
    if physician.daily_cap is not None and done_today(physician) >= physician.daily_cap:
        return _("You have reached your daily case limit.")
    return None


def done_today(physician: User, now: datetime | None = None) -> int:
    """Cases in which the physician has submitted an own answer since midnight UTC.

    One case at most is begun besides, so this is what a cap a day counts by: giving back and declining cost nothing.
    """
    midnight = (now or timezone.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    answers = Review.objects.filter(physician=physician, phase=Phase.COMMIT, submitted_at__gte=midnight)
    return answers.values("case").distinct().count()


def ineligibility(physician: User, assignment: Assignment) -> object | None:
    """Why `assignment` cannot be given to `physician` even by an admin, as a sentence; None: it can."""
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
    if _window(permitted).peek() is None:
        return _("This physician works at the first reviewer's hospital, and this case requires a different one.")
    return None


# ---------------------------------------------------------------------------------------------------------------- SQL

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
    """What nobody can waive: one role in a case, what was declined stays declined, and what the policy excludes."""
    me, hospital = physician.pk, physician.hospital.strip()
    own_role = _Where(
        "EXISTS (SELECT 1 FROM review_assignment o WHERE o.case_id = w.case_id AND o.physician_id = %s)", (me,)
    )
    declined = _Where(
        "EXISTS (SELECT 1 FROM review_declined d WHERE d.case_id = w.case_id AND d.physician_id = %s)", (me,)
    )
    colleague = _Where("w.other_hospital")
    if hospital:
        colleague &= _Where(
            "EXISTS (SELECT 1 FROM review_assignment p JOIN review_user u ON u.id = p.physician_id"
            " WHERE p.case_id = w.case_id AND p.role = 'primary' AND LOWER(TRIM(u.hospital)) = LOWER(%s))",
            (hospital,),
        )
    stale = _seen(physician) & _Where("c.fresh_eyes_required")
    return ~own_role & ~declined & ~colleague & ~stale


def _fits(physician: User, passed: Iterable[str]) -> _Where:
    """What a case asks and what an admin may set aside by reserving it for somebody: stage, field, language, training.

    passed: the benchmarks whose calibration the physician has passed.
    """
    fits = _any_or("calibration", passed)
    if physician.stages:
        fits &= _one_of("turn", [TURNS[State(stage)] for stage in physician.stages])
    if specialties := physician.asked_specialties:
        fits &= _any_or("specialty", specialties)
    # Whose language nobody knows waits until an admin has named it; reserving it names its reader.
    fits &= _Where(f"w.language <> '{UNDETERMINED}'")
    if physician.languages:
        fits &= _any_or("language", [language.partition("-")[0].lower() for language in physician.languages])
    return fits


def _any_or(column: str, values: Iterable[str]) -> _Where:
    """What asks for nothing, or for one of `values`. What is the same for everybody is no parameter: PostgreSQL, which plans
    a claim once for all values, would take hardly any row to pass and read all that are open."""
    known = tuple(values)
    return _Where(f"w.{column} IN (''{', %s' * len(known)})", known)


def _one_of(column: str, values: Sequence[object]) -> _Where:
    return _Where(f"w.{column} IN ({', '.join(['%s'] * len(values))})", tuple(values))


def _seen(physician: User) -> _Where:
    """The physician has reviewed an earlier version."""
    return _Where(
        "c.version > 1 AND EXISTS (SELECT 1 FROM review_case e JOIN review_review r ON r.case_id = e.id"
        " WHERE e.lineage = c.lineage AND e.version < c.version AND r.physician_id = %s)",
        (physician.pk,),
    )


def _given_back(physician: User) -> _Where:
    """The physician has given it back."""
    return _Where(
        "EXISTS (SELECT 1 FROM review_event v WHERE v.case_id = w.case_id AND v.actor_id = %s AND v.kind = 'released')",
        (physician.pk,),
    )


_STILL_OPEN = _Where("a.hold = 'open'")


def _window(
    rows: _Where, why: str = "", physician: User | None = None, *, still: _Where = _STILL_OPEN, lapsed: bool = False
) -> Pass:
    """The first WINDOW of `rows` by the index `assignment_queue`; in the order of `physician`'s own inside each band.

    `still` is asked of the locked row: who waited for the lock sees it as it is by then. Neither database may take it for a
    way to find the rows: SQLite would read all open ones by the index on `hold`, so it is one CASE. And PostgreSQL, which
    guesses that few rows pass it, would read the whole table and look for each row in the window; an array it looks up.
    """
    window = f"SELECT w.id FROM {_TABLES} WHERE {rows.sql} ORDER BY w.priority DESC, w.turn, w.case_id LIMIT {WINDOW}"  # noqa: S608
    numbers = _own_numbers(physician) if physician is not None else (0, 0)
    within = f"= ANY(ARRAY({window}))" if connection.vendor == "postgresql" else f"IN ({window})"
    return Pass(
        f"SELECT a.id FROM review_assignment a WHERE a.id {within} AND CASE WHEN {still.sql} THEN 1 ELSE 0 END = 1"  # noqa: S608
        f" ORDER BY a.priority DESC, a.turn, a.case_id / {BAND}, (a.case_id * %s + %s) %% {PRIME}, a.case_id, a.id",
        (*rows.params, *still.params, *numbers),
        why,
        lapsed=lapsed,
    )


def _own_numbers(physician: User) -> tuple[int, int]:
    """A member of the pairwise independent family h(x) = (a x + b) mod p, fixed by the account (Carter and Wegman 1979)."""
    digest = sha256(f"order/{physician.username}".encode()).digest()
    return 1 + int.from_bytes(digest[:8]) % (PRIME - 1), int.from_bytes(digest[8:16]) % PRIME
