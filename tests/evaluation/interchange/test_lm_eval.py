"""lm-eval, with the same release and the same models, gives exactly our rate."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from evaluation.models import Run
from evaluation.reports import queries as reports_queries
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Release
from generation.releases import export
from mhb_site.benchmarks.healthbench import simulate
from review.models import User
from tests.benchmarks.healthbench.test_published import POINTS, healthbench
from tests.engine import Manage, endpoint, evaluate_release, make_release

pytestmark = pytest.mark.django_db
TOOLS = os.environ.get("MHB_INTERCHANGE", "")


needs_tools = pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange")


def scores_by_lm_eval(folder: Path, models: str) -> tuple[dict[str, float], dict[str, str]]:
    """Run lm-eval on the export in `out` as a user does; returns scores and answers by sample."""
    model_args = f"model=sim-reckless,base_url={models}/chat/completions,num_concurrent=1"
    options = [
        "--include_path",
        "out",
        "--tasks",
        "mhb",
        "--model",
        "local-chat-completions",
        "--model_args",
        model_args,
    ]
    options += ["--apply_chat_template", "--output_path", "results", "--log_samples"]
    environment = {
        **os.environ, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "MHB_JUDGE_URL": models, "MHB_JUDGE_MODEL": "sim-judge",
    }  # fmt: skip
    process = subprocess.run(
        [TOOLS, "-m", "lm_eval", *options], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:] + process.stdout[-2000:]
    [results] = (folder / "results").rglob("results_*.json")
    [log] = (folder / "results").rglob("samples_*.jsonl")
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    answers = {entry["doc"]["sample_id"]: entry["resps"][0][0] for entry in entries}
    return json.loads(results.read_text())["results"]["mhb"], answers


@needs_tools
def test_lm_eval_gives_exactly_our_rate(tmp_path: Path, models: str, physicians: list[User]) -> None:
    """lm-eval itself asks the models, over HTTP."""
    release = make_release(tmp_path, models, physicians[:3], conversations=3, reports=2)
    ours = evaluate_release(release, models, "sim-reckless")
    export.export_release(release, "lm-eval", tmp_path / "out")
    scores, answers = scores_by_lm_eval(tmp_path, models)
    assert answers == dict(ours.responses.values_list("sample__key", "text"))
    rate = next(row for row in reports_queries.report(ours).overall if row.dataset == "combined").measured
    assert (scores["hallucination_rate,none"], scores["unjudged,none"]) == (rate.value, rate.excluded)
    assert 0 < rate.numerator < rate.denominator


@needs_tools
def test_lm_eval_gives_healthbench_its_own_score(tmp_path: Path, manage: Manage) -> None:
    path = healthbench(tmp_path / "healthbench.jsonl", POINTS, (2.5, -1), (3, 4, -2))
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    with run_in_background(make_app([simulate.SCRIPT], seed=11, faults=(), retry_after=0.001)) as models:
        for name in ("sim-reckless", "sim-judge"):
            endpoint(models, name)
        options = ("--release", "hb", "--endpoint", "sim-reckless", "--judge", "sim-judge", "--yes", "--wait")
        run = Run.objects.get(pk=manage.json("evaluate", *options)["run"])
        export.export_release(Release.objects.get(), "lm-eval", tmp_path / "out")
        scores, answers = scores_by_lm_eval(tmp_path, models)
    assert answers == dict(run.responses.values_list("sample__key", "text"))
    [row] = reports_queries.report(run).overall
    ours = {name: rate.value for name, rate in row.rates.items()}
    assert (scores["points_score,none"], scores["criteria_met,none"]) == (
        ours["healthbench_score"],
        ours["criteria_met"],
    )
    assert scores["unjudged,none"] == 0
    assert "hallucination_rate,none" not in scores
