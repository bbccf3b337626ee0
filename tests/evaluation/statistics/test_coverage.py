"""95 % intervals contain the truth in 93 to 97 % of simulated studies; tests keep their level.

Every push runs a few cells and studies, which only a gross fault fails. `make test-thorough` runs
2,000 studies in every cell.
"""

from collections.abc import Iterable

import numpy as np
import pytest

from bench import coverage
from bench.coverage import Cell
from evaluation.statistics.comparisons import mcnemar, paired_difference
from evaluation.statistics.correction import corrected_rate
from evaluation.statistics.multiplicity import holm
from tests.profile import by_profile

STUDIES = by_profile(150, coverage.STUDIES)
# With few studies the limits allow for two standard errors of the simulation, otherwise for none.
LOW, HIGH = by_profile((0.88, 1.0), (0.93, 0.97))


def select_cells(cells: Iterable[Cell], every: int) -> list[Cell]:
    """Every `every`-th cell on a push, all cells in a thorough run."""
    return list(cells)[:: by_profile(every, 1)]


RATES = select_cells(coverage.rates((0.1, 0.3, 0.5, 0.9), (50, 100, 300)), 7)
DIFFERENCES = select_cells(coverage.differences(((0.1, 0.3), (0.3, 0.3), (0.3, 0.5), (0.5, 0.5)), (20, 50, 200)), 7)
SOURCES = select_cells(coverage.rates((0.3, 0.5), (30, 100), coverage.RECORD), 5)
CORRECTED = select_cells(coverage.corrected((0.3, 0.6), ((300, 0.2), (1000, 0.1))), 6)
FEW = select_cells(
    [*coverage.rates((0.02, 0.05, 0.1, 0.9), (10, 20)), *coverage.rates((0.02, 0.05), (50, 100, 300))], 9
)
FEW_DIFFERENCES = select_cells(coverage.differences(((0.05, 0.15), (0.1, 0.1)), (10, 20, 50, 200)), 7)


@pytest.mark.parametrize("cell", [*RATES, *SOURCES, *DIFFERENCES, *CORRECTED], ids=lambda cell: cell.name)
def test_an_interval_contains_the_truth_as_often_as_it_should(cell: Cell) -> None:
    assert LOW <= cell.coverage(STUDIES) <= HIGH


@pytest.mark.parametrize("cell", [*FEW, *FEW_DIFFERENCES], ids=lambda cell: cell.name)
def test_an_interval_for_rare_failures_in_few_samples_is_wide_rather_than_wrong(cell: Cell) -> None:
    """With hardly any failures few outcomes are possible: the coverage may exceed 95 %."""
    assert cell.coverage(STUDIES) >= LOW


def test_an_interval_that_ignores_clusters_misses_the_truth_too_often() -> None:
    """This is why intervals are computed by cluster."""
    cell = next(coverage.independent((0.3,), (100,)))
    assert cell.coverage(STUDIES) < 0.9


@pytest.mark.parametrize("icc", coverage.ICC)
def test_significance_tests_keep_their_level_under_the_null(icc: float) -> None:
    """With two identical models, either test finds a difference in at most one study in twenty."""
    random, paired, exact = np.random.default_rng(4), 0, 0
    for _ in range(STUDIES):
        one, other, m = coverage.two_models(random, 0.3, 0.3, icc, 60)
        p = paired_difference(one, m, other, m).p
        assert p is not None
        paired += p < 0.05
        exact += mcnemar(one > 0, other > 0).p < 0.05
    assert paired / STUDIES <= by_profile(0.1, 0.062)
    assert exact / STUDIES <= by_profile(0.09, 0.05)


def test_holm_keeps_the_family_at_its_level() -> None:
    """With four identical models, some of the six pairs differs in at most one study in twenty."""
    random, significant = np.random.default_rng(5), 0
    studies = by_profile(60, 1000)
    for _ in range(studies):
        m, chance = np.full(40, 4), coverage.chances(random, 0.3, 0.3, 40)
        failures = [random.binomial(m, chance) for _ in range(4)]
        p = [paired_difference(failures[i], m, failures[j], m).p or 1.0 for i in range(4) for j in range(i + 1, 4)]
        significant += min(holm(p)) < 0.05
    assert significant / studies <= by_profile(0.15, 0.06)


def test_correction_recovers_the_true_rate_from_a_noisy_judge() -> None:
    random = np.random.default_rng(6)
    sample, truth, verdict = coverage.judged_criteria(random, 0.2, 0.3, 4000, se=0.8, sp=0.85)
    weights = coverage.validation_weights(random, sample, verdict, 0.25)
    corrected = corrected_rate(sample, verdict, np.where(weights > 0, truth, np.nan), weights)
    assert corrected.value is not None
    assert corrected.low is not None
    assert corrected.high is not None
    assert verdict.mean() == pytest.approx(0.28, abs=0.02), "the rate according to the judge"
    assert corrected.value == pytest.approx(truth.mean(), abs=0.02), "the true rate"
    assert corrected.low < 0.2 < corrected.high
    assert corrected.high < verdict.mean()
