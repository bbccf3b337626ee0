"""inspect-ai gives exactly our rates on the same release and models; its logs are imported."""

import json
import os
import re
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from evaluation import errors
from evaluation.interchange import comparing, files, importing, rows
from evaluation.models import Judgment, Response
from evaluation.numbers.coverage import Coverage
from evaluation.reports import queries as reports_queries
from generation.models import Release
from generation.releases import export
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from review.models import User
from review.rules.permissions import OPERATOR
from tests.engine import bare_release, evaluate_release, make_release_with_controls
from tests.evaluation.interchange.silent import silent_models

__all__ = ["silent_models"]

pytestmark = pytest.mark.django_db
TOOLS = os.environ.get("MHB_INTERCHANGE", "")
needs_tools = pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange")

# Makes the simulated models a provider of inspect-ai that needs no extra package.
PROVIDER = """
import asyncio, json, os, signal, sys, tiktoken, urllib.request
class Words:
    def encode(self, text, **options): return text.split()
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import eval, eval_retry, score
from inspect_ai.log import ProvenanceData, edit_score, invalidate_samples, read_eval_log, write_eval_log
from inspect_ai.model import ChatCompletionChoice, ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import ScoreEdit

STOP = {"at": 0, "how": None, "asked": 0}

@modelapi(name="sim")
class Simulated(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        if not self.model_name.endswith("judge"):
            STOP["asked"] += 1
            if STOP["asked"] == STOP["at"]:
                await STOP["how"]()
        if self.model_name == "sim-judge":
            assert config.temperature == 0.5
            assert set(config.response_schema.json_schema.properties) == {"explanation", "criteria_met"}
        messages = [{"role": one.role, "content": one.text} for one in input]
        body = {"model": self.model_name.removeprefix("second-"), "messages": messages}
        request = urllib.request.Request(
            sys.argv[1] + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            content = json.load(answer)["choices"][0]["message"]["content"]
        return ModelOutput.from_content(self.model_name, content)

def ask(*files, judge="sim-judge", log_dir="logs", **options):
    logs = eval(
        list(files), model="sim/sim-reckless", model_roles={"grader": get_model("sim/" + judge)},
        log_dir=log_dir, display="none", **options,
    )
    return logs

def metrics(log):
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}

"""
EVALUATE = """
[log] = ask("out/task.py")
print(json.dumps(metrics(log)))
print(log.location)
"""
TWO = """
both = ask("out/task.py", "other/task.py")
alone = ask("out/task.py") + ask("other/task.py")
print(json.dumps([[log.eval.task, log.eval.metadata["release"], metrics(log)] for log in both + alone]))
print(json.dumps([log.location for log in both]))
"""
EPOCHS = """
[log] = ask("out/task.py", epochs=3)
print(json.dumps(metrics(log)))
print(log.location)
"""
STOPPED = """
async def fail(): raise RuntimeError("overloaded")
async def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(100)
async def wait(): await asyncio.sleep(100)

STOP.update(at=3, how=fail)
[log] = ask("out/task.py", max_samples=1)
print(log.location)
STOP["at"] = 0
[retried] = eval_retry(log, log_dir="logs", display="none")
print(retried.location)
STOP.update(at=5, how=interrupt, asked=0)
ask("out/task.py", max_samples=1, log_dir="interrupted")
[name] = os.listdir("interrupted")
print("interrupted/" + name)
STOP["at"] = 0
[limited] = ask("out/task.py", limit=2)
print(limited.location)
invalid = invalidate_samples(limited, [limited.samples[1].uuid], ProvenanceData(author="kim", reason="wrong image"))
write_eval_log(invalid, "invalid.eval")
print(limited.samples[1].id)
STOP.update(at=1, how=wait, asked=0)
[late] = ask("out/task.py", limit=2, time_limit=3, max_samples=1)
print(late.location)
"""
EDIT = """
[log] = ask("out/task.py")
first = log.samples[0]
value = {**first.scores["criteria"].value, "unjudged": 99}
who = ProvenanceData(author="somebody", reason="looked again")
edit_score(log, first.id, "criteria", ScoreEdit(value=value, provenance=who))
write_eval_log(log, "edited.eval")
[log] = ask("out/task.py")
import importlib.util
spec = importlib.util.spec_from_file_location("own_task", "out/task.py")
task = importlib.util.module_from_spec(spec)
spec.loader.exec_module(task)
for action in ("overwrite", "append"):
    again = score(
        log, task.criteria(0.5), action=action, display="none",
        model_roles={"grader": get_model("sim/second-sim-judge")},
    )
    write_eval_log(again, action + ".eval")
print(first.id)
"""


