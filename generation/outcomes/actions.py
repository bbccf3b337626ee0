"""The actions on what review made of samples."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from django.core.management.base import CommandError
from pydantic import Field

from generation.outcomes import attempts, regeneration, reopening
from generation.recipes import registry
from generation.samples import errata
from review.common.commands import Action, Positional, Shell
from review.models import User
from review.rules.permissions import OPERATOR, UserRole


class ApprovalAttempts(Action):
    """Show how many attempts approval took, by trap, prompt and generator."""

    benchmark: str
    by: Annotated[Sequence[str], Shell(choices=attempts.GROUPINGS)] = Field(
        (), description="group by this; repeat for several (default: all)"
    )

    def perform(self) -> dict[str, Any]:
        registry.recipe(self.benchmark)
        by = attempts.grouping(self.by)
        shown = []
        for row in attempts.attempts(self.benchmark, by):
            counts = {
                "decided": row.decided,
                "approved": row.approved,
                "first": row.first,
                "first_approved": row.first_approved,
                "mean_attempts": row.mean,
            }
            shown.append(dict(zip(by, row.key, strict=True)) | counts)
        return {"attempts": shown}


class NextVersion(Action):
    """Generate the next version of a sample again, after it failed (retry), or another version of a
    discarded sample, with another trap (draw-again).
    """

    action: Positional[Literal["retry", "draw-again"]]
    sample: Annotated[str, Shell(positional=True, metavar="ID")] = Field(
        description="the sample's number, or its key in a release"
    )
    trap: Annotated[str, Shell(metavar="CODE")] = Field(
        "", description="with 'draw-again': the trap; without, the rarest one in its batch that no version had"
    )

    def perform(self) -> dict[str, Any]:
        sample = errata.sample_id_of(self.sample)
        if self.action == "draw-again":
            row = regeneration.draw_again(sample, self.trap)
        elif self.trap:
            raise CommandError("--trap goes with 'draw-again'.")
        else:
            row = regeneration.retry_version(sample)
        return {"sample": row.sample_id, "draft": row.pk, "version": row.version, "preferred": row.preferred}


class ReopenSamples(Action):
    """Have approved samples that a physician reviewed, and that are in no release, reviewed again
    by others.
    """

    username: Positional[str]
    reason: str

    def perform(self) -> dict[str, Any]:
        person = User.objects.filter(username=self.username, role=UserRole.PHYSICIAN).first()
        if person is None:
            raise CommandError("There is no physician with this name.")
        reopened = asdict(reopening.reopen(person.pk, actor=OPERATOR, reason=self.reason))
        if not any(reopened.values()):
            return {**reopened, "failed": "this physician reviewed no approved sample"}
        return reopened
