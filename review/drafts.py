"""What was typed and not submitted: the one place where a draft is written."""

from typing import Any

from django.utils import timezone

from review.machine import Phase
from review.models import Assignment, Draft, User


def keep(
    assignment: Assignment, physician: User, phase: Phase, answers: dict[str, Any], revision: int | None
) -> Draft | None:
    """The draft with these answers (as JSON), its revision one higher; wants a transaction.

    `revision` is what the writer has seen (0: no draft); None: the writer knows of no other window. None is returned, and
    nothing written, where it is not the one that is stored: another window has saved one since.
    """
    draft = Draft.objects.filter(assignment=assignment, physician=physician, phase=phase).first()
    fields: dict[str, Any] = {"answers": answers, "saved_at": timezone.now()}
    if draft is None:
        if revision:
            return None
        return Draft.objects.create(assignment=assignment, physician=physician, phase=phase, **fields)
    seen = draft.revision if revision is None else revision
    # In one statement: who has lost the assignment does not hold its row locked.
    if not Draft.objects.filter(pk=draft.pk, revision=seen).update(revision=seen + 1, **fields):
        return None
    draft.assignment, draft.revision = assignment, seen + 1
    draft.answers, draft.saved_at = fields["answers"], fields["saved_at"]
    return draft