NAMES = {"sim/sim-reckless": "sim-reckless", "sim/sim-judge": "sim-judge"}


def run_inspect(folder: Path, models: str, script: str) -> list[str]:
    """Run a script with inspect-ai; returns the lines that it printed."""
    environment = {**os.environ, "HOME": str(folder), "INSPECT_DISPLAY": "plain"}
    process = subprocess.run(
        [TOOLS, "-c", PROVIDER + script, models],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:] + process.stdout[-2000:]
    return process.stdout.strip().splitlines()


@needs_tools
def test_inspect_gives_exactly_our_rates(tmp_path: Path, silent_models: str, physicians: list[User]) -> None:
    """Its log, in the format that it writes by default, comes back as a study."""
    release = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    ours = evaluate_release(release, silent_models, "sim-reckless")
    export.Export(release, "inspect").write(tmp_path / "out")
    *_progress, metrics, location = run_inspect(tmp_path, silent_models, EVALUATE)
    [row] = [row for row in reports_queries.report(ours).numbers.overall if row.dataset == "combined"]
    unjudged = ours.judgments.filter(verdict="").count()
    values = {name: row.rates[name].value for name in ("hallucination_rate", "samples_failed", "over_suspicion")}
    assert json.loads(metrics) == {**values, "unjudged": unjudged}
    assert unjudged > 0
    assert location.endswith(".eval")
    result = importing.import_results(rows.read(Path(location)), release=release, study="inspect", models=NAMES)
    assert (result.added, result.refused, result.without_verdict) == (release.rubrics_count, 0, 0)
    theirs = result.run
    assert theirs is not None
    answers = [dict(run.responses.values_list("sample__key", "text")) for run in (ours, theirs)]
    assert answers[0] == answers[1]
    counted = [reports_queries.report(run).numbers.overall for run in (ours, theirs)]
    assert [row.verdicts for row in counted[0]] == [row.verdicts for row in counted[1]]
    assert [row.rates for row in counted[0]] == [row.rates for row in counted[1]]
    assert counted[0][0].measured.numerator > 0
    assert theirs.judge == ours.judge
    assert set(theirs.tested.values_list("endpoint__name", flat=True)) == {"sim-reckless"}
    comparison = comparing.compare_runs(ours, theirs, OPERATOR)
    assert len(comparison.rows) > 3  # each rate on either data set, and on both combined
    assert {(row.difference.difference or 0, row.worse, row.better) for row in comparison.rows} == {(0, 0, 0)}


@needs_tools
def test_two_exports_in_one_process_are_told_apart(tmp_path: Path, silent_models: str, physicians: list[User]) -> None:
    """Each is scored by its own rules and stamped with its own release, as if it ran alone."""
    first = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    second = releases_services.freeze_release("own", benchmark="mhb", composition=Composition(with_controls=False))
    releases = [first, second]
    for release, name in zip(releases, ("out", "other"), strict=True):
        export.Export(release, "inspect").write(tmp_path / name)
    *_progress, told, locations = run_inspect(tmp_path, silent_models, TWO)
    runs = json.loads(told)
    assert runs[:2] == runs[2:]
    assert [run[1] for run in runs[:2]] == [release.reference for release in releases]
    assert len({run[0] for run in runs[:2]}) == 2
    for release, location in zip(releases, json.loads(locations), strict=True):
        other = next(each for each in releases if each != release)
        wrong = importing.import_results(rows.read(Path(location)), release=other, study="wrong")
        assert (wrong.added, {refusal.reason for refusal in wrong.refusals}) == (
            0,
            {"release: not the checksum of this release"},
        )
        right = importing.import_results(rows.read(Path(location)), release=release, study="right")
        assert (right.added, right.refused) == (release.rubrics_count, 0)


