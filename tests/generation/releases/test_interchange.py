"""Formats of other tools.

Each export is really loaded by its tool if MHB_INTERCHANGE names a Python that has the tools
(`make test-interchange`).
"""

import csv
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from generation.models import Release
from generation.releases import export, exporters
from generation.releases import services as releases_services
from generation.releases.exporters.manifest import sha256_of
from generation.releases.queries import exported_samples
from generation.sources import importers
from generation.sources.importers.base import Row
from review.models import User
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import make_release
from tests.generation.releases import simple_evals
from tests.generation.releases.test_verify_release import freeze_with_held_out
from tests.populations import population
from tests.profile import public

pytestmark = [pytest.mark.django_db]
TOOLS = os.environ.get("MHB_INTERCHANGE", "")
needs_tools = pytest.mark.skipif(not TOOLS, reason="needs other tools: make test-interchange")


@population
def release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=2, reports=1)


def run_tool(code: str, folder: Path, **variables: str) -> str:
    """Run code with the tools' Python, and return the last line of its output."""
    environment = {
        **os.environ,
        **variables,
        "HF_HOME": str(folder / "cache"),
        "HF_DATASETS_OFFLINE": "1",
        "INSPECT_DISPLAY": "plain",
    }
    result = subprocess.run(
        [TOOLS, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:] + result.stdout[-2000:]
    return result.stdout.strip().splitlines()[-1]


def test_healthbench_has_conversations_and_rubrics(release: Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.Export(release, "healthbench").write(out)
    rows = [json.loads(line) for line in (out / "healthbench.jsonl").read_text().splitlines()]
    expected = list(exported_samples(release))
    assert [row["prompt_id"] for row in rows] == [sample["sample_id"] for sample in expected]
    assert rows[0]["prompt"] == expected[0]["content"]["turns"]
    assert expected[2]["content"]["question"] in rows[2]["prompt"][-1]["content"]
    for row, sample in zip(rows, expected, strict=True):
        assert [rubric["criterion"] for rubric in row["rubrics"]] == [
            original["criterion"] for original in sample["rubrics"]
        ]
        assert {rubric["points"] for rubric in row["rubrics"]} == {1}
        assert row["canary"] == release.canary
    importer = importers.load("healthbench")
    rows_read = list(importer.rows(out / "healthbench.jsonl", importer.sniff(out / "healthbench.jsonl")))
    assert all(isinstance(row, Row) for row in rows_read)
    assert len(rows_read) == 3


def test_healthbench_scores_as_simple_evals_reads_it(release: Release, tmp_path: Path) -> None:
    export.Export(release, "healthbench").write(tmp_path / "out")
    for example in simple_evals.read(tmp_path / "out" / "healthbench.jsonl"):
        met = [False] + [True] * (len(example.rubrics) - 1)
        metrics = simple_evals.grade(example, met)
        assert metrics["overall_score"] == pytest.approx(1 - 1 / len(met)), "one minus the hallucination rate"
        assert {name.partition(":")[0] for name in metrics} == {"overall_score", "task", "arm", "trap", "polarity"}
        assert {"polarity:must", "polarity:must-not"} >= {name for name in metrics if name.startswith("polarity:")}
        conversation, criteria = simple_evals.grader_input(example, "An answer.")
        assert conversation.endswith("assistant: An answer.")
        assert all(criterion.startswith("[1] ") for criterion in criteria)


@pytest.mark.plain
def test_published_rows_of_healthbench_pass_the_same_checks() -> None:
    [*examples] = simple_evals.read(public("healthbench/healthbench.jsonl"))
    assert all(simple_evals.grade(example, [True] * len(example.rubrics)) for example in examples)
    assert any(example.ideal_completions_data for example in examples)


def test_hf_has_one_table_and_the_hubs_metadata(release: Release, tmp_path: Path) -> None:
    export.Export(release, "hf").write(tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "test.parquet").to_pylist()
    assert [row["sample_id"] for row in rows] == [sample["sample_id"] for sample in exported_samples(release)]
    assert rows[0]["messages"][-1]["role"] == "user"
    assert {row["canary"] for row in rows} == {release.canary}
    readme = (tmp_path / "out" / "README.md").read_text()
    fields = yaml.safe_load(readme.split("---\n")[1])
    assert (fields["pretty_name"], fields["language"], fields["license"]) == (
        "own",
        ["en"],
        ["cc-by-nc-sa-4.0", "mit"],
    )
    assert fields["configs"][0]["data_files"] == [{"split": "test", "path": "test.parquet"}]
    assert "splits" not in fields["dataset_info"], "`datasets` calls them malformed without `num_bytes`"
    assert "# own, version 1" in readme


@needs_tools
def test_hf_loads_with_datasets(release: Release, tmp_path: Path) -> None:
    export.Export(release, "hf").write(tmp_path / "out")
    code = (
        "import datasets, json\n"
        "logging = datasets.utils.logging.get_logger('datasets.info')\n"
        "heard = []\n"
        "logging.addFilter(lambda record: heard.append(record.getMessage()) or True)\n"
        "found = datasets.load_dataset('./out', split='test')\n"
        "assert not heard, heard\n"
        "print(json.dumps([len(found), found[0]['messages'][-1]['role'], len(found[0]['rubrics'])]))\n"
    )
    [first, *_others] = exported_samples(release)
    assert json.loads(run_tool(code, tmp_path)) == [3, "user", len(first["rubrics"])]


@needs_tools
@pytest.mark.parametrize("format_name", exporters.available())
def test_croissant_is_read_by_mlcroissant(release: Release, tmp_path: Path, format_name: str) -> None:
    """If the format has tables, all their rows are read."""
    if format_name not in dict(export.fitting_formats(release)):
        assert format_name in ("supervision", "training"), "only for benchmarks that can be trained on"
        return
    export.Export(release, format_name).write(tmp_path / "out")
    code = (
        "import json, logging, mlcroissant\n"
        "heard = []\n"
        "logging.getLogger('absl').addFilter(lambda record: heard.append(record.getMessage()) or True)\n"
        "found = mlcroissant.Dataset('out/croissant.json')\n"
        "assert not found.metadata.issues.errors, found.metadata.issues.report()\n"
        "assert not heard, heard\n"
        "assert found.metadata.name == 'own' and len(found.metadata.distribution) > 5\n"
        "plain = lambda one: one.decode() if isinstance(one, bytes) else one.tolist()\n"
        "rows = {one.id: list(found.records(one.id)) for one in found.metadata.record_sets}\n"
        "print(json.dumps(rows, default=plain))\n"
    )
    rows = json.loads(run_tool(code, tmp_path))
    samples = list(exported_samples(release))
    assert rows.keys() - {"samples", "rubrics"} == {"ratings", "highlights"}
    with (tmp_path / "out" / "ratings.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["ratings/value"] for row in rows["ratings"]] == [row["value"] for row in csv.DictReader(file)]
    names = {"healthbench": ("prompt_id", "prompt"), "inspect": ("id", "input")}
    if format_name in names:
        key, asked = names[format_name]
        assert [row[f"samples/{key}"] for row in rows["samples"]] == [sample["sample_id"] for sample in samples]
        assert all(row[f"samples/{asked}"][-1][f"samples/{asked}/role"] == "user" for row in rows["samples"])
        return
    assert ("samples" in rows) == (format_name in ("csv", "parquet", "jsonl", "hf"))
    if "samples" not in rows:
        return
    for row, sample in zip(rows["samples"], samples, strict=True):
        assert row["samples/sample_id"] == sample["sample_id"]
        assert (row["samples/version"], row["samples/simulated"]) == (sample["version"], sample["simulated"])
        if format_name != "jsonl":
            assert json.loads(row["samples/content"]) == sample["content"]
    if "rubrics" in rows:
        criteria = [row["rubrics/criterion"] for row in rows["rubrics"]]
        polarities = [row["rubrics/polarity"] for row in rows["rubrics"]]
    else:
        exported = [rubric for row in rows["samples"] for rubric in row["samples/rubrics"]]
        criteria, polarities = (
            [one[f"samples/rubrics/{key}"] for one in exported] for key in ("criterion", "polarity")
        )
    rubrics = [rubric for sample in samples for rubric in sample["rubrics"]]
    assert criteria == [rubric["criterion"] for rubric in rubrics]
    assert polarities == [rubric["polarity"] for rubric in rubrics]


class Judge:
    """A judge that finds criteria with ODD met, and cannot decide on those with SILENCE."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        prompt = messages[-1].content
        assert '"An answer."' in prompt
        verdict = {"explanation": "So.", "criteria_met": "ODD" in prompt}
        return "I cannot say." if "SILENCE" in prompt else json.dumps(verdict)


@needs_tools
def test_lm_eval_runs_the_task(release: Release, tmp_path: Path) -> None:
    """The model always gives the same answer, and must receive each conversation in turns."""
    out = tmp_path / "out"
    export.Export(release, "lm-eval").write(out)
    lines = [json.loads(line) for line in (out / "lm_eval.jsonl").read_text().splitlines()]
    rubrics = [rubric for line in lines for rubric in line["rubrics"]]
    for number, rubric in enumerate(rubrics):
        rubric["criterion"] += " SILENCE" if not number else " ODD" if number % 2 else ""
    (out / "lm_eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judging = json.loads((out / "judging.json").read_text())
    judging["samples"]["sha256"] = sha256_of(out / "lm_eval.jsonl")  # or the task refuses other samples
    (out / "judging.json").write_text(json.dumps(judging))
    task = judging["task"]
    turns = [[message["role"] for message in line["messages"]] for line in lines]
    code = (
        f"TASK = {task!r}\n"
        "import json\n"
        "from lm_eval import simple_evaluate\n"
        "from lm_eval.api.model import LM\n"
        "from lm_eval.tasks import TaskManager\n"
        "asked = []\n"
        "class Same(LM):\n"
        "    tokenizer_name = 'none'\n"
        "    def apply_chat_template(self, chat, add_generation_prompt=True): return json.dumps(chat)\n"
        "    def chat_template(self, *_arguments): return ''\n"
        "    def loglikelihood(self, requests): raise NotImplementedError\n"
        "    loglikelihood_rolling = loglikelihood\n"
        "    def generate_until(self, requests, **_options):\n"
        "        asked.extend([one['role'] for one in json.loads(request.args[0])] for request in requests)\n"
        "        return ['An answer.'] * len(requests)\n"
        "tasks = TaskManager(include_path='out', include_defaults=False)\n"
        "found = simple_evaluate(Same(), tasks=[TASK], task_manager=tasks, apply_chat_template=True)\n"
        "scores = found['results'][TASK]\n"
        "print(json.dumps([scores['hallucination_rate,none'], scores['unjudged,none'], asked]))\n"
    )
    with run_in_background(make_app([Judge()])) as address:
        variables = {"MHB_JUDGE_URL": address, "MHB_JUDGE_MODEL": "sim-judge", "MHB_JUDGE_KEY": "of-the-judge"}
        rate, unjudged, asked = json.loads(run_tool(code, tmp_path, **variables))
    assert unjudged == 1
    assert rate == pytest.approx(len(rubrics[2::2]) / len(rubrics[1:]))
    assert asked == turns


@needs_tools
def test_lm_eval_runs_two_releases_under_one_path(release: Release, tmp_path: Path) -> None:
    """Each task has its own samples, rules and judge's words, whichever was loaded first."""
    second = releases_services.freeze_release("second", benchmark="mhb")
    tasks = {}
    for one, mark in ((release, " ODD"), (second, "")):
        out = tmp_path / "both" / one.name
        export.Export(one, "lm-eval").write(out)
        lines = (out / "lm_eval.jsonl").read_text().splitlines()
        samples = [json.loads(line) for line in lines]
        for sample in samples:
            for rubric in sample["rubrics"]:
                rubric["criterion"] += mark
        (out / "lm_eval.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        judging = json.loads((out / "judging.json").read_text())
        judging["samples"]["sha256"] = sha256_of(out / "lm_eval.jsonl")
        (out / "judging.json").write_text(json.dumps(judging))
        tasks[one.name] = judging["task"]
    code = (
        f"TASKS = {sorted(tasks.values(), reverse=True)!r}\n"
        "import json\n"
        "from lm_eval import simple_evaluate\n"
        "from lm_eval.api.model import LM\n"
        "from lm_eval.tasks import TaskManager\n"
        "class Same(LM):\n"
        "    def loglikelihood(self, requests): raise NotImplementedError\n"
        "    loglikelihood_rolling = loglikelihood\n"
        "    def generate_until(self, requests, **_options): return ['An answer.'] * len(requests)\n"
        "tasks = TaskManager(include_path='both', include_defaults=False)\n"
        "found = simple_evaluate(Same(), tasks=TASKS, task_manager=tasks, log_samples=True)\n"
        "rates = {name: scores['hallucination_rate,none'] for name, scores in found['results'].items()}\n"
        "releases = {name: [one['judged']['sha256'] for one in logged] for name, logged in found['samples'].items()}\n"
        "print(json.dumps([rates, releases]))\n"
    )
    with run_in_background(make_app([Judge()])) as address:
        rates, releases = json.loads(run_tool(code, tmp_path, MHB_JUDGE_URL=address, MHB_JUDGE_MODEL="sim-judge"))
    assert len(set(tasks.values())) == 2
    # The judge finds each criterion with ODD met, and no other.
    assert sorted(rates.values()) == [0.0, 1.0]
    assert rates[tasks["second"]] == 1 - rates[tasks["own"]]
    for one in (release, second):
        assert releases[tasks[one.name]] == [one.sha256] * one.samples_count


@needs_tools
def test_inspect_runs_the_task(release: Release, tmp_path: Path) -> None:
    export.Export(release, "inspect").write(tmp_path / "out")
    code = (
        # Inspect counts tokens with a table that it would otherwise download.
        "import json, sys, tiktoken; sys.path.insert(0, 'out')\n"
        "class Words:\n"
        "    def encode(self, text, **options): return text.split()\n"
        "tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()\n"
        "from inspect_ai import eval\n"
        "from inspect_ai.model import ModelOutput, get_model\n"
        "from task import mhb\n"
        "reply = json.dumps({'explanation': 'It does.', 'criteria_met': True})\n"
        "yes = ModelOutput.from_content('mockllm/model', reply)\n"
        "grader = get_model('mockllm/model', custom_outputs=[yes] * 1000)\n"
        "[log] = eval(mhb(), model='mockllm/model', model_roles={'grader': grader}, log_dir='logs', display='none')\n"
        "assert log.status == 'success', log.error\n"
        "print(log.results.scores[0].metrics['hallucination_rate'].value, len(log.samples))\n"
    )
    assert run_tool(code, tmp_path) == "0.0 3"


def test_the_page_offers_only_fitting_formats(
    release: Release, rui: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(rui)
    page = client.get(reverse("generation:release", args=["own", 1])).content.decode()
    assert "export/inspect/" in page
    assert "export/training/" not in page
    with pytest.raises(errors.UntrainedFormat):
        export.Export(release, "training").check_fit()
    monkeypatch.setattr("generation.recipes.registry.question_messages", lambda *_about: None)
    page = client.get(reverse("generation:release", args=["own", 1])).content.decode()
    assert "export/inspect/" not in page
    assert "export/parquet/" in page
    with pytest.raises(errors.FormatDoesNotFit):
        export.Export(release, "healthbench").check_fit()
    refused = client.get(reverse("generation:release-export", args=["own", 1, "healthbench"]))
    assert refused.status_code == 422


def test_only_admins_export_the_held_out_split(release: Release, rui: User, adela: User, client: Client) -> None:
    with_held_out = freeze_with_held_out(3)
    page = reverse("generation:release-export", args=["apart", 1, "jsonl"])
    api = reverse("api:release-export", args=["apart", 1])
    for user, status in ((rui, 403), (adela, 200)):
        client.force_login(user)
        assert client.get(page).status_code == 200
        assert client.get(page, {"split": "held-out"}).status_code == status
        answer = client.get(api, {"split": "held-out"})
        assert answer.status_code == status
    lines = b"".join(answer.streaming_content).splitlines()  # type: ignore[attr-defined]
    held_out = set(with_held_out.samples.filter(split="held-out").values_list("key", flat=True))
    assert {json.loads(line)["sample_id"] for line in lines} == held_out
