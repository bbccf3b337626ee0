"""Our statistics agree with scipy and statsmodels.

These libraries take seconds to import; one worker runs all tests of this file.
"""

from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench import coverage
from evaluation.statistics.clusters import cr2_variance, ratios, rows_of, satterthwaite_df
from evaluation.statistics.comparisons import mcnemar, paired_difference
from evaluation.statistics.intervals import Method, f_intervals, mean_interval, rate_interval
from evaluation.statistics.multiplicity import benjamini_hochberg, holm
from evaluation.statistics.planning import power_of_difference
from evaluation.statistics.repeats import variance_components
from evaluation.statistics.two_phase import two_phase_table
from evaluation.statistics.validation import balanced_f1, judge_quality
from tests.profile import by_profile

pytestmark = pytest.mark.plain

few_examples = settings(max_examples=by_profile(30, 500))


def rows(hits: NDArray[Any], counted: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Whether each criterion failed, and its cluster."""
    failed = np.concatenate([np.arange(m) < y for y, m in zip(hits, counted, strict=True)]).astype(float)
    return failed, np.repeat(np.arange(len(counted)), counted)


def simulated_study(seed: int, clusters: int = 25, rate: float = 0.3) -> tuple[NDArray[Any], NDArray[Any]]:
    """Failures and criteria of each cluster of a simulated study."""
    random = np.random.default_rng(seed)
    m = coverage.sizes(random, clusters)
    return random.binomial(m, coverage.chances(random, rate, 0.4, clusters)), m


@pytest.mark.parametrize("seed", range(3))
def test_the_linearised_variance_is_that_of_statsmodels(seed: int) -> None:
    """Uncorrected (CR0), it is that of a regression on a constant with cluster-robust errors."""
    import statsmodels.api as sm

    y, m = simulated_study(seed)
    failed, cluster = rows(y, m)
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(
        cov_type="cluster", cov_kwds={"groups": cluster, "use_correction": False}
    )
    ours = ratios(*rows_of(y, m))
    assert ours.value == pytest.approx(theirs.params[0])
    assert (ours.residuals**2).sum() == pytest.approx(theirs.bse[0] ** 2)


def test_cr2_equals_hc2_for_clusters_of_one() -> None:
    import statsmodels.api as sm

    failed = np.array([1.0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0])
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(cov_type="HC2")
    ours = ratios(*rows_of(failed, np.ones(len(failed))))
    assert cr2_variance(ours.residuals, ours.shares) == pytest.approx(theirs.bse[0] ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_cr2_and_its_degrees_of_freedom_follow_the_matrix_formulas(seed: int) -> None:
    """Bell & McCaffrey (2002): A = (I - H)^(-1/2) per cluster, df = tr(G)^2 / tr(G G)."""
    y, m = simulated_study(seed, clusters=12)
    failed, cluster = rows(y, m)
    n = len(failed)
    annihilator = np.eye(n) - np.ones((n, n)) / n
    residuals = annihilator @ failed
    variance, columns = 0.0, []
    for one in range(12):
        members = np.flatnonzero(cluster == one)
        values, vectors = np.linalg.eigh(np.eye(len(members)) - np.ones((len(members), len(members))) / n)
        adjust = vectors @ np.diag(values**-0.5) @ vectors.T
        variance += float((adjust @ residuals[members]).sum() / n) ** 2
        columns.append(annihilator[:, members] @ adjust.sum(axis=0) / n)
    gram = np.array(columns) @ np.array(columns).T
    ours = ratios(*rows_of(y, m))
    assert cr2_variance(ours.residuals, ours.shares) == pytest.approx(variance)
    assert satterthwaite_df(ours.shares) == pytest.approx(np.trace(gram) ** 2 / np.trace(gram @ gram))


def test_clusters_of_one_have_the_interval_of_wilson() -> None:
    from statsmodels.stats.proportion import proportion_confint

    failed = np.array([1.0] * 7 + [0.0] * 33)
    interval = rate_interval(failed, np.ones(40))
    assert interval.method is Method.WILSON
    assert (interval.low, interval.high) == pytest.approx(proportion_confint(7, 40, method="wilson"))


def test_with_many_clusters_the_interval_is_the_cluster_robust_one() -> None:
    import statsmodels.api as sm

    y, m = simulated_study(9, clusters=4000)
    failed, cluster = rows(y, m)
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(cov_type="cluster", cov_kwds={"groups": cluster}).conf_int()[0]
    ours = rate_interval(y, m)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=2e-4)


def test_with_many_clusters_the_difference_is_the_cluster_robust_one() -> None:
    """Compare with regressions on two rows per criterion and a column for the model.

    Their coefficient gives the cluster-robust interval, p value and log odds ratio.
    """
    import statsmodels.api as sm

    random = np.random.default_rng(2)
    y1, y2, m = coverage.two_models(random, 0.3, 0.32, 0.4, 3000)
    (first, cluster), (second, _) = rows(y1, m), rows(y2, m)
    outcome, model = np.concatenate([first, second]), np.repeat([1.0, 0.0], len(first))
    groups = {"groups": np.concatenate([cluster, cluster])}
    design = sm.add_constant(model)
    linear = sm.OLS(outcome, design).fit(cov_type="cluster", cov_kwds=groups)
    ours = paired_difference(y1, m, y2, m)
    assert ours.difference == pytest.approx(linear.params[1])
    assert (ours.low, ours.high) == pytest.approx(tuple(linear.conf_int()[1]), abs=3e-4)
    assert ours.p == pytest.approx(linear.pvalues[1], abs=0.01)
    logistic = sm.GLM(outcome, design, family=sm.families.Binomial()).fit()
    assert ours.odds_ratio == pytest.approx(np.exp(logistic.params[1]))


def test_the_effect_size_is_that_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_effectsize

    comparison = paired_difference([3] * 10, [10] * 10, [5] * 10, [10] * 10)
    assert comparison.cohens_h == pytest.approx(proportion_effectsize(0.3, 0.5))


@few_examples
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_the_mcnemar_test_is_that_of_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as theirs

    ours = mcnemar([one for one, _ in pairs], [other for _, other in pairs])
    b, c = ours.only_first, ours.only_second
    assert (b, c) == (pairs.count((True, False)), pairs.count((False, True)))
    if b + c:
        assert ours.p == pytest.approx(theirs([[0, b], [c, 0]], exact=True).pvalue)
    else:
        assert ours.p == 1


@pytest.mark.parametrize("p", [[0.01, 0.04, 0.03, 0.005, 0.5], [0.02] * 4 + [0.9, 1.0, 0.0], [0.3]])
def test_adjusted_p_values_are_those_of_statsmodels(p: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert holm(p) == pytest.approx(list(multipletests(p, method="holm")[1]))
    assert benjamini_hochberg(p) == pytest.approx(list(multipletests(p, method="fdr_bh")[1]))


@pytest.mark.parametrize(("n", "tolerance"), [(30, 0.02), (1000, 1e-3)])
def test_power_is_that_of_statsmodels(n: int, tolerance: float) -> None:
    """One criterion per sample: the t test of paired differences, but for the pseudo-clusters."""
    from statsmodels.stats.power import TTestPower

    effect = (0.3 - 0.5) / np.sqrt(0.3 * 0.7 + 0.5 * 0.5)
    theirs = TTestPower().power(effect, n, 0.05)
    assert power_of_difference(0.3, 0.5, [1] * n, 0) == pytest.approx(theirs, abs=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_has_the_interval_of_a_regression_but_for_the_skewness(seed: int) -> None:
    """With many even numbers it is Student's; skewed to the right, both ends move up."""
    from scipy import stats

    random = np.random.default_rng(seed)
    even = random.random(4000)
    theirs = stats.t.interval(0.95, 3999, even.mean(), stats.sem(even))
    mean, low, high, clusters = mean_interval(even, np.ones(4000))
    assert mean == pytest.approx(even.mean())
    assert clusters == 4000
    assert (low, high) == pytest.approx(theirs, abs=2e-4)
    skewed = random.exponential(0.1, 30)
    theirs = stats.t.interval(0.95, 29, skewed.mean(), stats.sem(skewed))
    _, low, high, _ = mean_interval(skewed, np.ones(30))
    assert low > theirs[0]
    assert high > theirs[1]


def test_f1_is_a_transformed_proportion() -> None:
    """F1 = 2 J / (1 + J): of one criterion per sample, Wilson's interval of J by statsmodels."""
    from statsmodels.stats.proportion import proportion_confint

    tp, others = np.array([1] * 30 + [0] * 70), np.array([0] * 30 + [1] * 12 + [0] * 58)
    [interval] = f_intervals(*rows_of(2 * tp, 2 * tp + others))
    assert interval.value == pytest.approx(60 / 72)
    assert (interval.n, interval.clusters, interval.method) == (42, 42, Method.WILSON)
    ends = [2 * end / (1 + end) for end in proportion_confint(30, 42, method="wilson")]
    assert (interval.low, interval.high) == pytest.approx(ends)


def test_variance_components_are_restricted_maximum_likelihood_estimates() -> None:
    """With balanced data they equal those of a mixed model with answers nested in samples."""
    import pandas as pd
    import statsmodels.formula.api as smf

    random = np.random.default_rng(3)
    a, b, n = 30, 3, 3
    sample = np.repeat(np.arange(a), b * n)
    answer = np.tile(np.repeat(np.arange(b), n), a)
    values = (
        random.normal(0, 0.5, a)[sample]
        + random.normal(0, 0.4, (a, b))[sample, answer]
        + random.normal(0, 0.3, a * b * n)
    )
    data = pd.DataFrame({"y": values, "sample": sample, "answer": answer})
    fit: Any = smf.mixedlm("y ~ 1", data, groups="sample", re_formula="1", vc_formula={"answer": "0 + C(answer)"}).fit()
    components = variance_components(sample, answer, values)
    assert components.clipped == ()
    assert components.sample == pytest.approx(float(fit.cov_re.iloc[0, 0]), rel=1e-3)
    assert components.answer == pytest.approx(float(fit.vcomp[0]), rel=1e-3)
    assert components.judge == pytest.approx(float(fit.scale), rel=1e-3)


def test_weighted_agreement_equals_that_of_repeated_rows() -> None:
    """An integer weight counts as that many rows; on these rows kappa is that of statsmodels."""
    from statsmodels.stats.inter_rater import cohens_kappa

    random = np.random.default_rng(4)
    truth, judge, weights = random.random(60) < 0.4, random.random(60) < 0.4, random.integers(1, 4, 60)
    judge = np.where(random.random(60) < 0.7, truth, judge)
    # Two physicians: neither verdict of a judge stands for more criteria than the other.
    same = np.zeros(60, dtype=bool)
    weighted = judge_quality(two_phase_table(np.arange(60), same, truth, judge, weights))
    rows = np.repeat(np.arange(60), weights)
    repeated = judge_quality(two_phase_table(rows, same[rows], truth[rows], judge[rows]))
    table = [[(truth & judge)[rows].sum(), (truth & ~judge)[rows].sum()]]
    table += [[(~truth & judge)[rows].sum(), (~truth & ~judge)[rows].sum()]]
    assert weighted.kappa.value == pytest.approx(cohens_kappa(np.array(table)).kappa)
    for name in ("kappa", "ac1", "balanced_f1", "sensitivity", "specificity"):
        assert getattr(weighted, name).value == pytest.approx(getattr(repeated, name).value)
    assert isclose(weighted.sensitivity.value or 0, table[0][0] / sum(table[0]))


def test_balanced_f1_is_as_computed_by_hand() -> None:
    """30 + 40 right, 10 false alarms, 20 missed: F1 is 2*30/90 for failed, 2*40/110 for passed."""
    assert balanced_f1(np.array([[30.0, 20], [10, 40]])) == pytest.approx((60 / 90 + 80 / 110) / 2)
    assert np.isnan(balanced_f1(np.array([[0.0, 0], [10, 40]])))
