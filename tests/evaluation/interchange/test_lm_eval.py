"""lm-eval, with the same release and the same models, gives exactly our rates."""

import json
import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation.interchange import importing, rows
from evaluation.models import Run
from evaluation.reports import queries as reports_queries
from generation.llm import reasoning
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Release
from generation.recipes import registry
from generation.releases import export
from generation.releases.programs import mhb_judging
from mhb_site.benchmarks.healthbench import simulate
from review.models import User
from review.rules.text import has_visible_text
from tests.benchmarks.healthbench.test_published import POINTS, healthbench
from tests.engine import Manage, bare_release, endpoint, evaluate_release, make_release_with_controls
from tests.evaluation.interchange.silent import silent_models
from tests.evaluation.reports.test_counting import with_controls
from tests.evaluation.test_metrics import run_with_verdicts

__all__ = ["silent_models"]

pytestmark = pytest.mark.django_db
TOOLS = os.environ.get("MHB_INTERCHANGE", "")


needs_tools = pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange")


def scores_by_lm_eval(folder: Path, models: str) -> tuple[dict[str, float], Path]:
    """Run lm-eval on the export in `out` as a user does; returns scores and the logged samples."""
    model_args = f"model=sim-reckless,base_url={models}/chat/completions,num_concurrent=1"
    [task] = [path.stem for path in (folder / "out").glob("*.yaml")]
    options = [
        "--include_path",
        "out",
        "--tasks",
        task,
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
    return json.loads(results.read_text())["results"][task], log


@needs_tools
def test_lm_eval_gives_exactly_our_rates(tmp_path: Path, silent_models: str, physicians: list[User]) -> None:
    """lm-eval itself asks the models, over HTTP; its log comes back as a study."""
    release = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    ours = evaluate_release(release, silent_models, "sim-reckless")
    export.Export(release, "lm-eval").write(tmp_path / "out")
    scores, log = scores_by_lm_eval(tmp_path, silent_models)
    [row] = [row for row in reports_queries.report(ours).numbers.overall if row.dataset == "combined"]
    rates = {name: row.rates[name] for name in ("hallucination_rate", "samples_failed", "over_suspicion")}
    assert {name: scores[f"{name},none"] for name in rates} == {name: rate.value for name, rate in rates.items()}
    assert 0 < rates["hallucination_rate"].numerator < rates["hallucination_rate"].denominator
    unjudged = ours.judgments.filter(verdict="").count()
    assert (scores["judged,none"], scores["unjudged,none"]) == (release.rubrics_count - unjudged, unjudged)
    assert ours.responses.filter(outcome="empty").count() > 0
    result = importing.import_results(rows.read(log), release=release, study="lm-eval", models={"": "sim-reckless"})
    assert (result.added, result.refused, result.without_verdict) == (release.rubrics_count, 0, 0)
    theirs = result.run
    assert theirs is not None
    assert theirs.judge == ours.judge
    assert set(theirs.tested.values_list("endpoint__name", flat=True)) == {"sim-reckless"}
    columns = ("response__sample__key", "response__text", "rubric__key", "verdict", "explanation")
    assert set(theirs.judgments.values_list(*columns)) == set(ours.judgments.values_list(*columns))


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
        export.Export(Release.objects.get(), "lm-eval").write(tmp_path / "out")
        scores, log = scores_by_lm_eval(tmp_path, models)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    answers = {entry["doc"]["sample_id"]: entry["resps"][0][0] for entry in entries}
    assert answers == dict(run.responses.values_list("sample__key", "text"))
    [row] = reports_queries.report(run).numbers.overall
    ours = {name: rate.value for name, rate in row.rates.items()}
    assert (scores["healthbench_score,none"], scores["criteria_met,none"]) == (
        ours["healthbench_score"],
        ours["criteria_met"],
    )
    assert scores["unjudged,none"] == 0
    assert "hallucination_rate,none" not in scores


# ----------------------------------------------------------------------------------- hand-made logs

KEY = "mhb-dialogue-000000"


def logged(**fields: Any) -> dict[str, Any]:
    """A logged sample that our task wrote, with these fields changed."""
    verdicts = {"R1": {"met": True, "explanation": "So."}, "R2": {"met": None, "explanation": ""}}
    judged = {"judge": "org/judge", "sha256": "0" * 64, "verdicts": verdicts}
    doc = {"sample_id": KEY, "rubrics": [{"key": "R1"}, {"key": "R2"}]}
    return {"doc_id": 0, "doc": doc, "resps": [["No."]], "judged": judged, **fields}


def write_log(folder: Path, *lines: Any) -> Path:
    path = folder / "samples_mhb.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_logged_samples_are_imported_with_their_verdicts(db: None, tmp_path: Path, manage: Manage) -> None:
    release = bare_release(("dialogue", [["A1"], ["C2"]]))
    options = ("--release", "bare", "--name", "s", "--model", "=org/model", "--model", "org/judge=our-judge")
    output = manage.json("import_results", write_log(tmp_path, logged()), *options)
    assert (output["added"], output["refused"], output["models"]) == (2, 0, ["org-model"])
    run = Run.objects.get(release=release)
    assert run.judge is not None
    assert run.judge.name == "our-judge"
    verdicts = run.judgments.order_by("rubric__pk").values_list("verdict", "explanation", "error")
    assert list(verdicts) == [("met", "So.", ""), ("", "", "BrokenReply")]


def test_logged_samples_without_model_verdicts_or_release_are_refused(db: None, tmp_path: Path) -> None:
    release = bare_release(("dialogue", [["A1"], ["C2"]]))
    elsewhere = logged(judged={"judge": "j", "sha256": "1" * 64, "verdicts": {}})
    path = write_log(tmp_path, logged(), logged(judged={}), logged(doc=None), elsewhere)
    result = importing.import_results(rows.read(path), release=release, study="s")
    assert (result.run, result.added) == (None, 0)
    assert [refusal.reason.partition(":")[0] for refusal in result.refusals] == [
        *["model"] * 2,
        *["no verdicts of the task that comes with the lm-eval export of a release"] * 2,
        *["release"] * 2,
    ]
    result = importing.import_results(rows.read(path), release=release, study="s", models={"": "theirs"})
    assert (result.added, result.refused) == (2, 4)


@pytest.mark.parametrize("line", ["no sign", "=", "name="])
def test_names_of_models_are_refused_unless_they_name_an_endpoint(line: str) -> None:
    with pytest.raises(errors.WrongResults, match="NAME=ENDPOINT"):
        importing.model_names(["org/a=b = ours", line])
    assert importing.model_names(["org/a=b = ours", "", "=mine"]) == {"org/a=b": "ours", "": "mine"}


def test_a_summary_of_lm_eval_is_not_its_log(db: None, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {}, "configs": {}}, indent=2))
    with pytest.raises(errors.WrongResults, match="samples_"):
        importing.import_results(rows.read(path), release=bare_release(("dialogue", [["A1"]])), study="s")


