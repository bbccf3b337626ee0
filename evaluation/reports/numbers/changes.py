"""What asking the same samples in another way changes: gains, and which answers it fixed or broke."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.protocol import Protocol, Rate
from evaluation.reports.numbers.averages import mean
from evaluation.reports.numbers.comparing import Comparison, paired
from evaluation.reports.numbers.counting import of_units
from evaluation.reports.numbers.verdict_table import Ints, VerdictTable
from evaluation.statistics.multiplicity import holm

ALL = ""  # the endpoint of the mean over models
KEPT, FIXED, BROKEN, STAYED = (
    "kept",
    "fixed",
    "broken",
    "stayed",
)  # right before and after; wrong, right; right, wrong; neither
MOVES = (KEPT, BROKEN, FIXED, STAYED)


@dataclass(frozen=True, slots=True)
class Change:
    """A rate of one model on two data sets of a contrast, over the samples that have verdicts in both.

    `gain`: the first data set's rate less the second's, `low`, `high` and `p` of it paired by sample; `p_adjusted`: by Holm
    over the models of the contrast. `moves`: how many samples were right before and after, and so on; `fix_rate`: share of
    the wrong ones that are right now, `break_rate`: share of the right ones that are wrong now (Fix and Break).
    Of the mean over models, ALL: unweighted means; `moves` are sums.
    """

    label: str
    rate: str
    first: str
    second: str
    endpoint: str
    rates: tuple[float | None, float | None]
    gain: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    clusters: int
    moves: Mapping[str, int]
    fix_rate: float | None
    break_rate: float | None


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The contrast of a data set that gains most, of those that compete: its label, and the gains of all of them.

    `lead`: the rate of the contrast that gains most less that of `runner_up`, on average over the models; `low`, `high` and `p`
    of it paired by sample, `p_adjusted` by Holm over the baselines of a rate. Where the interval holds 0, chance may have named
    the bottleneck.
    """

    dataset: str
    rate: str
    label: str
    gains: Mapping[str, float]
    runner_up: str
    lead: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    clusters: int


def fix_and_break(moves: Mapping[str, int]) -> tuple[float | None, float | None]:
    """Fix and Break: what was fixed of all that was wrong, what was broken of all that was right; None of nothing."""
    wrong, right = moves[FIXED] + moves[STAYED], moves[KEPT] + moves[BROKEN]
    return moves[FIXED] / wrong if wrong else None, moves[BROKEN] / right if right else None


def changes(table: VerdictTable, protocol: Protocol, rates: Sequence[Rate], *, minimum: int) -> list[Change]:
    """Every contrast of the protocol, by rate and model, the mean over models last. Weighted rates have none."""
    found: list[Change] = []
    contrasts = [each for each in protocol.contrasts if set(each[:2]) <= set(table.datasets)]
    for rate in rates if contrasts else ():
        if rate.interval == "bootstrap" or rate.weighted:
            continue
        units = of_units(table, rate)
        for first, second, label in contrasts:
            at = _shared(table, first, second)
            of = [
                _change(table, rate, protocol, units, at, (first, second, label), who, minimum)
                for who in range(len(table.endpoints))
            ]
            if not any(each.clusters for each in of):
                continue
            adjusted = iter(holm([each.p for each in of if each.p is not None]))
            of = [each if each.p is None else replace(each, p_adjusted=next(adjusted)) for each in of]
            found += of
            if len(of) > 1:
                found.append(_over_models(table, rate, units, at, of, minimum))
    return found


def _shared(table: VerdictTable, first: str, second: str) -> tuple[Ints, Ints]:
    """The units of the samples that are in both data sets, in the same order."""
    places = [np.flatnonzero(table.unit_dataset == table.datasets.index(name)) for name in (first, second)]
    of, others = (table.unit_sample[units] for units in places)
    _, one, other = np.intersect1d(of, others, return_indices=True)
    return places[0][one], places[1][other]


def moves_of(one: Totals, other: Totals, *, lower_is_better: bool) -> dict[str, NDArray[np.bool_]]:
    """Which units went which way, from the second to the first. Of several verdicts on a unit all must be right."""
    both = (one.counted > 0) & (other.counted > 0)
    after, before = ((side.hits == 0) if lower_is_better else (side.hits == side.counted) for side in (one, other))
    return {
        KEPT: both & before & after,
        BROKEN: both & before & ~after,
        FIXED: both & ~before & after,
        STAYED: both & ~before & ~after,
    }


def _change(
    table: VerdictTable,
    rate: Rate,
    protocol: Protocol,
    units: Totals,
    at: tuple[Ints, Ints],
    contrast: tuple[str, str, str],
    who: int,
    minimum: int,
) -> Change:
    one, other = units.map(lambda values: values[who][at[0]]), units.map(lambda values: values[who][at[1]])
    moves = moves_of(one, other, lower_is_better=protocol.is_lower_better(rate))
    counts = {name: int(of.sum()) for name, of in moves.items()}
    first, second, label = contrast
    named = {"dataset": first, "first": first, "second": second}
    compared = paired(rate, one, other, table.unit_cluster[at[0]], named, minimum)
    return _told(compared, label, first, second, table.endpoints[who], counts, fix_and_break(counts))


