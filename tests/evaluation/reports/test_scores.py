"""Scores of responses: stored, reported as means with spread, and recomputed from a bundle."""

import csv
import io
import json
from pathlib import Path
from statistics import mean, quantiles

import numpy as np
import pytest
from django.test import Client

import tests.evaluation.toy as toys
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.models import ResponseScore, Run
from evaluation.reports import formats, queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import mean_interval
from review.models import User
from tests.engine import endpoint
from tests.evaluation.toy import SEED, claimants, level, toy, toy_release

__all__ = ["claimants", "toy"]

pytestmark = pytest.mark.django_db
COUNT = 24

# Extends the toy protocol by a score: the length of readable answers to claims with even numbers.
SCORED = """
from evaluation.protocol import ScoreRule


def score(sample, rubric, variant, about, text, verdict):
    if verdict in ("unparsed", "unsure") or int(sample.key[-3:]) % 2:
        return {}
    return {"length": len(text.strip()) / 10, "far": 7.0}


PROTOCOL = __import__("dataclasses").replace(
    PROTOCOL,
    scores=(
        ScoreRule("length", "Length", "Letters over ten."),
        ScoreRule("far", "Far", "Never in its range."),
    ),
    score=score,
)
"""


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the toy benchmark its score; must come before `toy`."""
    monkeypatch.setattr(toys, "PROTOCOL", toys.PROTOCOL + SCORED)


@pytest.fixture
def run(scored: None, toy: None, claimants: str) -> Run:
    models = [endpoint(claimants, "sim-careful"), endpoint(claimants, "sim-average")]
    run = services.launch_run(RunSettings(release=toy_release(COUNT), endpoints=models, seed=SEED))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    return run


def answer_lengths(run: Run, model: str, variant: str, *, of_level: str = "") -> list[float]:
    """The scores expected for a model and variant, computed from the stored answers."""
    lengths = []
    for response in run.responses.filter(endpoint__name=model, variant=variant).select_related("sample"):
        at, text = int(response.sample.key[-3:]), response.text.strip()
        readable = text.rstrip(".").casefold() in ("yes", "no")
        if readable and at % 2 == 0 and of_level in ("", level(at)):
            lengths.append(len(text) / 10)
    return lengths


@pytest.mark.both
def test_means_and_spread_are_those_of_the_stored_answers(run: Run) -> None:
    report = queries.report(run)
    assert [(row.endpoint, row.dataset) for row in report.numbers.scores] == [
        (model, dataset) for model in ("sim-careful", "sim-average") for dataset in ("plain", "hinted")
    ]
    for row in report.numbers.scores:
        expected = answer_lengths(run, row.endpoint, {"plain": "plain", "hinted": "hint"}[row.dataset])
        score = row.scores["length"]
        assert (score.n, score.n + score.without) == (len(expected), COUNT)
        assert score.mean == pytest.approx(mean(expected))
        assert score.box[1:4] == pytest.approx(quantiles(expected, n=4, method="inclusive"))
        assert row.scores["far"].n == 0  # outside its range: never stored
        assert score.too_few is (len(expected) < report.plan.minimum)
    hard = next(
        row for row in report.numbers.score_facets["level"] if (row.value, row.endpoint) == ("hard", "sim-average")
    )
    assert hard.scores["length"].mean == pytest.approx(
        mean(answer_lengths(run, "sim-average", "plain", of_level="hard"))
    )
    with pytest.raises(Exception, match="append-only"):
        ResponseScore.objects.update(numbers="1")


def test_page_files_and_figures_show_the_same_means(run: Run, client: Client, adela: User) -> None:
    client.force_login(adela)
    report = queries.report(run)
    rows = formats.as_dict(report)["scores"]
    lines = list(csv.DictReader(io.StringIO(formats.as_csv(report, "scores"))))
    overall = [line for line in lines if not line["facet"] and line["score"] == "length"]
    assert [float(line["mean"]) for line in overall] == [row["scores"]["length"]["mean"] for row in rows]
    assert f"{rows[0]['scores']['length']['mean']:.3f}" in formats.as_markdown(report)
    assert "Means of scores" in formats.FORMATS["latex"][0](report)
    page = client.get(f"/evaluation/runs/{run.pk}/")
    assert page.status_code == 200
    assert "Letters over ten." in page.content.decode()
    for name in ("svg", "csv"):
        assert client.get(f"/evaluation/runs/{run.pk}/figures/boxes-length.{name}").status_code == 200


def test_scores_are_in_the_bundle_and_their_means_are_recomputed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    bundle.export_run(run, folder)
    result = verify_run.check(folder)
    assert result["faults"] == []
    assert result["not_recomputed"]["scores of texts, which libraries computed"] > 0
    path = folder / "scores.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["scores"]["length"] += 0.1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any("length: mean is" in fault for fault in verify_run.check(folder)["faults"])


@pytest.mark.plain
def test_the_interval_takes_clusters_into_account() -> None:
    numbers = np.array([0.1, 0.4, 0.2, 0.9, 0.5, 0.3, 0.7, 0.8, 0.6, 0.2, 0.1, 0.4])
    unclustered = mean_interval(numbers, np.ones(12))
    assert unclustered[3] == 12
    assert mean_interval(2 * numbers, np.full(12, 2)) == pytest.approx(unclustered)  # repeats add no information
    assert mean_interval(numbers[:4], np.full(4, 3))[1:3] == (None, None)
    assert mean_interval(np.full(12, 0.4), np.ones(12))[1:3] == (None, None)  # nothing varies
