"""Differences of models, many at once, ranks, plans, repeats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.statistics.comparisons import mcnemar, paired_difference
from evaluation.statistics.intervals import rate_interval
from evaluation.statistics.multiplicity import Rank, benjamini_hochberg, holm, ranks
from evaluation.statistics.planning import (
    correlation_of_models,
    design_effect,
    detectable_difference,
    expected_precision,
    power_of_difference,
)
from evaluation.statistics.repeats import VarianceComponents, variance_components
from tests.evaluation.statistics import coverage
from tests.profile import far

PAIRS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6)).map(
        lambda x: (x[0], min(x[:2]), min(x[0], x[2]))
    ),
    min_size=10,
    max_size=40,
)


@given(PAIRS)
def test_difference_is_in_range_and_turns_round(clusters: list[tuple[int, int, int]]) -> None:
    m, one, other = ([row[i] for row in clusters] for i in range(3))
    found, turned = paired_difference(one, m, other, m), paired_difference(other, m, one, m)
    assert found.difference is not None
    assert turned.difference == pytest.approx(-found.difference)
    if found.low is None or found.high is None or found.p is None or turned.high is None:
        return
    assert -1 <= found.low <= found.difference + 1e-12
    assert found.difference - 1e-12 <= found.high <= 1
    assert found.low == pytest.approx(-turned.high)
    assert 0 <= found.p <= 1
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0) or abs(found.p - 0.05) < 1e-9


def test_only_clusters_of_both_models_count() -> None:
    found = paired_difference([1] * 12 + [4], [4] * 13, [2] * 12 + [0], [4] * 12 + [0])
    assert (found.clusters, found.first, found.second) == (12, 0.25, 0.5)
    assert found.difference == -0.25
    assert paired_difference([1], [1], [0], [0]).difference is None


def test_pairing_narrows() -> None:
    """The same two rates, once on samples that are hard for both, once for either."""
    hard = np.array([4] * 20 + [0] * 20)
    both = paired_difference(hard, [4] * 40, np.maximum(hard - 1, 0), [4] * 40)
    either = paired_difference(hard, [4] * 40, np.maximum(hard - 1, 0)[::-1], [4] * 40)
    assert both.difference == either.difference
    assert both.p is not None
    assert either.p is not None
    assert both.p < 0.001 < 0.1 < either.p


def test_too_few_clusters_have_a_difference_without_a_test() -> None:
    found = paired_difference([4] * 9, [4] * 9, [0] * 9, [4] * 9)
    assert (found.difference, found.low, found.p) == (1, None, None)
    assert found.odds_ratio is None


def test_no_differing_sample_is_no_certainty() -> None:
    found = paired_difference([1] * 30, [4] * 30, [1] * 30, [4] * 30)
    assert found.p == 1
    assert found.low is not None
    assert found.low < 0


def test_mcnemar_wants_the_same_samples() -> None:
    assert mcnemar([True] * 6, [False] * 6).p == pytest.approx(2 / 2**6)
    assert mcnemar([], []).p == 1
    with pytest.raises(ValueError, match="every sample"):
        mcnemar([True], [])


# ----------------------------------------------------------------------------------------------------- many at once

P = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(P)
def test_adjusted_p_keeps_its_order_and_never_falls(p: list[float]) -> None:
    for adjusted in (holm(p), benjamini_hochberg(p)):
        assert all(before <= after + 1e-12 for before, after in zip(p, adjusted, strict=True))
        assert [adjusted[i] for i in np.argsort(p, kind="stable")] == sorted(adjusted)
    assert all(one <= other + 1e-12 for one, other in zip(benjamini_hochberg(p), holm(p), strict=True))


def test_p_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, 1.2])


def test_ranks_say_which_places_are_possible() -> None:
    rates = {"a": 0.1, "b": 0.2, "c": 0.22, "d": 0.5}
    pairs = {("a", "b"): (-0.1, 0.03), ("a", "c"): (-0.12, 0.02), ("b", "c"): (-0.02, 0.7), ("d", "a"): (0.4, 0.001)}
    assert ranks(rates, pairs) == {"a": Rank(1, 1, 1), "b": Rank(2, 2, 4), "c": Rank(3, 2, 4), "d": Rank(4, 2, 4)}
    assert ranks({"a": 0.5, "b": 0.5}, {}) == {"a": Rank(1, 1, 2), "b": Rank(1, 1, 2)}


# -------------------------------------------------------------------------------------------------------- before a run


def test_design_effect_by_hand() -> None:
    assert design_effect([4] * 10, 0.5) == 2.5
    assert design_effect([1, 7], 0.5) == 1 + (50 / 8 - 1) * 0.5
    assert design_effect([1] * 5, 0.9) == 1
    assert design_effect([4] * 10, -0.1) == 1


def test_plan_expects_what_the_study_then_finds() -> None:
    random = np.random.default_rng(2)
    m = coverage.sizes(random, 400)
    plan = expected_precision(0.3, m, 0.4)
    found = [rate_interval(random.binomial(m, coverage.chances(random, 0.3, 0.4, 400)), m) for _ in range(60)]
    widths = [(one.high - one.low) / 2 for one in found if one.high is not None and one.low is not None]
    assert plan.half_width == pytest.approx(np.mean(widths), rel=0.05)
    assert (plan.clusters, plan.n) == (400, m.sum())
    assert expected_precision(0.3, [4] * 9, 0.4).half_width is None
    assert expected_precision(0.3, [], 0.4).n == 0


@pytest.mark.parametrize(("first", "second"), [(0.3, 0.42), (0.3, 0.3)])
def test_power_is_how_often_it_is_found(first: float, second: float) -> None:
    random, studies = np.random.default_rng(3), far(150, 2000)
    found, pairings = 0, list[float | None]()
    for _ in range(studies):
        one, other, m = coverage.two_models(random, first, second, 0.3, 120)
        p = paired_difference(one, m, other, m).p
        found += p is not None and p < 0.05
        pairings.append(correlation_of_models(one, m, other, m))
    said = power_of_difference(
        first,
        second,
        expected_precision(0.3, m, 0.3).effective_n,
        pairing=float(np.mean([one or 0 for one in pairings])),
    )
    assert found / studies == pytest.approx(said, abs=far(0.12, 0.03))


def test_detectable_difference_has_its_power_and_shrinks_with_n() -> None:
    found = detectable_difference(0.3, 500, pairs=6)
    assert found is not None
    assert power_of_difference(0.3, 0.3 + found, 500, pairs=6) == pytest.approx(0.8, abs=1e-6)
    assert found > (detectable_difference(0.3, 2000, pairs=6) or 1)
    assert found > (detectable_difference(0.3, 500) or 1)
    assert found > (detectable_difference(0.3, 500, pairs=6, pairing=0.5) or 1)
    assert detectable_difference(0.9, 5) is None
    assert power_of_difference(0.0, 0.0, 100) == 0
    assert power_of_difference(0.0, 1.0, 100) == 1


# ------------------------------------------------------------------------------------------------------------ repeats


def test_components_recover_what_was_put_in() -> None:
    """Unequal repeats of yes-no verdicts: chance 0.3 by sample, then by answer, then the judge turns one in ten over."""
    random = np.random.default_rng(4)
    sample, answer, values = [], [], []
    for one in range(3000):
        chance = random.beta(0.6, 1.4)
        for again in range(random.integers(1, 5)):
            failed = random.random() < chance
            for _ in range(random.integers(1, 4)):
                sample.append(one)
                answer.append(again)
                values.append(failed != (random.random() < 0.1))
    found = variance_components(sample, answer, values)
    between = 0.6 * 1.4 / (2**2 * 3)  # variance of a beta distribution
    # A failed answer is judged so with .9, a passed one with .1: the differences above the judge shrink by .8.
    assert found.sample == pytest.approx(0.64 * between, rel=0.1)
    assert found.answer == pytest.approx(0.64 * (0.3 * 0.7 - between), rel=0.1)
    assert found.judge == pytest.approx(0.09, rel=0.1)
    assert found.clipped == ()


def test_what_repeats_cannot_tell_is_none() -> None:
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


def test_negative_component_is_clipped_and_said() -> None:
    found = variance_components([1, 1, 2, 2], [1, 2, 1, 2], [0, 1, 0, 1])
    assert (found.sample, found.clipped) == (0, ("sample",))


def test_variance_of_a_mean_shows_which_repeat_pays() -> None:
    parts = VarianceComponents(100, 0.08, 0.06, 0.02)
    assert parts.variance_of_mean(100) == pytest.approx(0.0016)
    assert parts.variance_of_mean(100, answers=2) == pytest.approx((0.08 + 0.03 + 0.01) / 100)
    assert parts.variance_of_mean(100, judgments=2) == pytest.approx((0.08 + 0.06 + 0.01) / 100)
    assert VarianceComponents(100, 0.08, 0.06, None).variance_of_mean(100, judgments=2) is None
