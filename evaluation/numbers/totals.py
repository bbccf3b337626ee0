"""The sums of rates by model and unit: one group-by over the frame, overall or for a breakdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.numbers.frame import Flags, Frame, Ints, as_array
from evaluation.numbers.late import pl
from evaluation.numbers.rates import Rate, Weights
from evaluation.numbers.rules import COMBINED, CONTROL, UNJUDGED
from evaluation.numbers.scores import Judged, Score


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

    def groups(self, *, pooled: bool, where: Flags | None = None) -> tuple[UnitGroup, ...]:
        """Each data set, and all pooled: their units of the rate's arm. `where`: only these."""
        chosen = self.in_arm if where is None else self.in_arm & where
        selections = [(name, chosen & (self.units.dataset == place)) for place, name in enumerate(self.datasets)]
        if pooled:
            selections.append((COMBINED, chosen))
        groups = []
        for name, is_chosen in selections:
            units = slice(None) if is_chosen.all() else np.flatnonzero(is_chosen)
            cluster_ids, clusters = np.unique(self.units.cluster[units], return_inverse=True)
            are_single = len(cluster_ids) == len(clusters)
            groups.append(UnitGroup(name, units, None if are_single else clusters, len(cluster_ids)))
        return tuple(groups)


def weighted_sums(indices: Ints, weights: Ints, count: int) -> Ints:
    """The sum of the weights at each of `count` indices; integers for integer weights."""
    sums: Ints = np.bincount(indices, weights, count)
    return sums if weights.dtype.kind == "f" else np.rint(sums).astype(np.int64)


def unit_totals(frame: Frame, rates: Sequence[Rate]) -> dict[str, UnitTotals]:
    """The totals of rates over all criteria, by name. Units of the other arm are in the arrays."""
    sums = _sums(frame, frame.rows, rates, [])
    units = _units(frame.units)
    return {rate.name: _of_rate(frame, frame.rows, sums, units, rate) for rate in rates}


def facet_totals(frame: Frame, rates: Sequence[Rate], facet: str) -> Iterator[tuple[str, dict[str, UnitTotals]]]:
    """The totals by value of a facet, over the criteria that have it; without control samples."""
    of_facet = frame.facet(facet)
    rows = frame.rows.filter(~pl.col("is_control")).join(of_facet, on="rubric")
    sums = _sums(frame, rows, rates, ["value"]).partition_by("value", as_dict=True, include_key=False)
    has_score = any(rate.score for rate in rates)
    rows_of = rows.partition_by("value", as_dict=True) if has_score else {}
    for (value,), of_value in sorted(sums.items()):
        present = frame.units.filter(pl.col("unit").is_in(of_value["unit"].unique().implode()))
        units, own_rows = _units(present), rows_of.get((value,), rows)
        yield str(value), {rate.name: _of_rate(frame, own_rows, of_value, units, rate) for rate in rates}


def _units(rows: pl.DataFrame) -> Units:
    columns = ("unit", "sample", "dataset", "cluster", "is_control", "is_held_out")
    return Units(*(as_array(rows[name]) for name in columns))


def _sums(frame: Frame, rows: pl.DataFrame, rates: Sequence[Rate], by: Sequence[str]) -> pl.DataFrame:
    """The sums of all rates without a score, by model and unit, in one group-by."""
    sums = []
    for rate in rates:
        if rate.score:
            continue
        if rate.weights:
            weights = _rubric_weights(frame, rate.weights).rename({"weight": f"{rate.name}/weight"})
            rows = rows.join(weights, on="rubric", how="left")
        sums += _sums_of(frame, rate)
    return rows.lazy().group_by(*by, "model", "unit").agg(*sums).collect()


