"""backup DIR [--json]: the whole site into a folder."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mhb_site.backup import services


class Command(BaseCommand):
    help = "Write database, images and uploads, with checksums, into an empty folder. People may go on working."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = services.write(options["folder"], self.stderr.write if options["verbosity"] > 1 else lambda _: None)
        except services.BackupError as error:
            raise CommandError(str(error)) from error
        if not made.recorded:
            self.stderr.write(
                "The backup is complete. The site could not record its time: the data folder is full or read-only."
            )
        if options["json"]:
            self.stdout.write(json.dumps(asdict(made)))
            return
        self.stdout.write(f"{made.rows} rows of {made.tables} tables, {made.files} files, {made.bytes} bytes.")
        self.stdout.write(f"The audit trail ends at {made.chain}.")
        self.stdout.write(f"Not in the backup, keep them elsewhere: {', '.join(made.secrets)}.")
        for sha256 in made.missing:
            self.stderr.write(f"The file of image {sha256} is missing.")
