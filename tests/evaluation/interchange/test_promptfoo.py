"""promptfoo counts our export as a table made by hand does, and its results come back as verdicts.

Needs promptfoo (`make test-interchange` installs it where there is npm).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evaluation.interchange import importing, rows
from generation.models import Release
from generation.releases import export
from tests.benchmarks.healthbench.test_published import healthbench
from tests.engine import Manage

PROMPTFOO = os.environ.get("MHB_PROMPTFOO", "")
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not PROMPTFOO, reason="needs promptfoo: make test-interchange"),
]
MODEL = "module.exports = class { id() { return 'own' } async callApi() { return { output: 'Rest.' } } };"
# Criterion `Says N of SAMPLE.` is met where N is odd; or none is.
GRADER = """
module.exports = class {
  id() { return 'grader' }
  async callApi(prompt) {
    const met = %s && Number(prompt.match(/Says (\\d+) of/)[1]) %% 2 === 1;
    return { output: JSON.stringify({ pass: met, score: met ? 1 : 0, reason: 'So.' }) };
  }
};
"""
POINTS = [(7, 5, 10, -6), (0, 3, -2)]


def evaluate(folder: Path, *, finds_some: bool) -> tuple[dict[str, tuple[float, float]], Path]:
    """(sum, sum of weights) of each metric, and the file of results."""
    (folder / "model.js").write_text(MODEL)
    (folder / "grader.js").write_text(GRADER % str(finds_some).lower())
    command = [PROMPTFOO, "eval", "--config", "out/promptfooconfig.yaml", "--providers", f"file://{folder}/model.js"]
    command += ["--grader", f"file://{folder}/grader.js", "--no-cache", "--no-table", "--output", "results.json"]
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    environment = {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(folder / "config")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    path = folder / "results.json"
    assert path.exists(), done.stderr[-2000:] + done.stdout[-2000:]  # the exit code is 100 if an assertion fails
    metrics: dict[str, Any] = json.loads(path.read_text())["results"]["prompts"][0]["metrics"]
    weights = metrics["namedScoreWeights"]
    return {name: (score, weights[name]) for name, score in metrics["namedScores"].items()}, path


@pytest.mark.parametrize(
    ("finds_some", "expected"),
    [
        # Of 7 + 5 + 10 + 3 points are 5 + 3 met; of 6 + 2 to avoid, the 2 are avoided.
        (True, {"trap: criteria met": (8, 25), "trap: criteria to avoid, not met": (2, 8)}),
        (False, {"trap: criteria met": (0, 25), "trap: criteria to avoid, not met": (8, 8)}),
    ],
)
def test_points_count_with_their_signs_and_come_back(
    tmp_path: Path, manage: Manage, finds_some: bool, expected: dict[str, tuple[float, float]]
) -> None:
    path = healthbench(tmp_path / "healthbench.jsonl", *POINTS)
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    release = Release.objects.get()
    export.Export(release, "promptfoo").write(tmp_path / "out")
    metrics, results = evaluate(tmp_path, finds_some=finds_some)
    assert metrics == expected
    imported = importing.import_results(rows.read(results), release=release, study="s")
    assert (imported.added, imported.refused) == (sum(map(len, POINTS)), 0)
    assert imported.run is not None
    verdicts = imported.run.judgments.values_list("rubric__criterion", "verdict")
    assert {criterion for criterion, verdict in verdicts if verdict == "met"} == {
        f"Says {n} of {sample}."
        for sample, points in enumerate(POINTS)
        for n in range(len(points))
        if n % 2 and finds_some
    }
