"""probe_release NAME [--again]"""

from argparse import ArgumentParser
from typing import Any

from generation.probes import queries as probes_queries
from generation.probes import services
from generation.probes.stored import as_shown
from generation.releases import queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Show whether right and wrong answers of a release can be told apart without being read, as found at its freeze;"
        " a release frozen before is probed now. Asks no model."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME, or NAME@VERSION")
        parser.add_argument("--again", action="store_true", help="probe it once more, whatever is stored")

    def step(self, **options: Any) -> dict[str, Any]:
        release = queries.release(options["name"])
        if options["again"]:
            report = None
        else:
            report = probes_queries.report(release)
        found = report or services.probed(release)
        return {"release": release.reference, **as_shown(found, with_held_out=True)}
