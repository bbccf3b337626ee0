"""Unweighted means over models and over data sets, as papers print them below and beside a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Cell = tuple[str, str]  # data set, model


@dataclass(frozen=True, slots=True)
class Averages:
    """Means of one figure: of each data set over models, of each model over data sets. None where a cell has no value."""

    by_dataset: Mapping[str, float | None]
    by_model: Mapping[str, float | None]


def mean(values: Iterable[float | None]) -> float | None:
    """The unweighted mean; None of nothing, or where one is missing: a mean of others would be of other models."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


def averages(cells: Mapping[Cell, float | None]) -> Averages:
    """The means of a table of data sets and models."""
    datasets, models = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    return Averages(
        {name: mean(value for (dataset, _model), value in cells.items() if dataset == name) for name in datasets},
        {name: mean(value for (_dataset, model), value in cells.items() if model == name) for name in models},
    )
