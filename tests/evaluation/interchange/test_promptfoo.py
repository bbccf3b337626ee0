"""promptfoo counts our export as a table made by hand does, and its results come back as verdicts.

Needs promptfoo (`make test-interchange` installs it where there is npm).
"""

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
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


def environment(folder: Path) -> dict[str, str]:
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    return {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(folder / "config")}


def run_promptfoo(folder: Path, command: Sequence[str], written: Path) -> None:
    done = subprocess.run(
        [PROMPTFOO, *command], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert written.exists(), done.stderr[-2000:] + done.stdout[-2000:]  # the exit code is 100 if an assertion fails


def rate_by_hand(folder: Path, results: Path) -> Path:
    """Results of which a person rated the first answer, as promptfoo's page does."""
    document = json.loads(results.read_text())
    evaluation, first = document["evalId"], document["results"]["results"][0]
    rating = {"pass": True, "score": 1, "reason": "Manual result (overrides all other grading results)"}
    by_hand = {**rating, "comment": "Fine.", "assertion": {"type": "human"}}
    graded = {**first["gradingResult"], **rating}
    graded["componentResults"] = [*graded["componentResults"], by_hand]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [PROMPTFOO, "view", "--no", "--port", str(port)], cwd=folder, env=environment(folder)
    ) as page:
        try:
            address = f"http://127.0.0.1:{port}/api/eval/{evaluation}/results/{first['id']}/rating"
            with httpx2.Client(transport=httpx2.HTTPTransport(retries=10)) as client:  # until it listens
                reply = client.post(address, json=graded)
            assert reply.is_success, reply.text
        finally:
            page.terminate()
    edited = folder / "edited.json"
    run_promptfoo(folder, ["export", "eval", evaluation, "--output", str(edited)], edited)
    return edited


def evaluate(folder: Path, *, finds_some: bool) -> tuple[dict[str, tuple[float, float]], Path]:
    """(sum, sum of weights) of each metric, and the file of results."""
    (folder / "model.js").write_text(MODEL)
    (folder / "grader.js").write_text(GRADER % str(finds_some).lower())
    command = ["eval", "--config", "out/promptfooconfig.yaml", "--providers", f"file://{folder}/model.js"]
    command += ["--grader", f"file://{folder}/grader.js", "--no-cache", "--no-table", "--output", "results.json"]
    path = folder / "results.json"
    run_promptfoo(folder, command, path)
    metrics: dict[str, Any] = json.loads(path.read_text())["results"]["prompts"][0]["metrics"]
    weights = metrics["namedScoreWeights"]
    return {name: (score, weights[name]) for name, score in metrics["namedScores"].items()}, path


def exported(folder: Path, manage: Manage) -> Release:
    path = healthbench(folder / "healthbench.jsonl", *POINTS)
    manage.json("import_source", "--format", "healthbench", "--name", "hb", path)
    manage.json("generate", "--yes", "--wait", "--benchmark", "healthbench", "--source", "hb")
    manage.json("freeze_release", "hb", "--benchmark", "healthbench", "--with-unreviewed")
    release = Release.objects.get()
    export.Export(release, "promptfoo").write(folder / "out")
    return release


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
    release = exported(tmp_path, manage)
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


def test_a_rating_by_hand_leaves_the_verdicts_of_the_grader(tmp_path: Path, manage: Manage) -> None:
    release = exported(tmp_path, manage)
    _metrics, results = evaluate(tmp_path, finds_some=True)
    edited = rate_by_hand(tmp_path, results)
    imported = importing.import_results(rows.read(edited), release=release, study="s")
    assert imported.added == sum(map(len, POINTS))
    assert [refusal.reason for refusal in imported.refusals] == [
        "promptfoo: a person rated the answer as a whole, which is no verdict on a criterion"
    ]
