"""export_release NAME --format FORMAT --out DIR [--by-reference]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from generation.models import ReleasedSample
from generation.releases import export, exporters, queries
from review.management.step_command import StepCommand

NOTICE = "The text of {} must not be published, and this export contains it. Share an export made with --by-reference."


class Command(StepCommand):
    help = "Write a release as files, with data card, manifest and checksums. The same release gives the same bytes."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME, or NAME@VERSION")
        parser.add_argument("--format", required=True, choices=exporters.available())
        parser.add_argument("--out", required=True, type=Path)
        parser.add_argument("--split", choices=ReleasedSample.Split.values, default=ReleasedSample.Split.PUBLIC.value)
        parser.add_argument(
            "--stages", default="", help="stages of reasoning, for --format supervision: answer, V, K, V+K, V+K+R"
        )
        parser.add_argument(
            "--by-reference",
            action="store_true",
            help="leave out the text of the sources; restore_release.py puts it back from their original files",
        )

    def step(self, **options: Any) -> dict[str, Any]:
        release, by_reference = queries.release(options["name"]), options["by_reference"]
        chosen = export.Export(release, options["format"], options["split"], by_reference, options["stages"])
        try:
            result = chosen.write(options["out"])
        except OSError as error:
            raise CommandError(f"Cannot write to {options['out']}: {error.strerror}.") from error
        if by_reference:
            withheld = []
        else:
            withheld = queries.withheld_sources(release)
        return result | ({"notice": NOTICE.format(", ".join(withheld))} if withheld else {})
