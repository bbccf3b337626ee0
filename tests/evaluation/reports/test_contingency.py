"""Counting identical samples once gives the same figures as counting every sample."""

from dataclasses import asdict
from typing import Any
from unittest.mock import Mock

import pytest

from evaluation.models import Run
from evaluation.reports.numbers import comparing, counting
from evaluation.reports.queries import report
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from tests.engine import endpoint
from tests.evaluation.toy import SEED, claimants, toy, toy_release

__all__ = ["claimants", "toy"]


@pytest.fixture
def run(db: None, toy: None, claimants: str) -> Run:
    models = [endpoint(claimants, "sim-careful"), endpoint(claimants, "sim-average")]
    run = services.launch_run(RunSettings(toy_release(60, without_level={5}), models, seed=SEED))
    work.work_on_run(run.pk)
    return run


def equal(one: Any, other: Any) -> bool:
    """Compare nested figures; floats may differ by rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-12)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def test_contingency_tables_give_the_figures_of_single_samples(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_by_counts = Mock(wraps=comparing._compare_by_counts)
    monkeypatch.setattr(comparing, "_compare_by_counts", compare_by_counts)
    by_counts = asdict(report(run).numbers)
    assert compare_by_counts.called
    for module in (comparing, counting):
        monkeypatch.setattr(module, "contingency_for", lambda *_args, **_named: None)
    one_by_one = asdict(report(run).numbers)
    assert by_counts.keys() == one_by_one.keys()
    for name in by_counts:
        assert equal(by_counts[name], one_by_one[name]), name
    bounds = [row["rates"]["accuracy"]["bounds"] for row in by_counts["overall"]]
    assert any(bound["low"] is not None for bound in bounds)
