"""The sums of rates by model and unit, over all rows of a frame or those of a breakdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import FIELDS, SUMS, Sums
from evaluation.numbers.frame import Flags, Floats, Frame, Ints, as_array
from evaluation.numbers.late import pl
from evaluation.numbers.rates import FacetValue, Rate, Weights
from evaluation.numbers.rules import COMBINED, CONTROL, UNJUDGED
from evaluation.numbers.scores import Judged

UNITS = np.dtype(
    [
        ("unit", np.int64),
        ("sample", np.int64),
        ("dataset", np.int64),  # its place in the frame's data sets
        ("cluster", np.int64),
        ("is_control", np.bool_),
        ("is_held_out", np.bool_),
    ]
)
Units = NDArray[np.void]  # an array of `UNITS`


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
    """The sums of a rate as an array of (models, units)."""

    rate: Rate
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    pooled: bool
    units: Units
    sums: Sums

    def of(self, model: str, units: Ints | Flags | slice) -> Sums:
        """The sums of one model on some units."""
        own: Sums = self.sums[self.models.index(model), units]
        return own

    def by_cluster(self, group: UnitGroup) -> Sums:
        """The sums as an array of (models, clusters of the group)."""
        of_group = self.sums[:, group.units]
        if group.clusters is None:
            return of_group
        return np.array([cluster_sums(own, group.clusters, group.count) for own in of_group])

    def placed(self, keys: Ints, model: str) -> Sums:
        """The sums of one model on units with these `keys`, ascending; 0 where it has none."""
        known = np.isin(self.keys, keys) & self.in_arm
        result = np.zeros(len(keys), SUMS)
        result[np.searchsorted(keys, self.keys[known])] = self.of(model, known)
        return result

    @property
    def keys(self) -> Ints:
        """A number for each unit, the same in every frame of a release with the same data sets."""
        keys: Ints = self.units["sample"] * max(1, len(self.datasets)) + self.units["dataset"]
        return keys

    @property
    def in_arm(self) -> Flags:
        """Whether each unit is of the arm that the rate counts."""
        of_arm: Flags = self.units["is_control"] == (self.rate.arm == CONTROL)
        return of_arm

    def groups(self, where: Flags | None = None) -> tuple[UnitGroup, ...]:
        """Each data set, and all pooled: their units of the rate's arm. `where`: only these."""
        chosen = self.in_arm
        if where is not None:
            chosen = chosen & where
        groups = []
        for place, name in enumerate(self.datasets):
            groups.append(self._group(name, chosen & (self.units["dataset"] == place)))
        if self.pooled:
            groups.append(self._group(COMBINED, chosen))
        return tuple(groups)

    def _group(self, name: str, chosen: Flags) -> UnitGroup:
        units: Ints | slice = slice(None)
        if not chosen.all():
            units = np.flatnonzero(chosen)
        cluster_ids, clusters = np.unique(self.units["cluster"][units], return_inverse=True)
        count = len(cluster_ids)
        if count == len(clusters):
            return UnitGroup(name, units, None, count)
        return UnitGroup(name, units, clusters, count)


def cluster_sums(sums: Sums, clusters: Ints, count: int) -> Sums:
    """The sums over the units of each of `count` clusters. `clusters`: of each unit, from 0."""
    result = np.zeros(count, SUMS)
    for name in FIELDS:
        result[name] = np.bincount(clusters, sums[name], count)
    return result


def facet_totals(
    frame: Frame, rates: Sequence[Rate], rows: pl.DataFrame
) -> Iterator[tuple[str, dict[str, UnitTotals]]]:
    """The totals by value of a facet, in the order of the values. `rows`: from `Frame.by_value`."""
    rows, units = rows.select("value", "rubric", "model", "unit", "verdict"), _units(frame)
    by_value = rows.partition_by("value", as_dict=True, include_key=False)
    for (value,), of_value in sorted(by_value.items()):
        has_value = np.isin(units["unit"], as_array(of_value["unit"]))
        yield str(value), unit_totals(frame, rates, of_value, units[has_value])


def _units(frame: Frame) -> Units:
    units = np.zeros(len(frame.units), UNITS)
    for name in UNITS.fields or ():
        units[name] = as_array(frame.units[name])
    return units


def unit_totals(
    frame: Frame, rates: Sequence[Rate], rows: pl.DataFrame | None = None, units: Units | None = None
) -> dict[str, UnitTotals]:
    """The totals of rates by name. Units of the other arm are in the arrays.

    `rows`, `units`: those to sum, of the frame; by default all.
    """
    if rows is None:
        rows = frame.rows
    if units is None:
        units = _units(frame)
    shape = (len(frame.verdicts), len(frame.models), len(units))
    unit = np.searchsorted(units["unit"], as_array(rows["unit"]))
    cell = np.ravel_multi_index((as_array(rows["verdict"]), as_array(rows["model"]), unit), shape)
    cells = rows.select("rubric", "verdict", pl.Series("cell", cell))
    counts: dict[FacetValue | None, Floats] = {}  # of the criteria that rates are about
    result = {}
    for rate in rates:
        if rate.score:
            sums = _scores(frame, cells, shape, rate)
        else:
            if rate.only not in counts:
                counts[rate.only] = _summed(frame.rows_about(rate, cells), shape)
            sums = _sums(frame, cells, counts[rate.only], rate)
        result[rate.name] = UnitTotals(rate, frame.models, frame.datasets, frame.pooled, units, sums)
    return result


