"""verify_run DIR"""

import sys
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError

from evaluation import registry
from evaluation.interchange.programs import files, verify_run
from generation.recipes import registry as recipes
from review.audit import exports
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Check the bundle of a run: checksums, every number computed again, and for a run of this site whether the site "
        "wrote the bundle. Lists what differs."
    )
    requires_system_checks = []

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")

    def step(self, **options: Any) -> dict[str, Any]:
        sys.dont_write_bytecode = True  # do not add files to the bundle
        for name in recipes.names():
            registry.protocol(name)  # which says how the benchmark's own scores are counted
        try:
            result = verify_run.check(options["folder"])
        except verify_run.READ_ERRORS as error:
            raise CommandError(f"There is no run to check in {options['folder']}: {error}") from error
        with suppress(DatabaseError, OSError, ValueError, LookupError, TypeError):  # without a database, or not its own
            what = verify_run.title(files.document(options["folder"] / "run.json"))
            result["faults"] += exports.faults(options["folder"], what)
        return {**result, "failed": len(result["faults"])}
