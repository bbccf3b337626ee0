"""The judge against physicians, and rates corrected for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.correction import UncorrectedReason, corrected_rate, externally_corrected_rate
from evaluation.statistics.intervals import Method, RateInterval, rate_interval
from evaluation.statistics.validation import judge_quality
from tests.evaluation.statistics import coverage


def share(value: float, n: float) -> RateInterval:
    return RateInterval(value, 0, 1, Method.WILSON, round(n), round(n), n)


def test_quality_by_hand() -> None:
    """8 of 10 failures found, 27 of 30 passes left alone: a criterion a sample."""
    truth = [True] * 10 + [False] * 30
    judge = [True] * 8 + [False] * 2 + [False] * 27 + [True] * 3
    found = judge_quality(range(40), truth, judge)
    assert (found.sensitivity.value, found.specificity.value) == (0.8, 0.9)
    assert (found.n, found.clusters, found.sensitivity.n, found.specificity.n) == (40, 40, 10, 30)
    assert found.sensitivity.method is Method.WILSON
    chance = (10 * 11 + 30 * 29) / 40**2
    assert found.kappa.value == pytest.approx((35 / 40 - chance) / (1 - chance))
    for figure in (found.kappa, found.ac1, found.balanced_f1):
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low < figure.value < figure.high


def test_weights_undo_an_uneven_draw() -> None:
    """All answers that the judge failed and one in twenty of the rest: weighted it is the whole, unweighted it is not."""
    random = np.random.default_rng(1)
    sample, truth, verdict = coverage.judged(random, 0.3, 0.3, 6000, 0.85, 0.9)
    chance = np.where(verdict, 1.0, 0.05)
    kept = random.random(len(sample)) < chance
    whole = judge_quality(sample, truth, verdict, draws=0)
    found = judge_quality(sample[kept], truth[kept], verdict[kept], 1 / chance[kept], draws=0)
    plain = judge_quality(sample[kept], truth[kept], verdict[kept], draws=0)
    for name in ("sensitivity", "specificity", "kappa", "balanced_f1", "ac1"):
        right = getattr(whole, name).value
        assert getattr(found, name).value == pytest.approx(right, abs=0.04)
        assert abs(getattr(plain, name).value - right) > 0.05
    assert found.sensitivity.method is Method.CLUSTERED


def test_quality_without_one_class_says_so() -> None:
    found = judge_quality(range(20), [False] * 20, [False] * 20)
    assert (found.sensitivity.value, found.sensitivity.method) == (None, Method.UNDEFINED)
    assert found.specificity.value == 1
    assert (found.kappa.value, found.balanced_f1.value) == (None, None)
    nothing = judge_quality([], [], [])
    assert (nothing.n, nothing.kappa.value) == (0, None)


@pytest.mark.parametrize("weights", [[0.0], [-1.0], [1.0, 1.0]])
def test_impossible_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        judge_quality([1], [True], [True], weights)
    with pytest.raises(ValueError, match="weight"):
        corrected_rate([1], [True], [1.0], weights)


def test_correction_is_rogan_and_gladens() -> None:
    """With weights scaled to the run's verdicts, the sum over verdicts is (q + Sp - 1) / (Se + Sp - 1) exactly."""
    random = np.random.default_rng(2)
    sample, truth, verdict = coverage.judged(random, 0.3, 0.3, 200, 0.8, 0.85)
    seen = random.random(len(sample)) < 0.3
    weights = random.uniform(1, 4, len(sample))
    found = corrected_rate(sample, verdict, np.where(seen, truth, np.nan), weights)
    scaled = weights.copy()
    for those in (verdict, ~verdict):
        scaled[those] *= those.sum() / weights[those & seen].sum()
    quality = judge_quality(sample[seen], truth[seen], verdict[seen], scaled[seen], draws=0)
    assert quality.sensitivity.value is not None
    assert quality.specificity.value is not None
    gain = quality.sensitivity.value + quality.specificity.value - 1
    assert found.value == pytest.approx((verdict.mean() + quality.specificity.value - 1) / gain)


