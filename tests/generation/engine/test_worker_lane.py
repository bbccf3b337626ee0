"""Worker lanes: they share an endpoint's limits and its pauses, and continue each other's work."""

import asyncio
import json
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from asgiref.sync import async_to_sync
from celery.signals import worker_shutting_down
from django.db import OperationalError
from django.utils import timezone

from generation import tasks
from generation.batches import services
from generation.batches.kind import BATCHES
from generation.engine import group_commit, ledger, worker_lane
from generation.engine.group_commit import GroupCommit
from generation.engine.lane_coordination import LaneReport, exchange
from generation.engine.sweeping import sweep
from generation.engine.task_queue import PULSE, take
from generation.engine.worker_beats import process_name
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Call, Draft, Endpoint, EndpointState, JobError, Lane, Sample, Source
from generation.models.work import Work
from mhb_site.benchmarks.mhb import simulate
from tests.conftest import Clock, RunConcurrently
from tests.engine import (
    SEED,
    calls,
    conversation,
    conversations_file,
    create_lane,
    drafts,
    endpoint,
    import_file,
    launch_batch,
    simulator,
    simulator_stats,
    status_counts,
)
from tests.generation.llm.helpers import Answer, app_of, completion, error_body, fake_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    """Twelve conversations."""
    return import_file(conversations_file(tmp_path / "own.jsonl", 12))


def lane_report(wanted: int = 100, **fields: Any) -> LaneReport:
    """A lane's report of an endpoint without trouble; `fields` replace its fields."""
    defaults: dict[str, Any] = {
        "wanted": wanted,
        "in_flight": 0,
        "share": 0,
        "blocked_for": 0.0,
        "error": "",
        "detail": "",
        "openings": 0,
        "opened": False,
        "answered": False,
        "down": False,
        "supported": 1.0,
    }
    return LaneReport(**{**defaults, **fields})


def pulse(lane: Lane, endpoint_row: Endpoint, job: Batch, **fields: Any) -> Any:
    """Send one pulse of a lane; returns the reply about the endpoint, or None for a dead lane."""
    replies = exchange(job, lane, {endpoint_row.pk: lane_report(**fields)}, timezone.now())
    return replies and replies[endpoint_row.pk]


@pytest.fixture
def endpoint_and_job(db: None) -> tuple[Endpoint, Batch]:
    """An endpoint with eight slots, and a running batch."""
    endpoint_row = endpoint("http://models.example/v1", concurrency=8, rpm=600, tpm=9_000)
    EndpointState.objects.create(endpoint=endpoint_row)
    return endpoint_row, drafts(1)


# ------------------------------------------------------------------------------------------- shares


def test_lanes_share_an_endpoint_and_never_hold_more_than_it_has(endpoint_and_job: tuple[Endpoint, Batch]) -> None:
    endpoint_row, job = endpoint_and_job
    first, second = create_lane(job), create_lane(job)
    assert pulse(first, endpoint_row, job).hold == 8, "a lane alone gets all slots"
    assert pulse(second, endpoint_row, job, in_flight=0).hold == 0, "the first lane still holds all slots"
    assert pulse(first, endpoint_row, job, in_flight=8).hold == 4
    assert pulse(second, endpoint_row, job).hold == 0, "eight calls of the first lane are still in flight"
    assert pulse(first, endpoint_row, job, in_flight=5).hold == 4
    assert pulse(second, endpoint_row, job).hold == 3
    assert pulse(first, endpoint_row, job, in_flight=2).hold == 4
    reply = pulse(second, endpoint_row, job)
    assert (reply.hold, reply.part) == (4, 0.5)
    assert pulse(first, endpoint_row, job, wanted=1, in_flight=1).hold == 1
    assert pulse(second, endpoint_row, job).hold == 7, "one lane may use what the other does not need"


