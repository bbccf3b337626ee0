"""The published results (README of the released code), for comparison: rows of data set, model and four figures."""

import csv
from collections.abc import Iterable
from typing import NamedTuple

METRICS = ("acc", "h_v", "h_k", "h_r")
AVERAGE = "AVERAGE"  # the data set under which the README prints each model's mean over data sets


class Published(NamedTuple):
    """One printed row, in per cent."""

    dataset: str
    model: str
    figures: dict[str, float]


def read_published(lines: Iterable[str]) -> list[Published]:
    """The rows of `readme_results.csv`."""
    return [
        Published(row["dataset"], row["model"], {name: float(row[name]) for name in METRICS})
        for row in csv.DictReader(lines)
    ]