@needs_tools
def test_metrics_of_several_epochs_are_those_of_our_report(
    tmp_path: Path, silent_models: str, physicians: list[User]
) -> None:
    """Inspect would reduce the epochs of a sample to their mean before it counts."""
    release = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    export.Export(release, "inspect").write(tmp_path / "out")
    *_progress, metrics, location = run_inspect(tmp_path, silent_models, EPOCHS)
    result = importing.import_results(rows.read(Path(location)), release=release, study="s", models=NAMES)
    assert (result.added, result.refused) == (3 * release.rubrics_count, 0)
    assert result.run is not None
    [row] = [row for row in reports_queries.report(result.run).numbers.overall if row.dataset == "combined"]
    ours = {name: row.rates[name].value for name in ("hallucination_rate", "samples_failed", "over_suspicion")}
    assert json.loads(metrics) == {**ours, "unjudged": result.run.judgments.filter(verdict="").count()}


@needs_tools
def test_what_a_log_says_about_itself_counts(tmp_path: Path, silent_models: str, physicians: list[User]) -> None:
    """A failure and its retry, an interrupted run, a limit of samples, an invalid one, lost time.

    What must come was counted by hand: the third of ten samples fails while one more is begun; the
    fifth is interrupted; two are asked, of which one is invalid; of two the first is too late.
    """
    release = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    export.Export(release, "inspect").write(tmp_path / "out")
    *_progress, broken, retried, interrupted, limited, invalid, late = run_inspect(tmp_path, silent_models, STOPPED)

    def imported(study: str, *paths: str) -> importing.ImportResult:
        for path in paths:
            result = importing.import_results(rows.read(tmp_path / path), release=release, study=study, models=NAMES)
        return result

    def answers(result: importing.ImportResult) -> list[str]:
        assert result.run is not None
        return sorted(result.run.responses.values_list("outcome", flat=True))

    def covered(result: importing.ImportResult) -> Coverage:
        assert result.run is not None
        [of_model] = reports_queries.report(result.run).numbers.coverage
        return of_model

    first = imported("chain", broken)
    assert (len(answers(first)), answers(first).count("failed"), first.refused) == (4 - 1, 1, 1)
    assert "status error" in first.remarks[0]
    assert "in progress when the run ended" in first.refusals[0].reason
    whole, second, backwards = imported("alone", retried), imported("chain", retried), imported("back", retried, broken)
    assert second.refused == 0
    assert "replaced by a retry" in second.remarks[0]
    assert "which a retry has replaced" in backwards.remarks[-1]
    reports = [reports_queries.report(each.run).numbers.overall for each in (whole, second, backwards) if each.run]
    assert [row.rates for row in reports[0]] == [row.rates for row in reports[1]] == [row.rates for row in reports[2]]
    assert covered(second).complete

    stopped = imported("interrupted", interrupted)
    assert (len(answers(stopped)), answers(stopped).count("failed"), stopped.refused) == (4, 0, 1)
    assert "status cancelled, 4 of 10 samples completed" in stopped.remarks[0]
    assert not covered(stopped).complete

    two = imported("limited", limited)
    assert (len(answers(two)), two.remarks) == (2, ["it was limited to 2 of 10 samples"])
    assert not covered(two).complete
    one = imported("invalid", "invalid.eval")
    assert one.run is not None
    assert set(one.run.voids.values_list("response__sample__key", "reason")) == {(invalid, "invalidated")}
    own = one.run.judgments.filter(response__sample__key=invalid).count()
    assert covered(one).settled == covered(two).settled - own
    timed = imported("late", late)
    assert timed.run is not None
    assert set(timed.run.voids.values_list("reason", flat=True)) == {"limit"}
    assert timed.run.voids.values("response").distinct().count() == 1


