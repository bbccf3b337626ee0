"""erase SOURCE ID... --reason TEXT"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation.outcomes import erasure
from generation.sources import queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Erase records that should not have been imported, with all that was made of them: rows, ledger, queue. Runs as the "
        "role that owns the tables. What is released cannot be erased."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="SOURCE")
        parser.add_argument("records", metavar="ID", nargs="+", help="the id of a record in its source")
        parser.add_argument("--reason", required=True, help="kept in the audit trail: no patient's text")

    def step(self, **options: Any) -> dict[str, Any]:
        source = queries.source(options["source"])
        return asdict(erasure.erase_records(source, options["records"], reason=options["reason"]))
