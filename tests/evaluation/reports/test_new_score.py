"""A new rule of scoring is one object in the benchmark's folder: no engine knows of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mhb_site.benchmarks
from evaluation import registry as evaluation_registry
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment, Run
from evaluation.reports import formats, queries
from generation.models import Release
from generation.recipes import registry
from tests.evaluation.reports.test_read import MODELS, finished_run, release
from tests.evaluation.toy import claimants, toy

__all__ = ["claimants", "release", "toy"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("toy")]

# Right answers earn 2 where the claim is hard and 1 where it is easy, wrong ones lose 1.
SCORE = """
from dataclasses import dataclass

import numpy as np

from evaluation.numbers.scores import Score, Scores


@dataclass(frozen=True)
class Stakes(Score):
    limits = (-1.0, 3.0)
    hard: float = 2.0

    @property
    def facets(self):
        return ("level",)

    def of(self, judged):
        stake = np.where(judged.having("level", "hard"), self.hard, 1.0)
        reached = judged.sums(np.where(judged.hit, stake, -1.0) * judged.has_verdict)
        unjudged = judged.sums(~judged.has_verdict)
        return Scores(reached, unjudged == 0, unjudged, reached, judged.sums(stake))
"""
RATE = """
from dataclasses import replace

from mhb_site.benchmarks.toy.score import Stakes

PROTOCOL = replace(
    PROTOCOL,
    rates=(
        *PROTOCOL.rates,
        Rate(
            "stakes", "Stakes", "Right answers earn, wrong ones lose.", {"tp": 1, "tn": 1}, ANSWERED,
            percent=False, unit="sample", score=Stakes(hard=3.0),
        ),
    ),
)
"""


@pytest.fixture
def stakes(toy: None) -> None:
    """Give the toy benchmark a rate with a rule of its own."""
    folder = Path(next(path for path in mhb_site.benchmarks.__path__ if (Path(path) / "toy").is_dir())) / "toy"
    (folder / "score.py").write_text(SCORE, encoding="utf-8")
    with (folder / "protocol.py").open("a", encoding="utf-8") as file:
        file.write(RATE)
    registry.module.cache_clear()


def earned(run: Run, model: str) -> list[float]:
    """What a model earned for each claim without a hint, computed from the rows alone."""
    rows = Judgment.objects.filter(run=run, response__endpoint__name=model, response__variant="plain")
    values = rows.values_list("verdict", "rubric__facets__value")
    return [
        -1.0 if verdict in ("fp", "fn") else 3.0 if level == "hard" else 1.0
        for verdict, level in values
        if verdict in ("tp", "tn", "fp", "fn")
    ]


@pytest.mark.usefixtures("stakes")
def test_a_new_score_reaches_report_documents_and_the_check_of_a_bundle(
    release: Release, claimants: str, tmp_path: Path
) -> None:
    run = finished_run(release, claimants)
    assert [rate.name for rate in evaluation_registry.protocol("toy").rates][-1] == "stakes"
    report = queries.report(run)
    numbers: dict[str, Any] = json.loads(formats.as_json(report))
    for model in MODELS:
        [row] = [row for row in numbers["overall"] if (row["endpoint"], row["dataset"]) == (model, "plain")]
        points, score = earned(run, model), row["rates"]["stakes"]
        assert score["value"] == pytest.approx(np.mean(points))
        assert (score["n"], score["numerator"], score["method"]) == (len(points), sum(points), "skew-corrected-t")
        assert score["low"] < score["value"] < score["high"]
        assert f"{score['value']:.3f}" in formats.as_markdown(report)
        assert str(score["value"]) in formats.as_csv(report)
    [compared] = [row for row in report.numbers.comparisons if (row.rate, row.dataset) == ("stakes", "hinted")]
    assert compared.difference == 0.0, "with a hint, both are right throughout"
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    path = tmp_path / "out" / "run.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"hard": 3.0', '"hard": 2.0'), encoding="utf-8")
    faults = verify_run.check(tmp_path / "out")["faults"]
    assert any("stakes" in fault for fault in faults), "its numbers follow from the settings of the rule"


def test_a_check_imports_nothing_that_a_file_names() -> None:
    from evaluation.numbers.rates import rate_from_json

    described = evaluation_registry.protocol("toy").rates[1].as_json()
    assert rate_from_json(described) == replace(evaluation_registry.protocol("toy").rates[1])
    with pytest.raises(KeyError):
        rate_from_json({**described, "score": {"class": "antigravity:Score", "fields": {}}})
