"""The report as JSON and Markdown: the same complete numbers, with a notice on simulated models."""

import json
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluation.models import Run
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from generation.models import Endpoint, Release
from review.models import User
from tests.engine import bare_release, evaluate_release, launch_run, make_release
from tests.evaluation.test_metrics import run_with_verdicts
from tests.populations import population

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def run() -> Run:
    """Model 'one' fails 3 of 10 criteria (dialogue 2 of 5, report 1 of 5), and 2 more are unjudged.

    For model 'two' all criteria are unjudged.
    """
    release = bare_release(*[("dialogue", [["A1"]])] * 5, *[("report", [["C2"]])] * 7)
    verdicts = {"dialogue": ["not_met"] * 2 + ["met"] * 3, "report": ["not_met"] + ["met"] * 4 + [""] * 2}
    return run_with_verdicts(
        release, one=lambda at, rubric: verdicts[rubric.sample.task][at], two=lambda _at, _rubric: ""
    )


def test_the_json_report_has_all_numbers(run: Run) -> None:
    data = json.loads(formats.as_json(reports_queries.report(run)))
    [combined] = [row for row in data["overall"] if (row["endpoint"], row["dataset"]) == ("one", "combined")]
    measured = combined.pop("rates")
    assert list(measured) == ["hallucination_rate", "samples_failed"]
    first = measured["hallucination_rate"]
    assert first.pop("value") == combined["rate"]
    assert first == {name: combined[name] for name in first}
    assert combined.pop("verdicts") == {"met": 7, "not_met": 3, "unjudged": 2}
    assert combined == {
        "endpoint": "one",
        "dataset": "combined",
        "rate": 0.3,
        "numerator": 3,
        "denominator": 10,
        "unjudged": 2,
        "low": pytest.approx(0.1078, abs=1e-4),
        "high": pytest.approx(0.6032, abs=1e-4),
        "method": "wilson",
        "clusters": 10,
        "n": 10,
        "best": pytest.approx(3 / 12),
        "worst": pytest.approx(5 / 12),
    }
    [undefined] = [row for row in data["overall"] if (row["endpoint"], row["dataset"]) == ("two", "combined")]
    assert (undefined["rate"], undefined["low"], undefined["high"]) == (None, None, None), "undefined instead of zero"
    assert (undefined["denominator"], undefined["unjudged"]) == (0, 12)
    [cluster] = [
        row
        for row in data["facets"]["cluster"]
        if (row["endpoint"], row["dataset"], row["value"]) == ("one", "combined", "C")
    ]
    assert (cluster["label"], cluster["numerator"], cluster["denominator"], cluster["unjudged"]) == (
        "Diagnostic Reasoning", 1, 5, 2,
    )  # fmt: skip
    assert data["release"] == "bare"
    assert data["endpoints"] == ["one", "two"]
    assert data["finished"]
    assert set(data["facets"]) == {"cluster", "subtype", "severity"}


def test_the_markdown_report_has_all_tables(run: Run) -> None:
    text = formats.as_markdown(reports_queries.report(run))
    assert "# bare v1: Hallucination rate" in text
    assert "| one | 40.0% (too few) | 20.0% (too few) | 30.0% (10.8%–60.3%) |" in text, "the table for papers"
    assert "| one | MHB-Dialogue | Hallucination rate | 0.400 | too few | 2 / 5 | 0 |" in text
    assert "| one | MHB-Report | Hallucination rate | 0.200 | too few | 1 / 5 | 2 |" in text
    assert "| one | Combined | Hallucination rate | 0.300 | 0.108–0.603 | 3 / 10 | 2 |" in text
    assert "| two | MHB-Report | Hallucination rate | – | – | 0 / 0 | 7 |" in text
    assert "| one | MHB-Dialogue | A Factual Discrepancy | Hallucination rate | 0.400 |" in text
    assert "| one | MHB-Report | A Factual Discrepancy" not in text, "there is no such criterion"
    for table in text.split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) <= 1, "every row has the same number of cells"


def test_json_and_markdown_have_the_same_numbers(run: Run) -> None:
    report = reports_queries.report(run)
    text, data = formats.as_markdown(report), formats.as_dict(report)
    for row in data["overall"]:
        assert f"{row['numerator']} / {row['denominator']} | {row['unjudged']} |" in text


def test_a_report_on_simulated_models_carries_a_notice(run: Run) -> None:
    report = reports_queries.report(run)
    assert report.simulated
    assert formats.as_dict(report)["notice"] == "Simulated models: not evidence."
    assert "> **Simulated models: not evidence.**" in formats.as_markdown(report)
    Endpoint.objects.update(simulated=False)
    without_simulation = reports_queries.report(RUNS.get(run.pk))
    assert "notice" not in formats.as_dict(without_simulation)
    assert "Simulated" not in formats.as_markdown(without_simulation)


@pytest.mark.parametrize("name", ["sim-judge", "one", "two"])
def test_one_simulated_model_makes_a_run_simulated(run: Run, name: str) -> None:
    Endpoint.objects.exclude(name=name).update(simulated=False)
    assert runs_queries.is_simulated(RUNS.get(run.pk))


def test_the_report_of_an_unfinished_run_says_so(models: str) -> None:
    run = launch_run(bare_release(("dialogue", [["A1"]])), models, "sim-average")
    report = reports_queries.report(run)
    assert not formats.as_dict(report)["finished"]
    assert "Results so far: unfinished items count as not judged." in formats.as_markdown(report)


@pytest.fixture
def evaluated_release(tmp_path: Path, models: str, ana: User, bo: User) -> tuple[Release, Run]:
    release = make_release(tmp_path, models, [ana, bo], conversations=4, reports=3)
    return release, evaluate_release(release, models, "sim-careful", "sim-reckless")


def test_a_report_of_a_real_run_adds_up(evaluated_release: tuple[Release, Run]) -> None:
    release, run = evaluated_release
    report = reports_queries.report(run)
    for name in report.endpoints:
        by_dataset = {row.dataset: row.measured for row in report.numbers.overall if row.endpoint == name}
        for part in ("numerator", "denominator", "excluded"):
            of = {dataset: getattr(measured, part) for dataset, measured in by_dataset.items()}
            assert of["combined"] == of["dialogue"] + of["report"]
        assert by_dataset["combined"].denominator == release.rubrics_count
        for facet, values in release.counts.items():
            if facet == "task":
                assert {task: by_dataset[task].denominator for task in values} == {
                    task: cell["rubrics"] for task, cell in values.items()
                }
                continue
            rows = [row for row in report.numbers.facets[facet] if row.endpoint == name and row.dataset == "combined"]
            assert {row.value: row.measured.denominator for row in rows} == {
                value: cell["rubrics"] for value, cell in values.items()
            }
    data = formats.as_dict(report)
    assert data["release_sha256"] == release.sha256
    assert data["judge_temperature"] == 0.5
    assert data["judge"] == data["judge_model"] == "sim-judge"


def test_a_report_is_counted_by_the_database(run: Run) -> None:
    """The number of queries does not depend on that of judgments, and no judgment is fetched."""
    with CaptureQueriesContext(connection) as executed:
        report = reports_queries.report(RUNS.get(run.pk))
        assert report.numbers.overall
    # PostgreSQL also needs a query for the size of the numbers and a setting for listing verdicts.
    assert len(executed) <= (19 if connection.vendor == "postgresql" else 18)
    assert not [query for query in executed.captured_queries if '"evaluation_judgment"."explanation"' in query["sql"]]