@needs_tools
def test_edited_and_second_scores_are_never_taken_for_the_first_judges(
    tmp_path: Path, silent_models: str, physicians: list[User]
) -> None:
    release = make_release_with_controls(tmp_path, silent_models, physicians[:3])
    export.Export(release, "inspect").write(tmp_path / "out")
    edited_sample = run_inspect(tmp_path, silent_models, EDIT)[-1]
    edited = importing.import_results(rows.read(tmp_path / "edited.eval"), release=release, study="edited")
    [refusal] = edited.refusals
    assert edited_sample in refusal.where
    assert "edited by hand (somebody)" in refusal.reason
    again = importing.import_results(rows.read(tmp_path / "overwrite.eval"), release=release, study="overwrite")
    assert again.run is not None
    assert again.run.judge is not None
    assert again.run.judge.model == "sim/second-sim-judge"
    both = importing.import_results(rows.read(tmp_path / "append.eval"), release=release, study="append")
    assert both.added == 0
    assert all("several sets of scores" in refusal.reason for refusal in both.refusals)


# ----------------------------------------------------------------------------------- hand-made logs

KEY = "mhb-dialogue-000000"
METADATA = {"sha256": "0" * 64}  # of the release


def sample(verdicts: Any = '{"R1": true, "R2": null}', **fields: Any) -> dict[str, Any]:
    """A sample of a log that our task wrote, with these fields changed."""
    output = {"completion": "No.", "choices": [{"stop_reason": fields.pop("stop", "stop")}]}
    metadata = {"rubrics": [{"key": "R1", "criterion": "c"}, {"key": "R2", "criterion": "d"}]}
    scores = {"criteria": {"value": 1.0, "explanation": verdicts}}
    return {"id": KEY, "epoch": 1, "output": output, "metadata": metadata, "scores": scores, **fields}


def write_log(folder: Path, *samples: Any) -> Path:
    path = folder / "log.json"
    header = {"model": "org/their-model", "model_roles": {"grader": {"model": "org/judge"}}, "metadata": METADATA}
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": header, "samples": samples}, indent=2))
    return path


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"]]))


def test_a_log_is_imported_with_its_outcomes(release: Release, tmp_path: Path) -> None:
    lines = [sample(), sample(epoch=2, stop="max_tokens"), sample(epoch=3, stop="content_filter")]
    lines += [sample(epoch=4, output={"completion": ""}), sample(epoch=5, error={"message": "timeout"})]
    result = importing.import_results(rows.read(write_log(tmp_path, *lines)), release=release, study="s")
    assert (result.added, result.refused) == (10, 0)
    assert result.run is not None
    assert result.run.judge is not None
    assert result.run.judge.model == "org/judge"
    outcomes = Response.objects.order_by("repeat").values_list("outcome", flat=True)
    assert list(outcomes) == ["answered", "cut_off", "filtered", "empty", "failed"]
    first = Judgment.objects.filter(response__repeat=0).order_by("rubric__pk")
    assert list(first.values_list("verdict", "error")) == [("met", ""), ("", "BrokenReply")]


