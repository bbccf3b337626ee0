"""The only writer of drafts: one per physician, assignment and phase."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

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
    drafts = Draft.objects.filter(assignment=assignment, physician=physician, phase=phase)
    # Compares and writes at once: a physician who has lost the assignment holds no lock on its row.
    if revision is None:
        if drafts.update(answers=answers, saved_at=at, revision=F("revision") + 1):
            return drafts.get()
    elif revision and drafts.filter(revision=revision).update(answers=answers, saved_at=at, revision=revision + 1):
        values = {"assignment": assignment, "physician": physician, "phase": phase, "answers": answers}
        return Draft(**values, revision=revision + 1, saved_at=at)
    try:
        with transaction.atomic():
            return Draft.objects.create(
                assignment=assignment, physician=physician, phase=phase, answers=answers, saved_at=at
            )
    except IntegrityError:  # there is one already
        return None
