"""95 % intervals hold the truth in 93 to 97 of 100 simulated studies, and tests hold their level.

On every push a few cells and studies, which only a gross fault fails; `make test-thorough` runs 2,000 studies in every cell.
"""

from collections.abc import Iterable

import numpy as np
import pytest

from evaluation.statistics.comparisons import mcnemar, paired_difference
from evaluation.statistics.correction import corrected_rate
from evaluation.statistics.multiplicity import holm
from tests.evaluation.statistics import coverage
from tests.evaluation.statistics.coverage import Cell
from tests.profile import far

STUDIES = far(150, coverage.STUDIES)
# Simulation error: two standard errors around the goal's ends with few studies, none of it forgiven with 2,000.
LOW, HIGH = far((0.88, 1.0), (0.93, 0.97))


def some(cells: Iterable[Cell], every: int) -> list[Cell]:
    return list(cells)[:: far(every, 1)]


RATES = some(coverage.rates((0.1, 0.3, 0.5, 0.9), (50, 100, 300)), 7)
DIFFERENCES = some(coverage.differences(((0.1, 0.3), (0.3, 0.3), (0.3, 0.5), (0.5, 0.5)), (20, 50, 200)), 7)
SOURCES = some(coverage.sources((0.3, 0.5), (30, 100)), 5)
CORRECTED = some(coverage.corrected((0.3, 0.6), ((300, 0.2), (1000, 0.1))), 6)
FEW = some([*coverage.rates((0.02, 0.05, 0.1, 0.9), (10, 20)), *coverage.rates((0.02, 0.05), (50, 100, 300))], 9)
FEW_DIFFERENCES = some(coverage.differences(((0.05, 0.15), (0.1, 0.1)), (10, 20, 50, 200)), 7)


@pytest.mark.parametrize("cell", [*RATES, *SOURCES, *DIFFERENCES, *CORRECTED], ids=lambda cell: cell.name)
def test_interval_holds_the_truth(cell: Cell) -> None:
    assert LOW <= cell.coverage(STUDIES) <= HIGH


@pytest.mark.parametrize("cell", [*FEW, *FEW_DIFFERENCES], ids=lambda cell: cell.name)
def test_interval_of_a_rare_failure_in_few_samples_is_wide_rather_than_wrong(cell: Cell) -> None:
    """With hardly any failure only a few outcomes are possible, so that no interval comes to 95 %: it may hold more."""
    assert cell.coverage(STUDIES) >= LOW


def test_as_if_independent_misses() -> None:
    """What the clusters are for."""
    cell = next(coverage.independent((0.3,), (100,)))
    assert cell.coverage(STUDIES) < 0.9


@pytest.mark.parametrize("icc", coverage.ICC)
def test_tests_hold_their_level_under_the_null(icc: float) -> None:
    """Two models alike: the difference is found in no more than one study of twenty, by either test."""
    random, found, exact = np.random.default_rng(4), 0, 0
    for _ in range(STUDIES):
        one, other, m = coverage.two_models(random, 0.3, 0.3, icc, 60)
        p = paired_difference(one, m, other, m).p
        assert p is not None
        found += p < 0.05
        exact += mcnemar(one > 0, other > 0).p < 0.05
    assert found / STUDIES <= far(0.1, 0.062)
    assert exact / STUDIES <= far(0.09, 0.05)


def test_holm_keeps_the_family_at_its_level() -> None:
    """Four models alike, six pairs: some pair is found different in no more than one study of twenty."""
    random, found = np.random.default_rng(5), 0
    studies = far(60, 1000)
    for _ in range(studies):
        m, chance = np.full(40, 4), coverage.chances(random, 0.3, 0.3, 40)
        failures = [random.binomial(m, chance) for _ in range(4)]
        p = [paired_difference(failures[i], m, failures[j], m).p or 1.0 for i in range(4) for j in range(i + 1, 4)]
        found += min(holm(p)) < 0.05
    assert found / studies <= far(0.15, 0.06)


def test_correction_recovers_what_a_noisy_judge_hid() -> None:
    random = np.random.default_rng(6)
    sample, truth, verdict = coverage.judged(random, 0.2, 0.3, 4000, se=0.8, sp=0.85)
    weights = coverage.drawn(random, sample, verdict, 0.25)
    found = corrected_rate(sample, verdict, np.where(weights > 0, truth, np.nan), weights)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert verdict.mean() == pytest.approx(0.28, abs=0.02), "what the judge says"
    assert found.value == pytest.approx(truth.mean(), abs=0.02), "what is"
    assert found.low < 0.2 < found.high
    assert found.high < verdict.mean()
