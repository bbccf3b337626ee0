"""A launch creates the first rows only and returns at once; a worker creates the rest.

A kill between two chunks neither loses nor duplicates rows.
"""

from collections import Counter
from typing import Any

import pytest
from django.db import transaction

from evaluation.models import Response, Run
from evaluation.runs import queries, work
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import filling, queues
from generation.engine.sweeping import sweep
from generation.models import Release
from tests.conftest import RunConcurrently
from tests.engine import bare_release, launch_run

pytestmark = [pytest.mark.django_db, pytest.mark.both]
COUNT = 9


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(*[("dialogue", [["A1"], ["C2"]]), ("report", [["A3"]])] * 4, ("dialogue", [["A1"], ["C2"]]))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "CHUNK", 4)


def row_counts(run: Run) -> Counter[tuple[str, str]]:
    """The number of responses by endpoint and sample."""
    return Counter(run.responses.values_list("endpoint__name", "sample__key"))


def test_a_launch_creates_the_first_rows_and_knows_the_totals(release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful", "sim-reckless")
    assert run.responses.count() == 4
    assert (run.responses_total, run.rubrics_total) == (2 * COUNT, 2 * release.rubrics_count)
    progress = RUNS.progress(run)
    assert (progress.responses.total, progress.responses.queued, progress.percent) == (2 * COUNT, 2 * COUNT, 0)
    assert RUNS.is_open(run.pk)
    assert queues.with_work(Run.objects.filter(pk=run.pk)).exists()


def test_the_worker_creates_the_rest_while_it_works(release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful", "sim-reckless")
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert set(row_counts(run).values()) == {1}
    assert len(row_counts(run)) == run.responses_total == 2 * COUNT
    assert run.judgments.count() == run.rubrics_total == 2 * release.rubrics_count
    assert not queues.unfilled_endpoints(run).exists()


def test_a_kill_between_or_within_chunks_loses_and_duplicates_nothing(
    release: Release, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incomplete chunk is rolled back; the next worker continues after the last complete one."""
    run = launch_run(release, models, "sim-careful", "sim-reckless")
    create: Any = Response.objects.bulk_create

    class Killed(Exception):
        pass

    def create_and_die(rows: Any) -> None:
        create(list(rows))
        raise Killed

    monkeypatch.setattr("evaluation.runs.rows.filling.Response.objects.bulk_create", create_and_die)
    with pytest.raises(Killed), transaction.atomic():
        filling.fill(run)
    monkeypatch.undo()
    monkeypatch.setattr(filling, "CHUNK", 4)
    assert run.responses.count() == 4
    assert sweep(RUNS) == [run.pk]  # the run is not settled: some rows are missing
    filling.fill_all(run)
    assert set(row_counts(run).values()) == {1}
    assert len(row_counts(run)) == 2 * COUNT


@pytest.mark.django_db(transaction=True)
def test_questions_are_made_outside_of_transactions(
    release: Release, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, nested = queries.questions, []

    def noted(*arguments: Any) -> Any:
        nested.append(transaction.get_connection().in_atomic_block)
        return questions(*arguments)

    run = launch_run(release, models, "sim-careful")
    monkeypatch.setattr(queries, "questions", noted)
    assert filling.fill(run)
    assert nested
    assert not any(nested)


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_never_create_the_same_rows(
    release: Release, models: str, run_concurrently: RunConcurrently
) -> None:
    run = launch_run(release, models, "sim-careful", "sim-reckless")
    run_concurrently([lambda: filling.fill_all(run)] * 3)
    assert set(row_counts(run).values()) == {1}
    assert len(row_counts(run)) == 2 * COUNT


def test_a_run_on_one_data_set_has_rows_of_that_data_set_only(release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful", datasets=["report"])
    filling.fill_all(run)
    run.refresh_from_db()
    assert (run.responses_total, run.rubrics_total) == (4, 4) == (run.responses.count(), 4)
