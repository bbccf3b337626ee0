"""Queries on assignments and their drafts."""

from dataclasses import dataclass, replace

from review import errors
from review.access import visibility
from review.assignments import eligibility
from review.common import sql
from review.models import Assignment, Case, Draft, FirstLook, Guideline, User
from review.rules.case_spec import answers_from_json
from review.rules.citations import Citation, identity
from review.rules.state_machine import Role

_ASSIGNMENT_SQL = """SELECT {a}, {c}, {f}, c.spec FROM review_assignment a JOIN review_case c ON c.id = a.case_id
LEFT JOIN review_firstlook f ON f.assignment_id = a.id AND f.physician_id = %s WHERE """
_BY_ID = "a.id = %s"
_OLDEST_HELD = "a.physician_id = %s AND a.hold = 'held' ORDER BY a.id LIMIT 1"


def assignment_of(physician: User, assignment_id: int) -> Assignment:
    """The physician's own assignment. Raises NotYours for any other, whether it exists or not."""
    assignment = _load(physician, _BY_ID, assignment_id)
    if assignment is None or assignment.physician_id != physician.pk:
        raise errors.NotYours
    assignment.physician = physician
    return assignment


def held_assignment(physician: User, *, locked: bool = False) -> Assignment | None:
    """The assignment that the physician holds, the oldest of several; None if there is none.

    Args:
        locked: lock its row.
    """
    assignment = _load(physician, _OLDEST_HELD + (sql.lock_clause("a") if locked else ""), physician.pk)
    if assignment is not None:
        assignment.physician = physician
    return assignment


def _load(reader: User, condition: str, *values: int) -> Assignment | None:
    """An assignment with its case and the reader's first look, which a page looks up many times."""
    for assignment, case, first_look, spec in sql.select_instances(
        _ASSIGNMENT_SQL + condition, (reader.pk, *values), a=Assignment, c=sql.DeferredColumn(Case, "spec"), f=FirstLook
    ):
        case.freeze(spec)
        assignment.case = case
        assignment.first_looks_by_physician[reader.pk] = first_look
        return assignment  # type: ignore[no-any-return]
    return None


@dataclass(frozen=True, slots=True)
class RetractableReview:
    """A review that can be retracted: its primary key and the title of its case."""

    pk: int
    title: str


def retractable_review(physician: User) -> RetractableReview | None:
    """The physician's last review if it seems retractable; `retraction.retract` decides."""
    row = sql.fetch_first_row(_RETRACTABLE_SQL, physician.pk)
    return RetractableReview(*row) if row else None


_LAST_REVIEW_SQL = """SELECT m.id FROM review_review m
    WHERE m.physician_id = %s AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = m.id)
    ORDER BY m.id DESC LIMIT 1"""
_RETRACTABLE_SQL = f"""\
SELECT r.id, c.title FROM review_review r
JOIN review_case c ON c.id = r.case_id JOIN review_assignment a ON a.id = r.assignment_id
WHERE r.id = ({_LAST_REVIEW_SQL}) AND a.phase = r.phase
    AND (c.closed_at IS NULL OR c.kind IN ('calibration', 'repeat'))
    AND NOT EXISTS (SELECT 1 FROM review_rewording w WHERE w.review_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM review_assignment h WHERE h.case_id = r.case_id AND h.hold = 'held' AND h.id <> a.id)
    AND NOT EXISTS (
        SELECT 1 FROM review_review n WHERE n.case_id = r.case_id AND n.id > r.id
            AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = n.id)
    )
"""  # noqa: S608 -- composed of this module's constants


@dataclass(frozen=True, slots=True)
class CasePageData:
    """What the page of a case shows besides the case itself.

    Attributes:
        discussed: whether anybody has commented on the case.
        waiting: how many more cases the reader could take.
    """

    draft: Draft | None
    guideline: Guideline | None
    discussed: bool
    waiting: int
    retractable: RetractableReview | None


_CASE_PAGE_TABLES = f"""\
FROM review_assignment a LEFT JOIN ({_RETRACTABLE_SQL}) retractable ON TRUE
LEFT JOIN review_draft d ON d.assignment_id = a.id AND d.physician_id = %s AND d.phase = a.phase
LEFT JOIN review_guideline g ON g.id = (
    SELECT v.id FROM review_guideline v WHERE v.benchmark = %s AND v.stage = %s ORDER BY v.version DESC LIMIT 1
)
WHERE a.id = %s"""  # noqa: S608 -- composed of this module's constants


def case_page_data(assignment: Assignment, reader: User) -> CasePageData:
    """Load the draft for the current phase, the guideline in force and the rest, in one query."""
    me, stage = reader.pk, Role(assignment.role).stage
    count, count_params = eligibility.available_count_select(reader)
    statement = f"""SELECT {{d}}, {{g}}, EXISTS (SELECT 1 FROM review_remark m WHERE m.case_id = a.case_id),
EXISTS (SELECT 1 FROM review_assignment o WHERE o.reserved_for_id = %s), ({count}), retractable.* {_CASE_PAGE_TABLES}"""  # noqa: S608
    params = (me, *count_params, me, me, assignment.case.benchmark, stage, assignment.pk)
    [(draft, guideline, discussed, reserved, waiting, *last)] = sql.select_instances(
        statement, params, d=Draft, g=Guideline
    )
    # A reader with reservations may have passed a calibration, and then be eligible for more cases.
    if reserved:
        waiting = eligibility.count_available(reader)
    retractable = RetractableReview(*last) if last[0] is not None else None
    return CasePageData(draft, guideline, bool(discussed), waiting, retractable)


_DRAFT_SQL = """SELECT {d} FROM review_draft d WHERE d.assignment_id = %s AND d.physician_id = %s AND d.phase = %s"""


def draft_of(assignment: Assignment, physician: User) -> Draft | None:
    """The physician's draft for the current phase."""
    rows = sql.select_instances(_DRAFT_SQL, (assignment.pk, physician.pk, assignment.phase), d=Draft)
    return rows[0][0] if rows else None


def last_draft(physician: User, assignment_id: int) -> Draft | None:
    """The physician's latest draft of an assignment, which somebody else may hold now."""
    return Draft.objects.filter(assignment=assignment_id, physician=physician).order_by("-saved_at", "-id").first()


MAX_RECENT_SOURCES = 5
RECENT_REVIEWS = 20  # reviews searched for recent sources


def recent_sources(physician: User) -> list[Citation]:
    """The distinct sources that the physician cited last, without passages, newest first."""
    sources: dict[tuple[str, str, str], Citation] = {}
    for answers in visibility.reviews_by(physician).values_list("answers", flat=True)[:RECENT_REVIEWS]:
        for citation in reversed(answers_from_json(answers).citations):
            if citation.kind != "case":  # a passage of one case does not occur in another
                sources.setdefault(identity(citation), replace(citation, passage=""))
    return list(sources.values())[:MAX_RECENT_SOURCES]


def assignment_for_post(reader: User, assignment_id: int) -> Assignment:
    """Any assignment with its case, for reading a posted form.

    Does not check access: the services decide who may act on it, and nothing of it may be shown.
    """
    assignment = _load(reader, _BY_ID, assignment_id)
    if assignment is None:
        raise errors.NotYours
    return assignment