def test_calls_that_start_before_the_orders_arrive_are_within_what_others_leave(
    endpoint_and_job: tuple[Endpoint, Batch],
) -> None:
    endpoint_row, job = endpoint_and_job
    first, second = create_lane(job), create_lane(job)
    assert pulse(first, endpoint_row, job).hold == 8
    pulse(second, endpoint_row, job)
    assert pulse(first, endpoint_row, job, in_flight=2, share=8).hold == 4
    assert pulse(second, endpoint_row, job).hold == 0, "the first lane may still fill all eight"
    assert pulse(first, endpoint_row, job, in_flight=2, share=4).hold == 4
    assert pulse(second, endpoint_row, job).hold == 4


def test_a_dead_lane_holds_nothing(endpoint_and_job: tuple[Endpoint, Batch], clock: Clock) -> None:
    endpoint_row, job = endpoint_and_job
    dead = create_lane(job)
    pulse(dead, endpoint_row, job)
    clock.advance(minutes=2)
    assert pulse(create_lane(job), endpoint_row, job).hold == 8
    assert pulse(dead, endpoint_row, job) is None, "a lane taken for dead is told to stop"


def test_two_jobs_at_one_endpoint_keep_to_its_limit(
    tmp_path: Path, run_concurrently: RunConcurrently, settings: Any
) -> None:
    settings.MHB_LANES = 2
    sources = [import_file(conversations_file(tmp_path / f"{name}.jsonl", 20), name) for name in ("one", "other")]
    with simulator(latency=0.3) as url:
        batches = [launch_batch(source, endpoint(url, concurrency=4), fresh=True) for source in sources]
        outcomes = run_concurrently([partial(services.work_on_batch, batch.pk) for batch in batches * 2])
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
        assert simulator_stats(url)["peak_in_flight"] <= 4
        assert simulator_stats(url)["requests"] == 40
    assert all(status_counts(batch) == {Status.DONE: 20} for batch in batches)
    assert len([done for done in outcomes if done]) >= 3, "several lanes worked on it"


def test_a_lane_without_a_share_keeps_the_learned_limit(endpoint_and_job: tuple[Endpoint, Batch]) -> None:
    endpoint_row, job = endpoint_and_job
    first, second = create_lane(job), create_lane(job)
    pulse(first, endpoint_row, job, supported=0.25)
    assert pulse(second, endpoint_row, job, supported=None).state.supported == 0.25


# --------------------------------------------------------------------------------- pauses, breakers


def test_a_pause_that_one_lane_reports_reaches_all_lanes(
    endpoint_and_job: tuple[Endpoint, Batch], clock: Clock
) -> None:
    endpoint_row, job = endpoint_and_job
    first, second = create_lane(job), create_lane(job)
    pulse(first, endpoint_row, job, blocked_for=30.0, error="RateLimited", openings=2, opened=True)
    reply = pulse(second, endpoint_row, job)
    assert (reply.blocked_for, reply.state.error, reply.state.openings) == (30.0, "RateLimited", 2)
    clock.advance(seconds=10)
    assert pulse(second, endpoint_row, job, blocked_for=20.0, error="RateLimited").blocked_for == 20.0
    pulse(first, endpoint_row, job, blocked_for=5.0)
    assert pulse(second, endpoint_row, job).blocked_for == 20.0, "the longer pause counts"
    clock.advance(seconds=21)
    pulse(first, endpoint_row, job, answered=True)
    reply = pulse(second, endpoint_row, job)
    assert (reply.blocked_for, reply.state.error, reply.state.openings) == (0.0, "", 0)


def test_a_lane_that_only_heard_of_a_pause_does_not_restore_it(endpoint_and_job: tuple[Endpoint, Batch]) -> None:
    endpoint_row, job = endpoint_and_job
    first, idle = create_lane(job), create_lane(job)
    pulse(first, endpoint_row, job, openings=1, opened=True)
    assert pulse(idle, endpoint_row, job).state.openings == 1
    assert pulse(first, endpoint_row, job, answered=True).state.openings == 0
    assert pulse(idle, endpoint_row, job, wanted=0, openings=1).state.openings == 0
    assert pulse(first, endpoint_row, job).state.openings == 0


