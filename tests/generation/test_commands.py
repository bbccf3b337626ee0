"""The whole loop from the shell.

Each command prints one JSON object, exits with a code that tells success from failure, and answers
a typing mistake with one sentence.
"""

import json
from pathlib import Path

import pytest

from generation.batches import launch as batches_launch
from generation.batches import services as batches_services
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.engine import worker_beats
from generation.engine.sweeping import sweep
from generation.engine.task_queue import take
from generation.models import Batch, Draft, Endpoint, Import, Release, Sample, Source
from generation.models.work import Work
from generation.sources import services as sources_services
from mhb_site.benchmarks.mhb import examiner
from review.models import User
from tests.conftest import Clock
from tests.engine import (
    Manage,
    conversation,
    conversations_file,
    endpoint,
    generate,
    import_file,
    launch_batch,
    reports_file,
    run_batch,
)
from tests.review.approve import approve_everything

Status = Work.Status


def test_an_admin_makes_and_exports_a_release_from_the_shell(
    manage: Manage, tmp_path: Path, models: str, physicians: list[User]
) -> None:
    added = manage.json(
        "add_endpoint", "maker", "--url", models, "--model", "sim-generator", "--price-in", "1", "--price-out", "2"
    )
    assert added == {"endpoint": "maker", "url": models, "model": "sim-generator", "simulated": True}
    path = conversations_file(tmp_path / "own.jsonl", 3, conversation(1), {"prompt": "broken"})
    source = manage.json("import_source", "--format", "healthbench", "--name", "own", path)
    [refusal] = source.pop("refusals")
    assert refusal["where"] == "line 5"
    assert source == {
        "source": "own", "file": "own.jsonl", "layout": "jsonl", "rows": 5, "added": 3, "same": 1, "differs": 0,
        "refused": 1, "facets": {}, "joined": {}, "failed": 0,
        "oddities": {"same-text": {"n": 1, "rows": ["line 4 = line 1"]}},
    }  # fmt: skip
    batch = manage.json(*generate("maker", "--limit", 2, "--yes", "--wait"))
    assert (batch["drafts"], batch["done"], batch["failed"], batch["open"], batch["calls"]) == (2, 2, 0, 0, 10)
    assert float(batch["cost"]) > 0
    assert Sample.objects.count() == 2

    approve_everything(physicians)
    preview = manage.json("freeze_release", "own", "--benchmark", "mhb", "--preview")
    release = manage.json("freeze_release", "own", "--benchmark", "mhb")  # applies outcomes first
    assert release["statuses"] == {name.replace("_", "-"): preview[name] for name in ("approved", "not_sampled")}
    assert (release["release"], release["version"], release["samples"], release["simulated"]) == ("own", 1, 2, True)
    assert release["counts"]["task"]["dialogue"]["samples"] == 2
    for format_name in ("jsonl", "csv", "parquet"):
        out = tmp_path / format_name
        manifest = manage.json("export_release", "own@1", "--format", format_name, "--out", out)
        assert manifest["format"] == format_name
        assert {entry["path"] for entry in manifest["files"]} <= {
            path.relative_to(out).as_posix() for path in out.rglob("*")
        }


def test_without_json_the_output_is_readable(manage: Manage, tmp_path: Path) -> None:
    path = conversations_file(tmp_path / "own.jsonl", 2, {"prompt": "broken"})
    code, out, err = manage("import_source", "--format", "healthbench", "--name", "own", path)
    assert (code, err) == (0, "")
    assert "added: 2" in out
    assert "line 3" in out


