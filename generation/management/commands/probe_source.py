"""probe_source NAME"""

from argparse import ArgumentParser
from typing import Any

from generation.probes import services
from generation.probes.stored import as_shown
from generation.sources import queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Try whether right and wrong answers of a source can be told apart without being read: published pairs,"
        " statements, and questions with options. Asks no model."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the source's name")

    def step(self, **options: Any) -> dict[str, Any]:
        source = queries.source(options["name"])
        return {"source": source.name, **as_shown(services.probed(source), with_held_out=True)}
