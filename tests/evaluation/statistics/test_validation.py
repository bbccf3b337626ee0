"""The quality of a judge against physicians, and rates corrected for its errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from bench import coverage
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.correction import UncorrectedReason, corrected_rate
from evaluation.statistics.intervals import Method, rate_interval
from evaluation.statistics.two_phase import two_phase_table
from evaluation.statistics.validation import JudgeQuality, judge_quality


def quality_of(
    clusters: ArrayLike, truth: ArrayLike, judge: ArrayLike, weights: ArrayLike | None = None
) -> JudgeQuality:
    """The quality of a judge. `truth`: NaN where no physician decided."""
    return judge_quality(two_phase_table(np.asarray(clusters), judge, truth, weights=weights))


def test_the_quality_of_a_judge_is_as_computed_by_hand() -> None:
    """The judge finds 8 of 10 failures and passes 27 of 30 others, one criterion per sample."""
    truth = [True] * 10 + [False] * 30
    judge = [True] * 8 + [False] * 2 + [False] * 27 + [True] * 3
    quality = quality_of(range(40), truth, judge)
    assert (quality.sensitivity.value, quality.specificity.value) == (0.8, 0.9)
    assert (quality.n, quality.clusters, quality.sensitivity.n, quality.specificity.n) == (40, 40, 10, 30)
    assert (quality.sensitivity.method, quality.specificity.method) == (Method.TWO_PHASE, Method.TWO_PHASE)
    # Wilson's interval of 8 of 10 is .49 to .94; here the number of failures is not fixed either.
    assert (quality.sensitivity.low, quality.sensitivity.high) == pytest.approx((0.49, 0.94), abs=0.04)
    chance = (10 * 11 + 30 * 29) / 40**2
    assert quality.kappa.value == pytest.approx((35 / 40 - chance) / (1 - chance))
    for figure in (quality.kappa, quality.ac1, quality.balanced_f1):
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low < figure.value < figure.high


def test_weights_undo_an_uneven_draw() -> None:
    """All answers that the judge failed are drawn, and one in twenty of the rest.

    With weights the draw gives the figures of all answers, without weights it does not.
    """
    random = np.random.default_rng(1)
    sample, truth, verdict = coverage.judged_criteria(random, 0.3, 0.3, 6000, 0.85, 0.9)
    chance = np.where(verdict, 1.0, 0.05)
    drawn = random.random(len(sample)) < chance
    checked = np.where(drawn, truth, np.nan)
    all_answers = quality_of(sample, truth, verdict)
    weighted = quality_of(sample, checked, verdict, 1 / chance)
    unweighted = quality_of(sample[drawn], truth[drawn], verdict[drawn])
    for name in ("sensitivity", "specificity", "kappa", "balanced_f1", "ac1"):
        expected = getattr(all_answers, name).value
        assert getattr(weighted, name).value == pytest.approx(expected, abs=0.04)
        assert abs(getattr(unweighted, name).value - expected) > 0.05


def test_no_miss_among_sixty_checked_answers_is_no_certainty() -> None:
    """Sixty of 1,000 answers that the judge passed stand for 950: up to .06 of them may be wrong.

    By the exact bound of no failure in 60 (Clopper & Pearson 1934: .0596), 57 failures of 950 may
    be missed beside 45 found: a sensitivity of .44.
    """
    judge, truth = np.arange(1000) < 50, np.full(1000, np.nan)
    truth[:50] = np.arange(50) < 45
    truth[50:110] = 0
    quality = quality_of(np.arange(1000), truth, judge)
    assert quality.sensitivity.value == quality.sensitivity.high == 1
    assert quality.sensitivity.low == pytest.approx(0.48, abs=0.08)
    corrected = corrected_rate(np.arange(1000), judge, truth)
    assert corrected.value == pytest.approx(0.045)
    assert corrected.high == pytest.approx(0.045 + 0.95 * 0.05, abs=0.015)


def test_quality_is_undefined_where_a_class_is_missing() -> None:
    quality = quality_of(range(20), [False] * 20, [False] * 20)
    assert (quality.sensitivity.value, quality.sensitivity.method) == (None, Method.UNDEFINED)
    assert quality.specificity.value == 1
    assert (quality.kappa.value, quality.balanced_f1.value) == (None, None)
    nothing = quality_of([], [], [])
    assert (nothing.n, nothing.kappa.value) == (0, None)


@pytest.mark.parametrize("weights", [[0.0], [-1.0], [1.0, 1.0]])
def test_impossible_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        quality_of([1], [True], [True], weights)
    with pytest.raises(ValueError, match="weight"):
        corrected_rate([1], [True], [1.0], weights)


def test_the_correction_is_that_of_rogan_and_gladen() -> None:
    """With weights scaled to the verdicts of the run it is (q + Sp - 1) / (Se + Sp - 1) exactly."""
    random = np.random.default_rng(2)
    sample, truth, verdict = coverage.judged_criteria(random, 0.3, 0.3, 200, 0.8, 0.85)
    seen = random.random(len(sample)) < 0.3
    weights = random.uniform(1, 4, len(sample))
    corrected = corrected_rate(sample, verdict, np.where(seen, truth, np.nan), weights)
    quality = quality_of(sample, np.where(seen, truth, np.nan), verdict, weights)
    assert quality.sensitivity.value is not None
    assert quality.specificity.value is not None
    gain = quality.sensitivity.value + quality.specificity.value - 1
    assert corrected.value == pytest.approx((verdict.mean() + quality.specificity.value - 1) / gain)


def test_with_every_criterion_validated_the_corrected_rate_is_that_of_the_physicians() -> None:
    random = np.random.default_rng(3)
    sample, truth, verdict = coverage.judged_criteria(random, 0.3, 0.3, 300, 0.8, 0.85)
    corrected = corrected_rate(sample, verdict, truth.astype(float))
    expected = rate_interval(*cluster_totals(sample, truth, np.ones(len(sample))))
    assert corrected.value == pytest.approx(expected.value)
    assert (corrected.low, corrected.high) == pytest.approx((expected.low, expected.high), abs=0.004)


ROWS = st.lists(
    st.tuples(st.integers(0, 15), st.booleans(), st.sampled_from([0.0, 1.0, float("nan")]), st.floats(0.5, 20)),
    max_size=80,
)


@given(ROWS)
def test_a_corrected_rate_is_in_range(rows: list[tuple[int, bool, float, float]]) -> None:
    corrected = corrected_rate(*([row[i] for row in rows] for i in range(4)))
    if corrected.value is None:
        assert corrected.why is UncorrectedReason.NOTHING
        return
    assert 0 <= corrected.value <= 1
    if corrected.low is not None and corrected.high is not None:
        assert 0 <= corrected.low <= corrected.value + 1e-9
        assert corrected.value - 1e-9 <= corrected.high <= 1


def test_there_is_no_interval_with_few_verdicts_of_physicians() -> None:
    sample, judge = np.arange(50), np.arange(50) < 20
    physician = np.where(np.arange(50) % 7 == 0, judge, np.nan)
    corrected = corrected_rate(sample, judge, physician)
    assert corrected.value == pytest.approx(0.4)
    assert corrected.low is None
    assert corrected_rate(sample, judge, np.where(judge, 1.0, np.nan)).why is UncorrectedReason.NOTHING
