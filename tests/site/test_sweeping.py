"""The sweeper wakes workers for abandoned work, so that all work ends even if messages are lost."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from kombu import Connection
from kombu.exceptions import OperationalError

from bench.servers import free_port
from evaluation.models import Run
from generation import tasks
from generation.batches import services as batches_services
from generation.models import Batch, Import, Sample
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.sources import services as sources_services
from mhb_site.celery import app
from mhb_site.server.sweeping import sweep
from review.assignments import claims
from review.common import waking
from review.common.waking import wake
from review.models import Assignment, User
from review.rules.state_machine import Ground, Policy, State
from tests.conftest import Clock
from tests.engine import (
    conversations_file,
    create_lane,
    endpoint,
    import_file,
    launch_batch,
    launch_run,
    models,
    no_long_waits,
)
from tests.review.approve import approve_everything, rejection_of
from tests.review.factories import approval, case_in_secondary, claim_and_submit, correction

__all__ = ["models", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Collect the messages to the broker instead of sending them."""
    messages: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "celery.app.task.Task.delay", lambda task, *args: messages.append((task.name.rpartition(".")[2], *args))
    )
    monkeypatch.setattr("review.common.waking.waiting_messages", lambda _task: len(messages))
    return messages


def empty_report() -> dict[str, int]:
    return {"leases": 0, "imports": 0, "freezes": 0, "lapsed": 0, "batches": 0, "runs": 0}


def test_without_work_no_message_is_sent(sent: list[tuple[Any, ...]]) -> None:
    assert sweep() == empty_report()
    assert sent == []


def test_every_kind_of_work_ends_without_messages(
    sent: list[tuple[Any, ...]], tmp_path: Path, models: str, ana: User, bo: User
) -> None:
    """The messages of launches are lost; a worker handles only those of the sweeper."""

    def work() -> list[str]:
        """Run the sweeper and the worker once. Returns the names of the tasks that ran."""
        sweep()
        task_names = [name for name, *_pk in sent]
        for name, *pk in sent:
            getattr(tasks, name)(*pk)
        sent.clear()
        return task_names

    path = conversations_file(tmp_path / "own.jsonl", 2)
    sources_services.start_import(path, format_name="healthbench", name="own")
    assert work() == ["run_import"]
    batch = launch_batch(Import.objects.get().source, endpoint(models))
    assert work() == ["run_lane"]
    rejecting = partial(rejection_of, reason="Nobody would ask this.")
    for _number in range(2):
        claim_and_submit(ana, rejecting)
        claim_and_submit(bo, rejecting, rejecting)
    assert work() == ["run_lane"], "the rejected samples are generated again"
    approve_everything([ana, bo])
    assert work() == []
    assert set(Sample.objects.values_list("status", flat=True)) == {Sample.Status.APPROVED}
    run = launch_run(releases_services.freeze_release("own", benchmark="mhb"), models, "sim-average")
    assert work() == ["run_lane"]
    assert sweep() == empty_report()
    assert Batch.objects.get(pk=batch.pk).status == Batch.Status.FINISHED
    assert Run.objects.get(pk=run.pk).status == Run.Status.FINISHED


