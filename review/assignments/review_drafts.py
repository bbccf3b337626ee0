"""What a physician has typed and not submitted: one draft for each phase of an assignment, written here alone."""

from typing import Any

from django.utils import timezone

from review.common import sql
from review.models import Assignment, Draft, User
from review.rules.state_machine import Phase


def keep(
    assignment: Assignment, physician: User, phase: Phase, answers: dict[str, Any], *, revision: int | None = None
) -> Draft | None:
    """Put `answers` (as `answers_to_json` makes them) in the place of the draft, or make it the first one.

    `revision` is the one that the writer has seen (0: none); None: it replaces whatever there is. Returns None where the draft
    has another revision: that one stands.
    """
    at = timezone.now()
    values = (
        assignment.pk,
        physician.pk,
        phase,
        sql.prepared(Draft, "answers", answers),
        sql.prepared(Draft, "saved_at", at),
    )
    # One statement decides: who has lost the assignment does not hold its row locked.
    if revision is None:
        kept = sql.first_row(_KEEP + _KEPT, *values)
    else:
        kept = sql.first_row(f"{_KEEP} WHERE review_draft.revision = %s{_KEPT}", *values, revision)
    if kept is None:
        return None
    key, now = kept
    return Draft(
        id=key, assignment=assignment, physician=physician, phase=phase, answers=answers, revision=now, saved_at=at
    )


_KEEP = """INSERT INTO review_draft (assignment_id, physician_id, phase, answers, revision, saved_at)
VALUES (%s, %s, %s, %s, 1, %s)
ON CONFLICT (assignment_id, physician_id, phase) DO UPDATE
SET answers = excluded.answers, saved_at = excluded.saved_at, revision = review_draft.revision + 1"""
_KEPT = " RETURNING id, revision"
