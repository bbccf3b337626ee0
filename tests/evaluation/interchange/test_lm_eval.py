"""The same release, answered and judged by lm-eval with the same models, gives exactly our rate."""

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
from tests.engine import Manage, endpoint, evaluated, frozen

pytestmark = pytest.mark.django_db
TOOLS = os.environ.get("MHB_INTERCHANGE", "")


needs_tools = pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange")


def scores_by_lm_eval(folder: Path, models: str) -> tuple[dict[str, float], dict[str, str]]:
    """Its command as a user runs it, on the export in `out`: its scores, and the answers by sample."""
    asked = f"model=sim-reckless,base_url={models}/chat/completions,num_concurrent=1"
    options = ["--include_path", "out", "--tasks", "mhb", "--model", "local-chat-completions", "--model_args", asked]
    options += ["--apply_chat_template", "--output_path", "results", "--log_samples"]
    home = {
        **os.environ, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "MHB_JUDGE_URL": models, "MHB_JUDGE_MODEL": "sim-judge",
    }  # fmt: skip
    done = subprocess.run(
        [TOOLS, "-m", "lm_eval", *options], cwd=folder, env=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    [found] = (folder / "results").rglob("results_*.json")
    [logged] = (folder / "results").rglob("samples_*.jsonl")
    told = [json.loads(line) for line in logged.read_text().splitlines()]
    answers = {each["doc"]["sample_id"]: each["resps"][0][0] for each in told}
    return json.loads(found.read_text())["results"]["mhb"], answers


@needs_tools
def test_lm_eval_gives_exactly_our_rate(tmp_path: Path, models: str, physicians: list[User]) -> None:
    """It talks to the models over HTTP by itself."""
    release = frozen(tmp_path, models, physicians[:3], conversations=3, reports=2)
    ours = evaluated(release, models, "sim-reckless")
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
        asked = ("--release", "hb", "--endpoint", "sim-reckless", "--judge", "sim-judge", "--yes", "--wait")
        run = Run.objects.get(pk=manage.json("evaluate", *asked)["run"])
        export.export_release(Release.objects.get(), "lm-eval", tmp_path / "out")
        scores, answers = scores_by_lm_eval(tmp_path, models)
    assert answers == dict(run.responses.values_list("sample__key", "text"))
    [row] = reports_queries.report(run).overall
    ours = {name: each.value for name, each in row.rates.items()}
    assert (scores["points_score,none"], scores["criteria_met,none"]) == (
        ours["healthbench_score"],
        ours["criteria_met"],
    )
    assert scores["unjudged,none"] == 0
    assert "hallucination_rate,none" not in scores
