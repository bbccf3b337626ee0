"""export_release NAME --format jsonl|csv|parquet --out DIR"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from generation.management.command_line import Step
from generation.releases import export, exporters, queries
from review.rules.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Write a release as files, with data card, manifest and checksums. The same release gives the same bytes."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME, or NAME@VERSION")
        parser.add_argument("--format", required=True, choices=exporters.available())
        parser.add_argument("--out", required=True, type=Path)

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.READ_RESULTS)
        try:
            return export.export_release(queries.release(options["name"]), options["format"], options["out"])
        except OSError as error:
            raise CommandError(f"Cannot write to {options['out']}: {error.strerror}.") from error