def test_lanes_pulse_at_least_once_a_second() -> None:
    assert PULSE <= 1, "seconds until all lanes know of a 429"


def test_an_endpoint_that_is_down_is_down_for_all_until_somebody_resumes(
    endpoint_and_job: tuple[Endpoint, Batch],
) -> None:
    endpoint_row, job = endpoint_and_job
    first, second = create_lane(job), create_lane(job)
    pulse(first, endpoint_row, job, down=True, error="ServerError", detail="on fire")
    assert pulse(second, endpoint_row, job).state.down_since
    jobs_services.reset_endpoints([endpoint_row])
    assert not pulse(second, endpoint_row, job).state.down_since


def test_an_endpoint_that_is_down_is_asked_again_by_a_new_job_and_after_an_hour(source: Source, clock: Clock) -> None:
    """A new job asks it once, a job that asked before only after an hour.

    If that call fails, the endpoint is down again.
    """
    with fake_endpoint(Answer("on fire", 500)) as target:
        endpoint_row = endpoint(target.url, "m-1", concurrency=4)
        EndpointState.objects.create(endpoint=endpoint_row, down_since=clock.now, error="AuthFailed", detail="old")
        batch = launch_batch(source, endpoint_row)
        services.work_on_batch(batch.pk)
        assert len(target.bodies) == 1
        batch.refresh_from_db()
        assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
        assert "on fire" in batch.paused_detail
        Batch.objects.update(status=Batch.Status.RUNNING, paused_because="")
        for requests_count, minutes in ((1, 50), (2, 20)):
            clock.advance(minutes=minutes)
            services.work_on_batch(batch.pk)
            assert len(target.bodies) == requests_count
            Batch.objects.update(status=Batch.Status.RUNNING, paused_because="")
    assert status_counts(batch) == {Status.QUEUED: 12}


def test_a_new_job_uses_an_endpoint_that_has_recovered(source: Source, models: str, clock: Clock) -> None:
    endpoint_row = endpoint(models)
    EndpointState.objects.create(endpoint=endpoint_row, down_since=clock.now - timedelta(days=30), error="ServerError")
    batch = launch_batch(source, endpoint_row)
    assert services.work_on_batch(batch.pk) == 12
    assert not EndpointState.objects.get().openings


def test_a_429_of_one_lane_stops_the_other(source: Source, run_concurrently: RunConcurrently, settings: Any) -> None:
    settings.MHB_LANES = 2
    with fake_endpoint(Answer("later", 429, {"Retry-After": "2"}), "no JSON at all") as target:
        batch = launch_batch(source, endpoint(target.url, "m-1", concurrency=2))
        begun = time.monotonic()
        run_concurrently([lambda: services.work_on_batch(batch.pk)] * 2)
        assert time.monotonic() - begun >= 2
    limited = Call.objects.get(error="RateLimited")
    others = Call.objects.exclude(pk=limited.pk)
    heard_at = limited.started_at + timedelta(seconds=limited.seconds)
    late_calls = others.filter(
        started_at__gt=heard_at + timedelta(seconds=1), started_at__lt=heard_at + timedelta(seconds=1.9)
    )
    assert not late_calls.exists(), "a second later no lane sends calls any more"
    assert others.count() == 24


def test_a_batch_rests_when_told_to_retry_tomorrow(source: Source, clock: Clock) -> None:
    with fake_endpoint(Answer("tomorrow", 429, {"Retry-After": "86400"}), "no JSON at all") as target:
        batch = launch_batch(source, endpoint(target.url, "m-1", concurrency=1))
        services.work_on_batch(batch.pk)
        assert len(target.bodies) == 1
        batch.refresh_from_db()
        assert batch.status == Batch.Status.RUNNING
        assert batch.rests_until is not None
        assert 86_000 < (batch.rests_until - clock.now).total_seconds() <= 86_400
        assert status_counts(batch) == {Status.QUEUED: 12}
        assert sweep(BATCHES) == []
        assert services.work_on_batch(batch.pk) == 0
        assert len(target.bodies) == 1
        clock.advance(days=1, seconds=1)
        assert set(sweep(BATCHES)) == {batch.pk}
        services.work_on_batch(batch.pk)
        assert len(target.bodies) == 25


