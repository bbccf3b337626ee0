"""Tallies save counting the progress of a run again, and the page of a finished run is cached."""

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
from review.rules.permissions import OPERATOR
from tests.engine import bare_release
from tests.evaluation.test_metrics import run_with_verdicts

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
SAMPLES = [("dialogue", [["A1"], ["C2"]])] * 4


def counts(run: Run) -> tuple[int, int, int, int]:
    """The queued, done, failed and total judgments in the progress of a run."""
    judgments = RUNS.progress(RUNS.get_with_status(run.pk, OPERATOR)).judgments
    return judgments.queued, judgments.done, judgments.failed, judgments.total


@pytest.fixture
def run() -> Run:
    run = run_with_verdicts(bare_release(*SAMPLES), one=lambda at, _rubric: "" if at == 3 else "met")
    Run.objects.filter(pk=run.pk).update(rubrics_total=8, finished_at=timezone.now())
    run.refresh_from_db()
    return run


def reopen_judgment(run: Run, at: int) -> Judgment:
    """Queue the judgment at this position again."""
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


def test_an_unfinished_run_is_tallied_up_to_its_first_open_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MARGIN", 0)
    row = reopen_judgment(run, 5)
    tallies.tally(run.pk)
    run.refresh_from_db()
    assert (run.judgments_done, run.judgments_done_to) == (4, row.pk - 1)
    assert counts(run) == (1, 6, 1, 8)
    Judgment.objects.filter(pk=row.pk).update(status=Status.DONE, verdict="met")
    assert counts(run) == (0, 7, 1, 8), "rows that ended since the tally are counted on request"
    tallies.tally(run.pk)
    assert counts(run) == (0, 7, 1, 8)


def test_a_retry_resets_the_tally(run: Run) -> None:
    tallies.tally(run.pk)
    assert services.retry_failed(run.pk) == 1
    run.refresh_from_db()
    assert run.judgments_done_to == 0
    run.judgments.filter(status=Status.QUEUED).update(status=Status.DONE, verdict="met")
    assert counts(run) == (0, 8, 0, 8)


def test_the_sweep_tallies_runs_that_ended_without_a_tally(run: Run) -> None:
    tallies.tally_open_runs()
    run.refresh_from_db()
    assert run.judgments_done == 7


def test_the_page_of_a_finished_run_reads_its_verdicts_once(run: Run, admin_client: Client) -> None:
    tallies.tally(run.pk)
    cache.clear()
    address = reverse("evaluation:run", args=[run.pk])

    def read(query: str = "", language: str = "en") -> tuple[str, int]:
        with CaptureQueriesContext(connection) as executed:
            page = admin_client.get(address + query, headers={"accept-language": language}).content.decode()
        reads = [
            query for query in executed if 'FROM "evaluation_judgment"' in query["sql"] and " w_ " not in query["sql"]
        ]
        kept = page[page.index('id="overall"') : page.index('id="judging"')]
        return kept, len(reads)

    first, first_reads = read()
    second, second_reads = read()
    assert second == first
    assert (first_reads, second_reads) == (3, 0)  # verdicts, those not read, and those behind the claims
    assert read("?sort=-rate")[0] != first, "the cached page is not used for another order"
    with translation.override("zh-hans"):
        admin_client.cookies["django_language"] = "zh-hans"
        assert read(language="zh-hans")[0] != first, "each language has its own cached page"
