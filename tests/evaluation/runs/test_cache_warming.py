"""A worker counts large runs when they are over, so that nobody waits for their numbers."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evaluation.models import Run
from evaluation.reports import queries
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import cache_warming
from tests.engine import bare_release
from tests.evaluation.test_metrics import judged

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that is over, and large here."""
    monkeypatch.setattr(cache_warming, "LARGE_RUN", 4)
    made = judged(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2))
    Run.objects.filter(pk=made.pk).update(rubrics_total=4, finished_at=timezone.now())
    made.refresh_from_db()
    return made


def reads(call: Callable[[], object]) -> int:
    """How often verdicts are read."""
    with CaptureQueriesContext(connection) as seen:
        call()
    return sum('FROM "evaluation_judgment"' in each["sql"] and '"listed0"' in each["sql"] for each in seen)


def test_the_first_reader_of_a_large_run_waits_for_no_count(run: Run, admin_client: Client) -> None:
    assert RUNS.due() == [run.pk], "a sweep finds it after a kill"
    RUNS.work(run.pk)
    assert RUNS.due() == []
    assert reads(lambda: admin_client.get(f"/evaluation/runs/{run.pk}/report.json")) == 0
    assert reads(lambda: admin_client.get(f"/evaluation/runs/{run.pk}/")) == 0


def test_a_run_that_grew_is_counted_again(run: Run) -> None:
    cache_warming.warm(run.pk)
    Run.objects.filter(pk=run.pk).update(rubrics_total=5)  # more verdicts of a study were imported
    assert cache_warming.runs_to_warm() == [run.pk]
    cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == []


def test_a_count_that_was_cut_off_is_begun_anew(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_run: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache_warming, "_warmers", [killed])
    with pytest.raises(KeyboardInterrupt):
        cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == [], "another worker may be at it"
    assert reads(lambda: queries.report(run)) == 1, "a reader does not wait for it"
    Run.objects.filter(pk=run.pk).update(rubrics_total=5)
    monkeypatch.setattr(cache_warming, "RETRY_AFTER", 0)
    with pytest.raises(KeyboardInterrupt):
        cache_warming.warm(run.pk)
    assert cache_warming.runs_to_warm() == [run.pk]


def test_runs_that_work_or_are_small_are_not_counted_ahead(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(rubrics_total=3)
    assert cache_warming.runs_to_warm() == []
    Run.objects.filter(pk=run.pk).update(rubrics_total=4, status=Run.Status.RUNNING, finished_at=None)
    assert cache_warming.runs_to_warm() == []
    assert reads(lambda: cache_warming.warm(run.pk)) == 0
