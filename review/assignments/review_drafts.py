"""The only writer of drafts: one per physician, assignment and phase."""

from typing import Any

from django.utils import timezone

from review.common import sql
from review.models import Assignment, Draft, User
from review.rules.state_machine import Phase


def store(
    assignment: Assignment, physician: User, phase: Phase, answers: dict[str, Any], *, revision: int | None = None
) -> Draft | None:
    """Create or replace the draft.

    Args:
        answers: as returned by `answers_to_json`.
        revision: the revision that the writer has seen (0: none); None: replace any revision.

    Returns: the draft, or None if the stored one has another revision; then it is unchanged.
    """
    at = timezone.now()
    values = (
        assignment.pk,
        physician.pk,
        phase,
        sql.db_value(Draft, "answers", answers),
        sql.db_value(Draft, "saved_at", at),
    )
    # A single statement, because a physician who has lost the assignment holds no lock on its row.
    if revision is None:
        row = sql.fetch_first_row(_UPSERT_SQL + _RETURNING, *values)
    else:
        row = sql.fetch_first_row(f"{_UPSERT_SQL} WHERE review_draft.revision = %s{_RETURNING}", *values, revision)
    if row is None:
        return None
    key, stored_revision = row
    return Draft(
        id=key,
        assignment=assignment,
        physician=physician,
        phase=phase,
        answers=answers,
        revision=stored_revision,
        saved_at=at,
    )


_UPSERT_SQL = """INSERT INTO review_draft (assignment_id, physician_id, phase, answers, revision, saved_at)
VALUES (%s, %s, %s, %s, 1, %s)
ON CONFLICT (assignment_id, physician_id, phase) DO UPDATE
SET answers = excluded.answers, saved_at = excluded.saved_at, revision = review_draft.revision + 1"""
_RETURNING = " RETURNING id, revision"