def test_one_failure_does_not_stop_the_rest_of_a_sweep(
    sent: list[tuple[Any, ...]], tmp_path: Path, models: str, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    batch = launch_batch(source, endpoint(models))
    batches_services.work_on_batch(batch.pk)
    approve_everything([ana, bo])
    apply_outcome, [bad, good] = outcomes_services._apply_outcome, Sample.objects.order_by("pk")

    def apply_all_but_one(version: Any) -> None:
        if version.sample_id == bad.pk:
            raise KeyError("a fault of ours")
        apply_outcome(version)

    monkeypatch.setattr(outcomes_services, "_apply_outcome", apply_all_but_one)
    sweep()
    assert Sample.objects.get(pk=good.pk).status == Sample.Status.APPROVED
    assert Sample.objects.get(pk=bad.pk).status == Sample.Status.IN_REVIEW
    release = releases_services.freeze_release("own", benchmark="mhb")
    launch_run(release, models, "sim-careful")
    monkeypatch.setattr("generation.engine.sweeping.settle", apply_all_but_one)
    Batch.objects.update(status=Batch.Status.RUNNING)
    assert sweep()["runs"] == 1
    assert ("run_lane",) in sent
    monkeypatch.undo()
    assert outcomes_services.apply_outcomes() == 1


def test_work_that_a_worker_holds_is_left_alone(
    sent: list[tuple[Any, ...]], tmp_path: Path, models: str, clock: Clock
) -> None:
    batch = launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    create_lane(batch)
    sweep()
    assert sent == []
    clock.advance(minutes=2)
    sweep()
    assert sent == [("run_lane",)]


def test_no_more_messages_wait_than_lanes_are_wanted(
    sent: list[tuple[Any, ...]], tmp_path: Path, models: str, settings: Any
) -> None:
    settings.MHB_LANES = 2
    source = import_file(conversations_file(tmp_path / "own.jsonl", 4))
    for _batch in range(2):
        launch_batch(source, endpoint(models), limit=2)
    for _round in range(3):
        sweep()
    assert sent == [("run_lane",)] * 4


def test_messages_are_counted_where_they_wait() -> None:
    before = waking.waiting_messages(tasks.run_lane)
    wake(tasks.run_lane)
    assert waking.waiting_messages(tasks.run_lane) == before + 1


def test_a_case_with_an_expired_lease_is_returned(
    sent: list[tuple[Any, ...]], tmp_path: Path, models: str, clock: Clock, ana: User, bo: User
) -> None:
    batches_services.work_on_batch(
        launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models)).pk
    )
    assert claims.claim_next(ana) is not None
    clock.advance(minutes=16)
    assert sweep() == {**empty_report(), "leases": 1}
    assert Assignment.objects.get().hold == Assignment.Hold.OPEN


def test_a_rewording_without_objection_is_approved_after_the_deadline(
    sent: list[tuple[Any, ...]], clock: Clock, ana: User, bo: User
) -> None:
    case = case_in_secondary(ana, policy=Policy(settle_wording=True))
    claim_and_submit(bo, approval(), correction("Calls it invented.", change_reason="Clearer.", declaration="wording"))
    clock.advance(hours=71)
    assert sweep()["lapsed"] == 0
    clock.advance(hours=2)
    assert sweep()["lapsed"] == 1
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.APPROVED, Ground.OBJECTION_LAPSED)


def test_an_unreachable_broker_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_connection(*arguments: Any) -> None:
        raise OperationalError("Connection refused")

    monkeypatch.setattr("celery.app.task.Task.delay", refuse_connection)
    run = sources_services.start_import(
        conversations_file(tmp_path / "own.jsonl", 1), format_name="healthbench", name="own"
    )
    wake(tasks.run_import, run.pk)
    assert "left to the sweeper" in caplog.text
    assert sweep()["imports"] == 1
    assert Import.objects.get().status == Import.Status.QUEUED, "the next round finds it again"


def test_the_command_runs_one_sweep(
    sent: list[tuple[Any, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources_services.start_import(conversations_file(tmp_path / "own.jsonl", 1), format_name="healthbench", name="own")
    call_command("sweep")
    assert json.loads(capsys.readouterr().out) == {**empty_report(), "imports": 1}


def test_only_lanes_wait_for_lanes() -> None:
    app.loader.import_default_modules()
    queues = {name: app.amqp.router.route({}, name)["queue"].name for name in app.tasks}
    assert queues.pop("generation.tasks.run_lane") == "mhb-lanes"
    assert "generation.tasks.run_import" in queues
    assert set(queues.values()) == {"mhb"}


def test_a_sweep_goes_on_while_redis_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr(app, "connection_for_write", lambda: Connection(away))
    assert waking.waiting_messages(tasks.run_lane) == 0


def test_the_worker_knows_every_task() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {
        "evaluation.reports.tasks.count_report",
        "evaluation.tasks.import_results",
        "evaluation.tasks.try_prompt",
        "generation.tasks.check_models",
        "generation.tasks.run_freeze",
        "generation.tasks.run_import",
        "generation.tasks.run_probes",
        "generation.tasks.send_messages",
        "generation.tasks.try_endpoint",
        "generation.tasks.try_webhook",
        "generation.tasks.run_lane",
        "review.tasks.check_trail",
        "review.tasks.count_figures",
    }
