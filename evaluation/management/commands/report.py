"""report RUN --format json|md|csv|latex [--layout paper] [--common] [--weights VALUE:NUMBER,…] [--all-ranked]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation import registry
from evaluation.errors import EvaluationError
from evaluation.reports import formats, paper_layout
from evaluation.reports import queries as reports_queries
from evaluation.runs.kind import RUNS


class Command(BaseCommand):
    help = "Print the rates of a run with their intervals, what they leave out, and the comparisons of its models."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("--format", choices=[*formats.FORMATS], default="md")
        parser.add_argument(
            "--json", action="store_const", const="json", dest="format", help="the same as --format json"
        )
        parser.add_argument(
            "--layout",
            choices=["paper"],
            help="the tables and figures of the benchmark's paper, with its numbers beside",
        )
        parser.add_argument(
            "--common", action="store_true", help="only the samples for which every model has a verdict"
        )
        parser.add_argument("--weights", default="", help="weights of harm, such as mild:1,severe:5")
        parser.add_argument(
            "--all-ranked", action="store_true", help="also rank models whose failures were used to select the samples"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = RUNS.get(options["run"])
            protocol = registry.protocol(run.release.benchmark)
            given = {name: options[name] for name in ("common", "weights", "all_ranked")}
            view_options = reports_queries.parse_options(protocol, **given)
            report = reports_queries.report(run, view_options)
        except EvaluationError as error:
            raise CommandError(str(error)) from error
        if options["layout"]:
            if not registry.published(run.release.benchmark):
                raise CommandError(f"The benchmark {run.release.benchmark} has no published results.")
            self.stdout.write(paper_layout.FORMATS[options["format"]](report))
            return
        write, _content_type = formats.FORMATS[options["format"]]
        self.stdout.write(write(report))
