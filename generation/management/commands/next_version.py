"""next_version retry ID, or next_version draw-again ID [--trap CODE]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from generation.outcomes import regeneration
from generation.samples import errata
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Generate the next version of a sample again, after it failed (retry), or another version of a discarded sample, "
        "with another trap (draw-again)."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["retry", "draw-again"])
        parser.add_argument("sample", metavar="ID", help="the sample's number, or its key in a release")
        parser.add_argument(
            "--trap",
            default="",
            metavar="CODE",
            help="with 'draw-again': the trap; without, the rarest one in its batch that no version had",
        )

    def step(self, **options: Any) -> dict[str, Any]:
        sample = errata.sample_id_of(options["sample"])
        if options["action"] == "draw-again":
            row = regeneration.draw_again(sample, options["trap"])
        elif options["trap"]:
            raise CommandError("--trap goes with 'draw-again'.")
        else:
            row = regeneration.retry_version(sample)
        return {"sample": row.sample_id, "draft": row.pk, "version": row.version, "preferred": row.preferred}