def test_correction_of_everything_seen_is_the_physicians_rate() -> None:
    random = np.random.default_rng(3)
    sample, truth, verdict = coverage.judged(random, 0.3, 0.3, 300, 0.8, 0.85)
    found = corrected_rate(sample, verdict, truth.astype(float))
    plain = rate_interval(*cluster_totals(sample, truth, np.ones(len(sample))))
    assert found.value == pytest.approx(plain.value)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.002)


ROWS = st.lists(
    st.tuples(st.integers(0, 15), st.booleans(), st.sampled_from([0.0, 1.0, float("nan")]), st.floats(0.5, 20)),
    max_size=80,
)


@given(ROWS)
def test_corrected_rate_is_in_range(rows: list[tuple[int, bool, float, float]]) -> None:
    found = corrected_rate(*([row[i] for row in rows] for i in range(4)))
    if found.value is None:
        assert found.why is UncorrectedReason.NOTHING
        return
    assert 0 <= found.value <= 1
    assert not found.clipped
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.value + 1e-9
        assert found.value - 1e-9 <= found.high <= 1


def test_no_interval_with_few_physicians_verdicts() -> None:
    sample, judge = np.arange(50), np.arange(50) < 20
    physician = np.where(np.arange(50) % 7 == 0, judge, np.nan)
    found = corrected_rate(sample, judge, physician)
    assert found.value == pytest.approx(0.4)
    assert found.low is None
    assert corrected_rate(sample, judge, np.where(judge, 1.0, np.nan)).why is UncorrectedReason.NOTHING


def test_lang_and_reiczigel_by_their_formula() -> None:
    """q = .2 of 400, Se = .9 of 50, Sp = .95 of 100, written out."""
    found = externally_corrected_rate(share(0.2, 400), share(0.9, 50), share(0.95, 100))
    z2 = 1.959963984540054**2
    q, se, sp = (80 + z2 / 2) / (400 + z2), 46 / 52, 96 / 102
    pi = (q + sp - 1) / (se + sp - 1)
    a, b = se * (1 - se) / 52, sp * (1 - sp) / 102
    half = (z2 * (q * (1 - q) / (400 + z2) + pi**2 * a + (1 - pi) ** 2 * b)) ** 0.5 / (se + sp - 1)
    middle = pi + 2 * z2 * (pi * a - (1 - pi) * b)
    assert found.value == pytest.approx(0.15 / 0.85)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))


@given(*[st.floats(0, 1)] * 3, *[st.floats(5, 5000)] * 3)
def test_correction_from_elsewhere_is_clipped_and_says_so(
    q: float, se: float, sp: float, n: float, n_se: float, n_sp: float
) -> None:
    found = externally_corrected_rate(share(q, n), share(se, n_se), share(sp, n_sp))
    if se + sp - 1 <= 0:
        assert (found.value, found.why) == (None, UncorrectedReason.NO_BETTER_THAN_CHANCE)
        return
    estimate = (q + sp - 1) / (se + sp - 1)
    assert found.value == pytest.approx(min(1, max(0, estimate)))
    assert found.clipped == (not -1e-12 <= estimate <= 1 + 1e-12)
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.high <= 1


def test_nothing_to_correct_with() -> None:
    nothing = RateInterval(None, None, None, Method.UNDEFINED, 0, 0)
    assert externally_corrected_rate(share(0.2, 400), nothing, share(0.9, 50)).why is UncorrectedReason.NOTHING
    few = RateInterval(0.9, None, None, Method.TOO_FEW, 5, 20)
    found = externally_corrected_rate(share(0.2, 400), few, share(0.95, 100))
    assert found.value == pytest.approx(0.15 / 0.85)
    assert found.low is None
