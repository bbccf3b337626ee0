"""report RUN --format json|md|csv"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import EvaluationError
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.runs.kind import RUNS
from review.rules.permissions import OPERATOR, Can, require


class Command(BaseCommand):
    help = "Print the rates of a run with their numerators, denominators and unjudged counts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("--format", choices=[*formats.FORMATS], default="md")
        parser.add_argument(
            "--json", action="store_const", const="json", dest="format", help="the same as --format json"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        require(OPERATOR, Can.READ_RESULTS)
        try:
            report = reports_queries.report(RUNS.get(options["run"]))
        except EvaluationError as error:
            raise CommandError(str(error)) from error
        write, _content_type = formats.FORMATS[options["format"]]
        self.stdout.write(write(report))
