"""How far two raters agree: raw agreement, Cohen's kappa, Gwet's AC1, Krippendorff's alpha, with bootstrap intervals.

Everything is computed from the k x k table of (first rater's answer, second rater's answer), so that a thousand tables of a
bootstrap cost one pass of numpy. A figure that is not defined is None and says why; it is never 0.

Sources:
    kappa: Cohen (1960), A coefficient of agreement for nominal scales, Educ. Psychol. Meas. 20(1).
    AC1: Gwet (2008), Computing inter-rater reliability and its variance in the presence of high agreement, Br. J. Math.
        Stat. Psychol. 61(1).
    alpha: Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    interval: Efron & Tibshirani (1993), An introduction to the bootstrap, ch. 13 (percentile), cases resampled whole, because
        the rubrics of one case are not independent of one another.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a quarter of a second to import: late
    from numpy.typing import NDArray

    Tables = NDArray[Any]  # (..., k, k): counts
    Values = NDArray[Any]  # (...,): one figure a table, NaN where it is not defined

REPLICATES = 2000
SEED = 2008
COVER = 0.95
FEW = 0.05  # share of the replicates that may be undefined before there is no interval to speak of


class Why(StrEnum):
    """Why a figure, or its interval, is not there."""

    NOTHING = "nothing"  # nobody has answered twice
    ONE_CATEGORY = "one-category"  # all answers are the same: no disagreement was possible by chance
    ONE_CASE = "one-case"  # nothing to resample
    NO_VARIATION = "no-variation"  # every case has the same outcome: every resample is the same
    UNEVEN = "uneven"  # answers so one-sided that many resamples have only one category


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval. `why` says what is missing: the figure, or, where `value` is given, the interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """All figures for one criterion. `n`: pairs of answers; `cases`: the cases they come from."""

    n: int
    cases: int
    raw: Estimate
    kappa: Estimate
    ac1: Estimate
    alpha: Estimate


def agreement(
    cases: Iterable[Sequence[tuple[str, str]]],
    categories: Sequence[str],
    *,
    ordinal: bool = False,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> Agreement:
    """How far the first and the second of each pair agree.

    Args:
        cases: for each case its pairs of answers (one for a question, one a rubric for rubrics).
        categories: all answers that could be given, in their order where they have one.
        ordinal: categories are a scale: alpha weighs a distance by how many answers lie between.

    Raises ValueError for an answer that is not among `categories`.
    """
    import numpy as np

    place = {category: index for index, category in enumerate(categories)}
    k = len(place)
    kinds: Counter[tuple[tuple[int, int], ...]] = Counter()  # cases alike are resampled as one kind with a weight
    for pairs in cases:
        if pairs:
            try:
                kinds[tuple(sorted((place[first], place[second]) for first, second in pairs))] += 1
            except KeyError as unknown:
                raise ValueError(f"{unknown} is not among the categories") from None
    count = kinds.total()
    if not count:
        nothing = Estimate(None, why=Why.NOTHING)
        return Agreement(0, 0, nothing, nothing, nothing, nothing)

    tables = np.zeros((len(kinds), k, k))
    for row, kind in enumerate(kinds):
        for first, second in kind:
            tables[row, first, second] += 1
    weights = np.array(list(kinds.values()))
    table = np.tensordot(weights, tables, axes=1)
    draws = np.random.default_rng(seed).multinomial(count, weights / count, size=replicates)
    resampled = np.tensordot(draws, tables, axes=1)

    def estimate(figure: "Callable[[Tables], Values]") -> Estimate:
        value = float(figure(table))
        if np.isnan(value):
            return Estimate(None, why=Why.ONE_CATEGORY)
        if count == 1:
            return Estimate(value, why=Why.ONE_CASE)
        if len(kinds) == 1 or not (table - np.diag(np.diag(table))).any():
            return Estimate(value, why=Why.NO_VARIATION)
        found = figure(resampled)
        defined = found[~np.isnan(found)]
        if len(defined) < (1 - FEW) * replicates:
            return Estimate(value, why=Why.UNEVEN)
        low, high = np.quantile(defined, [(1 - COVER) / 2, (1 + COVER) / 2])
        return Estimate(value, float(low), float(high))

    return Agreement(
        n=int(table.sum()),
        cases=count,
        raw=estimate(raw),
        kappa=estimate(kappa),
        ac1=estimate(ac1),
        alpha=estimate(lambda t: alpha(t, ordinal=ordinal)),
    )


def raw(tables: "Tables") -> "Values":
    """The share of pairs that are the same."""
    return _trace(tables) / _total(tables)


def kappa(tables: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe is the product of both raters' own margins."""
    n = _total(tables)
    by_chance = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1) / n**2
    return _corrected(raw(tables), by_chance)


def ac1(tables: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe = sum(pi_q (1 - pi_q)) / (Q - 1), pi_q the mean share of category q of Q."""
    import numpy as np

    categories = tables.shape[-1]
    if categories < 2:
        return np.full(tables.shape[:-2], np.nan)
    share = (tables.sum(axis=-1) + tables.sum(axis=-2)) / (2 * _total(tables))[..., None]
    return _corrected(raw(tables), (share * (1 - share)).sum(axis=-1) / (categories - 1))


def alpha(tables: "Tables", *, ordinal: bool = False) -> "Values":
    """1 - Do / De over the coincidences of two raters without missing answers, for nominal or ordinal categories."""
    import numpy as np

    together = tables + np.swapaxes(tables, -1, -2)
    each = together.sum(axis=-1)
    if ordinal:
        upto = np.cumsum(each, axis=-1)
        # The answers from c to k, both ends half: the sum over g = c..k of n_g, less (n_c + n_k) / 2.
        middle = upto - each / 2
        distance = (middle[..., :, None] - middle[..., None, :]) ** 2
    else:
        distance = 1 - np.eye(tables.shape[-1])
    observed = (together * distance).sum(axis=(-1, -2))
    expected = (each[..., :, None] * each[..., None, :] * distance).sum(axis=(-1, -2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (each.sum(axis=-1) - 1) * observed / expected, np.nan)


def _corrected(observed: "Values", by_chance: "Values") -> "Values":
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        # Counts are whole, so chance agreement of exactly one is met up to rounding.
        return np.where(1 - by_chance > 1e-12, (observed - by_chance) / (1 - by_chance), np.nan)


def _total(tables: "Tables") -> "Values":
    return tables.sum(axis=(-1, -2))  # type: ignore[no-any-return]


def _trace(tables: "Tables") -> "Values":
    return tables.trace(axis1=-2, axis2=-1)  # type: ignore[no-any-return]
