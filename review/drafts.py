"""What a physician has typed and not submitted: one draft for each phase of an assignment, written here alone."""

from typing import Any

from django.db.models import F
from django.utils import timezone

from review.machine import Phase
from review.models import Assignment, Draft, User


def keep(
    assignment: Assignment, physician: User, phase: Phase, answers: dict[str, Any], *, revision: int | None = None
) -> Draft | None:
    """Put `answers` (as `answers_to_json` makes them) in the place of the draft, or make it the first one.

    `revision` is the one that the writer has seen (0: none); None: it replaces whatever there is. Returns None where the draft
    has another revision: that one stands.
    """
    own = Draft.objects.filter(assignment=assignment, physician=physician, phase=phase)
    fields: dict[str, Any] = {"answers": answers, "saved_at": timezone.now()}
    seen = own if revision is None else own.filter(revision=revision)
    if seen.update(revision=F("revision") + 1, **fields):
        kept = own.get()
        kept.assignment = assignment
        return kept
    if revision is not None and own.exists():
        return None
    return Draft.objects.create(assignment=assignment, physician=physician, phase=phase, **fields)
