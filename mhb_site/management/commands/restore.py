"""restore DIR [--json]: a backup into an unused site, of either kind of database."""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mhb_site.backup import services


class Command(BaseCommand):
    help = "Fill an unused site (SQLite or PostgreSQL) with a backup, and compare every row and the audit trail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")
        parser.add_argument(
            "--unsealed", action="store_true", help="accept a backup that no site with this MHB_SECRET_KEY sealed"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = services.restore(
                options["folder"],
                self.stderr.write if options["verbosity"] > 1 else lambda _: None,
                unsealed=options["unsealed"],
            )
        except services.BackupError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(made)))
        else:
            self.stdout.write(f"{made.rows} rows of {made.tables} tables and all files are equal to the backup.")
            self.stdout.write(f"The audit trail ends at {made.chain}, with {made.faults} faults.")
            self.stdout.write(
                "The site is paused: it makes no call and sends no e-mail or webhook. If the site of the backup no "
                "longer runs, let it go on with `control_site resume` or on the page System."
            )
            if not made.sealed:
                self.stdout.write("The backup is not sealed: nothing shows that it was not changed by somebody else.")
            if made.secrets:
                self.stdout.write(f"Set what the backup does not contain: {', '.join(made.secrets)}.")
        if made.faults:
            sys.exit(1)
