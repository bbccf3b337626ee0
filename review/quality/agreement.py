"""Agreement of two raters: raw, Cohen's kappa, Gwet's AC1, Krippendorff's alpha.

Everything is computed from the k x k table of (first rater's answer, second rater's answer), so
that the thousands of tables of a bootstrap take a single pass of numpy. An undefined figure is
None, with the reason; it is never 0.

Sources: kappa: Cohen (1960), A coefficient of agreement for nominal scales, Educ. Psychol. Meas.
    20(1). AC1: Gwet (2008), Computing inter-rater reliability and its variance in the presence of
    high agreement, Br. J. Math. Stat. Psychol. 61(1). alpha: Krippendorff (2011), Computing
    Krippendorff's alpha-reliability. interval: Efron & Tibshirani (1993), An introduction to the
    bootstrap, ch. 13 (percentile). Whole cases are resampled, because the rubrics of a case are not
    independent of each other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # takes a quarter of a second to import
    from numpy.typing import NDArray

    Tables = NDArray[Any]  # (..., k, k): counts
    Values = NDArray[Any]  # (...,): one figure per table, NaN if undefined

REPLICATES = 2000
SEED = 2008
CONFIDENCE = 0.95
MAX_UNDEFINED = 0.05  # share of undefined replicates above which no interval is reported


class MissingReason(StrEnum):
    """Why a figure or its interval is missing."""

    NOTHING = "nothing"  # no case has two answers
    ONE_CATEGORY = "one-category"  # all answers are equal, so no disagreement is expected by chance
    ONE_CASE = "one-case"  # nothing to resample
    NO_VARIATION = "no-variation"  # all cases have the same outcome, and so do all resamples
    UNEVEN = "uneven"  # so unbalanced that many resamples have only one category


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval.

    why: the reason why the figure is missing or, if there is a `value`, its interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    why: MissingReason | None = None


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
    """The agreement between the first and the second answer of each pair.

    Args: cases: the pairs of answers of each case (one pair for a question, one per rubric for
        rubrics). categories: all possible answers, in their order if they have one. ordinal: the
        categories are a scale: alpha weighs a distance by the number of answers in between.

    Raises ValueError for an answer that is not among `categories`.
    """
    import numpy as np

    position = {category: index for index, category in enumerate(categories)}
    k = len(position)
    case_counts: Counter[tuple[tuple[int, int], ...]] = Counter()  # equal cases are resampled together, with a weight
    for pairs in cases:
        if pairs:
            try:
                case_counts[tuple(sorted((position[first], position[second]) for first, second in pairs))] += 1
            except KeyError as unknown:
                raise ValueError(f"{unknown} is not among the categories") from None
    count = case_counts.total()
    if not count:
        nothing = Estimate(None, why=MissingReason.NOTHING)
        return Agreement(0, 0, nothing, nothing, nothing, nothing)

    tables = np.zeros((len(case_counts), k, k))
    for row, case_pairs in enumerate(case_counts):
        for first, second in case_pairs:
            tables[row, first, second] += 1
    weights = np.array(list(case_counts.values()))
    table = np.tensordot(weights, tables, axes=1)
    draws = np.random.default_rng(seed).multinomial(count, weights / count, size=replicates)
    resampled = np.tensordot(draws, tables, axes=1)

    def estimate(figure: "Callable[[Tables], Values]") -> Estimate:
        value = float(figure(table))
        if np.isnan(value):
            return Estimate(None, why=MissingReason.ONE_CATEGORY)
        if count == 1:
            return Estimate(value, why=MissingReason.ONE_CASE)
        if len(case_counts) == 1 or not (table - np.diag(np.diag(table))).any():
            return Estimate(value, why=MissingReason.NO_VARIATION)
        replicate_values = figure(resampled)
        defined = replicate_values[~np.isnan(replicate_values)]
        if len(defined) < (1 - MAX_UNDEFINED) * replicates:
            return Estimate(value, why=MissingReason.UNEVEN)
        low, high = np.quantile(defined, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
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
    """The share of pairs with equal answers."""
    return _trace(tables) / _total(tables)


def kappa(tables: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe is the product of the two raters' margins."""
    n = _total(tables)
    by_chance = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1) / n**2
    return _chance_corrected(raw(tables), by_chance)


def ac1(tables: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe = sum(pi_q (1 - pi_q)) / (Q - 1).

    pi_q is the mean share of category q of Q.
    """
    import numpy as np

    categories = tables.shape[-1]
    if categories < 2:
        return np.full(tables.shape[:-2], np.nan)
    share = (tables.sum(axis=-1) + tables.sum(axis=-2)) / (2 * _total(tables))[..., None]
    return _chance_corrected(raw(tables), (share * (1 - share)).sum(axis=-1) / (categories - 1))


def alpha(tables: "Tables", *, ordinal: bool = False) -> "Values":
    """1 - Do / De over the coincidences of two raters without missing answers."""
    import numpy as np

    coincidences = tables + np.swapaxes(tables, -1, -2)
    margins = coincidences.sum(axis=-1)
    if ordinal:
        cumulative = np.cumsum(margins, axis=-1)
        # The answers from c to k, counting both ends half: the sum over g = c..k of n_g minus
        # (n_c + n_k) / 2.
        middle = cumulative - margins / 2
        distance = (middle[..., :, None] - middle[..., None, :]) ** 2
    else:
        distance = 1 - np.eye(tables.shape[-1])
    observed = (coincidences * distance).sum(axis=(-1, -2))
    expected = (margins[..., :, None] * margins[..., None, :] * distance).sum(axis=(-1, -2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (margins.sum(axis=-1) - 1) * observed / expected, np.nan)


def _chance_corrected(observed: "Values", by_chance: "Values") -> "Values":
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        # Chance agreement of exactly one must be recognised despite rounding.
        return np.where(1 - by_chance > 1e-12, (observed - by_chance) / (1 - by_chance), np.nan)


def _total(tables: "Tables") -> "Values":
    return tables.sum(axis=(-1, -2))  # type: ignore[no-any-return]


def _trace(tables: "Tables") -> "Values":
    return tables.trace(axis1=-2, axis2=-1)  # type: ignore[no-any-return]