def test_an_endpoint_that_only_fails_pauses_the_batch_and_loses_no_row(source: Source) -> None:
    with fake_endpoint(Answer("on fire", 500)) as target:
        batch = launch_batch(source, endpoint(target.url, "m-1", concurrency=4))
        services.work_on_batch(batch.pk)
        call_count = len(target.bodies)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert "m-1: The endpoint failed (5xx). " in batch.paused_detail
    assert "on fire" in batch.paused_detail
    assert call_count < 40
    assert status_counts(batch)[Status.RUNNING] == 0
    assert status_counts(batch)[Status.QUEUED] >= 9
    assert len(calls(batch)) == call_count
    state = EndpointState.objects.get()
    assert state.down_since is not None
    jobs_services.resume(batch.pk)
    state.refresh_from_db()
    assert not state.down_since
    assert state.openings == 0


@pytest.mark.parametrize("status", [401, 402, 404])
def test_an_account_or_a_model_that_is_gone_pauses_the_batch_and_loses_no_row(source: Source, status: int) -> None:
    with fake_endpoint(Answer({"error": {"message": "Insufficient Balance"}}, status)) as target:
        batch = launch_batch(source, endpoint(target.url, "m-1", concurrency=2))
        services.work_on_batch(batch.pk)
        call_count = len(target.bodies)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert "Insufficient Balance" in batch.paused_detail
    assert status_counts(batch) == {Status.QUEUED: 12}
    assert call_count <= 6


def test_an_unreachable_endpoint_pauses_the_batch_and_loses_no_row(source: Source) -> None:
    with simulator() as url:
        pass
    batch = launch_batch(source, endpoint(url, concurrency=1))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert "sim-generator: Nothing listens at the endpoint's address" in batch.paused_detail
    assert status_counts(batch) == {Status.QUEUED: 12}
    assert set(batch.drafts.values_list("tries", flat=True)) == {0}
    assert [call.error for call in calls(batch)] == ["NobodyListens"]
    with simulator() as url:
        Endpoint.objects.update(url=url)
        jobs_services.resume(batch.pk)
        assert services.work_on_batch(batch.pk) == 12
    assert status_counts(batch) == {Status.DONE: 12}


async def hang(_request: web.Request) -> web.Response:
    """Never answer."""
    await asyncio.sleep(60)
    return web.Response()


