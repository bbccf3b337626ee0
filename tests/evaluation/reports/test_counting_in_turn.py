"""The threads of a process count reports in turn, and the same report once."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache

from evaluation.reports.queries import Report
from evaluation.runs.rows import result_cache

pytestmark = pytest.mark.plain
THREADS = 6


def report(key: str) -> Report:
    parts: Any = dict.fromkeys(Report.__dataclass_fields__)
    return Report(**{**parts, "numbers_key": key})


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads counted at the moment when each count began."""
    begun: list[int] = []
    current: set[int] = set()

    def count(report: Report) -> str:
        current.add(id(report))
        begun.append(len(current))
        time.sleep(0.02)
        current.remove(id(report))
        return f"numbers {report.numbers_key}"

    monkeypatch.setattr(Report, "_count", count)
    monkeypatch.setattr(result_cache, "cache", LocMemCache("counts", {}))
    return begun


def test_different_reports_are_counted_one_after_the_other(counts: list[int]) -> None:
    reports = [report("") for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda one: one.numbers, reports))
    assert counts == [1] * THREADS


def test_a_report_that_several_readers_open_is_counted_once(counts: list[int]) -> None:
    reports = [report("one-report") for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        found: list[Any] = list(pool.map(lambda one: one.numbers, reports))
    assert (found, counts) == (["numbers one-report"] * THREADS, [1])