def scored(**fields: Any) -> dict[str, Any]:
    """The scores of a sample, with these fields of our scorer's changed."""
    return {"criteria": {"value": 1.0, "explanation": '{"R1": true, "R2": true}', **fields}}


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (scored(history=[{"value": 1}, {"value": 0, "provenance": {"author": "kim"}}]), "edited by hand (kim)"),
        (scored() | {"criteria1": scored()["criteria"]}, "several sets of scores (criteria, criteria1)"),
        (scored(metadata={"mhb": {"judge": "j", "release": "1" * 64, "rules": "r"}}), "not the checksum"),
    ],
)
def test_scores_that_are_not_our_judges_are_refused(
    release: Release, tmp_path: Path, scores: dict[str, Any], reason: str
) -> None:
    result = importing.import_results(rows.read(write_log(tmp_path, sample(scores=scores))), release=release, study="s")
    assert result.added == 0
    assert all(reason in refusal.reason for refusal in result.refusals)


def test_the_judge_is_the_one_whose_verdicts_they_are(release: Release, tmp_path: Path) -> None:
    """After a second judge has scored the log again, its header still names the first one."""
    scores = scored(metadata={"mhb": {"judge": "org/second", "release": "0" * 64}})
    result = importing.import_results(rows.read(write_log(tmp_path, sample(scores=scores))), release=release, study="s")
    assert result.run is not None
    assert result.run.judge is not None
    assert result.run.judge.model == "org/second"


def test_a_run_that_ended_early_has_no_failures_of_samples_in_progress(release: Release, tmp_path: Path) -> None:
    in_progress = {"message": "CancelledError('Cancelled via cancel scope 7f')"}
    path = write_log(tmp_path, sample(), sample(epoch=2, error=in_progress, scores=None, output={}))
    log = json.loads(path.read_text())
    log |= {"status": "cancelled", "results": {"total_samples": 4, "completed_samples": 1}}
    log["eval"] |= {"config": {"limit": 2}, "dataset": {"samples": 4, "sample_ids": [KEY, "other"]}}
    path.write_text(json.dumps(log, indent=1))
    result = importing.import_results(rows.read(path), release=release, study="s")
    assert (result.rows, result.added, result.refused) == (3, 2, 1)
    assert "in progress when the run ended" in result.refusals[0].reason
    assert result.remarks == [
        "the run ended with the status cancelled, 1 of 4 samples completed; what is not there counts as missing",
        "it was limited to 2 of 4 samples",
    ]


def write_chain(folder: Path, task_id: str, *samples: Any) -> Path:
    path = write_log(folder, *samples)
    log = json.loads(path.read_text())
    log["eval"]["task_id"] = task_id
    path.write_text(json.dumps(log, indent=1))
    return path


@pytest.mark.parametrize("retry_first", [False, True])
def test_a_retry_replaces_what_had_failed(release: Release, tmp_path: Path, retry_first: bool) -> None:
    failed, answered = [sample(error={"message": "timeout"}), sample(epoch=2)], [sample(), sample(epoch=2)]
    for lines in (answered, failed) if retry_first else (failed, answered):
        path = write_chain(tmp_path, "T", *lines)
        result = importing.import_results(rows.read(path), release=release, study="s")
    assert (result.added, result.known, result.refused) == ((0, 4, 0) if retry_first else (2, 2, 0))
    assert "retry" in result.remarks[0]
    assert result.run is not None
    assert set(result.run.responses.values_list("outcome", "error")) == {("answered", "")}
    assert result.run.responses.filter(about__replaced="failed").count() == (0 if retry_first else 1)
    verdicts = result.run.judgments.order_by("response__repeat", "rubric__pk").values_list("verdict", flat=True)
    assert list(verdicts) == ["met", ""] * 2
    result.run.refresh_from_db()
    assert result.run.judgments_done == 2


def test_an_invalidated_sample_and_its_retry_never_take_each_others_marks(release: Release, tmp_path: Path) -> None:
    """Inspect's retry asks such samples again. Whichever comes second is refused, not mixed."""
    invalid = sample(invalidation={"author": "kim"})
    again = sample(output={"completion": "Yes.", "choices": []})
    for first, second, void in ((invalid, again, 2), (again, invalid, 0)):
        study = f"first void: {void}"
        importing.import_results(rows.read(write_chain(tmp_path, "T", first)), release=release, study=study)
        result = importing.import_results(rows.read(write_chain(tmp_path, "T", second)), release=release, study=study)
        assert (result.added, result.refused) == (0, 2)
        assert result.run is not None
        assert result.run.voids.count() == void
    refusals = [refusal.reason for refusal in result.refusals]
    assert all("differs from the text" in reason for reason in refusals)