async def drip(request: web.Request) -> web.StreamResponse:
    """Answer without an end, a byte at a time."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)


async def sign_in_page(_request: web.Request) -> web.Response:
    """Answer as a gateway does whose session has ended."""
    return web.Response(text="<!DOCTYPE html><title>Sign in</title>", content_type="text/html")


@pytest.mark.parametrize(
    ("fault", "timeout", "error"),
    [(hang, 0.3, "TimedOut"), (drip, 0.3, "TimedOut"), (sign_in_page, 120, "OtherService")],
)
def test_a_batch_is_finished_once_its_endpoint_answers_in_time_and_in_kind(
    source: Source, fault: Any, timeout: float, error: str
) -> None:
    is_well = False

    @web.middleware
    async def fail_until_well(request: web.Request, handler: Any) -> Any:
        if is_well:
            return await handler(request)
        return await fault(request)

    app = make_app([simulate.SCRIPT], seed=SEED)
    app.middlewares.append(fail_until_well)
    with run_in_background(app) as url:
        endpoint_row = endpoint(url, concurrency=4)
        Endpoint.objects.update(timeout=timeout)
        batch = launch_batch(source, endpoint_row)
        services.work_on_batch(batch.pk)
        batch.refresh_from_db()
        assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
        assert status_counts(batch).keys() <= {Status.QUEUED, Status.FAILED}, "none is stuck"
        seen = {call.error for call in calls(batch)}
        assert error in seen
        assert seen <= {error, "NotReached"}, "a busy machine may not even connect in half of the time"
        is_well = True
        Endpoint.objects.update(timeout=120)  # however busy this machine is
        jobs_services.resume(batch.pk)
        jobs_services.retry_failed(batch.pk)
        services.work_on_batch(batch.pk)
    assert status_counts(batch) == {Status.DONE: 12}
    assert len([call for call in calls(batch) if not call.error]) == 12, "nothing is paid for twice"


# ------------------------------------------------------------------------------ how long lanes last


def test_a_lane_ends_when_its_time_is_up_and_wakes_the_next(
    source: Source, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MHB_LANE_SECONDS = 0.3
    # Rows that wait for the first call to warm their beginning are taken, and are finished too.
    monkeypatch.setattr(worker_lane, "MOST_PARKED", 1)
    woken: list[str] = []
    monkeypatch.setattr("celery.app.task.Task.delay", lambda task: woken.append(task.name))
    with simulator(latency=0.2) as url:
        batch = launch_batch(source, endpoint(url, concurrency=2))
        tasks.run_lane()
        done = status_counts(batch)[Status.DONE]
        assert 2 <= done < 12
        assert status_counts(batch) == {Status.DONE: done, Status.QUEUED: 12 - done}, (
            "the calls in flight were finished"
        )
        assert woken == ["generation.tasks.run_lane"]
        for _ in range(12):
            if woken:
                woken.pop()
                tasks.run_lane()
        assert simulator_stats(url)["requests"] == 12
    assert status_counts(batch) == {Status.DONE: 12}
    assert woken == []


def test_a_lane_uses_the_response_format_that_an_earlier_lane_found(
    source: Source, settings: Any, models: str, clock: Clock
) -> None:
    formats: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        formats.append((await request.json()).get("response_format", {}).get("type", ""))
        if formats[-1]:
            return web.json_response(error_body("response_format is not supported"), status=400)
        return web.json_response(completion("no JSON at all"))

    with run_in_background(app_of(handler)) as url:
        batch = launch_batch(source, endpoint(url, "m-1", concurrency=1), limit=2)
        services.work_on_batch(batch.pk)
        assert set(formats) == {"json_schema", "json_object", ""}
        for days, expected in ((0, {""}), (2, {"json_schema", "json_object", ""})):
            clock.advance(days=days)
            formats.clear()
            again = launch_batch(source, endpoint(url, "m-1"), limit=2)
            services.work_on_batch(again.pk)
            assert set(formats) == expected


def test_a_worker_that_is_stopped_loses_no_call_in_flight(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_lane, "SHUTTING_DOWN", threading.Event())
    answered = 0

    async def handler(_request: web.Request) -> web.Response:
        nonlocal answered
        worker_shutting_down.send(sender="one@here", sig="SIGTERM", how="Warm", exitcode=0)
        await asyncio.sleep(1)
        answered += 1
        return web.json_response(completion("no JSON at all"))

    with run_in_background(app_of(handler)) as url:
        batch = launch_batch(source, endpoint(url, "m-1", concurrency=3))
        begun = time.monotonic()
        services.work_on_batch(batch.pk)
        assert time.monotonic() - begun < worker_lane.DRAIN_SECONDS / 3
        assert 1 <= answered <= 3
        assert len(calls(batch)) == answered
        assert status_counts(batch) == {Status.QUEUED: 12}
        assert not Lane.objects.exists()
        assert services.work_on_batch(batch.pk) == 0
        assert len(calls(batch)) == answered


def test_attempts_are_counted_across_lanes(source: Source, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call is always cut, and no lane lasts long enough for five attempts at it."""
    settings.MHB_LANE_SECONDS = 0.8
    monkeypatch.setattr(worker_lane, "DRAIN_SECONDS", 0.1)
    hanging: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        body = json.dumps(await request.json())
        if "This is case 3." not in body:
            return web.json_response(completion("no JSON at all"))
        hanging.append(body)
        await asyncio.sleep(0.3)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with run_in_background(app_of(handler)) as url:
        batch = launch_batch(source, endpoint(url, "m-1"))
        for _ in range(6):
            services.work_on_batch(batch.pk)
    stuck = Draft.objects.get(record__external_id=conversation(3)["prompt_id"])
    assert (stuck.status, stuck.error) == (Status.FAILED, "ConnectionCut")
    assert 5 <= len(hanging) <= 7
    assert len([call for call in calls(f"draft:{stuck.pk}") if call.error == "ConnectionCut"]) == len(hanging)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED


