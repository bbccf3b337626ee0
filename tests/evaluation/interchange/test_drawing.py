"""The program in a bundle, which lacks numpy, draws the same bootstrap samples as numpy."""

import numpy as np
import pytest

from evaluation.interchange.programs import verify_bootstrap
from evaluation.metrics import Totals
from evaluation.protocol import Rate
from evaluation.reports.numbers.comparing import compare_pair
from evaluation.statistics import bootstrap


@pytest.mark.parametrize(
    ("n", "counts"), [(7, [1, 2, 4]), (45_000, [45, 13_455, 27_000, 4_500]), (60, [1] * 60), (64, [32, 32])]
)
def test_the_program_draws_what_numpy_draws(n: int, counts: list[int]) -> None:
    """For few and many clusters, common and rare patterns.

    If numpy ever draws differently, bundles must say so.
    """
    random, next_uniform = np.random.default_rng(bootstrap.SEED), verify_bootstrap.uniforms().__next__
    chances = [count / n for count in counts]
    draws = [verify_bootstrap.multinomial(n, chances, next_uniform) for _ in range(300)]
    assert draws == random.multinomial(n, chances, size=300).tolist()


def test_the_program_finds_the_same_interval_and_p() -> None:
    rows = [(2 * (at % 3 > 0), 2 + at % 2, 2 * (at % 5 > 0), 3) for at in range(40)] + [(0, 0, 0, 1)]
    ends, undefined = bootstrap.cluster_bootstrap([row[:2] for row in rows], bootstrap.ratio_of_totals)
    interval = verify_bootstrap.interval([row[:2] for row in rows], cut=False)
    assert ends == pytest.approx((interval["low"], interval["high"]), abs=1e-12)
    assert (undefined, verify_bootstrap.DRAWS) == (0, bootstrap.DRAWS)
    columns = [np.array(column) for column in zip(*rows[:40], strict=True)]
    one, other = (Totals(columns[at], columns[at + 1], columns[at + 1], columns[at + 1] * 0) for at in (0, 2))
    rate = Rate("f1", "F1", "", {"tp": 2}, {"tp": 2}, frozenset({"tp"}), "bootstrap")
    expected = compare_pair(rate, one, other, None, {"dataset": "d", "first": "a", "second": "b"}, 10)
    difference = verify_bootstrap.difference(rows[:40], 10)
    assert (difference["low"], difference["high"], difference["p"]) == pytest.approx(
        (expected.low, expected.high, expected.p), abs=1e-12
    )
