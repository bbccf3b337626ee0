"""The sums of rates by model and unit, over all rows of a frame or those of a breakdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.numbers.frame import Flags, Floats, Frame, Ints, as_array
from evaluation.numbers.late import pl
from evaluation.numbers.rates import Rate, Weights
from evaluation.numbers.rules import COMBINED, CONTROL, UNJUDGED
from evaluation.numbers.scores import Judged


@dataclass(frozen=True)
class Units:
    """Samples in data sets, an entry of each array for each, in the order of `Frame.units`."""

    unit: Ints
    sample: Ints
    dataset: Ints  # its place in the frame's data sets
    cluster: Ints
    is_control: Flags
    is_held_out: Flags

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True)
class UnitGroup:
    """The units of a data set, or of all data sets pooled, with the cluster of each.

    `units`: their places; a slice for all units, of which numpy makes no copy. `clusters` is None
    if each unit is its own cluster. `count`: of clusters.
    """

    name: str
    units: Ints | slice
    clusters: Ints | None
    count: int


@dataclass(frozen=True)
class UnitTotals:
    """The totals of a rate as arrays of (models, units)."""

    rate: Rate
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    pooled: bool
    units: Units
    totals: Totals

    def of(self, model: str, units: Ints | slice) -> Totals:
        """The totals of one model on some units."""
        place = self.models.index(model)
        return self.totals.map(lambda values: values[place][units])

    def by_cluster(self, model: str, group: UnitGroup) -> Totals:
        """The totals of one model by cluster."""
        of_model = self.of(model, group.units)
        if group.clusters is None:
            return of_model
        clusters, count = group.clusters, group.count
        return of_model.map(lambda values: weighted_sums(clusters, values, count))

    def placed(self, keys: Ints, model: str) -> Totals:
        """The totals of one model on units with these `keys`, ascending; 0 where it has none."""
        known = np.isin(self.keys, keys) & self.in_arm
        places = np.searchsorted(keys, self.keys[known])
        of_model = self.of(model, np.flatnonzero(known))

        def scattered(values: NDArray[Any]) -> NDArray[Any]:
            array = np.zeros(len(keys), dtype=values.dtype)
            array[places] = values
            return array

        return of_model.map(scattered)

    @property
    def keys(self) -> Ints:
        """A number for each unit, the same in every frame of a release with the same data sets."""
        return self.units.sample * max(1, len(self.datasets)) + self.units.dataset

    @property
    def in_arm(self) -> Flags:
        """Whether each unit is of the arm that the rate counts."""
        of_arm: Flags = self.units.is_control == (self.rate.arm == CONTROL)
        return of_arm

    def groups(self, where: Flags | None = None) -> tuple[UnitGroup, ...]:
        """Each data set, and all pooled: their units of the rate's arm. `where`: only these."""
        chosen = self.in_arm
        if where is not None:
            chosen = chosen & where
        groups = []
        for place, name in enumerate(self.datasets):
            groups.append(self._group(name, chosen & (self.units.dataset == place)))
        if self.pooled:
            groups.append(self._group(COMBINED, chosen))
        return tuple(groups)

    def _group(self, name: str, chosen: Flags) -> UnitGroup:
        units: Ints | slice = slice(None)
        if not chosen.all():
            units = np.flatnonzero(chosen)
        cluster_ids, clusters = np.unique(self.units.cluster[units], return_inverse=True)
        count = len(cluster_ids)
        if count == len(clusters):
            return UnitGroup(name, units, None, count)
        return UnitGroup(name, units, clusters, count)


def weighted_sums(indices: Ints, weights: Ints, count: int) -> Ints:
    """The sum of the weights at each of `count` indices; integers for integer weights."""
    sums: Ints = np.bincount(indices, weights, count)
    if weights.dtype.kind == "f":
        return sums
    return np.rint(sums).astype(np.int64)


def unit_totals(frame: Frame, rates: Sequence[Rate]) -> dict[str, UnitTotals]:
    """The totals of rates over all criteria, by name. Units of the other arm are in the arrays."""
    return _totals_of(frame, frame.rows, frame.units, rates)


def facet_totals(
    frame: Frame, rates: Sequence[Rate], rows: pl.DataFrame
) -> Iterator[tuple[str, dict[str, UnitTotals]]]:
    """The totals by value of a facet, in the order of the values. `rows`: from `Frame.by_value`."""
    rows = rows.select("value", "rubric", "model", "unit", "verdict")
    by_value = rows.partition_by("value", as_dict=True, include_key=False)
    for (value,), of_value in sorted(by_value.items()):
        units = frame.units.filter(pl.col("unit").is_in(of_value["unit"].unique().implode()))
        yield str(value), _totals_of(frame, of_value, units, rates)


def _totals_of(frame: Frame, rows: pl.DataFrame, units: pl.DataFrame, rates: Sequence[Rate]) -> dict[str, UnitTotals]:
    """The totals of rates over some rows of a frame, which are on these units."""
    columns = ("unit", "sample", "dataset", "cluster", "is_control", "is_held_out")
    arrays = Units(*[as_array(units[name]) for name in columns])
    unit_place = np.searchsorted(arrays.unit, as_array(rows["unit"]))
    place = as_array(rows["model"]).astype(np.int64) * len(arrays) + unit_place
    shape = (len(frame.models), len(arrays))
    result = {}
    for rate in rates:
        if rate.score:
            totals = _scores(frame, rows, place, shape, rate)
        else:
            totals = _sums(frame, rows, place, shape, rate)
        result[rate.name] = UnitTotals(rate, frame.models, frame.datasets, frame.pooled, arrays, totals)
    return result