def test_a_job_gets_no_more_lanes_than_allowed(source: Source, models: str, settings: Any, clock: Clock) -> None:
    settings.MHB_LANES = 2
    batch = launch_batch(source, endpoint(models))
    assert sweep(BATCHES) == [batch.pk] * 2
    create_lane(batch)
    assert sweep(BATCHES) == [batch.pk]
    create_lane(batch)
    assert sweep(BATCHES) == []
    assert services.work_on_batch(batch.pk) == 0
    clock.advance(minutes=2)
    assert services.work_on_batch(batch.pk) == 12
    assert not Lane.objects.exists()


def test_a_process_has_one_lane_of_a_job(source: Source, models: str, settings: Any) -> None:
    settings.MHB_LANES = 2
    batch = launch_batch(source, endpoint(models))
    Lane.objects.filter(pk=create_lane(batch).pk).update(worker=process_name())
    assert services.work_on_batch(batch.pk) == 0, "another process shall take it"
    assert sweep(BATCHES) == [batch.pk]
    Lane.objects.update(worker="other:1")
    assert services.work_on_batch(batch.pk) == 12


def test_a_job_may_have_its_own_number_of_lanes(source: Source, models: str, settings: Any) -> None:
    settings.MHB_LANES = 1
    batch = launch_batch(source, endpoint(models))
    life_cycle.change_limits(batch.pk, priority="normal", most_lanes=3)
    assert sweep(BATCHES) == [batch.pk] * 3


def test_jobs_of_higher_priority_come_first(
    endpoint_and_job: tuple[Endpoint, Batch], source: Source, models: str
) -> None:
    row, first = endpoint_and_job
    urgent = launch_batch(source, endpoint(models, "sim-careful"))
    life_cycle.change_limits(first.pk, priority="low", most_lanes=None)
    assert sweep(BATCHES) == [urgent.pk, first.pk]
    low, high = create_lane(first), create_lane(urgent)
    pulse(low, row, first, wanted=8, in_flight=8)
    assert pulse(high, row, urgent, wanted=5).hold == 0, "calls in flight are not taken back"
    assert pulse(low, row, first, wanted=8, in_flight=0).hold == 3
    assert pulse(high, row, urgent, wanted=5).hold == 5


# ------------------------------------------------------------------------------------- group commit


def test_simultaneous_writes_share_a_transaction() -> None:
    sizes: list[int] = []

    def work(items: list[int]) -> list[int]:
        sizes.append(len(items))
        return [10 * item for item in items]

    async def run_all() -> list[int]:
        group = GroupCommit()
        return list(await asyncio.gather(*(group(work, item) for item in range(20))))

    assert async_to_sync(run_all)() == [10 * item for item in range(20)]
    assert sum(sizes) == 20
    assert len(sizes) < 5


def test_a_failing_write_fails_only_for_its_own_caller(transactional_db: None) -> None:
    batch = drafts(6)

    def write(pks: list[int]) -> list[int]:
        for index, pk in enumerate(pks):
            Draft.objects.filter(pk=pk).update(detail="written")
            if index == len(pks) - 1 and pk == failing:
                raise ZeroDivisionError
        return pks

    pks = list(batch.drafts.order_by("pk").values_list("pk", flat=True))
    failing = pks[-1]

    async def run_all() -> list[Any]:
        group = GroupCommit()
        return list(await asyncio.gather(*(group(write, pk) for pk in pks), return_exceptions=True))

    *results, error = async_to_sync(run_all)()
    assert results == pks[:-1]
    assert isinstance(error, ZeroDivisionError)
    assert set(Draft.objects.filter(detail="written").values_list("pk", flat=True)) == set(results)


