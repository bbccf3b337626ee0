"""export_run RUN --out DIR"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from evaluation.interchange import bundle
from evaluation.runs.kind import RUNS
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Write a run as a bundle that verify_run checks and rerun repeats: answers, verdicts, settings, numbers, checksums."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("--out", type=Path, required=True, metavar="DIR")
        parser.add_argument(
            "--with-held-out", action="store_true", help="include prompts and texts of held-out samples"
        )

    def step(self, **options: Any) -> dict[str, Any]:
        run = RUNS.get(options["run"])
        files = bundle.export_run(run, options["out"], with_held_out=options["with_held_out"])
        return {
            "run": run.pk,
            "release": str(run.release),
            "release_sha256": run.release.sha256,
            "folder": str(options["out"]),
            "files": [path.name for path in files],
        }