def _summed(cells: pl.DataFrame, shape: tuple[int, ...], weight: NDArray[Any] | None = None) -> Floats:
    """The number of rows in each cell, or the sum of their weights."""
    sums = np.bincount(as_array(cells["cell"]), weight, int(np.prod(shape)))
    return sums.reshape(shape).astype(np.float64)


def _sums(frame: Frame, cells: pl.DataFrame, counts: Floats, rate: Rate) -> Sums:
    """The sums of a rate by model and unit. `counts`: of its criteria."""

    def of_verdicts(weights: Mapping[str, int]) -> Floats:
        return np.array([weights.get(word, 0) for word in frame.verdicts], dtype=np.float64)

    within = of_verdicts(dict.fromkeys(rate.scope_verdicts, 1))
    hits, counted = of_verdicts(rate.hits) * within, of_verdicts(rate.counted) * within
    outside, is_counted = 1 - within, (counted > 0).astype(np.float64)
    weighed = weights = positive = counts
    if rate.weights:
        rows, weight = _with_weights(frame, frame.rows_about(rate, cells), rate.weights)
        weighed, weights = _summed(rows, counts.shape), _summed(rows, counts.shape, weight)
        positive = _summed(rows, counts.shape, weight > 0)  # a weight of 0 counts nothing
    result = np.zeros(counts.shape[1:], SUMS)
    result["hits"] = np.tensordot(hits, weights, 1)
    result["counted"] = np.tensordot(counted, weights, 1)
    result["number"] = np.tensordot(is_counted, positive, 1)
    result["scope"] = np.tensordot(within, weighed, 1)
    result["excluded"] = counts.sum(axis=0) - result["scope"]  # what has no weight is excluded
    result["missing"] = np.tensordot(outside, weights, 1)
    if rate.unit == "criterion":
        return result
    return _of_samples(result)


def _with_weights(frame: Frame, cells: pl.DataFrame, weights: Weights) -> tuple[pl.DataFrame, Floats]:
    """The rows whose rubric has a weight, and these weights. Of several, the largest counts."""
    weighed = frame.facet(weights.facet).filter(pl.col("value").is_in(list(weights.of)))
    weight = pl.col("value").cast(pl.String).replace_strict(dict(weights.of), return_dtype=pl.Float64)
    by_rubric = weighed.group_by("rubric").agg(weight.max().alias("weight"))
    rows = cells.join(by_rubric, on="rubric")
    return rows, as_array(rows["weight"])


def _of_samples(criteria: Sums) -> Sums:
    """The sums of a rate over samples, from those over their criteria: one failed, all failed."""
    is_hit, is_counted, has_excluded = criteria["hits"] > 0, criteria["counted"] > 0, criteria["excluded"] > 0
    result = np.zeros_like(criteria)
    result["hits"] = is_hit
    result["counted"] = result["number"] = is_counted
    result["excluded"] = result["missing"] = has_excluded & ~is_counted
    result["scope"] = criteria["scope"]
    result["unsure"] = is_counted & has_excluded & ~is_hit
    return result


def _scores(frame: Frame, cells: pl.DataFrame, shape: tuple[int, int, int], rate: Rate) -> Sums:
    """The score of each unit as `hits`, by the benchmark's own rule."""
    assert rate.score is not None  # noqa: S101
    _verdicts, models, units = shape
    answer = pl.col("cell") % (models * units)
    flags = {"hit": frame.has(frozenset(rate.hits)), "scope": frame.has(rate.scope_verdicts)}
    chosen = frame.rows_about(rate, cells).select("rubric", answer=answer, **flags)
    scores = rate.score.of(
        Judged(
            answers=models * units,
            answer=as_array(chosen["answer"]),
            hit=as_array(chosen["hit"]),
            has_verdict=as_array(chosen["scope"]),
            rubric=as_array(chosen["rubric"]),
            members={name: frame.rubrics_by_value(name) for name in rate.score.facets},
        )
    )
    result = np.zeros(models * units, SUMS)
    result["hits"], result["excluded"] = scores.score, np.rint(scores.excluded)
    result["counted"] = result["number"] = result["scope"] = np.rint(scores.counted)
    result["reached"], result["possible"] = scores.reached, scores.possible
    return result.reshape(models, units)


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
