"""A worker counts a large run as soon as it has finished, so that no reader waits for it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client
from django.utils import timezone

from evaluation.models import Run
from evaluation.reports import queries, tasks
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import cache_warming
from evaluation.runs.verdicts import run_frame
from generation.engine.worker_beats import record_beat
from tests.engine import bare_release
from tests.evaluation.test_metrics import run_with_verdicts

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A finished run that counts as large."""
    monkeypatch.setattr(cache_warming, "LARGE_RUN", 4)
    run = run_with_verdicts(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2))
    Run.objects.filter(pk=run.pk).update(rubrics_total=4, finished_at=timezone.now())
    run.refresh_from_db()
    return run


def verdict_reads(call: Callable[[], object]) -> int:
    """How often a call reads the verdicts of a run."""
    with patch("evaluation.reports.queries.run_frame", wraps=run_frame) as reads:
        call()
    return reads.call_count


def test_the_first_reader_of_a_large_run_finds_it_counted(run: Run, admin_client: Client) -> None:
    assert RUNS.due() == [run.pk], "a sweep also finds it after a kill"
    RUNS.work(run.pk)
    assert RUNS.due() == []
    assert verdict_reads(lambda: admin_client.get(f"/evaluation/runs/{run.pk}/report.json")) == 0
    assert verdict_reads(lambda: admin_client.get(f"/evaluation/runs/{run.pk}/")) == 0


def test_a_web_process_leaves_a_large_run_to_a_worker(
    run: Run, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, dict[str, Any]]] = []
    monkeypatch.setattr(tasks.count_report, "delay", lambda *args: asked.append(args))
    page, file = f"/evaluation/runs/{run.pk}/?common=1", f"/evaluation/runs/{run.pk}/report.json?common=1"
    record_beat("here:1")
    assert verdict_reads(lambda: admin_client.get(page)) == 0
    text = admin_client.get(page).content.decode()
    assert "A worker is counting" in text
    assert 'data-live="2"' in text
    refused = admin_client.get(file)
    assert (refused.status_code, bool(refused["Retry-After"])) == (503, True)
    api = admin_client.get(f"/api/v1/runs/{run.pk}/report/?common=1")
    assert (api.status_code, api.json()["type"]) == (503, "urn:mhb:still-counting")
    assert asked == [(run.pk, {"common": True, "weights": {}, "all_ranked": False})], "once, not by every reader"
    tasks.count_report(*asked[0])
    assert "A worker is counting" not in admin_client.get(page).content.decode()
    assert admin_client.get(file).status_code == 200


def test_without_a_worker_a_large_run_is_counted_for_its_reader(run: Run, admin_client: Client) -> None:
    assert admin_client.get(f"/evaluation/runs/{run.pk}/report.json").status_code == 200


def test_a_run_with_new_rows_is_counted_again(run: Run) -> None:
    cache_warming.warm(run.pk)
    Run.objects.filter(pk=run.pk).update(rubrics_total=5)  # more verdicts of a study were imported
    assert cache_warming.runs_to_warm() == [run.pk]
    cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == []


def test_an_interrupted_count_is_started_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_run: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache_warming, "_warmers", [die])
    with pytest.raises(KeyboardInterrupt):
        cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == [], "another worker may be counting it"
    assert verdict_reads(lambda: queries.report(run).numbers) == 1, "a reader counts by itself"
    Run.objects.filter(pk=run.pk).update(rubrics_total=5)
    monkeypatch.setattr(cache_warming, "RETRY_AFTER", 0)
    with pytest.raises(KeyboardInterrupt):
        cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == [run.pk]


def test_unfinished_and_small_runs_are_not_counted_in_advance(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(rubrics_total=3)
    assert cache_warming.runs_to_warm() == []
    Run.objects.filter(pk=run.pk).update(rubrics_total=4, status=Run.Status.RUNNING, finished_at=None)
    assert cache_warming.runs_to_warm() == []
    assert verdict_reads(lambda: cache_warming.warm(run.pk)) == 0
