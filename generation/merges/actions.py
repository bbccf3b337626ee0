"""The actions on the merges of a batch."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from generation import errors
from generation.merges import queries, services
from generation.models import Draft
from review.common.commands import ALTERNATIVES, Action, Positional, Shell
from review.rules.shown_fields import shown_values


class Merges(Action):
    """List the merges of a batch; undo one (--undo), or merge two drafts (--merge)."""

    batch: Positional[int]
    undo: Annotated[int | None, Shell(section=ALTERNATIVES, metavar="DRAFT")] = Field(
        None, description="undo the merge of this draft"
    )
    merge: Annotated[list[int] | None, Shell(section=ALTERNATIVES, nargs=2, metavar=("A", "B"))] = Field(
        None, description="merge draft B into draft A"
    )
    reason: str = Field("", description="the reason, which is recorded")

    def perform(self) -> dict[str, Any]:
        batch = queries.merging_batch(self.batch)
        if self.undo is not None:
            if not Draft.objects.filter(batch=batch, id=self.undo).exists():
                raise errors.UnknownDraft(str(self.undo))
            event = services.undo_merge(self.undo, actor=None, reason=self.reason)
            return {"draft": event.draft_id, "into": event.into_id, "kind": event.kind}
        if self.merge is not None:
            one, other = self.merge
            events = services.merge_drafts(one, other, actor=None, reason=self.reason, batch_id=batch.pk)
            merged = [event.draft_id for event in events]
            return {"merged": merged, "into": events[0].into_id, "withdrawn": events[0].withdrawn}
        rows = queries.merged_rows(batch, queries.merges(batch).select_related("onward"))
        near = queries.near_rows(batch, queries.near_matches(batch))
        return {
            **asdict(queries.merge_counts(batch)),
            "merges": [shown_values(row) for row in rows],
            "near": [shown_values(row) for row in near],
        }
