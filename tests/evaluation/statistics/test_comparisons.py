"""Differences between models, multiple comparisons, ranks, planning and repeats."""

from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import coverage
from evaluation.statistics.comparisons import mcnemar, paired_difference, score_difference
from evaluation.statistics.intervals import rate_interval
from evaluation.statistics.multiplicity import Rank, benjamini_hochberg, holm, ranks
from evaluation.statistics.planning import (
    design_effect,
    detectable_difference,
    expected_precision,
    power_of_difference,
)
from evaluation.statistics.repeats import VarianceComponents, variance_components
from tests.profile import by_profile

PAIRS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6)).map(
        lambda x: (x[0], min(x[:2]), min(x[0], x[2]))
    ),
    min_size=10,
    max_size=40,
)


@given(PAIRS)
def test_a_difference_is_in_range_and_antisymmetric(clusters: list[tuple[int, int, int]]) -> None:
    m, one, other = ([row[i] for row in clusters] for i in range(3))
    comparison, reversed_comparison = paired_difference(one, m, other, m), paired_difference(other, m, one, m)
    assert comparison.difference is not None
    assert reversed_comparison.difference == pytest.approx(-comparison.difference)
    if comparison.low is None or comparison.high is None or comparison.p is None or reversed_comparison.high is None:
        return
    assert -1 <= comparison.low <= comparison.difference + 1e-12
    assert comparison.difference - 1e-12 <= comparison.high <= 1
    assert comparison.low == pytest.approx(-reversed_comparison.high)
    assert 0 <= comparison.p <= 1
    assert (comparison.p < 0.05) == (comparison.low > 0 or comparison.high < 0) or abs(comparison.p - 0.05) < 1e-9


def test_only_clusters_of_both_models_count() -> None:
    comparison = paired_difference([1] * 12 + [4], [4] * 13, [2] * 12 + [0], [4] * 12 + [0])
    assert (comparison.clusters, comparison.first, comparison.second) == (12, 0.25, 0.5)
    assert comparison.difference == -0.25
    assert paired_difference([1], [1], [0], [0]).difference is None


def test_pairing_makes_a_difference_more_certain() -> None:
    """For the same two rates, with samples that are hard for both models or for one of them."""
    hard = np.array([4] * 20 + [0] * 20)
    same_samples = paired_difference(hard, [4] * 40, np.maximum(hard - 1, 0), [4] * 40)
    different_samples = paired_difference(hard, [4] * 40, np.maximum(hard - 1, 0)[::-1], [4] * 40)
    assert same_samples.difference == different_samples.difference
    assert same_samples.p is not None
    assert different_samples.p is not None
    assert same_samples.p < 0.001 < 0.1 < different_samples.p


def test_too_few_clusters_have_a_difference_without_a_test() -> None:
    comparison = paired_difference([4] * 9, [4] * 9, [0] * 9, [4] * 9)
    assert (comparison.difference, comparison.low, comparison.p) == (1, None, None)
    assert comparison.odds_ratio is None


def test_models_that_never_differ_still_have_an_uncertain_difference() -> None:
    comparison = paired_difference([1] * 30, [4] * 30, [1] * 30, [4] * 30)
    assert comparison.p == 1
    assert comparison.low is not None
    assert comparison.low < 0


def test_mcnemar_needs_the_same_samples() -> None:
    assert mcnemar([True] * 6, [False] * 6).p == pytest.approx(2 / 2**6)
    assert mcnemar([], []).p == 1
    with pytest.raises(ValueError, match="every sample"):
        mcnemar([True], [])


# --------------------------------------------------------------------------------- many comparisons

P = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(P)
def test_adjusted_p_values_keep_their_order_and_never_fall(p: list[float]) -> None:
    for adjusted in (holm(p), benjamini_hochberg(p)):
        assert all(before <= after + 1e-12 for before, after in zip(p, adjusted, strict=True))
        assert [adjusted[i] for i in np.argsort(p, kind="stable")] == sorted(adjusted)
    assert all(one <= other + 1e-12 for one, other in zip(benjamini_hochberg(p), holm(p), strict=True))


def test_a_p_value_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, 1.2])


def test_ranks_say_which_places_are_possible() -> None:
    rates = {"a": 0.1, "b": 0.2, "c": 0.22, "d": 0.5}
    pairs = {("a", "b"): (-0.1, 0.03), ("a", "c"): (-0.12, 0.02), ("b", "c"): (-0.02, 0.7), ("d", "a"): (0.4, 0.001)}
    assert ranks(rates, pairs) == {"a": Rank(1, 1, 1), "b": Rank(2, 2, 4), "c": Rank(3, 2, 4), "d": Rank(4, 2, 4)}
    assert ranks({"a": 0.5, "b": 0.5}, {}) == {"a": Rank(1, 1, 2), "b": Rank(1, 1, 2)}


