"""cancel_import [NUMBER]"""

from argparse import ArgumentParser
from typing import Any

from generation.models import ImportStatus
from generation.sources import queries
from generation.sources import services as sources_services
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Cancel an import; records already added stay. Without a number, list the imports that can be cancelled."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int, nargs="?", metavar="NUMBER")

    def step(self, **options: Any) -> dict[str, Any]:
        if options["number"] is not None:
            run = sources_services.cancel_import(options["number"])
            return {"import": run.pk, "status": run.status, "rows": run.rows, "added": run.added}
        unfinished = queries.imports().filter(status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
        return {
            "imports": [
                {"import": run.pk, "status": run.status, "source": run.source.name, "file": run.file_name}
                for run in unfinished
            ]
        }