def _sums_of(frame: Frame, rate: Rate) -> list[pl.Expr]:
    """The sums of a rate over criteria, named RATE/SUM; what has no weight is excluded."""
    chosen = frame.on_criteria(rate)
    within = chosen & frame.has(rate.scope_verdicts)
    own: Any = 1
    if rate.weights:
        weight = pl.col(f"{rate.name}/weight")
        within, own = within & weight.is_not_null(), weight.fill_null(0)
    hits, counted = (_weighed(frame, of_verdicts) * within * own for of_verdicts in (rate.hits, rate.counted))
    outside = chosen & ~within
    columns = {
        "hits": hits,
        "counted": counted,
        "number": counted > 0,  # a weight of 0 counts nothing
        "excluded": outside,
        "scope": within,
    }
    if rate.weights:
        columns["missing"] = outside * own
    return [column.cast(pl.Int64).sum().alias(f"{rate.name}/{name}") for name, column in columns.items()]


def _weighed(frame: Frame, weights: Any) -> pl.Expr:
    """The weight of the verdict of each row; 0 for a verdict without one."""
    parts = [
        frame.has(frozenset(word for word in weights if weights[word] == weight)) * pl.lit(weight, dtype=pl.Int64)
        for weight in sorted(set(weights.values()))
    ]
    return pl.sum_horizontal(parts)


def _rubric_weights(frame: Frame, weights: Weights) -> pl.DataFrame:
    """The weight of each rubric that has one. Of several weights, the largest counts."""
    weighed = frame.facet(weights.facet).filter(pl.col("value").is_in(list(weights.of)))
    weight = pl.col("value").replace_strict(dict(weights.of), return_dtype=pl.Int64)
    return weighed.group_by("rubric").agg(weight.max().alias("weight"))


def _of_rate(frame: Frame, rows: pl.DataFrame, sums: pl.DataFrame, units: Units, rate: Rate) -> UnitTotals:
    """The totals of one rate from the sums of all."""
    totals = _scores(frame, rows, units, rate, rate.score) if rate.score else _totals(frame, sums, units, rate)
    return UnitTotals(rate, frame.models, frame.datasets, units, totals)


def _totals(frame: Frame, sums: pl.DataFrame, units: Units, rate: Rate) -> Totals:
    shape = (len(frame.models), len(units))
    places = as_array(sums["model"]).astype(np.int64), np.searchsorted(units.unit, as_array(sums["unit"]))

    def dense(name: str) -> Ints:
        values = np.zeros(shape, dtype=np.int64)
        values[places] = sums[f"{rate.name}/{name}"].to_numpy()
        return values

    hits, counted, number, excluded, scope = map(dense, ("hits", "counted", "number", "excluded", "scope"))
    if rate.unit == "criterion":
        missing = dense("missing") if rate.weights else None
        return Totals(hits, counted, number, excluded, missing=missing, scope=scope)
    is_hit, is_counted, has_excluded = hits > 0, counted > 0, excluded > 0
    number = is_counted.astype(np.int64)
    return Totals(
        is_hit.astype(np.int64),
        number,
        number,
        (has_excluded & ~is_counted).astype(np.int64),
        unsure=(is_counted & has_excluded & ~is_hit).astype(np.int64),
        scope=scope,
    )


def _scores(frame: Frame, rows: pl.DataFrame, units: Units, rate: Rate, score: Score) -> Totals:
    """The score of each unit as `hits`, by the benchmark's own rule."""
    shape = (len(frame.models), len(units))
    of_rate = rows.filter(frame.on_criteria(rate))
    model, unit, rubric = (as_array(of_rate[name]) for name in ("model", "unit", "rubric"))
    in_hits, in_scope = frame.has(frozenset(rate.hits)), frame.has(rate.scope_verdicts)
    flags = of_rate.select(in_hits.alias("hit"), in_scope.alias("scope"))
    scores = score.of(
        Judged(
            answers=shape[0] * shape[1],
            answer=model.astype(np.int64) * shape[1] + np.searchsorted(units.unit, unit),
            hit=flags["hit"].to_numpy(),
            has_verdict=flags["scope"].to_numpy(),
            rubric=rubric,
            members={name: frame.rubrics_by_value(name) for name in score.facets},
        )
    )
    hits, reached, possible = (values.reshape(shape) for values in (scores.score, scores.reached, scores.possible))
    counted, excluded = (
        np.rint(values).astype(np.int64).reshape(shape) for values in (scores.counted, scores.excluded)
    )
    return Totals(hits, counted, counted, excluded, reached=reached, possible=possible)


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