# ------------------------------------------------------------------------------------- before a run


def test_the_design_effect_is_as_computed_by_hand() -> None:
    assert design_effect([4] * 10, 0.5) == 2.5
    assert design_effect([1, 7], 0.5) == 1 + (50 / 8 - 1) * 0.5
    assert design_effect([1] * 5, 0.9) == 1
    assert design_effect([4] * 10, -0.1) == 1


def test_the_expected_precision_is_that_of_simulated_studies() -> None:
    random = np.random.default_rng(2)
    m = coverage.sizes(random, 400)
    plan = expected_precision(0.3, m, 0.4)
    intervals = [rate_interval(random.binomial(m, coverage.chances(random, 0.3, 0.4, 400)), m) for _ in range(60)]
    widths = [(one.high - one.low) / 2 for one in intervals if one.high is not None and one.low is not None]
    assert plan.half_width == pytest.approx(np.mean(widths), rel=0.05)
    assert (plan.clusters, plan.n) == (400, m.sum())
    assert expected_precision(0.3, [4] * 9, 0.4).half_width is None
    assert expected_precision(0.3, [], 0.4).n == 0


@pytest.mark.parametrize(("first", "second"), [(0.3, 0.42), (0.3, 0.3)])
@pytest.mark.parametrize("samples", [30, 120])
def test_power_is_the_share_of_studies_that_find_the_difference(first: float, second: float, samples: int) -> None:
    random, studies = np.random.default_rng(3), by_profile(150, 2000)
    significant, pairings = 0, list[float | None]()
    for _ in range(studies):
        one, other, m = coverage.two_models(random, first, second, 0.3, samples)
        p = paired_difference(one, m, other, m).p
        significant += p is not None and p < 0.05
        pairings.append(coverage.correlation_of_models(one, m, other, m))
    power = power_of_difference(first, second, m, 0.3, pairing=float(np.mean([one or 0 for one in pairings])))
    assert significant / studies == pytest.approx(power, abs=by_profile(0.12, 0.03))


def test_the_power_of_few_samples_is_that_of_all_outcomes_the_test_rejects() -> None:
    """Every number of samples that one model alone fails, of 12, by its chance."""
    n, first, second = 12, 0.1, 0.5
    both, size = first * second, np.ones(12)
    chances = first - both, second - both, 1 - first - second + 2 * both
    power = 0.0
    for one, other in product(range(n + 1), repeat=2):
        rest = n - one - other
        if rest < 0:
            continue
        a, b = (np.repeat(failed, [one, other, rest]) for failed in ([1, 0, 0], [0, 1, 0]))
        p = paired_difference(a, size, b, size).p
        ways = comb(n, one) * comb(n - one, other)
        power += (
            ways * prod(c**k for c, k in zip(chances, (one, other, rest), strict=True)) * (p is not None and p < 0.05)
        )
    assert power_of_difference(first, second, size, 0.3) == pytest.approx(power)
    assert power_of_difference(first, second, [1, *size], 0.0) > power


def test_the_power_of_few_samples_of_several_criteria_is_that_of_simulated_studies() -> None:
    """The noncentral t promises 10.7 % here."""
    random, sizes, studies = np.random.default_rng(5), [2] * 10, 1500
    significant = 0
    for _ in range(studies):
        one, other = (random.binomial(2, coverage.chances(random, rate, 0.3, 10)) for rate in (0.05, 0.15))
        p = paired_difference(one, sizes, other, sizes).p
        significant += p is not None and p < 0.05
    power = power_of_difference(0.05, 0.15, sizes, 0.3)
    assert significant / studies == pytest.approx(power, abs=0.02)
    assert power < 0.05
    assert power_of_difference(0.05, 0.15, sizes, 0.3, pairing=0.9) < power_of_difference(0.1, 0.6, sizes, 0.3)
    found = detectable_difference(0.3, [2] * 20, 0.3)
    assert found is not None
    assert power_of_difference(0.3, 0.3 + found, [2] * 20, 0.3) == pytest.approx(0.8, abs=0.01)


