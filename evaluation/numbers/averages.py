"""Unweighted means over models and over data sets, as papers print them at a table's margins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from evaluation.numbers.counting import RateRow
from evaluation.protocol import Protocol, Rate
from review.rules.answers import Hidden, Shown, shown

Cell = tuple[str, str]  # data set, model
MetricAverages = tuple[str, str, "Averages"]  # rate, variant, means


@dataclass(frozen=True, slots=True)
class Averages:
    """Means of one metric: of each data set over models, of each model over data sets.

    A mean is None where one of its cells has no value.
    """

    by_dataset: Annotated[Mapping[str, float | None], Shown("datasets")]
    by_model: Annotated[Mapping[str, float | None], Shown("models")]


def mean(values: Iterable[float | None]) -> float | None:
    """The unweighted mean; None for no values, or if one is missing.

    A mean of the remaining values would be a mean over different models.
    """
    all_values = list(values)
    known = [value for value in all_values if value is not None]
    if known and len(known) == len(all_values):
        return sum(known) / len(known)
    return None


def averages(cells: Mapping[Cell, float | None]) -> Averages:
    """The means of a table of data sets and models."""
    datasets, models = (list(dict.fromkeys(key[position] for key in cells)) for position in (0, 1))
    return Averages(
        {name: mean(value for (dataset, _model), value in cells.items() if dataset == name) for name in datasets},
        {name: mean(value for (_dataset, model), value in cells.items() if model == name) for name in models},
    )


def averages_of(protocol: Protocol, rates: Iterable[Rate], overall: Iterable[RateRow]) -> tuple[MetricAverages, ...]:
    """(rate, variant, unweighted means), for variants with several models or data sets."""
    variants = {dataset.name: dataset.variant for dataset in protocol.datasets}
    result = []
    for rate in rates:
        cells_by_variant: dict[str, dict[Cell, float | None]] = {}
        for row in overall:
            if row.dataset in variants and row.rates[rate.name].denominator:
                cells = cells_by_variant.setdefault(variants[row.dataset], {})
                cells[row.dataset, row.endpoint] = row.rates[rate.name].value
        result += [
            (rate.name, variant, averages(cells)) for variant, cells in cells_by_variant.items() if len(cells) > 1
        ]
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A rate of one endpoint on the two data sets of one of the protocol's `contrasts`."""

    endpoint: str
    label: str
    rate: str
    first: str  # the names of the data sets
    second: str
    values: Hidden[tuple[float | None, float | None]]

    @property
    @shown
    def difference(self) -> float | None:
        first, second = self.values
        if first is None or second is None:
            return None
        return first - second


def contrasts_of(
    protocol: Protocol, rates: Sequence[Rate], overall: Iterable[RateRow], endpoints: Sequence[str]
) -> tuple[Contrast, ...]:
    """The protocol's contrasts of which the run asked both data sets, by endpoint and rate."""
    rows = {(row.endpoint, row.dataset): row for row in overall}
    return tuple(
        Contrast(endpoint, label, rate.name, first, second, (first_rate.value, second_rate.value))
        for first, second, label in protocol.contrasts
        for endpoint in endpoints
        if (endpoint, first) in rows and (endpoint, second) in rows
        for rate in rates
        for first_rate, second_rate in [
            (rows[endpoint, first].rates[rate.name], rows[endpoint, second].rates[rate.name])
        ]
    )
