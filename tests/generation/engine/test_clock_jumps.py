"""The machine's clock jumps an hour: work goes on, and what was paid for is not paid for again."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from django.utils import timezone

from generation.batches import services
from generation.batches.kind import BATCHES
from generation.engine.sweeping import sweep
from generation.engine.task_queue import finish, lease, renew, take
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Batch, Call, Draft, Lane, WorkerBeat
from generation.models.work import Work
from mhb_site.benchmarks.mhb import simulate
from tests.conftest import Clock
from tests.engine import (
    SEED,
    conversations_file,
    create_lane,
    drafts,
    endpoint,
    import_file,
    launch_batch,
    status_counts,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
HOUR = 3_600


def past_a_lease(clock: Clock) -> None:
    """Let the sweeper see the leases, and come again after one."""
    sweep(BATCHES)
    clock.advance(seconds=lease().total_seconds() + 1)
    sweep(BATCHES)


def test_after_a_step_back_a_lost_workers_rows_return_within_a_lease(clock: Clock) -> None:
    batch = drafts(2)
    [lost] = take(Draft.objects.filter(batch=batch).order_by("pk"), 1)
    [living] = take(Draft.objects.filter(batch=batch).order_by("pk"), 1)
    clock.advance(seconds=-HOUR)
    sweep(BATCHES)
    clock.advance(seconds=lease().total_seconds() / 2)
    renew(Draft, {living.token})
    clock.advance(seconds=lease().total_seconds() / 2 + 1)
    sweep(BATCHES)
    assert not finish(lost, Status.DONE)
    assert finish(living, Status.DONE), "a worker that renews its lease keeps its row"
    assert Draft.objects.get(pk=lost.pk).status == Status.QUEUED


def test_after_a_step_back_a_lost_lane_gives_its_place_free_within_a_lease(clock: Clock) -> None:
    batch = drafts(1)
    create_lane(batch)
    clock.advance(seconds=-HOUR)
    past_a_lease(clock)
    assert not Lane.objects.filter(until__gt=clock.now).exists()


def test_a_beat_of_before_a_step_back_is_no_living_worker(clock: Clock) -> None:
    beat = WorkerBeat.objects.create(name="worker:1:abc", seen_at=clock.now)
    assert not beat.is_lost(clock.now + WorkerBeat.VALID / 2)
    assert beat.is_lost(clock.now - timedelta(seconds=HOUR))


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_batch_is_finished_though_the_clock_jumps_in_its_midst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    jumped, requests, real_now = timedelta(), 0, timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real_now() + jumped)

    @web.middleware
    async def jump(request: web.Request, handler: Any) -> Any:
        nonlocal jumped, requests
        if request.method == "POST":
            requests += 1
        if requests == 4:
            jumped = timedelta(seconds=seconds)
        return await handler(request)

    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    app = make_app([simulate.SCRIPT], seed=SEED, latency=0.4)
    app.middlewares.append(jump)
    with run_in_background(app) as url:
        batch = launch_batch(source, endpoint(url, concurrency=2))
        services.work_on_batch(batch.pk)
        done_at_first = status_counts(batch)[Status.DONE]
        sweep(BATCHES)
        services.work_on_batch(batch.pk)
    assert done_at_first >= 4
    assert status_counts(batch) == {Status.DONE: 12}
    assert requests == Call.objects.filter(hit_of=None).count() == 12, "nothing is paid for twice"
    batch.refresh_from_db()
    assert batch.status == Batch.Status.FINISHED
    assert not Lane.objects.exists()