def test_a_retry_that_answers_as_before_says_that_the_mark_stays(release: Release, tmp_path: Path) -> None:
    for line in (sample(invalidation={"author": "kim"}), sample()):
        result = importing.import_results(rows.read(write_log(tmp_path, line)), release=release, study="s")
    assert (result.known, result.refused) == (2, 0)
    assert result.remarks == ["rows on answers that were marked as void, which stay so in this study: 2"]


def test_another_log_replaces_nothing(release: Release, tmp_path: Path) -> None:
    importing.import_results(
        rows.read(write_chain(tmp_path, "T", sample(error={"message": "timeout"}))), release=release, study="s"
    )
    result = importing.import_results(rows.read(write_chain(tmp_path, "U", sample())), release=release, study="s")
    assert (result.added, result.refused) == (0, 2)
    assert "contradicts another row on this answer (failed)" in result.refusals[0].reason


def test_a_run_without_a_grader_judged_itself(release: Release, tmp_path: Path) -> None:
    path = write_log(tmp_path, sample())
    log = json.loads(path.read_text())
    del log["eval"]["model_roles"]
    path.write_text(json.dumps(log, indent=1))
    result = importing.import_results(rows.read(path), release=release, study="s")
    assert result.remarks == ["org-their-model judged its own answers"]


def test_thoughts_are_no_part_of_an_imported_answer(release: Release, tmp_path: Path) -> None:
    lines = [sample(output={"completion": text}) for text in ("<think>Hm.</think>No.",)]
    result = importing.import_results(rows.read(write_log(tmp_path, *lines)), release=release, study="s")
    assert result.run is not None
    assert list(result.run.responses.values_list("text", flat=True)) == ["No."]


@pytest.mark.parametrize(
    "invalid",
    [
        sample("no JSON"),
        sample(scores={}),
        sample(metadata={}),
        sample(output=["x"]),
        sample(output={"completion": "x", "choices": [1]}),
        "text",
        None,
    ],
)
def test_samples_that_our_task_did_not_write_are_refused_one_by_one(
    release: Release, tmp_path: Path, invalid: Any
) -> None:
    result = importing.import_results(
        rows.read(write_log(tmp_path, invalid, sample(epoch=2))), release=release, study="s"
    )
    assert (result.added, result.refused) == (2, 1)
    assert "no verdicts of the task" in result.refusals[0].reason


