"""merges BATCH | merges BATCH --undo DRAFT --reason TEXT | merges BATCH --merge A B --reason TEXT"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation import errors
from generation.merges import queries, services
from generation.models import Draft
from review.management.step_command import StepCommand
from review.rules.answers import shown_values


class Command(StepCommand):
    help = "List the merges of a batch; undo one (--undo), or merge two drafts (--merge)."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("batch", type=int)
        change = parser.add_mutually_exclusive_group()
        change.add_argument("--undo", type=int, metavar="DRAFT", help="undo the merge of this draft")
        change.add_argument("--merge", type=int, nargs=2, metavar=("A", "B"), help="merge draft B into draft A")
        parser.add_argument("--reason", default="", help="the reason, which is recorded")

    def step(self, **options: Any) -> dict[str, Any]:
        batch = queries.merging_batch(options["batch"])
        if options["undo"] is not None:
            if not Draft.objects.filter(batch=batch, id=options["undo"]).exists():
                raise errors.UnknownDraft(str(options["undo"]))
            event = services.undo_merge(options["undo"], actor=None, reason=options["reason"])
            return {"draft": event.draft_id, "into": event.into_id, "kind": event.kind}
        if options["merge"] is not None:
            one, other = options["merge"]
            events = services.merge_drafts(one, other, actor=None, reason=options["reason"], batch_id=batch.pk)
            merged = [event.draft_id for event in events]
            return {"merged": merged, "into": events[0].into_id, "withdrawn": events[0].withdrawn}
        rows = queries.merged_rows(batch, queries.merges(batch).select_related("onward"))
        near = queries.near_rows(batch, queries.near_matches(batch))
        return {
            **asdict(queries.merge_counts(batch)),
            "merges": [shown_values(row) for row in rows],
            "near": [shown_values(row) for row in near],
        }