def _told(
    compared: Comparison,
    label: str,
    first: str,
    second: str,
    endpoint: str,
    moves: Mapping[str, int],
    shares: tuple[float | None, float | None],
) -> Change:
    return Change(
        label=label,
        rate=compared.rate,
        first=first,
        second=second,
        endpoint=endpoint,
        rates=compared.rates,
        gain=compared.difference,
        low=compared.low,
        high=compared.high,
        p=compared.p,
        p_adjusted=None,
        clusters=compared.clusters,
        moves=moves,
        fix_rate=shares[0],
        break_rate=shares[1],
    )


def _over_models(
    table: VerdictTable, rate: Rate, units: Totals, at: tuple[Ints, Ints], of: Sequence[Change], minimum: int
) -> Change:
    """The unweighted means over models. An interval is given where all models have all of these samples: then the
    mean of the models' gains is the gain of all their answers together."""
    pooled = _pooled(table, rate, units, at, (of[0].first, of[0].second), minimum)
    moves = {name: sum(each.moves[name] for each in of) for name in MOVES}
    shares = mean(each.fix_rate for each in of), mean(each.break_rate for each in of)
    found = _told(pooled, of[0].label, of[0].first, of[0].second, ALL, moves, shares)
    rates = mean(each.rates[0] for each in of), mean(each.rates[1] for each in of)
    return replace(found, rates=rates, gain=mean(each.gain for each in of))


def _pooled(
    table: VerdictTable, rate: Rate, units: Totals, at: tuple[Ints, Ints], names: tuple[str, str], minimum: int
) -> Comparison:
    """The answers of all models together in two data sets; without an interval where not all have the same samples."""
    one, other = (units.map(lambda values: values[:, side].sum(axis=0)) for side in at)  # noqa: B023
    sides = [units.counted[:, side] for side in at]
    whole = all((side == side[0]).all() for side in sides)
    named = {"dataset": names[0], "first": names[0], "second": names[1]}
    found = paired(rate, one, other, table.unit_cluster[at[0]], named, minimum)
    return found if whole else replace(found, low=None, high=None, p=None)


def bottlenecks(
    table: VerdictTable, protocol: Protocol, rates: Sequence[Rate], found: Sequence[Change], *, minimum: int
) -> list[Bottleneck]:
    """Of each baseline and rate, which of the competing contrasts gains most on average over the models, and by how much."""
    told: list[Bottleneck] = []
    for rate in rates if found else ():
        sign = -1 if protocol.is_lower_better(rate) else 1
        units, of_rate = of_units(table, rate), []
        for second, of in _by_baseline([each for each in found if each.rate == rate.name]):
            models = {each.endpoint for each in of}
            rows = [each for each in of if each.endpoint == (ALL if ALL in models else min(models))]
            rivals = {each.label: each for each in rows if each.label in protocol.rivals and each.gain is not None}
            if len(rivals) < 2:
                continue
            gains = {label: each.gain for label, each in rivals.items() if each.gain is not None}
            [first, next_, *_others] = sorted(gains, key=lambda label: -sign * gains[label])
            names = rivals[first].first, rivals[next_].first
            lead = _pooled(table, rate, units, _shared(table, *names), names, minimum)
            value = lead.difference if lead.p is not None else gains[first] - gains[next_]
            of_rate.append(
                Bottleneck(
                    second, rate.name, first, gains, next_, value, lead.low, lead.high, lead.p, None, lead.clusters
                )
            )
        adjusted = iter(holm([each.p for each in of_rate if each.p is not None]))
        told += [each if each.p is None else replace(each, p_adjusted=next(adjusted)) for each in of_rate]
    return told


def _by_baseline(found: Sequence[Change]) -> Iterator[tuple[str, list[Change]]]:
    for second in dict.fromkeys(each.second for each in found):
        yield second, [each for each in found if each.second == second]


def samples_that(
    table: VerdictTable, protocol: Protocol, rate: Rate, *, first: str, second: str, endpoint: str, move: str
) -> list[int]:
    """The numbers of the samples that went one way in a contrast, of one model or of any."""
    if not {first, second} <= set(table.datasets):
        return []
    units, at = of_units(table, rate), _shared(table, first, second)
    found: set[int] = set()
    for who, name in enumerate(table.endpoints):
        if endpoint in (ALL, name):
            one, other = (units.map(lambda values, who=who, side=side: values[who][side]) for side in at)  # type: ignore[misc]
            moves = moves_of(one, other, lower_is_better=protocol.is_lower_better(rate))
            found.update(table.unit_sample[at[0]][moves[move]].tolist())
    return sorted(found)