def _sums(frame: Frame, rows: pl.DataFrame, place: Ints, shape: tuple[int, int], rate: Rate) -> Totals:
    """The sums of a rate over criteria by model and unit. `place`: of each row in these arrays."""
    verdict = as_array(rows["verdict"])

    def of_verdicts(weights: Mapping[str, int]) -> Ints:
        of_words = np.array([weights.get(word, 0) for word in frame.verdicts])
        return np.take(of_words, verdict)

    def by_unit(values: NDArray[Any]) -> Ints:
        return weighted_sums(place, values.astype(np.int64), shape[0] * shape[1]).reshape(shape)

    within = of_verdicts(dict.fromkeys(rate.scope_verdicts, 1)) > 0
    outside = ~within
    hits, counted = of_verdicts(rate.hits), of_verdicts(rate.counted)
    missing = None
    if rate.only:
        is_chosen = rows.select(frame.on_criteria(rate).alias("is_chosen"))["is_chosen"].to_numpy()
        within, outside = within & is_chosen, outside & is_chosen
    if rate.weights:
        weight = _weight_of_rows(frame, rows, rate.weights)
        is_weighed = ~np.isnan(weight)
        own = np.nan_to_num(weight).astype(np.int64)
        outside = outside | within & ~is_weighed  # what has no weight is excluded
        within, hits, counted = within & is_weighed, hits * own, counted * own
        missing = by_unit(outside * own)
    hits, counted = hits * within, counted * within
    totals = Totals(
        by_unit(hits),
        by_unit(counted),
        by_unit(counted > 0),  # a weight of 0 counts nothing
        by_unit(outside),
        missing=missing,
        scope=by_unit(within),
    )
    if rate.unit == "criterion":
        return totals
    return _of_samples(totals)


def _weight_of_rows(frame: Frame, rows: pl.DataFrame, weights: Weights) -> Floats:
    """The weight of the rubric of each row, NaN without one. Of several, the largest counts."""
    weighed = frame.facet(weights.facet).filter(pl.col("value").is_in(list(weights.of)))
    weight = pl.col("value").cast(pl.String).replace_strict(dict(weights.of), return_dtype=pl.Float64)
    by_rubric = weighed.group_by("rubric").agg(weight.max().alias("weight"))
    joined = rows.select("rubric").join(by_rubric, on="rubric", how="left", maintain_order="left")
    return as_array(joined["weight"].fill_null(float("nan")))


def _of_samples(criteria: Totals) -> Totals:
    """The totals of a rate over samples, from those over their criteria: one failed, all failed."""
    is_hit, is_counted, has_excluded = criteria.hits > 0, criteria.counted > 0, criteria.excluded > 0
    number = is_counted.astype(np.int64)
    return Totals(
        is_hit.astype(np.int64),
        number,
        number,
        (has_excluded & ~is_counted).astype(np.int64),
        unsure=(is_counted & has_excluded & ~is_hit).astype(np.int64),
        scope=criteria.scope,
    )


def _scores(frame: Frame, rows: pl.DataFrame, place: Ints, shape: tuple[int, int], rate: Rate) -> Totals:
    """The score of each unit as `hits`, by the benchmark's own rule."""
    assert rate.score is not None  # noqa: S101
    columns = {"hit": frame.has(frozenset(rate.hits)), "scope": frame.has(rate.scope_verdicts)}
    flags = rows.select("rubric", chosen=frame.on_criteria(rate), **columns)
    is_chosen = flags["chosen"].to_numpy()
    scores = rate.score.of(
        Judged(
            answers=shape[0] * shape[1],
            answer=place[is_chosen],
            hit=flags["hit"].to_numpy()[is_chosen],
            has_verdict=flags["scope"].to_numpy()[is_chosen],
            rubric=as_array(flags["rubric"])[is_chosen],
            members={name: frame.rubrics_by_value(name) for name in rate.score.facets},
        )
    )
    counted = np.rint(scores.counted).astype(np.int64).reshape(shape)
    return Totals(
        scores.score.reshape(shape),
        counted,
        counted,
        np.rint(scores.excluded).astype(np.int64).reshape(shape),
        reached=scores.reached.reshape(shape),
        possible=scores.possible.reshape(shape),
    )


def judged_by_all(frame: Frame) -> pl.Expr:
    """Whether a row is on a unit for which every model has a verdict."""
    judged = frame.rows.filter(pl.col("verdict") != UNJUDGED)
    models = judged.group_by("unit").agg(pl.col("model").n_unique().alias("n"))
    units = models.filter(pl.col("n") == len(frame.models))["unit"]
    return pl.col("unit").is_in(units.implode())


def has_data(frame: Frame, rate: Rate) -> bool:
    """Whether a run has what a rate counts.

    That is: control samples, criteria with a value, with weights, or with what its score reads.
    """
    if rate.arm == CONTROL and not frame.units["is_control"].any():
        return False
    if rate.only and rate.only.value not in frame.facets.get(rate.only.facet, ()):
        return False
    if rate.score:
        return rate.score.applies(frame.facets)
    return not rate.weights or not rate.weights.of.keys().isdisjoint(frame.facets.get(rate.weights.facet, ()))
