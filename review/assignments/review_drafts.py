"""The only writer of drafts: one per physician, assignment and phase."""

from typing import Any

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
    draft, created = Draft.objects.get_or_create(
        assignment=assignment, physician=physician, phase=phase, defaults={"answers": answers, "saved_at": at}
    )
    if created:
        return draft
    # Compares and writes at once: a physician who has lost the assignment holds no lock on its row.
    seen = Draft.objects.filter(pk=draft.pk, **({} if revision is None else {"revision": revision}))
    if not seen.update(answers=answers, saved_at=at, revision=F("revision") + 1):
        return None
    draft.refresh_from_db(fields=["answers", "saved_at", "revision"])
    return draft
