"""What a physician has typed and not submitted: one draft for each phase of an assignment, written here alone."""

from typing import Any

from django.utils import timezone

from review.models import Assignment, Draft, User
from review.rules.state_machine import Phase


def keep(
    assignment: Assignment, physician: User, phase: Phase, answers: dict[str, Any], *, revision: int | None = None
) -> Draft | None:
    """Put `answers` (as `answers_to_json` makes them) in the place of the draft, or make it the first one.

    `revision` is the one that the writer has seen (0: none); None: it replaces whatever there is. Returns None where the draft
    has another revision: that one stands.
    """
    fields: dict[str, Any] = {"answers": answers, "saved_at": timezone.now()}
    draft = Draft.objects.filter(assignment=assignment, physician=physician, phase=phase).first()
    if draft is None:
        return Draft.objects.create(assignment=assignment, physician=physician, phase=phase, **fields)
    seen = draft.revision if revision is None else revision
    # One statement decides: who has lost the assignment does not hold its row locked.
    if not Draft.objects.filter(pk=draft.pk, revision=seen).update(revision=seen + 1, **fields):
        return None
    draft.assignment, draft.revision = assignment, seen + 1
    draft.answers, draft.saved_at = fields["answers"], fields["saved_at"]
    return draft