def write_packed(path: Path, *, zstd: bool) -> Path:
    """Write a log as Inspect does, by default with a compression that Python cannot read."""
    members = {
        "header.json": json.dumps({"eval": {"model": "theirs"}}),
        f"samples/{KEY}_epoch_1.json": json.dumps(sample()),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            packed = bytes(pa.Codec("zstd").compress(text.encode(), asbytes=True)) if zstd else text.encode()
            archive.writestr(name, packed)
    if zstd:  # zipfile wrote the packed bytes as if they were the content
        data = path.read_bytes()
        for text in members.values():
            content = text.encode()
            packed = bytes(pa.Codec("zstd").compress(content, asbytes=True))
            stored = struct.pack("<LLL", crc32(packed), len(packed), len(packed))
            data = data.replace(stored, struct.pack("<LLL", crc32(content), len(packed), len(content)))
        data = re.sub(rb"(PK\x03\x04.{4})\x00\x00", lambda found: found[1] + b"\x5d\x00", data, flags=re.DOTALL)
        data = re.sub(rb"(PK\x01\x02.{6})\x00\x00", lambda found: found[1] + b"\x5d\x00", data, flags=re.DOTALL)
        path.write_bytes(data)
    return path


@pytest.mark.parametrize("zstd", [False, True])
def test_a_packed_log_is_read(release: Release, tmp_path: Path, zstd: bool) -> None:
    path = write_packed(tmp_path / "log.eval", zstd=zstd)
    result = importing.import_results(rows.read(path), release=release, study="s", models={"theirs": "ours"})
    assert (result.added, result.refused) == (2, 0)
    assert result.run is not None
    assert list(result.run.tested.values_list("endpoint__name", flat=True)) == ["ours"]


@pytest.mark.parametrize("zstd", [False, True])
def test_a_damaged_log_is_refused_as_a_whole(release: Release, tmp_path: Path, zstd: bool) -> None:
    path = write_packed(tmp_path / "log.eval", zstd=zstd)
    data = bytearray(path.read_bytes())
    data[data.index(b"samples/") + 60] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(errors.WrongResults, match="not a log of inspect-ai"):
        importing.import_results(rows.read(path), release=release, study="s")


def write_members(path: Path, **members: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in {"header": {"status": "success", "eval": {"model": "theirs"}}, **members}.items():
            folder = "" if name == "header" else "samples/"
            archive.writestr(f"{folder}{name}.json", value if isinstance(value, bytes) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"header": b" " * (2**26 + 1)}, "header.json in the log is longer than 64 MB"),
        ({"header": b"[" * 100_000}, "not a log of inspect-ai"),
        ({"a": b" " * (2**26 + 1)}, "samples/a.json in the log is longer than 64 MB"),
        ({"a": b"[" + b"[]," * 12_000_000 + b"[]]"}, "needs more than 256 MB of memory"),
    ],
)
def test_a_packed_log_that_unfolds_is_refused_by_the_limit(
    release: Release, tmp_path: Path, settings: Any, members: dict[str, Any], reason: str
) -> None:
    settings.MHB_READER_MEMORY = 256 * 2**20
    path = write_members(tmp_path / "log.eval", **members)
    with pytest.raises(errors.WrongResults, match=reason):
        importing.import_results(rows.read(path), release=release, study="s")


def test_the_samples_of_a_packed_log_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write_members(tmp_path / "log.eval", a=sample(), b=sample()))
    assert len(list(files.parse(path))) == 4
    for limit, value, reason in (("MAX_SAMPLES", 1, "more than 1 samples"), ("MAX_UNPACKED", 100, "MB, unpacked")):
        with monkeypatch.context() as patch:
            patch.setattr(files, limit, value)
            with pytest.raises(files.UnreadableResults, match=reason):
                list(files.parse(path))


def test_a_sample_is_not_repeated_for_endless_rubrics(tmp_path: Path) -> None:
    many = sample(metadata={"rubrics": [{"key": f"R{n}"} for n in range(1001)]})
    [refused, *others] = files.parse(str(write_log(tmp_path, many, sample(epoch=2))))
    assert "more than 1,000 criteria" in refused[1]
    assert len(others) == 2


def test_a_log_that_needs_too_much_memory_is_refused_by_name(release: Release, tmp_path: Path, settings: Any) -> None:
    settings.MHB_READER_MEMORY = 256 * 2**20
    path = tmp_path / "log.json"
    path.write_bytes(b'{"version": 2, "eval": {"model": "m"}, "samples": [' + b"[]," * 12_000_000 + b"[]]}")
    with pytest.raises(errors.WrongResults, match="needs more than 256 MB of memory"):
        importing.import_results(rows.read(path), release=release, study="s")


def test_long_answers_are_stored_in_small_chunks() -> None:
    long_rows = [files.VerdictRow("line", "s", "R1", "m", True, "judged", "x" * 2**22, "", 0, "", "")] * 9
    assert [len(chunk) for chunk in rows.chunked(long_rows, 5000)] == [5, 4]
