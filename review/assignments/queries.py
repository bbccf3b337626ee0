"""Everything that is read of assignments and their drafts."""

from dataclasses import dataclass, replace

from review import errors
from review.access import visibility
from review.assignments import eligibility
from review.common import sql
from review.models import Assignment, Case, Draft, FirstLook, Guideline, User
from review.rules.case_spec import answers_from_json
from review.rules.citations import Citation, identity
from review.rules.state_machine import Role

_WITH_CASE = """SELECT {a}, {c}, {f}, c.spec FROM review_assignment a JOIN review_case c ON c.id = a.case_id
LEFT JOIN review_firstlook f ON f.assignment_id = a.id AND f.physician_id = %s WHERE """
_NUMBERED = "a.id = %s"
_HELD = "a.physician_id = %s AND a.hold = 'held' ORDER BY a.id LIMIT 1"


def assignment_of(physician: User, assignment_id: int) -> Assignment:
    """The physician's own assignment. Raises NotYours for any other, whether it exists or not."""
    found = _with_case(physician, _NUMBERED, assignment_id)
    if found is None or found.physician_id != physician.pk:
        raise errors.NotYours
    found.physician = physician
    return found


def in_hand(physician: User, *, locked: bool = False) -> Assignment | None:
    """What the physician holds, of several what was begun longest ago; None: nothing. `locked`: nobody else changes its row."""
    found = _with_case(physician, _HELD + (sql.locks("a") if locked else ""), physician.pk)
    if found is not None:
        found.physician = physician
    return found


def _with_case(reader: User, which: str, *values: int) -> Assignment | None:
    # A page asks many times whether the first look was taken; `first_look_of` finds the answer here.
    for assignment, case, looked, spec in sql.instances(
        _WITH_CASE + which, (reader.pk, *values), a=Assignment, c=sql.Without(Case, "spec"), f=FirstLook
    ):
        case.freeze(spec)
        assignment.case = case
        assignment.looks_read[reader.pk] = looked
        return assignment  # type: ignore[no-any-return]
    return None


@dataclass(frozen=True, slots=True)
class RetractableReview:
    """A review that can be taken back: its primary key and the title of its case."""

    pk: int
    title: str


def retractable_review(physician: User) -> RetractableReview | None:
    """The physician's last review, as long as it seems that nobody has built on it; whether it is so `retract` decides."""
    found = sql.first_row(_UNDOABLE, physician.pk)
    return RetractableReview(*found) if found else None


_LAST = """SELECT m.id FROM review_review m
    WHERE m.physician_id = %s AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = m.id)
    ORDER BY m.id DESC LIMIT 1"""
_UNDOABLE = f"""\
SELECT r.id, c.title FROM review_review r
JOIN review_case c ON c.id = r.case_id JOIN review_assignment a ON a.id = r.assignment_id
WHERE r.id = ({_LAST}) AND a.phase = r.phase
    AND (c.closed_at IS NULL OR c.kind IN ('calibration', 'repeat'))
    AND NOT EXISTS (SELECT 1 FROM review_rewording w WHERE w.review_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM review_assignment h WHERE h.case_id = r.case_id AND h.hold = 'held' AND h.id <> a.id)
    AND NOT EXISTS (
        SELECT 1 FROM review_review n WHERE n.case_id = r.case_id AND n.id > r.id
            AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = n.id)
    )
"""  # noqa: S608 -- composed of this module's constants


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a case on its page. `discussed`: whether anybody has said anything of it. `waiting`: how many more
    cases the reader could take. `last`: the reader's `retractable_review`."""

    draft: Draft | None
    guideline: Guideline | None
    discussed: bool
    waiting: int
    last: RetractableReview | None


_BESIDE = f"""\
FROM review_assignment a LEFT JOIN ({_UNDOABLE}) undoable ON TRUE
LEFT JOIN review_draft d ON d.assignment_id = a.id AND d.physician_id = %s AND d.phase = a.phase
LEFT JOIN review_guideline g ON g.id = (
    SELECT v.id FROM review_guideline v WHERE v.benchmark = %s AND v.stage = %s ORDER BY v.version DESC LIMIT 1
)
WHERE a.id = %s"""  # noqa: S608 -- composed of this module's constants


def beside(assignment: Assignment, reader: User) -> Beside:
    """The reader's draft for the current phase, the guideline in force, and what there is to ask for."""
    me, stage = reader.pk, Role(assignment.role).stage
    counting, counted = eligibility.counting(reader)
    statement = f"""SELECT {{d}}, {{g}}, EXISTS (SELECT 1 FROM review_remark m WHERE m.case_id = a.case_id),
EXISTS (SELECT 1 FROM review_assignment o WHERE o.reserved_for_id = %s), ({counting}), undoable.* {_BESIDE}"""  # noqa: S608
    params = (me, *counted, me, me, assignment.case.benchmark, stage, assignment.pk)
    [(draft, guideline, discussed, reserved, waiting, *last)] = sql.instances(statement, params, d=Draft, g=Guideline)
    if reserved:  # then some of what waits may be for those who passed a calibration
        waiting = eligibility.count_available(reader)
    undoable = RetractableReview(*last) if last[0] is not None else None
    return Beside(draft, guideline, bool(discussed), waiting, undoable)


_DRAFT = """SELECT {d} FROM review_draft d WHERE d.assignment_id = %s AND d.physician_id = %s AND d.phase = %s"""


def draft_of(assignment: Assignment, physician: User) -> Draft | None:
    """The physician's draft for the current phase."""
    found = sql.instances(_DRAFT, (assignment.pk, physician.pk, assignment.phase), d=Draft)
    return found[0][0] if found else None


def last_draft(physician: User, assignment_id: int) -> Draft | None:
    """What the physician typed last in an assignment, which may have another holder now."""
    return Draft.objects.filter(assignment=assignment_id, physician=physician).order_by("-saved_at", "-id").first()


RECENT = 5  # sources offered again
LOOKED_THROUGH = 20  # of the physician's last reviews


def recent_sources(physician: User) -> list[Citation]:
    """The sources that the physician cited last, each once, the newest first; what they were cited for is left out."""
    found: dict[tuple[str, str, str], Citation] = {}
    for answers in visibility.reviews_by(physician).values_list("answers", flat=True)[:LOOKED_THROUGH]:
        for citation in reversed(answers_from_json(answers).citations):
            if citation.kind != "case":  # a passage of one case is none of the next
                found.setdefault(identity(citation), replace(citation, passage=""))
    return list(found.values())[:RECENT]


def posted_to(reader: User, assignment_id: int) -> Assignment:
    """An assignment with its case, to read a posted form by. Shows nothing: who may act on it the services decide."""
    found = _with_case(reader, _NUMBERED, assignment_id)
    if found is None:
        raise errors.NotYours
    return found