def test_the_detectable_difference_has_its_power_and_shrinks_with_n() -> None:
    m = [4] * 125
    difference = detectable_difference(0.3, m, 0.3, pairs=6)
    assert difference is not None
    assert power_of_difference(0.3, 0.3 + difference, m, 0.3, pairs=6) == pytest.approx(0.8, abs=1e-6)
    assert difference > (detectable_difference(0.3, m * 4, 0.3, pairs=6) or 1)
    assert difference > (detectable_difference(0.3, m, 0.3) or 1)
    assert difference > (detectable_difference(0.3, m, 0.0, pairs=6) or 1)
    assert difference > (detectable_difference(0.3, m, 0.3, pairs=6, pairing=0.5) or 1)
    assert detectable_difference(0.9, [1] * 5, 0) is None
    assert power_of_difference(0.0, 0.0, m, 0) == 0
    assert power_of_difference(0.0, 1.0, m, 0) == 1


# ------------------------------------------------------------------------------------------ repeats


def test_variance_components_recover_the_simulated_variances() -> None:
    """Unequal repeats of yes-no verdicts with a mean chance of 0.3; the judge flips one in ten."""
    random = np.random.default_rng(4)
    sample, answer, values = [], [], []
    for one in range(3000):
        chance = random.beta(0.6, 1.4)
        for repeat in range(random.integers(1, 5)):
            failed = random.random() < chance
            for _ in range(random.integers(1, 4)):
                sample.append(one)
                answer.append(repeat)
                values.append(failed != (random.random() < 0.1))
    components = variance_components(sample, answer, values)
    between = 0.6 * 1.4 / (2**2 * 3)  # variance of a beta distribution
    # The judge calls .9 of the failed and .1 of the passed answers failed, so differences between
    # samples and answers shrink by a factor of .8.
    assert components.sample == pytest.approx(0.64 * between, rel=0.1)
    assert components.answer == pytest.approx(0.64 * (0.3 * 0.7 - between), rel=0.1)
    assert components.judge == pytest.approx(0.09, rel=0.1)
    assert components.clipped == ()


def test_components_that_cannot_be_estimated_are_none() -> None:
    once = variance_components([1, 2, 3, 4], [1, 1, 1, 1], [0, 1, 1, 0])
    assert (once.answer, once.judge) == (None, None)
    assert once.sample == pytest.approx(np.var([0, 1, 1, 0], ddof=1))
    judged_again = variance_components([1, 1, 2, 2, 3, 3], [1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1])
    assert judged_again.answer is None
    assert judged_again.judge == pytest.approx(1 / 6)
    answered_again = variance_components([1, 1, 2, 2, 3, 3], [1, 2, 1, 2, 1, 2], [0, 0, 1, 1, 0, 1])
    assert answered_again.judge is None
    assert answered_again.answer == pytest.approx(1 / 6)
    assert variance_components([], [], []) == VarianceComponents(0, None, None, None)
    assert variance_components([1, 1], [1, 1], [0, 1]).sample is None


def test_a_negative_component_is_clipped_and_reported() -> None:
    components = variance_components([1, 1, 2, 2], [1, 2, 1, 2], [0, 1, 0, 1])
    assert (components.sample, components.clipped) == (0, ("sample",))


def test_the_difference_of_scores_is_that_of_the_paired_t_test_in_large_samples() -> None:
    from scipy import stats

    random = np.random.default_rng(8)
    first, second = random.normal(0.5, 0.2, 2000), random.normal(0.49, 0.2, 2000)
    found, one = score_difference(first, np.ones(2000), second, np.ones(2000)), np.ones(2000)
    expected = stats.ttest_rel(first, second)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-4)
    assert found.p == pytest.approx(expected.pvalue, rel=0.05)
    # Ten alike in each cluster carry the information of one.
    tenfold = score_difference(10 * first, 10 * one, 10 * second, 10 * one)
    assert (tenfold.low, tenfold.high, tenfold.p) == pytest.approx((found.low, found.high, found.p))


@pytest.mark.parametrize("difference", [0.0, 0.01])
def test_scores_that_all_differ_alike_say_nothing_of_how_sure_the_difference_is(difference: float) -> None:
    scores, ones = np.random.default_rng(9).random(11), np.ones(11)
    found = score_difference(scores + difference, ones, scores, ones)
    assert found.difference == pytest.approx(difference)
    assert (found.low, found.high, found.p) == (None, None, None)
    some = score_difference(scores + np.where(np.arange(11) < 1, 0.2, 0.0), ones, scores, ones)
    assert some.low is not None
    assert some.high is not None
    assert some.low < 0 < 0.2 / 11 < some.high


def test_a_mean_beyond_the_limits_of_a_score_has_no_interval_of_its_difference() -> None:
    scores, ones = np.linspace(-0.4, 0.2, 30), np.ones(30)
    found = score_difference(scores, ones, scores**2 + 0.3, ones, limits=(0.0, 1.0))
    assert (found.first, found.low, found.p) == (0.0, None, None)
    assert found.difference == pytest.approx(-(scores**2).mean() - 0.3)
