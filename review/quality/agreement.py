"""Agreement of raters: raw, Cohen's kappa, Gwet's AC1, Krippendorff's alpha, Fleiss' kappa.

Two raters are described by the k x k table of (first rater's answer, second rater's answer), more
by how many of them gave each answer to an item. A figure is a function of sums over items, so that
thousands of tables take a single pass of numpy. An undefined figure is None, with the reason; it is
never 0. `interval` is the one rule for the interval of all of them.

Sources: kappa: Cohen (1960), A coefficient of agreement for nominal scales, Educ. Psychol. Meas.
    20(1). AC1: Gwet (2008), Computing inter-rater reliability and its variance in the presence of
    high agreement, Br. J. Math. Stat. Psychol. 61(1). alpha: Krippendorff (2011), Computing
    Krippendorff's alpha-reliability. Several raters: Fleiss (1971), Measuring nominal scale
    agreement among many raters, Psychol. Bull. 76(5); Gwet (2014), Handbook of Inter-Rater
    Reliability, chapters 2 and 3 (missing answers).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # takes a quarter of a second to import
    from numpy.typing import ArrayLike, NDArray

    Tables = NDArray[Any]  # (..., k, k): counts
    Values = NDArray[Any]  # (...,): one figure per table, NaN if undefined
    Figure = Callable[[Tables], Values]

MINIMUM = 10  # clusters below which no interval is given, of any figure of the project
# Of Fleiss' kappa and alpha of several raters, whose intervals hold the truth in 89 to 91 % of
# studies with 10 or 11 items of careful raters, and in 93 % and more from 12 on.
MINIMUM_OF_SEVERAL = 12
DRAWS = 4000
SEED = 2008  # fixed, so that the same answers have the same interval
CONFIDENCE = 0.95
# Answers added before drawing, in all: agreements, evenly over the categories, and disagreements,
# evenly over the ways to disagree; fewer for figures that are often close to 1. Chosen by
# simulation (docs/statistics.md).
ADDED_AGREEMENT, ADDED_DISAGREEMENT, ADDED_NEAR_ONE = 1.0, 1.0, 0.5
# Disagreements expected by chance, in independent items, below which kappa and alpha say nothing.
MIN_EXPECTED = 2.0


class MissingReason(StrEnum):
    """Why a figure or its interval is missing."""

    NOTHING = "nothing"  # no case has two answers
    ONE_CATEGORY = "one-category"  # all answers are equal, so no disagreement is expected by chance
    TOO_FEW = "too-few"  # fewer cases than the minimum
    UNEVEN = "uneven"  # so unbalanced that hardly any disagreement is expected by chance


@dataclass(frozen=True, slots=True)
class AgreementEstimate:
    """A figure and its 95 % interval.

    why: the reason why the figure is missing or, if there is a `value`, its interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    why: MissingReason | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """All figures for one criterion. `n`: pairs of answers; `cases`: the cases they come from.

    `categories`: the answers that may be given, from which AC1 takes the agreement by chance;
    `used`: how many of them were given.
    """

    n: int
    cases: int
    categories: tuple[str, ...]
    used: int
    raw: AgreementEstimate
    kappa: AgreementEstimate
    ac1: AgreementEstimate
    alpha: AgreementEstimate


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """The agreement of several raters. `n`: items with two or more answers; `cases`: clusters.

    `raw`: the share of equal pairs of answers to an item.
    """

    n: int
    cases: int
    raw: AgreementEstimate
    fleiss: AgreementEstimate
    ac1: AgreementEstimate
    alpha: AgreementEstimate


