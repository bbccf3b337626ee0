"""Imported HealthBench rubrics are used unchanged, without model calls, and scored by their own
rule."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment
from generation import errors
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Call, Draft, Facet, Release, Sample
from generation.releases import export
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.healthbench import simulate, taxonomy
from tests.engine import Manage, endpoint, manage, no_long_waits
from tests.generation.releases import simple_evals

__all__ = ["manage", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]

# The paper's example (Arora et al. 2025, section 3): 7 + 10 - 6 of 22 points.
POINTS, MET = (7, 5, 10, -6), (True, False, True, True)


def healthbench(path: Path, *samples: tuple[float, ...]) -> Path:
    """Write a HealthBench file; each sample is given by the points of its rubrics."""
    path.write_text("".join(
        json.dumps({
            "prompt_id": f"p-{number}", "prompt": [{"role": "user", "content": f"What now, {number}?"}],
            "example_tags": ["theme:hedging", "physician_agreed_category:x"],
            "rubrics": [{"criterion": f"Says {n} of {number}.", "points": value, "tags": []} for n, value in enumerate(points)],
        }) + "\n" for number, points in enumerate(samples)
    ))  # fmt: skip
    return path


def test_a_published_file_is_imported_evaluated_and_scored(manage: Manage, tmp_path: Path) -> None:
    path = healthbench(tmp_path / "healthbench.jsonl", POINTS, (), (2.5, -1))
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    output = manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    assert (Sample.objects.count(), Call.objects.count()) == (2, 0)
    assert Draft.objects.get(status="dropped").detail == "It has no rubrics with points.", output
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    release = Release.objects.get()
    points = Facet.objects.filter(rubric__sample__release=release, name="points").order_by("rubric")
    assert list(points.values_list("value", flat=True)) == ["7", "5", "10", "-6", "2.5", "-1"]
    assert release.unreviewed == 2

    with run_in_background(make_app([simulate.SCRIPT], seed=11, faults=(), retry_after=0.001)) as models:
        for name in ("sim-careful", "sim-judge"):
            endpoint(models, name)
        options = ("--release", "hb", "--endpoint", "sim-careful", "--judge", "sim-judge", "--yes", "--wait")
        run = manage.json("evaluate", *options, "--policy", "refusal,repeat")["run"]
    judgments = Judgment.objects.filter(run=run, response__sample__position=0).order_by("rubric")
    assert {judgment.status for judgment in judgments} == {"done"}
    for judgment, met in zip(judgments, MET, strict=True):
        Judgment.objects.filter(pk=judgment.pk).update(verdict="met" if met else "not_met")
    Judgment.objects.filter(run=run, response__sample__position=1).update(
        status="failed", verdict="", error="NoMajority"
    )
    report: dict[str, Any] = json.loads(manage("report", run, "--format", "json")[1])
    [row] = report["overall"]
    score = row["rates"]["healthbench_score"]
    assert (score["value"], score["numerator"], score["denominator"], score["n"]) == (11 / 22, 11, 22, 1)
    assert row["rates"]["criteria_met"]["value"] == 3 / 4
    assert [facet["value"] for facet in report["facets"]["theme"]] == ["hedging"]
    fixed = json.loads(manage("claims", run, "--json")[1])["policies"]
    assert [(each["name"], each["rate"], each["n"]) for each in fixed] == [
        ("refusal", "healthbench_score", 2),
        ("repeat", "healthbench_score", 2),
    ]
    manage("export_run", run, "--out", tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []


def test_exports_keep_the_points(manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = healthbench(tmp_path / "healthbench.jsonl", POINTS, (2.5, -1))
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    for name in ("healthbench", "lm-eval"):
        export.Export(Release.objects.get(), name).write(tmp_path / name)
    examples = simple_evals.read(tmp_path / "healthbench" / "healthbench.jsonl")
    assert [[item.points for item in example.rubrics] for example in examples] == [[*POINTS], [2.5, -1]]
    metrics = simple_evals.grade(examples[0], MET)
    assert metrics == dict.fromkeys(("overall_score", "task:dialogue", "arm:trap", "theme:hedging"), 11 / 22)
    assert simple_evals.grader_input(examples[0], "A.")[1][-1] == "[-6] Says 3 of 0."
    assert {"inspect", "lm-eval"} <= dict(export.fitting_formats(Release.objects.get())).keys()

    [path] = (tmp_path / "lm-eval").glob("*.yaml")
    task = path.read_text()
    assert "metric: healthbench_score" in task
    assert "hallucination_rate" not in task
    for missing in ("datasets", "lm_eval", "lm_eval.api", "lm_eval.api.task"):
        monkeypatch.setitem(sys.modules, missing, MagicMock(ConfigurableTask=object))
    utils = runpy.run_path(str(tmp_path / "lm-eval" / "utils.py"))
    docs = [json.loads(line) for line in (tmp_path / "lm-eval" / "lm_eval.jsonl").read_text().splitlines()]
    replies = iter(json.dumps({"explanation": "So.", "criteria_met": met}) for met in (*MET, None, True))
    monkeypatch.setitem(utils["verdicts_on"].__globals__, "_ask", lambda _messages: next(replies))
    monkeypatch.setitem(utils["verdicts_on"].__globals__, "AT_ONCE", 1)
    monkeypatch.setenv("MHB_JUDGE_MODEL", "judge")
    first, second = (utils["judged_answer"](doc, ["An answer."]) for doc in docs)
    assert (first["healthbench_score"], first["criteria_met"], first["unjudged"]) == ((11 / 22, 1), (3, 4), 0)
    assert (second["healthbench_score"], second["criteria_met"], second["unjudged"]) == ((0, 0), (1, 1), 1)
    assert utils["pooled"]([(11 / 22, 1), (0, 0)]) == 11 / 22
    assert utils["pooled"]([(-3.0, 1), (1.0, 1)]) == 0.0


def test_the_export_refuses_and_names_a_sample_without_points_to_earn(manage: Manage, tmp_path: Path) -> None:
    path = healthbench(tmp_path / "healthbench.jsonl", POINTS, (-1, 0))
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    key = Sample.objects.latest("pk").key
    with pytest.raises(errors.NoPositivePoints, match=rf"\b{key}$"):
        export.Export(Release.objects.get(), "healthbench").write(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    export.Export(Release.objects.get(), "jsonl").write(tmp_path / "out")
    holds_out = {seed: Composition(held_out=0.5, seed=seed).holds_out for seed in range(1, 100)}
    seed = next(seed for seed, holds in holds_out.items() if holds("hb", "p-1") and not holds("hb", "p-0"))
    options = ("--with-unreviewed", "--held-out", "0.5", "--seed", seed)
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", *options)
    export.Export(Release.objects.get(version=2), "healthbench").write(tmp_path / "public")  # names no held-out sample
    with pytest.raises(errors.NoPositivePoints, match=key):
        export.Export(Release.objects.get(version=2), "healthbench", "held-out").write(tmp_path / "held-out")


@pytest.mark.plain
def test_points_are_formatted_as_in_the_source() -> None:
    assert [taxonomy.points_of(value) for value in (7, 5.0, -6, 2.5, -0.125, 1000)] == [
        "7",
        "5",
        "-6",
        "2.5",
        "-0.125",
        "1000",
    ]
