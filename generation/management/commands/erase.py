"""erase (SOURCE ID... | SOURCE --all | --batch NUMBER) --reason TEXT"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from generation.batches.kind import BATCHES
from generation.removal import erasure
from generation.sources import queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Erase records that should not have been imported, a whole source, or what a batch made, with all that was made of "
        "them: rows, ledger, queue. Runs as the role that owns the tables. What is released cannot be erased."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="SOURCE", nargs="?")
        parser.add_argument("records", metavar="ID", nargs="*", help="the id of a record in its source")
        parser.add_argument("--all", action="store_true", help="the source with all its records")
        parser.add_argument("--batch", type=int, metavar="NUMBER", help="what this batch made; its records stay")
        parser.add_argument("--reason", required=True, help="kept in the audit trail: no patient's text")

    def step(self, **options: Any) -> dict[str, Any]:
        reason, records = options["reason"], options["records"]
        if options["batch"] is not None:
            return asdict(erasure.erase_batch(BATCHES.get(options["batch"]), reason=reason))
        if options["source"] is None or bool(records) == options["all"]:
            raise CommandError("Give SOURCE with IDs or with --all, or --batch.")
        source = queries.source(options["source"])
        if options["all"]:
            erased = erasure.erase_source(
                source, reason=reason, tell=lambda done: self.stderr.write(f"{done} records erased")
            )
            return asdict(erased)
        return asdict(erasure.erase_records(source, records, reason=reason))
