"""load_prompts BENCHMARK FOLDER --name NAME [--note TEXT]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from generation.prompts import services
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Load a folder of prompt files as the next version of a set, for example a paper's own wording."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("benchmark")
        parser.add_argument("folder", type=Path, help="with files named as those in the benchmark's prompts/")
        parser.add_argument("--name", required=True, help="the set's name")
        parser.add_argument("--note", default="", help="where the wording is from")

    def step(self, **options: Any) -> dict[str, Any]:
        row = services.load_folder(options["benchmark"], options["folder"], options["name"], note=options["note"])
        return {"prompts": str(row), "digest": row.digest, "failed": 0}
