"""Unweighted means over models and over data sets, as papers print them at a table's margins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from evaluation.numbers.counting import RateRow
from evaluation.protocol import Protocol, Rate
from review.rules.shown_fields import Hidden, Shown, shown

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
    by_dataset: dict[str, list[float | None]] = {}
    by_model: dict[str, list[float | None]] = {}
    for (dataset, model), value in cells.items():
        by_dataset.setdefault(dataset, []).append(value)
        by_model.setdefault(model, []).append(value)
    return Averages(
        {name: mean(values) for name, values in by_dataset.items()},
        {name: mean(values) for name, values in by_model.items()},
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
        for variant, cells in cells_by_variant.items():
            if len(cells) > 1:
                result.append((rate.name, variant, averages(cells)))
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
    rates_of = {(row.endpoint, row.dataset): row.rates for row in overall}
    contrasts = []
    for first, second, label in protocol.contrasts:
        for endpoint in endpoints:
            if (endpoint, first) not in rates_of or (endpoint, second) not in rates_of:
                continue
            for rate in rates:
                values = (rates_of[endpoint, first][rate.name].value, rates_of[endpoint, second][rate.name].value)
                contrasts.append(Contrast(endpoint, label, rate.name, first, second, values))
    return tuple(contrasts)
