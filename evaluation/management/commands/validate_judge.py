"""validate_judge RUN [--n N] [--seed S]"""

from argparse import ArgumentParser
from typing import Any

from evaluation.judges import services
from generation.management.command_line import StepCommand
from review.rules.permissions import OPERATOR, Can, require
from review.rules.shown_values import shown


class Command(StepCommand):
    help = "Send a share of a finished run's responses to physicians, to validate its judge."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument(
            "--n", default="", help="how many responses to draw: 200, or 10%% of each stratum; default: the benchmark's"
        )
        parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same responses; default: 0")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.MEASURE)
        validation = services.start_validation(options["run"], n=options["n"], seed=options["seed"])
        return {
            **shown(validation, "run=run_id validation=pk seed"),
            "drawn": validation.items.count(),
        }
