"""validate_judge RUN [--n N] [--seed S]"""

from argparse import ArgumentParser
from typing import Any

from evaluation.judges import services
from generation.management.command_line import add_settings, given_settings
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Send a share of a finished run's responses to physicians, to validate its judge."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        add_settings(parser, services.ValidationSettings)

    def step(self, **options: Any) -> dict[str, Any]:
        validation = services.start_validation(options["run"], **given_settings(options, services.ValidationSettings))
        return {
            "run": validation.run_id,
            "validation": validation.pk,
            "seed": validation.seed,
            "drawn": validation.items.count(),
        }