def agreement(
    cases: Iterable[Sequence[tuple[str, str]]],
    categories: Sequence[str],
    *,
    ordinal: bool = False,
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
    case_counts: Counter[tuple[tuple[int, int], ...]] = Counter()
    for pairs in cases:
        if pairs:
            try:
                case_counts[tuple(sorted((position[first], position[second]) for first, second in pairs))] += 1
            except KeyError as unknown:
                raise ValueError(f"{unknown} is not among the categories") from None
    tables = np.zeros((len(case_counts), k, k))
    for row, case_pairs in enumerate(case_counts):
        for first, second in case_pairs:
            tables[row, first, second] += 1
    frequencies = np.array(list(case_counts.values()), dtype=float)
    given: set[int] = set()
    for case_pairs in case_counts:
        given.update(*case_pairs)
    figures = (raw, kappa, ac1, lambda table: alpha(table, ordinal=ordinal))
    estimates = (table_interval(tables, figure, frequencies) for figure in figures)
    pairs_count = round(float((tables.sum(axis=(1, 2)) * frequencies).sum()))
    return Agreement(pairs_count, case_counts.total(), tuple(categories), len(given), *estimates)


def table_interval(
    tables: "Tables", figure: "Figure", frequencies: "Values | None" = None, *, minimum: int = MINIMUM
) -> AgreementEstimate:
    """The figure of the sum of all clusters' tables, with its 95 % interval (`interval`).

    Args:
        tables: one k x k table of counts, or of sums of weights of at least 1, per cluster.
        figure: of tables, such as `kappa`.
        frequencies: the number of clusters that each table stands for; None: one each.
        minimum: clusters below which there is no interval.
    """
    import numpy as np

    k = tables.shape[-1]
    cells = np.eye(k * k)
    tables_of_one = cells.reshape(k * k, k, k)
    answers = tables_of_one.sum(axis=1) + tables_of_one.sum(axis=2)
    return interval(
        tables.reshape(len(tables), k * k),
        cells,
        answers,
        lambda sums: figure(sums.reshape(*sums.shape[:-1], k, k)),
        frequencies,
        minimum=minimum,
    )


def several_raters(ratings: "ArrayLike", clusters: "Sequence[Any] | Values | None" = None) -> RaterAgreement:
    """The agreement of any number of raters on a nominal scale.

    Args:
        ratings: (items, categories): how many raters gave an item each answer. An item with one
            answer counts only for how often each answer is given (Gwet 2014, section 2.4).
        clusters: the cluster of each item; None: each item is its own.
    """
    import numpy as np

    items = np.asarray(ratings, dtype=float)
    if clusters is None:
        ids = np.arange(len(items))
    else:
        ids = np.asarray(clusters)
    k, is_rated = items.shape[1], items.any(axis=1)
    items, ids = items[is_rated], ids[is_rated]
    raters = items.sum(axis=1)
    # The agreement of all on each answer is a pattern too: it is possible even where nobody saw it.
    # So is one dissent, where nobody saw any.
    most, answer = raters.max(initial=2), np.eye(k)
    possible = [items, most * answer]
    if k > 1 and not ((items > 0).sum(axis=1) > 1).any():
        dissents = (most - 1) * answer[:, None] + answer[None, :]
        possible.append(dissents[answer == 0])
    patterns, which = np.unique(np.vstack(possible), axis=0, return_inverse=True)
    names, cluster = np.unique(ids, return_inverse=True)
    counts = np.zeros((len(names), len(patterns)))
    np.add.at(counts, (cluster, which.ravel()[: len(items)]), 1)
    sums = _item_sums(patterns)
    return RaterAgreement(
        int((raters >= 2).sum()),
        len(names),
        raw=interval(counts, sums, patterns, _raw_of_items),
        fleiss=interval(counts, sums, patterns, _fleiss_of_items, minimum=MINIMUM_OF_SEVERAL),
        ac1=interval(counts, sums, patterns, _ac1_of_items),
        alpha=interval(counts, sums, patterns, _alpha_of_items, minimum=MINIMUM_OF_SEVERAL),
    )


def interval(
    counts: "Tables",
    units: "Tables",
    answers: "Tables",
    figure: "Figure",
    frequencies: "Values | None" = None,
    *,
    minimum: int = MINIMUM,
) -> AgreementEstimate:
    """A figure of agreement with its 95 % interval.

    The chances of the patterns (the answers to one item) have a Dirichlet distribution, given how
    often each occurred and the answers added: the interval holds the figure in 95 % of draws from
    it, and the figure itself (Gelman et al. 2013, Bayesian Data Analysis, section 3.4; for a single
    proportion this is Jeffreys' interval: Brown, Cai & DasGupta 2001, Stat. Sci. 16). Perfect
    agreement, or an answer that one rater alone gave, does not make it collapse, as it does the
    jackknife and the bootstrap. Where items share clusters or have weights, counts are divided by
    the design effect: the variance of the linearised figure over clusters, divided by that over
    independent items (Rao & Scott 1992, Biometrics 48).

    There is no interval below `minimum` clusters, nor where there is a single category. Nor is
    there one for a figure that a single category leaves undefined, where chance alone would make
    fewer than `MIN_EXPECTED` independent items differ.

    Args:
        counts: (clusters, patterns): how often each pattern occurs, or the sum of its weights.
        units: (patterns, columns): the sums that `figure` takes, of one item with this pattern.
        answers: (patterns, categories): how many raters gave each answer.
        figure: of sums over all items, (..., columns); NaN where it is undefined.
        frequencies: the number of clusters that each entry stands for; None: one each.
    """
    import numpy as np

    times = np.ones(len(counts)) if frequencies is None else frequencies
    total = times @ counts
    n, clusters = float(total.sum()), float(times[counts.any(axis=1)].sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        if n:
            value = float(figure(total @ units))
        else:
            value = float("nan")
    if not np.isfinite(value):
        return AgreementEstimate(None, why=MissingReason.ONE_CATEGORY if n else MissingReason.NOTHING)
    if clusters < max(2, minimum):
        return AgreementEstimate(value, why=MissingReason.TOO_FEW)
    agree, differ = ((answers > 0).sum(axis=1) == 1) & (answers.sum(axis=1) > 1), (answers > 0).sum(axis=1) > 1
    if not differ.any():
        return AgreementEstimate(value, why=MissingReason.ONE_CATEGORY)
    with np.errstate(divide="ignore", invalid="ignore"):
        needs_both = bool(np.isnan(figure(n * units[agree])).any())  # undefined for a single category
    disagreement = ADDED_DISAGREEMENT if needs_both else ADDED_NEAR_ONE
    added = ADDED_AGREEMENT * agree / max(1, agree.sum()) + disagreement * differ / max(1, differ.sum())
    padded, step = (total + added) @ units, 1e-6 * n
    influence = (figure(padded + step * units) - figure(padded)) / step
    over_clusters = float((times * (counts @ influence) ** 2).sum()) * clusters / (clusters - 1)
    if_independent = float((total * influence**2).sum())
    effective = total / max(1.0, over_clusters / if_independent if if_independent > 0 else 1.0)
    shares = effective @ (answers / answers.sum(axis=1, keepdims=True)) / effective.sum()
    if needs_both and effective.sum() * (1 - (shares**2).sum()) < MIN_EXPECTED:
        return AgreementEstimate(value, why=MissingReason.UNEVEN)
    # Rounded, so that sums in another order give the same draws and the same interval.
    seen = np.round(effective + added, 9)
    chances = np.random.default_rng(SEED).standard_gamma(seen, size=(DRAWS, len(seen)))
    drawn = figure(n * (chances / chances.sum(axis=1, keepdims=True)) @ units)
    low, high = np.quantile(drawn[np.isfinite(drawn)], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return AgreementEstimate(value, min(value, float(low)), max(value, float(high)))


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


def _item_sums(ratings: "Tables") -> "Tables":
    """The sums that the figures of several raters take, per item.

    Columns: whether it has two answers or more, the share of pairs that are equal, whether it has
    any; the share of each answer; the number of each answer, where there are two or more; and
    Krippendorff's observed disagreement.
    """
    import numpy as np

    n = ratings.sum(axis=1)
    is_pair, others = n > 1, np.maximum(n - 1, 1)
    equal = (ratings * (ratings - 1)).sum(axis=1) / (n * others)
    differing = (ratings * (n[:, None] - ratings)).sum(axis=1) / others
    shares = ratings / n[:, None]
    return np.column_stack([is_pair, equal, n > 0, shares, ratings * is_pair[:, None], differing * is_pair])


def _raw_of_items(sums: "Tables") -> "Values":
    return sums[..., 1] / sums[..., 0]


def _shares_of_items(sums: "Tables") -> "Tables":
    return sums[..., 3 : 3 + (sums.shape[-1] - 4) // 2] / sums[..., 2:3]


def _fleiss_of_items(sums: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe = sum(pi_q^2): Fleiss (1971); missing answers: Gwet (2014)."""
    return _chance_corrected(_raw_of_items(sums), (_shares_of_items(sums) ** 2).sum(axis=-1))


def _ac1_of_items(sums: "Tables") -> "Values":
    """(po - pe) / (1 - pe), where pe = sum(pi_q (1 - pi_q)) / (Q - 1): Gwet (2008)."""
    shares = _shares_of_items(sums)
    return _chance_corrected(_raw_of_items(sums), (shares * (1 - shares)).sum(axis=-1) / max(1, shares.shape[-1] - 1))


def _alpha_of_items(sums: "Tables") -> "Values":
    """1 - Do / De, nominal (Krippendorff 2011)."""
    import numpy as np

    k = (sums.shape[-1] - 4) // 2
    margins, observed = sums[..., 3 + k : 3 + 2 * k], sums[..., -1]
    n = margins.sum(axis=-1)
    expected = n**2 - (margins**2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 1e-9, 1 - (n - 1) * observed / expected, np.nan)


def _chance_corrected(observed: "Values", by_chance: "Values") -> "Values":
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        # Chance agreement of exactly one must be recognised despite rounding.
        return np.where(1 - by_chance > 1e-12, (observed - by_chance) / (1 - by_chance), np.nan)


def _total(tables: "Tables") -> "Values":
    return tables.sum(axis=(-1, -2))  # type: ignore[no-any-return]


def _trace(tables: "Tables") -> "Values":
    return tables.trace(axis1=-2, axis2=-1)  # type: ignore[no-any-return]
