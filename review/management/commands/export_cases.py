"""export_cases --format label-studio|argilla --out FOLDER [--benchmark NAME]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from review.assignments import annotation_formats, annotations
from review.errors import ShownError
from review.rules.permissions import OPERATOR


class Command(BaseCommand):
    help = "Write the cases that wait for a review as tasks for another tool. Its annotations come back as drafts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", required=True, choices=annotation_formats.TOOLS)
        parser.add_argument("--out", required=True, type=Path)
        parser.add_argument("--benchmark", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["out"]
        try:
            written = annotations.task_files(options["format"], options["benchmark"], actor=OPERATOR)
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in written.items():
                (folder / name).write_text(text + "\n", encoding="utf-8")
                self.stdout.write(str(folder / name))
        except ShownError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{folder}: {error.strerror}") from None
