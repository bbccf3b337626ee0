"""stopped_drafts [--batch N], or --send-to-review DRAFT or --discard DRAFT with --reason TEXT"""

from argparse import ArgumentParser
from typing import Any

from generation.batches import services
from generation.batches.kind import BATCHES
from generation.models import Draft
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "List the drafts stopped by a check; send one to review (--send-to-review) or discard it."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", type=int, help="only drafts of this batch")
        decision = parser.add_mutually_exclusive_group()
        decision.add_argument("--send-to-review", type=int, metavar="DRAFT")
        decision.add_argument("--discard", type=int, metavar="DRAFT")
        parser.add_argument("--reason", default="", help="the reason, which is recorded")

    def step(self, **options: Any) -> dict[str, Any]:
        if options["send_to_review"] is not None:
            version = services.send_to_review(options["send_to_review"], actor=None, reason=options["reason"])
            return {
                "draft": options["send_to_review"],
                "gate": Draft.Gate.SENT_TO_REVIEW.value,
                "sample": version.sample.key,
            }
        if options["discard"] is not None:
            row = services.discard_stopped(options["discard"], actor=None, reason=options["reason"])
            return {"draft": row.pk, "gate": row.gate}
        stopped = Draft.objects.filter(gate=Draft.Gate.STOPPED).select_related("record").order_by("pk")
        if options["batch"] is not None:
            stopped = stopped.filter(batch=BATCHES.get(options["batch"]))
        return {
            "stopped": [
                {"draft": row.pk, "batch": row.batch_id, "record": row.record.external_id, "detail": row.detail}
                for row in stopped.defer("data", "record__content", "record__private").iterator()
            ]
        }
