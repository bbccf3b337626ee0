"""How far a run is, is not counted again and again; and a finished run's page is drawn once."""

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from evaluation.models import Judgment, Run
from evaluation.runs import services
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import tallies
from generation.models.work import Work
from tests.engine import bare_release
from tests.evaluation.test_metrics import judged

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
SAMPLES = [("dialogue", [["A1"], ["C2"]])] * 4


def counts(run: Run) -> tuple[int, int, int, int]:
    found = RUNS.progress(RUNS.get_with_status(run.pk)).judgments
    return found.queued, found.done, found.failed, found.total


@pytest.fixture
def run() -> Run:
    made = judged(bare_release(*SAMPLES), one=lambda at, _rubric: "" if at == 3 else "met")
    Run.objects.filter(pk=made.pk).update(rubrics_total=8, finished_at=timezone.now())
    made.refresh_from_db()
    return made


def reset_endpoints(run: Run, at: int) -> Judgment:
    row = run.judgments.order_by("pk")[at]
    fields = {"status": Status.QUEUED, "verdict": "", "error": ""}
    Judgment.objects.filter(pk=row.pk).update(**fields)
    return row


def test_a_tally_changes_no_count(run: Run) -> None:
    before = counts(run)
    tallies.tally(run.pk)
    run.refresh_from_db()
    assert (run.judgments_done, run.judgments_done_to) == (7, max(run.judgments.values_list("pk", flat=True)))
    assert counts(run) == before == (0, 7, 1, 8)


def test_a_run_that_works_is_counted_up_to_its_first_open_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MARGIN", 0)
    row = reset_endpoints(run, 5)
    tallies.tally(run.pk)
    run.refresh_from_db()
    assert (run.judgments_done, run.judgments_done_to) == (4, row.pk - 1)
    assert counts(run) == (1, 6, 1, 8)
    Judgment.objects.filter(pk=row.pk).update(status=Status.DONE, verdict="met")
    assert counts(run) == (0, 7, 1, 8), "what ended since is counted when it is asked for"
    tallies.tally(run.pk)
    assert counts(run) == (0, 7, 1, 8)


def test_what_is_tried_again_is_counted_anew(run: Run) -> None:
    tallies.tally(run.pk)
    assert services.retry_failed(run.pk) == 1
    run.refresh_from_db()
    assert run.judgments_done_to == 0
    run.judgments.filter(status=Status.QUEUED).update(status=Status.DONE, verdict="met")
    assert counts(run) == (0, 8, 0, 8)


def test_the_sweep_counts_runs_that_ended_without_a_tally(run: Run) -> None:
    tallies.tally_open_runs()
    run.refresh_from_db()
    assert run.judgments_done == 7


def test_the_page_of_a_finished_run_reads_no_verdicts_twice(run: Run, admin_client: Client) -> None:
    tallies.tally(run.pk)
    cache.clear()
    address = reverse("evaluation:run", args=[run.pk])

    def read(query: str = "", language: str = "en") -> tuple[str, int]:
        with CaptureQueriesContext(connection) as seen:
            page = admin_client.get(address + query, headers={"accept-language": language}).content.decode()
        reads = [each for each in seen if 'FROM "evaluation_judgment"' in each["sql"] and " w_ " not in each["sql"]]
        return page[page.index('<section class="stack--tight"') :], len(reads)

    first, counted = read()
    again, kept = read()
    assert again == first
    assert (counted, kept) == (1, 0)
    assert read("?sort=-rate")[0] != first, "what a reader asks for is not what is kept"
    with translation.override("zh-hans"):
        admin_client.cookies["django_language"] = "zh-hans"
        assert read(language="zh-hans")[0] != first, "each language has its own"
