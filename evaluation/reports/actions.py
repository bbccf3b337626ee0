"""The action that prints a report."""

from typing import Annotated

from django.core.management.base import CommandError
from pydantic import Field

from evaluation import registry
from evaluation.reports import formats, paper_layout, queries
from evaluation.runs.kind import RUNS
from review.common.commands import Action, Positional, Shell


class PrintReport(Action):
    """Print the rates of a run with their intervals, what they leave out, and the comparisons of
    its models.
    """

    has_json = False  # its own is a format

    run: Positional[int]
    format: Annotated[str, Shell(choices=[*formats.FORMATS])] = "md"
    as_json: Annotated[bool, Shell(option="--json")] = Field(False, description="the same as --format json")
    layout: Annotated[str | None, Shell(choices=["paper"])] = Field(
        None, description="the tables and figures of the benchmark's paper, with its numbers beside"
    )
    common: bool = Field(False, description="only the samples for which every model has a verdict")
    weights: str = Field("", description="weights of harm, such as mild:1,severe:5")
    all_ranked: bool = Field(False, description="also rank models whose failures were used to select the samples")

    def perform(self) -> str:
        written_format = self.format
        if self.as_json:
            written_format = "json"
        run = RUNS.get(self.run)
        protocol = registry.protocol(run.release.benchmark)
        view_options = queries.parse_options(
            protocol, common=self.common, weights=self.weights, all_ranked=self.all_ranked
        )
        report = queries.report(run, view_options)
        if self.layout is None:
            write, _content_type = formats.FORMATS[written_format]
            return write(report)
        if not registry.published(run.release.benchmark):
            raise CommandError(f"The benchmark {run.release.benchmark} has no published results.")
        return paper_layout.FORMATS[written_format](report)