def test_other_tools_count_as_we_do(db: None) -> None:
    """On the same verdicts, for every rate that they count: controls apart, unjudged left out."""
    release = with_controls(15)
    run = run_with_verdicts(release, one=lambda at, _rubric: ["met", "not_met", "", "met", "met"][at % 5])
    judging = registry.judging("mhb")
    assert judging is not None
    samples: dict[int, dict[str, Any]] = {}
    polarities = {"R1": "must not", "R2": "must"}
    columns = ("response", "rubric__sample__version__sample__arm", "rubric__key", "verdict")
    for response, arm, key, verdict in run.judgments.values_list(*columns):
        of_sample = samples.setdefault(response, {"arm": arm, "rubrics": [], "points": None, "verdicts": {}})
        of_sample["rubrics"].append({"key": key, "polarity": polarities[key]})
        of_sample["verdicts"][key] = {"met": {"met": True, "not_met": False}.get(verdict)}
    [row] = [row for row in reports_queries.report(run).numbers.overall if row.dataset == "dialogue"]
    names = [rate["name"] for rate in judging["rates"]]
    assert names == ["hallucination_rate", "samples_failed", "over_suspicion"]
    for rate in judging["rates"]:
        counts = [mhb_judging.count(rate, **of_sample) for of_sample in samples.values()]
        ours = row.rates[rate["name"]]
        assert (sum(hits for hits, _n in counts), sum(n for _hits, n in counts)) == (ours.numerator, ours.denominator)
        assert mhb_judging.pooled(counts) == ours.value


@pytest.mark.plain
def test_exported_tasks_see_the_same_answers_as_blank() -> None:
    """For every character of the Basic Multilingual Plane that Python knows."""
    letters = [chr(number) for number in range(0x10000) if unicodedata.category(chr(number)) not in ("Cn", "Cs")]
    assert [letter for letter in letters if mhb_judging.is_blank(letter) == has_visible_text(letter)] == []
    assert mhb_judging.is_blank("\u200b \u2060\ufeff\n")
    assert not mhb_judging.is_blank("\u200bNo.")


@pytest.mark.plain
@pytest.mark.parametrize(
    ("reply", "met"),
    [
        ('{"explanation": "So.", "refused": false, "correct": true}', True),
        (
            '<think>{"correct": true}</think>```json\n{"explanation": "So.", "refused": false, "correct": false}\n```',
            False,
        ),
        ('{"explanation": "So.", "refused": false, "correct": "true"}', None),
        ('{"explanation": "So.", "refused": false, "correct": true, "more": 1}', None),
        ('{"refused": false, "correct": true}', None),
        ('{"explanation": "So.", "refused": true, "correct": true}', None),
        ('{"explanation": "So.", "refused": "no", "correct": true}', None),
        ("correct: true", None),
        ("[" * 100_000, None),
        ("", None),
    ],
)
def test_a_reply_of_another_shape_is_no_verdict(reply: str, met: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mhb_judging, "FOLDER", Path(reasoning.__file__).parent)
    judging = registry.judging("medmistake")
    assert judging is not None
    assert (judging["field"], judging["aside"]) == ("correct", ["refused"])
    assert [rate["name"] for rate in judging["rates"]] == ["accuracy"]
    assert mhb_judging.read_verdict(judging, reply)["met"] is met