# --------------------------------------------------------------------------- the database goes away


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Any:
    """`outage(after, failures)`: after `after` transactions, the next `failures` ones raise."""
    monkeypatch.setattr(group_commit, "RETRY_DATABASE", 0.01)
    original = group_commit._in_one_transaction
    transactions, first, last = 0, 0, -1

    def fail_or_commit(writes: Any) -> Any:
        nonlocal transactions
        transactions += 1
        if first <= transactions <= last:
            raise OperationalError("the database system is shutting down")
        return original(writes)

    monkeypatch.setattr(group_commit, "_in_one_transaction", fail_or_commit)

    def plan(after: int, failures: int) -> None:
        nonlocal transactions, first, last
        transactions, first, last = 0, after + 1, after + failures

    return plan


def test_a_database_restart_costs_no_calls(tmp_path: Path, outage: Any) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    with simulator() as url:
        batch = launch_batch(source, endpoint(url, concurrency=3))
        outage(after=4, failures=20)
        assert services.work_on_batch(batch.pk) == 12
        assert simulator_stats(url)["requests"] == len(calls(batch)) == 12
    assert status_counts(batch) == {Status.DONE: 12}


def test_a_commit_whose_reply_was_lost_is_not_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> None:
    """The connection breaks between COMMIT and its reply, every other time."""
    monkeypatch.setattr(group_commit, "RETRY_DATABASE", 0.01)
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    original, replies_received = group_commit._in_one_transaction, [True]

    def commit_and_lose_reply(writes: Any) -> Any:
        outcomes = original(writes)
        replies_received.append(not replies_received[-1])
        if not replies_received[-1]:
            raise OperationalError("server closed the connection unexpectedly")
        return outcomes

    monkeypatch.setattr(group_commit, "_in_one_transaction", commit_and_lose_reply)
    with simulator("500@0.3") as url:
        endpoint_row = endpoint(url, concurrency=3, price_in="1")
        batch = launch_batch(source, endpoint_row)
        assert services.work_on_batch(batch.pk) == 12
        requests = simulator_stats(url)["requests"]
    written = calls(batch)
    batch.refresh_from_db()
    assert len(replies_received) > 20
    assert requests == len(written) == batch.calls == sum(endpoint_row.days.values_list("calls", flat=True))
    failed = [call.error for call in written if call.error]
    assert len(failed) == batch.failed == JobError.objects.get(job=batch).calls
    assert batch.cost == sum(call.cost for call in written) > 0
    assert len({call.attempt_id for call in written} - {None}) == len(written)
    assert status_counts(batch) == {Status.DONE: 12}


def test_rows_are_worked_on_when_the_reply_to_their_claim_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> None:
    """The connection breaks between COMMIT and its reply."""
    monkeypatch.setattr(group_commit, "RETRY_DATABASE", 0.01)
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    lost_replies = [True, False, True, True]

    def take_and_lose_reply(*arguments: Any) -> Any:
        rows = take(*arguments)
        if lost_replies and lost_replies.pop(0):
            raise OperationalError("server closed the connection unexpectedly")
        return rows

    monkeypatch.setattr(services, "take", take_and_lose_reply)
    with simulator() as url:
        batch = launch_batch(source, endpoint(url, concurrency=3))
        assert services.work_on_batch(batch.pk) == 12
        assert simulator_stats(url)["requests"] == 12
    assert not lost_replies
    assert status_counts(batch) == {Status.DONE: 12}
    assert not Call.objects.filter(repeated=True).exists()


