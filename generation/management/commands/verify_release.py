"""verify_release DIR"""

import json
import sys
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError

from generation.releases.programs import verify_release
from review.audit import exports
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Check an exported release: checksums, agreement, audit trail, and whether this site wrote it, if it is its own."
    requires_system_checks = []

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")

    def step(self, **options: Any) -> dict[str, Any]:
        sys.dont_write_bytecode = True  # add nothing to the checked folder
        try:
            faults = verify_release.faults_of(options["folder"])
        except OSError as error:
            raise CommandError(f"There is no release to check in {options['folder']}: {error}") from error
        with suppress(DatabaseError, OSError, ValueError, LookupError, TypeError):  # without a database, or not its own
            about = json.loads((options["folder"] / "croissant.json").read_text(encoding="utf-8"))
            faults += exports.faults(options["folder"], verify_release.title(about))
        return {"faults": faults, "failed": len(faults)}
