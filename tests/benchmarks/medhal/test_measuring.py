"""MedHal's real pipeline recovers the configured precision and recall of simulated detectors, and
scores their explanations."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import ResponseScore
from evaluation.releases.leaderboard import incomplete_results, leaderboard
from evaluation.reports import paper_layout, queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.llm.simulator.server import make_app, run_in_background
from mhb_site.benchmarks.medhal import simulate_detection
from tests.benchmarks.medhal.statements import create_release, statement
from tests.engine import endpoint

COUNT = 300  # of each label


@pytest.fixture(scope="module")
def detectors() -> Iterator[str]:
    with run_in_background(make_app([simulate_detection.SCRIPT], seed=3, retry_after=0.001)) as url:
        yield url


@pytest.mark.django_db
def test_configured_precision_and_recall_are_recovered(detectors: str, admin_client: Client) -> None:
    contents = [
        statement(
            number,
            factual=label,
            task=("qa", "ie")[number % 2],
            context="He has high blood pressure." if number % 2 else "",
        )
        for number in range(COUNT)
        for label in (True, False)
    ]
    model = "sim-average"
    run = services.launch_run(RunSettings(release=create_release(contents), endpoints=[endpoint(detectors, model)]))
    assert run.variants == ["qa", "ie"]  # only the usual prompt
    work.work_on_run(run.pk)
    run.refresh_from_db()
    report = queries.report(run)
    [combined] = [row for row in report.numbers.overall if row.dataset == "combined"]
    detector = simulate_detection.DETECTORS[model]
    tp, fp = COUNT * detector.sees_factual, COUNT * (1 - detector.sees_wrong)
    precision, recall = tp / (tp + fp), detector.sees_factual
    true = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
    for name in ("precision", "recall", "f1"):
        low, high = combined.rates[name].interval or (1, 0)
        assert low <= true[name] <= high, (name, true[name], low, high)
    assert combined.rates["f1"].excluded == sum(
        n for name, n in combined.verdicts.items() if name.startswith("unparsed")
    )
    assert {row.value for row in report.numbers.facets["source"]} == {"medqa", "acn"}
    assert {row.value for row in report.numbers.facets["length"]} == {"none", "short"}

    score_row = next(row for row in report.numbers.scores if row.dataset == "combined")
    n_explained = ResponseScore.objects.filter(run=run).count()
    assert 0 < n_explained == score_row.scores["bleu"].n < combined.verdicts["tn"]  # some do not explain
    assert score_row.scores["bleu"].n + score_row.scores["bleu"].without == 2 * COUNT
    # The simulated explanation differs from the true one only by the mark.
    assert (score_row.scores["rouge1"].mean or 0) > 0.95

    # The paper's layout: its own rows, and this model's with the numbers of the report.
    tables = {each.table.name: each for each in paper_layout.paper_tables(report)}
    [own] = [row for row in tables["Table 6"].rows if not row.published and not row.mean]
    assert own.group == "General"
    assert own.cells[2] == f"{combined.rates['f1'].value:.2f}"
    assert own.cells[-1] == str(n_explained)
    assert ("MedLlama-8B", "0.94") in [(row.model, row.cells[0]) for row in tables["Table 6"].rows if row.published]
    [errors] = tables["Figure 8"].rows
    wrong = {row.dataset: row.verdicts["fp"] + row.verdicts["fn"] for row in report.numbers.overall}
    assert errors.cells == (*(f"{wrong[task] / wrong['combined']:.2f}" for task in ("qa", "ie")), "0.00", "0.00")
    assert sum(map(float, tables["Figure 9"].rows[0].cells)) == pytest.approx(1, abs=0.02)
    of_release = next(row for row in tables["Figure 9"].rows if row.model == "all samples of this release")
    assert sum(map(float, of_release.cells)) == pytest.approx(1, abs=0.02)
    assert [row.model for row in tables["Table 5"].rows] == ["valid samples"], "nothing of a run"
    assert [row.cells[2] for row in tables["Table 7"].rows if not row.published] == [own.cells[2]]
    for write in paper_layout.FORMATS.values():
        assert "Prometheus-2-8x7B" in write(report)
    for name in ("md", "latex"):
        assert "positive: factual" in paper_layout.FORMATS[name](report), "what a reader has to know to compare"
    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "As in the paper" in page
    for group in {row.group for row in tables["Table 6"].rows}:
        assert f">{group}</th></tr>" in page, "a group's name stands above its rows, once"
    assert "Prometheus-2-8x7B" in page
    for ending in ("svg", "csv"):  # Figure 8, questions
        file = admin_client.get(reverse(f"evaluation:figure-{ending}", args=[run.pk, "paper-1-0"]))
        assert model in file.content.decode()
    board = admin_client.get(
        reverse("evaluation:results", args=[run.release.name, run.release.version])
    ).content.decode()
    assert "Prometheus-2-8x7B" in board
    [entry] = leaderboard(run.release).entries
    assert entry.deciding.dataset == "combined"
    assert entry.deciding.value == combined.rates["f1"].value
    assert not incomplete_results(run.release), "formats that no launch asks by default are no part of the whole"