def test_a_database_that_stays_away_ends_the_lane_and_the_next_one_continues(
    tmp_path: Path, outage: Any, settings: Any, clock: Clock
) -> None:
    settings.MHB_LEASE_SECONDS = 0.2
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    with simulator() as url:
        batch = launch_batch(source, endpoint(url, concurrency=3))
        outage(after=6, failures=10**6)
        with pytest.raises(OperationalError):
            services.work_on_batch(batch.pk)
        lost = simulator_stats(url)["requests"] - len(calls(batch))
        assert 0 <= lost <= 3, "no more than was in flight"
        settings.MHB_LEASE_SECONDS = 60
        outage(after=0, failures=0)
        clock.advance(minutes=2)
        assert set(sweep(BATCHES)) == {batch.pk}
        services.work_on_batch(batch.pk)
        assert (
            simulator_stats(url)["requests"]
            == len(calls(batch)) + lost - Call.objects.filter(hit_of__isnull=False).count()
        )
    assert status_counts(batch) == {Status.DONE: 12}
    assert Sample.objects.count() == 12
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED


# ------------------------------------------------------------------------- exceptions in an attempt


class UnforeseenError(Exception):
    """An exception that no code handles by its class."""


def raiser(error: Exception) -> Any:
    """A function that raises this error whatever it is called with."""

    def fail(*_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [UnforeseenError("x"), MemoryError(), RecursionError(), LookupError("hex"), UnicodeError()]
)
def test_any_exception_in_an_attempt_is_counted_and_ends_the_row(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    batch = launch_batch(source, endpoint(models), limit=1)
    before = simulator_stats(models)["requests"]
    with monkeypatch.context() as patch:
        patch.setattr("generation.llm.http.transport.decode_text", raiser(error))
        services.work_on_batch(batch.pk)
    sent = simulator_stats(models)["requests"] - before
    batch.refresh_from_db()
    lines = calls(batch)
    assert [(line.error, type(error).__name__ in line.detail) for line in lines] == [("UnexpectedError", True)] * sent
    assert (batch.calls, batch.failed, sent) == (5, 5, 5)
    [row] = batch.drafts.all()
    assert (row.status, row.error, row.token) == ("failed", "UnexpectedError", None)
    assert batch.status == Batch.Status.FINISHED
    jobs_services.retry_failed(batch.pk)
    services.work_on_batch(batch.pk)
    assert batch.drafts.get().status == "done"


def test_a_budget_holds_whatever_the_attempts_raise(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = simulator_stats(models)["requests"]
    batch = launch_batch(source, endpoint(models, "sim-generator", name="odd"), budget_calls=7)
    monkeypatch.setattr("generation.llm.gateway.read_completion", raiser(UnforeseenError("x")))
    for _ in range(5):
        services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert simulator_stats(models)["requests"] - before == batch.calls == len(calls(batch)) == 7
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "BudgetSpent")
    assert not batch.drafts.filter(status="running").exists()


def test_an_endpoint_whose_attempts_all_raise_pauses_the_batch(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launch_batch(source, endpoint(models, name="odd"))
    monkeypatch.setattr("generation.llm.gateway.read_completion", raiser(UnforeseenError("x")))
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "EndpointDown")
    assert "odd: An unexpected error occurred" in batch.paused_detail
    assert not batch.drafts.filter(status="running").exists()


def test_a_reply_that_the_ledger_cannot_store_is_counted_and_ends_its_row(
    source: Source, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = launch_batch(source, endpoint(models), limit=3)
    original, failing = ledger._call, list[str]()

    def call(job: Any, line: ledger.LedgerLine) -> Call:
        failing[:] = failing or [line.subject]
        if line.subject in failing and line.attempt.reply and line.attempt.reply.text:
            raise ValueError("a database cannot store this")
        return original(job, line)

    monkeypatch.setattr(ledger, "_call", call)
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert sorted(batch.drafts.values_list("status", flat=True)) == ["done", "done", "failed"]
    [line] = [line for line in calls(batch) if line.subject in failing]
    assert (line.error, line.text, line.tokens_in > 0) == ("UnexpectedError", "", True)
    assert batch.calls == len(calls(batch))