def _row_counts() -> list[int]:
    return [model.objects.count() for model in (Source, Endpoint, Batch, Import)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import_source", "--format", "healthbench", "--name", "own", "/no/such/file"], "No such file"),
        (["import_source", "--format", "healthbench", "--name", "own", "{other}"], "one JSON object on each line"),
        (["import_source", "--format", "pmc-patients", "--name", "here", "{other}"], "already exists in a different format"),
        (["import_source", "--format", "healthbench", "--name", "two words", "{file}"], "name: "),
        (["generate", "--benchmark", "mbh", "--source", "here", "--generator", "sim-generator"], "no benchmark"),
        (["generate", "--benchmark", "mhb", "--source", "gone", "--generator", "sim-generator"], "no source"),
        (["generate", "--benchmark", "mhb", "--source", "here", "--generator", "gone"], "no endpoint"),
        (["generate", "--benchmark", "mhb", "--source", "here"], "Choose an endpoint"),
        (["freeze_release", "own", "--benchmark", "mhb"], "approved yet"),
        (["freeze_release", "own", "--benchmark", "mbh"], "no benchmark"),
        (["export_release", "own", "--format", "csv", "--out", "{out}"], "no release"),
        (["add_endpoint", "sim-generator", "--url", "http://127.0.0.1:1/v1", "--model", "m"], "name: "),
        (["add_endpoint", "two words", "--url", "nowhere", "--model", "m"], "url: "),
        (["add_endpoint", "own", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--key-env", "sk-a1b2"], "key_env: "),
        (["add_endpoint", "own", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--timeout", "inf"], "timeout: "),
    ],
)  # fmt: skip
def test_an_error_is_reported_in_one_sentence(
    manage: Manage, tmp_path: Path, models: str, arguments: list[str], message: str
) -> None:
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 1), "here")
    paths = {
        "{file}": str(tmp_path / "own.jsonl"),
        "{other}": str(reports_file(tmp_path / "other.json", 1)),
        "{out}": str(tmp_path / "out"),
    }
    before = _row_counts()
    assert message in manage.refusal(*[paths.get(argument, argument) for argument in arguments])
    assert _row_counts() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["add_endpoint", "own", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--price-in", "free"],
            "must be a decimal number",
        ),
        (["simulate_llm", "--port", "1", "--fault", "flood"], "no fault 'flood'"),
        (["generate", "--benchmark", "mhb", "--source", "here", "--role", "generator"], "NAME=VALUE"),
    ],
)
def test_a_mistyped_value_gives_no_traceback(manage: Manage, arguments: list[str], message: str) -> None:
    code, out, err = manage(*arguments)
    assert (bool(code), out) == (True, "")
    assert message in err
    assert "Traceback" not in err


def test_a_release_without_changes_and_an_unwritable_folder_are_refused(
    manage: Manage, tmp_path: Path, models: str, physicians: list[User]
) -> None:
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    approve_everything(physicians)
    manage.json("freeze_release", "own", "--benchmark", "mhb")
    assert "nothing new" in manage.refusal("freeze_release", "own", "--benchmark", "mhb")
    assert "own.jsonl" in manage.refusal(
        "export_release", "own", "--format", "csv", "--out", tmp_path / "own.jsonl" / "out"
    )
    assert Release.objects.count() == 1


@pytest.mark.parametrize(("path", "reason"), [("x" * 300, "File name too long"), ("own/own.md", "Is a directory")])
def test_a_path_that_cannot_be_read_is_a_sentence(manage: Manage, tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "own" / "own.md").mkdir(parents=True)
    folder = tmp_path / path.removesuffix("/own.md")
    assert f"{tmp_path / path}: {reason}." in manage.refusal("load_prompts", "mhb", folder, "--name", "own")


def test_failed_drafts_make_the_command_fail_and_are_listed_with_their_errors(
    manage: Manage, tmp_path: Path, models: str
) -> None:
    endpoint(models, "sim-generator+refusal", name="refuser")
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    code, out, err = manage(*generate("refuser", "--yes", "--wait", "--json"))
    assert code == 1
    assert "Traceback" not in err
    output = json.loads(out)
    assert (output["failed"], output["done"]) == (2, 0)
    assert [failure["error"] for failure in output["failures"]] == ["BrokenReply"] * 2


def test_without_wait_workers_do_the_work(manage: Manage, tmp_path: Path, models: str) -> None:
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    batch = manage.json(*generate("sim-generator", "--yes"))
    assert (batch["open"], batch["done"], batch["calls"]) == (2, 0, 0)
    assert not Sample.objects.exists()
    assert sweep(BATCHES) == [batch["batch"]]


