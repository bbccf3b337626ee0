"""verify_release DIR"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from generation.management.command_line import Step
from generation.releases.exporters.programs import verify_release


class Command(Step):
    help = "Check an exported release: checksums, agreement, audit trail. Needs no database; lists what was altered."
    requires_system_checks = []

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")

    def step(self, **options: Any) -> dict[str, Any]:
        sys.dont_write_bytecode = True  # add nothing to the checked folder
        try:
            faults = verify_release.faults_of(options["folder"])
        except (OSError, ValueError, KeyError) as error:
            raise CommandError(f"There is no release to check in {options['folder']}: {error}") from error
        return {"faults": faults, "failed": len(faults)}
