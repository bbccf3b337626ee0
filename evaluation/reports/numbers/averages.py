"""Unweighted means over models and over data sets, as papers print them at a table's margins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Cell = tuple[str, str]  # data set, model


@dataclass(frozen=True, slots=True)
class Averages:
    """Means of one metric: of each data set over models, of each model over data sets.

    A mean is None where one of its cells has no value.
    """

    by_dataset: Mapping[str, float | None]
    by_model: Mapping[str, float | None]


def mean(values: Iterable[float | None]) -> float | None:
    """The unweighted mean; None for no values, or if one is missing.

    A mean of the remaining values would be a mean over different models.
    """
    all_values = list(values)
    known = [value for value in all_values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(all_values) else None


def averages(cells: Mapping[Cell, float | None]) -> Averages:
    """The means of a table of data sets and models."""
    datasets, models = (list(dict.fromkeys(key[position] for key in cells)) for position in (0, 1))
    return Averages(
        {name: mean(value for (dataset, _model), value in cells.items() if dataset == name) for name in datasets},
        {name: mean(value for (_dataset, model), value in cells.items() if model == name) for name in models},
    )
