"""The sweeper: wakes workers for what nobody is on, and brings everything to its end even where no message arrives."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from kombu.exceptions import OperationalError

from evaluation.models import Run
from generation import tasks
from generation.batches import services as batches_services
from generation.jobs.kinds import kind_of
from generation.models import Batch, Import, Job, Sample
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from generation.sources import services as sources_services
from mhb_site.celery import app
from mhb_site.server.sweeping import sweep
from review.assignments import claims
from review.common.waking import wake
from review.models import Assignment, User
from review.rules.state_machine import Ground, Policy, State
from tests.conftest import Clock
from tests.engine import conversations_file, endpoint, held, imported, launched, launched_run, models, no_long_waits
from tests.review.approve import approve_everything, rejection
from tests.review.factories import approving, correcting, say, to_secondary

__all__ = ["models", "no_long_waits"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The messages that would have gone to the broker."""
    messages: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "celery.app.task.Task.delay", lambda task, pk: messages.append((task.name.rpartition(".")[2], pk))
    )
    return messages


def nothing() -> dict[str, int]:
    return {"leases": 0, "imports": 0, "freezes": 0, "lapsed": 0, "batches": 0, "runs": 0}


def test_nothing_to_do_wakes_nobody(sent: list[tuple[str, int]]) -> None:
    assert sweep() == nothing()
    assert sent == []


def test_every_kind_of_work_is_brought_to_its_end(
    sent: list[tuple[str, int]], tmp_path: Path, models: str, ana: User, bo: User
) -> None:
    """No message of a launch arrives; what the sweeper sends is done by a worker that does nothing else."""

    def work() -> list[str]:
        """One round of the sweeper and of the worker; the names of the tasks that were run."""
        sweep()
        done = [name for name, _pk in sent]
        for name, pk in sent:
            {
                "run_import": sources_services.run_import,
                "run_freeze": releases_services.run_freeze,
                "work_on_job": lambda pk: kind_of(Job.objects.get(pk=pk)).work(pk),
            }[name](pk)
        sent.clear()
        return done

    path = conversations_file(tmp_path / "own.jsonl", 2)
    sources_services.start_import(path, format_name="healthbench", name="own")
    assert work() == ["run_import"]
    batch = launched(Import.objects.get().source, endpoint(models))
    assert work() == ["work_on_job"]
    rejecting = partial(rejection, reason="Nobody would ask this.")
    for _number in range(2):
        say(ana, rejecting)
        say(bo, rejecting, rejecting)
    assert work() == ["work_on_job"], "what physicians rejected is made again"
    approve_everything([ana, bo])
    assert work() == []
    assert set(Sample.objects.values_list("status", flat=True)) == {Sample.Status.APPROVED}
    run = launched_run(releases_services.freeze_release("own", benchmark="mhb"), models, "sim-average")
    assert work() == ["work_on_job"]
    assert sweep() == nothing()
    assert Batch.objects.get(pk=batch.pk).status == Batch.Status.FINISHED
    assert Run.objects.get(pk=run.pk).status == Run.Status.FINISHED


def test_what_cannot_be_handled_keeps_nothing_else_from_being_swept(
    sent: list[tuple[str, int]], tmp_path: Path, models: str, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 2))
    batch = launched(source, endpoint(models))
    batches_services.work_on_batch(batch.pk)
    approve_everything([ana, bo])
    handle, [bad, good] = samples_services._apply_outcome, Sample.objects.order_by("pk")

    def handle_but_one(version: Any) -> None:
        if version.sample_id == bad.pk:
            raise KeyError("a fault of ours")
        handle(version)

    monkeypatch.setattr(samples_services, "_apply_outcome", handle_but_one)
    sweep()
    assert Sample.objects.get(pk=good.pk).status == Sample.Status.APPROVED
    assert Sample.objects.get(pk=bad.pk).status == Sample.Status.IN_REVIEW
    release = releases_services.freeze_release("own", benchmark="mhb")
    run = launched_run(release, models, "sim-careful")
    monkeypatch.setattr("generation.engine.sweeping.settle", handle_but_one)
    Batch.objects.update(status=Batch.Status.RUNNING)
    assert sweep()["runs"] == 1
    assert ("work_on_job", run.pk) in sent
    monkeypatch.undo()
    assert samples_services.apply_outcomes() == 1


def test_a_worker_that_is_on_it_is_left_alone(
    sent: list[tuple[str, int]], tmp_path: Path, models: str, clock: Clock
) -> None:
    batch = launched(imported(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    held(batch)
    sweep()
    assert sent == []
    clock.advance(minutes=2)
    sweep()
    assert sent == [("work_on_job", batch.pk)]


def test_a_forgotten_case_is_given_back(
    sent: list[tuple[str, int]], tmp_path: Path, models: str, clock: Clock, ana: User, bo: User
) -> None:
    batches_services.work_on_batch(
        launched(imported(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models)).pk
    )
    assert claims.claim_next(ana) is not None
    clock.advance(minutes=16)
    assert sweep() == {**nothing(), "leases": 1}
    assert Assignment.objects.get().hold == Assignment.Hold.OPEN


def test_a_wording_that_nobody_objects_to_is_approved_in_time(
    sent: list[tuple[str, int]], clock: Clock, ana: User, bo: User
) -> None:
    case = to_secondary(ana, policy=Policy(settle_wording=True))
    say(bo, approving(), correcting("Calls it invented.", change_reason="Clearer.", declaration="wording"))
    clock.advance(hours=71)
    assert sweep()["lapsed"] == 0
    clock.advance(hours=2)
    assert sweep()["lapsed"] == 1
    case.refresh_from_db()
    assert (case.state, case.ground) == (State.APPROVED, Ground.OBJECTION_LAPSED)


def test_a_broker_that_is_away_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*arguments: Any) -> None:
        raise OperationalError("Connection refused")

    monkeypatch.setattr("celery.app.task.Task.delay", away)
    run = sources_services.start_import(
        conversations_file(tmp_path / "own.jsonl", 1), format_name="healthbench", name="own"
    )
    wake(tasks.run_import, run.pk)
    assert "left to the sweeper" in caplog.text
    assert sweep()["imports"] == 1
    assert Import.objects.get().status == Import.Status.QUEUED, "it is found again at the next round"


def test_one_round_from_the_shell(
    sent: list[tuple[str, int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources_services.start_import(conversations_file(tmp_path / "own.jsonl", 1), format_name="healthbench", name="own")
    call_command("sweep")
    assert json.loads(capsys.readouterr().out) == {**nothing(), "imports": 1}


def test_the_worker_knows_every_task() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {
        "evaluation.tasks.import_results",
        "generation.tasks.run_freeze",
        "generation.tasks.run_import",
        "generation.tasks.work_on_job",
        "review.tasks.check_trail",
    }
