"""What is written here says what the libraries say. One worker runs this file: they take seconds to import."""

from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evaluation.statistics import distributions
from evaluation.statistics.clusters import cr2_variance, ratio, satterthwaite_df
from evaluation.statistics.comparisons import mcnemar, paired_difference
from evaluation.statistics.intervals import Method, rate_interval
from evaluation.statistics.multiplicity import benjamini_hochberg, holm
from evaluation.statistics.planning import power_of_difference
from evaluation.statistics.repeats import variance_components
from evaluation.statistics.validation import balanced_f1, judge_quality
from tests.evaluation.statistics import coverage
from tests.profile import far

pytestmark = pytest.mark.plain

SHAPES = st.floats(0.01, 1e4)
SHARES = st.floats(0, 1, allow_subnormal=False)
few = settings(max_examples=far(30, 500))


@few
@given(SHARES, SHAPES, SHAPES)
def test_beta_is_scipys(x: float, a: float, b: float) -> None:
    from scipy import special

    assert distributions.beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-9)


@few
@given(st.floats(1e-4, 1 - 1e-4), st.floats(1, 1e5))
def test_t_is_scipys(p: float, df: float) -> None:
    from scipy import stats

    t = distributions.t_quantile(p, df)
    assert t == pytest.approx(stats.t.ppf(p, df), rel=1e-6, abs=1e-9)
    assert distributions.t_cdf(t, df) == pytest.approx(p, abs=1e-9)
    assert distributions.t_p_value(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), abs=1e-9)


@few
@given(st.integers(0, 400), st.integers(0, 400), SHARES)
def test_binomial_is_scipys(k: int, n: int, p: float) -> None:
    from scipy import stats

    assert distributions.binomial_cdf(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), abs=1e-10)


