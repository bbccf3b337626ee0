"""Intervals of clustered rates: range, symmetry, and what is reported for too few samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import coverage
from evaluation.metrics import measure
from evaluation.statistics.clusters import cluster_totals, ratios, rows_of, satterthwaite_df
from evaluation.statistics.intervals import MINIMUM, Method, rate_interval
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from tests.evaluation.frames import sums_of

CLUSTERS = st.lists(st.integers(0, 8).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), max_size=40)


@given(CLUSTERS)
def test_an_interval_contains_its_rate_and_stays_in_range(clusters: list[tuple[int, int]]) -> None:
    hits, counted = [y for y, _ in clusters], [m for _, m in clusters]
    interval = rate_interval(hits, counted)
    assert interval.n == sum(counted)
    assert interval.clusters == sum(m > 0 for m in counted)
    if interval.value is None:
        assert interval.method is Method.UNDEFINED
        assert not sum(counted)
    elif interval.low is None or interval.high is None:
        assert interval.method is Method.TOO_FEW
    else:
        assert interval.clusters >= MINIMUM
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high
        assert interval.effective_n is not None
        assert interval.effective_n <= interval.n + 1e-9
        mirrored = rate_interval([m - y for y, m in clusters], counted)
        assert (mirrored.low, mirrored.high) == pytest.approx((1 - interval.high, 1 - interval.low))


def test_there_is_no_interval_below_the_minimum_or_if_one_source_dominates() -> None:
    assert rate_interval([1] * 9, [4] * 9).method is Method.TOO_FEW
    assert rate_interval([1] * 10, [4] * 10).method is Method.CLUSTERED
    assert rate_interval([1] * 10, [4] * 10, minimum=30).low is None
    one_source = rate_interval([1] * 20 + [100], [2] * 20 + [400])
    assert (one_source.method, one_source.low) == (Method.TOO_FEW, None)
    assert one_source.value == pytest.approx(120 / 440)
    assert rate_interval([], []).method is Method.UNDEFINED


def test_a_rate_without_failures_has_an_interval_above_zero() -> None:
    none = rate_interval([0] * 30, [4] * 30)
    assert none.low == 0
    assert none.high is not None
    assert 0.03 < none.high < 0.15, "between Wilson's intervals for 120 independent criteria and for 30 samples"


def test_correlated_criteria_reduce_the_effective_number() -> None:
    together = rate_interval([4] * 15 + [0] * 35, [4] * 50)
    apart = rate_interval([1] * 40 + [2] * 10, [4] * 50)
    assert together.value == apart.value
    assert together.effective_n == pytest.approx(50, rel=0.05)
    assert apart.effective_n == 200
    assert coverage.intracluster_correlation([4] * 15 + [0] * 35, [4] * 50) == 1
    assert (coverage.intracluster_correlation([1] * 40 + [2] * 10, [4] * 50) or 0) < 0


def test_the_simulated_correlation_is_recovered() -> None:
    random = np.random.default_rng(1)
    m = coverage.sizes(random, 20_000)
    correlation = coverage.intracluster_correlation(random.binomial(m, coverage.chances(random, 0.3, 0.4, 20_000)), m)
    assert correlation == pytest.approx(0.4, abs=0.02)
    assert coverage.intracluster_correlation([1, 0], [1, 1]) is None
    assert coverage.intracluster_correlation([0, 0], [3, 3]) is None


def test_totals_are_summed_by_cluster_in_any_order() -> None:
    hits, counted = cluster_totals(["b", "a", "b"], [1, 0, 1], [1, 1, 1])
    assert (hits.tolist(), counted.tolist()) == ([0, 2], [1, 2])
    assert [part.tolist() for part in cluster_totals([], [], [])] == [[], []]


def test_equal_clusters_have_one_degree_of_freedom_fewer_than_clusters() -> None:
    result = ratios(*rows_of([1] * 12, [3] * 12))
    assert satterthwaite_df(result.shares) == pytest.approx(11)


@pytest.mark.parametrize(("hits", "counted"), [([2], [1]), ([-1], [1]), ([1, 1], [1])])
def test_impossible_totals_are_refused(hits: list[int], counted: list[int]) -> None:
    with pytest.raises(ValueError, match=r"cluster"):
        rate_interval(hits, counted)


# ------------------------------------------------------------------------------- weights and bounds


@given(CLUSTERS, st.integers(0, 3))
def test_bounds_cover_every_outcome_of_excluded_criteria(clusters: list[tuple[int, int]], excluded: int) -> None:
    hits, counted = np.array(clusters, dtype=np.int64).reshape(-1, 2).T
    out = np.full(len(clusters), excluded)
    sums = sums_of(hits=hits, counted=counted, number=counted, excluded=out)
    [measured] = measure(PROTOCOL.rates[0], sums[None])
    if measured.bounds is not None and measured.value is not None:
        share = out.sum() / (counted.sum() + out.sum())
        assert measured.bounds.worst - measured.bounds.best == pytest.approx(share)
        assert measured.bounds.best - 1e-12 <= measured.value <= measured.bounds.worst + 1e-12
