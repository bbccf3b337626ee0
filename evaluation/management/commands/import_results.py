"""import_results FILE --release NAME --name STUDY [--model NAME=ENDPOINT ...] [--sha256 CHECKSUM]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from evaluation.errors import WrongResults
from evaluation.interchange import importing, rows
from generation.management.command_line import add_settings, given_settings
from generation.releases import queries as releases_queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Import verdicts made elsewhere (JSON Lines, a log of inspect-ai or lm-eval). Importing again adds nothing twice."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        add_settings(parser, importing.StudySettings, omit=("models",))
        parser.add_argument(
            "--model",
            action="append",
            default=[],
            metavar="NAME=ENDPOINT",
            help="the endpoint of a model or judge that the file names NAME; =ENDPOINT for rows without a model",
        )

    def step(self, **options: Any) -> dict[str, Any]:
        release = releases_queries.release(options["release"])
        try:
            result = importing.import_results(
                rows.read(options["file"]),
                **given_settings(options, importing.StudySettings) | {"release": release},
                models=importing.model_names(options["model"]),
            )
        except OSError as error:
            raise WrongResults(str(error)) from error
        return {
            "run": result.run and result.run.pk,
            "release": str(release),
            "models": list(result.run.tested.order_by("pk").values_list("endpoint__name", flat=True))
            if result.run
            else [],
            "rows": result.rows,
            "added": result.added,
            "known": result.known,
            "refused": result.refused,
            "without_verdict": result.without_verdict,
            "remarks": result.remarks,
            "refusals": [{"where": refusal.where, "reason": refusal.reason} for refusal in result.refusals],
            "failed": int(result.run is None),
        }