def test_wait_takes_over_from_a_worker_that_died(
    manage: Manage, tmp_path: Path, models: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead worker's draft is held until its lease expires; the command waits for that it."""
    launch = batches_launch.launch_batch

    def launch_with_dead_worker(settings: BatchSettings) -> Batch:
        batch = launch(settings)
        take(Draft.objects.filter(batch=batch).order_by("pk"), 1)
        return batch

    monkeypatch.setattr(batches_launch, "launch_batch", launch_with_dead_worker)
    monkeypatch.setattr("generation.management.command_line.time.sleep", lambda seconds: clock.advance(seconds=30))
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 3))
    batch = manage.json(
        "generate", "--yes", "--benchmark", "mhb", "--source", "own", "--generator", "sim-generator", "--wait",
        *(part for name in ("answerable", *(check.name for check in examiner.CHECKS)) for part in ("--skip", name)),
    )  # fmt: skip
    assert (batch["done"], batch["open"]) == (3, 0)
    assert sorted(Draft.objects.values_list("tries", flat=True)) == [1, 1, 2]


def test_wait_leaves_the_work_to_a_running_worker(
    manage: Manage, tmp_path: Path, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_beats.record_beat("celery@here")
    endpoint(models)
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    sleeps: list[float] = []

    def poll(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            batches_services.work_on_batch(Batch.objects.get().pk)  # in place of the worker

    monkeypatch.setattr("generation.management.command_line.time.sleep", poll)
    batch = manage.json(*generate("sim-generator", "--yes", "--wait"))
    assert batch["done"] == 2
    assert len(sleeps) == 2


def test_an_import_that_a_worker_claimed_first_still_succeeds(
    manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweeper can wake a worker between registering the import and reading the file."""
    claimed: list[Import] = []
    start = sources_services.start_import

    def start_and_claim(*arguments: object, **options: object) -> Import:
        run = start(*arguments, **options)  # type: ignore[arg-type]
        claimed.extend(take(Import.objects.filter(pk=run.pk).order_by("pk"), 1))
        return run

    monkeypatch.setattr(sources_services, "start_import", start_and_claim)
    monkeypatch.setattr(
        "generation.sources.actions.time.sleep",
        lambda seconds: sources_services._read_file(claimed[0]),
    )
    source = manage.json(
        "import_source", "--format", "healthbench", "--name", "own", conversations_file(tmp_path / "own.jsonl", 2)
    )
    assert (source["added"], source["failed"]) == (2, 0)


def test_a_file_that_disappears_before_it_is_read_fails_the_import(
    manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = conversations_file(tmp_path / "own.jsonl", 1)
    start = sources_services.start_import

    def start_and_delete_file(*arguments: object, **options: object) -> Import:
        run = start(*arguments, **options)  # type: ignore[arg-type]
        path.unlink()
        return run

    monkeypatch.setattr(sources_services, "start_import", start_and_delete_file)
    code, out, _err = manage("import_source", "--format", "healthbench", "--name", "own", path, "--json")
    assert code == 1
    assert json.loads(out)["failed"] == 1
    assert "No such file" in json.loads(out)["error"]


def test_roles_can_be_named_one_by_one(manage: Manage, tmp_path: Path, models: str) -> None:
    endpoint(models, name="maker")
    endpoint(models, name="other", model="sim-examiner")
    import_file(conversations_file(tmp_path / "own.jsonl", 1))
    batch = manage.json(
        "generate",
        "--benchmark",
        "mhb",
        "--source",
        "own",
        "--role",
        "generator=maker",
        "--role",
        "examiner=other",
        "--yes",
    )
    roles = Batch.objects.get(pk=batch["batch"]).roles.order_by("pk").values_list("role", "endpoint__name")
    assert list(roles) == [("generator", "maker"), ("examiner", "other")]


def test_records_of_a_running_batch_are_not_taken_again(manage: Manage, tmp_path: Path, models: str) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    launch_batch(source, endpoint(models))
    assert "No records are left" in manage.refusal(
        "generate", "--benchmark", "mhb", "--source", "own", "--generator", "sim-generator"
    )
