"""Published results (README of the released code): four figures per data set and model."""

import csv
from collections.abc import Iterable
from typing import NamedTuple

METRICS = ("acc", "h_v", "h_k", "h_r")
AVERAGE = "AVERAGE"  # the name under which the README prints each model's mean over data sets


class PublishedResult(NamedTuple):
    """One row of the table, in per cent."""

    dataset: str
    model: str
    figures: dict[str, float]


def read_published(lines: Iterable[str]) -> list[PublishedResult]:
    """The rows of `readme_results.csv`."""
    return [
        PublishedResult(row["dataset"], row["model"], {name: float(row[name]) for name in METRICS})
        for row in csv.DictReader(lines)
    ]