def rows(hits: NDArray[Any], counted: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """One entry a criterion: failed or not, and its cluster."""
    failed = np.concatenate([np.arange(m) < y for y, m in zip(hits, counted, strict=True)]).astype(float)
    return failed, np.repeat(np.arange(len(counted)), counted)


def clustered(seed: int, clusters: int = 25, rate: float = 0.3) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    m = coverage.sizes(random, clusters)
    return random.binomial(m, coverage.chances(random, rate, 0.4, clusters)), m


@pytest.mark.parametrize("seed", range(3))
def test_linearised_variance_is_statsmodels(seed: int) -> None:
    """Without the correction (CR0): a regression on a constant with cluster-robust errors."""
    import statsmodels.api as sm

    y, m = clustered(seed)
    failed, cluster = rows(y, m)
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(
        cov_type="cluster", cov_kwds={"groups": cluster, "use_correction": False}
    )
    ours = ratio(y, m)
    assert ours is not None
    assert ours.value == pytest.approx(theirs.params[0])
    assert (ours.residuals**2).sum() == pytest.approx(theirs.bse[0] ** 2)


def test_cr2_of_single_clusters_is_hc2() -> None:
    import statsmodels.api as sm

    failed = np.array([1.0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0])
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(cov_type="HC2")
    ours = ratio(failed, np.ones(len(failed)))
    assert ours is not None
    assert cr2_variance(ours.residuals, ours.shares) == pytest.approx(theirs.bse[0] ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_cr2_and_its_degrees_of_freedom_are_the_matrix_formulas(seed: int) -> None:
    """Bell & McCaffrey (2002) written out with matrices: A = (I - H)^(-1/2) per cluster, df = tr(G)^2 / tr(G G)."""
    y, m = clustered(seed, clusters=12)
    failed, cluster = rows(y, m)
    n = len(failed)
    annihilator = np.eye(n) - np.ones((n, n)) / n
    residuals = annihilator @ failed
    variance, columns = 0.0, []
    for one in range(12):
        own = np.flatnonzero(cluster == one)
        values, vectors = np.linalg.eigh(np.eye(len(own)) - np.ones((len(own), len(own))) / n)
        adjust = vectors @ np.diag(values**-0.5) @ vectors.T
        variance += float((adjust @ residuals[own]).sum() / n) ** 2
        columns.append(annihilator[:, own] @ adjust.sum(axis=0) / n)
    gram = np.array(columns) @ np.array(columns).T
    ours = ratio(y, m)
    assert ours is not None
    assert cr2_variance(ours.residuals, ours.shares) == pytest.approx(variance)
    assert satterthwaite_df(ours.shares) == pytest.approx(np.trace(gram) ** 2 / np.trace(gram @ gram))


def test_single_clusters_have_wilsons_interval() -> None:
    from statsmodels.stats.proportion import proportion_confint

    failed = np.array([1.0] * 7 + [0.0] * 33)
    found = rate_interval(failed, np.ones(40))
    assert found.method is Method.WILSON
    assert (found.low, found.high) == pytest.approx(proportion_confint(7, 40, method="wilson"))


def test_clustered_interval_comes_to_the_robust_one_with_many_clusters() -> None:
    import statsmodels.api as sm

    y, m = clustered(9, clusters=4000)
    failed, cluster = rows(y, m)
    theirs = sm.OLS(failed, np.ones(len(failed))).fit(cov_type="cluster", cov_kwds={"groups": cluster}).conf_int()[0]
    found = rate_interval(y, m)
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=2e-4)


def test_difference_comes_to_the_robust_one_with_many_clusters() -> None:
    """Two rows a criterion, a column for the model: the coefficient's cluster-robust interval, p and log odds ratio."""
    import statsmodels.api as sm

    random = np.random.default_rng(2)
    y1, y2, m = coverage.two_models(random, 0.3, 0.32, 0.4, 3000)
    (first, cluster), (second, _) = rows(y1, m), rows(y2, m)
    outcome, model = np.concatenate([first, second]), np.repeat([1.0, 0.0], len(first))
    groups = {"groups": np.concatenate([cluster, cluster])}
    design = sm.add_constant(model)
    linear = sm.OLS(outcome, design).fit(cov_type="cluster", cov_kwds=groups)
    found = paired_difference(y1, m, y2, m)
    assert found.difference == pytest.approx(linear.params[1])
    assert (found.low, found.high) == pytest.approx(tuple(linear.conf_int()[1]), abs=3e-4)
    assert found.p == pytest.approx(linear.pvalues[1], abs=0.01)
    logistic = sm.GLM(outcome, design, family=sm.families.Binomial()).fit(cov_type="cluster", cov_kwds=groups)
    odds = found.odds_ratio
    assert odds is not None
    assert odds.value == pytest.approx(np.exp(logistic.params[1]))
    assert (odds.low, odds.high) == pytest.approx(tuple(np.exp(logistic.conf_int()[1])), rel=2e-3)


def test_effect_size_is_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_effectsize

    found = paired_difference([3] * 10, [10] * 10, [5] * 10, [10] * 10)
    assert found.cohens_h == pytest.approx(proportion_effectsize(0.3, 0.5))


@few
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_mcnemar_is_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as theirs

    found = mcnemar([one for one, _ in pairs], [other for _, other in pairs])
    b, c = found.only_first, found.only_second
    assert (b, c) == (pairs.count((True, False)), pairs.count((False, True)))
    if b + c:
        assert found.p == pytest.approx(theirs([[0, b], [c, 0]], exact=True).pvalue)
    else:
        assert found.p == 1


@pytest.mark.parametrize("p", [[0.01, 0.04, 0.03, 0.005, 0.5], [0.02] * 4 + [0.9, 1.0, 0.0], [0.3]])
def test_adjusted_p_is_statsmodels(p: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert holm(p) == pytest.approx(list(multipletests(p, method="holm")[1]))
    assert benjamini_hochberg(p) == pytest.approx(list(multipletests(p, method="fdr_bh")[1]))


def test_power_is_statsmodels() -> None:
    """Unpaired, a criterion a sample: the normal test of two proportions with unpooled variance."""
    from statsmodels.stats.power import normal_power

    effect = (0.3 - 0.4) / np.sqrt(0.3 * 0.7 + 0.4 * 0.6)
    assert power_of_difference(0.3, 0.4, 300) == pytest.approx(normal_power(effect, 300, 0.05))


def test_components_are_restricted_maximum_likelihood() -> None:
    """Balanced: what a mixed model with answers inside samples estimates."""
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
    found = variance_components(sample, answer, values)
    assert found.clipped == ()
    assert found.sample == pytest.approx(float(fit.cov_re.iloc[0, 0]), rel=1e-3)
    assert found.answer == pytest.approx(float(fit.vcomp[0]), rel=1e-3)
    assert found.judge == pytest.approx(float(fit.scale), rel=1e-3)


def test_weighted_agreement_is_that_of_repeated_rows() -> None:
    """Whole weights say the same as so many rows; unweighted, kappa is statsmodels'."""
    from statsmodels.stats.inter_rater import cohens_kappa

    random = np.random.default_rng(4)
    truth, judge, weights = random.random(60) < 0.4, random.random(60) < 0.4, random.integers(1, 4, 60)
    judge = np.where(random.random(60) < 0.7, truth, judge)
    found = judge_quality(np.arange(60), truth, judge, weights)
    again = np.repeat(np.arange(60), weights)
    repeated = judge_quality(again, truth[again], judge[again], draws=0)
    table = [[(truth & judge)[again].sum(), (truth & ~judge)[again].sum()]]
    table += [[(~truth & judge)[again].sum(), (~truth & ~judge)[again].sum()]]
    assert found.kappa.value == pytest.approx(cohens_kappa(np.array(table)).kappa)
    for name in ("kappa", "ac1", "balanced_f1", "sensitivity", "specificity"):
        assert getattr(found, name).value == pytest.approx(getattr(repeated, name).value)
    assert isclose(found.sensitivity.value or 0, table[0][0] / sum(table[0]))


def test_balanced_f1_by_hand() -> None:
    """30 + 40 right, 10 false alarms, 20 missed: F1 of failed 2*30/90, of passed 2*40/110."""
    assert balanced_f1(np.array([[30.0, 20], [10, 40]])) == pytest.approx((60 / 90 + 80 / 110) / 2)
    assert np.isnan(balanced_f1(np.array([[0.0, 0], [10, 40]])))
