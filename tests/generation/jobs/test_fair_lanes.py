"""Lanes are shared by job: in simulated time, and in the database."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from generation import tasks
from generation.jobs import lanes, life_cycle
from generation.jobs.fair_lanes import FairLanes, HeldLane, WaitingJob
from generation.models import Batch, Job, Lane
from tests.conftest import Clock
from tests.engine import conversations_file, create_lane, endpoint, import_file, launch_batch, models

__all__ = ["models"]
START = datetime(2026, 1, 1, tzinfo=UTC)
SWEEP_EVERY, LOOK_EVERY, LONGEST = 2, 1, 300  # seconds


@dataclass
class Thread:
    """A thread of a worker process; a drained lane frees it a second after it was told to end."""

    worker: str
    lane: HeldLane | None = None
    told_at: int | None = None


@dataclass
class Site:
    """Workers of two threads, a broker and a sweeper in simulated seconds; jobs never end."""

    workers: int
    most_lanes: int
    jobs: dict[int, tuple[int, int]] = field(default_factory=dict)  # pk -> (rank, idle since)
    messages: deque[str] = field(default_factory=deque)
    first_call: dict[int, int] = field(default_factory=dict)
    worked: dict[int, int] = field(default_factory=dict)  # seconds of lanes
    longest_wait: dict[int, int] = field(default_factory=dict)
    most_messages: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        self.threads = [Thread(f"worker {number}") for number in range(self.workers) for _thread in range(2)]
        self._pks = count(1)

    def launch(self, pk: int, rank: int = 1) -> None:
        self.jobs[pk] = rank, self.now
        self.messages.append("a lane is wanted")

    def fair(self) -> FairLanes:
        waiting = [WaitingJob(pk, rank, self.most_lanes, _moment(idle)) for pk, (rank, idle) in self.jobs.items()]
        held = [thread.lane for thread in self.threads if thread.lane]
        return FairLanes(waiting, held, _moment(self.now))

    def run(self, seconds: int) -> None:
        for _second in range(seconds):
            self.now += 1
            if self.now % SWEEP_EVERY == 0:
                missing = len(self.fair().wanted()) - len(self.messages)
                self.messages.extend(["a lane is wanted"] * max(0, missing))
            self.most_messages = max(self.most_messages, len(self.messages))
            for thread in self.threads:
                self._work(thread)
            live = {thread.lane.job for thread in self.threads if thread.lane}
            for pk, (_rank, idle) in self.jobs.items():
                if pk not in live:
                    self.longest_wait[pk] = max(self.longest_wait.get(pk, 0), self.now - idle)

    def _work(self, thread: Thread) -> None:
        lane = thread.lane
        if lane is None:
            if self.messages:
                self.messages.popleft()
                self._take(thread)
            return
        self.worked[lane.job] = self.worked.get(lane.job, 0) + 1
        is_over = _moment(self.now) - (lane.started_at or START) >= timedelta(seconds=LONGEST)
        if thread.told_at is None and (is_over or lane.pk in self.fair().ending_early()):
            thread.told_at = self.now
        elif thread.told_at is not None:
            self.jobs[lane.job] = self.jobs[lane.job][0], self.now
            thread.lane = thread.told_at = None
            self.messages.append("a lane is wanted")

    def _take(self, thread: Thread) -> None:
        for pk in self.fair().next_jobs(thread.worker)[:1]:
            rank, _idle = self.jobs[pk]
            thread.lane = HeldLane(next(self._pks), pk, rank, thread.worker, _moment(self.now))
            self.first_call.setdefault(pk, self.now)


def _moment(second: int) -> datetime:
    return START + timedelta(seconds=second)


def test_a_job_behind_two_long_runs_begins_within_ten_seconds() -> None:
    site = Site(workers=1, most_lanes=2)
    site.launch(1)
    site.launch(2)
    site.run(120)
    site.launch(3)
    site.run(60)
    assert site.first_call[3] - 120 <= 10


def test_fifty_jobs_share_three_workers_and_a_broker_that_forgets() -> None:
    site = Site(workers=3, most_lanes=2)
    for pk in range(50):
        site.launch(pk)
    for _restart in range(10):
        site.run(90)
        site.messages.clear()  # Redis was restarted, without what it held
    turn = 5 + LOOK_EVERY + 1 + SWEEP_EVERY  # seconds of a lane when others wait, with its end
    assert max(site.longest_wait.values()) <= 50 / 6 * turn
    shares = [site.worked.get(pk, 0) for pk in range(50)]
    assert min(shares) >= 0.7 * max(shares) > 0
    assert sum(shares) >= 0.7 * 900 * 6, "threads are seldom idle"
    assert site.most_messages <= 100, "messages do not pile up"


def test_a_job_of_higher_priority_is_taken_first_and_makes_others_end() -> None:
    site = Site(workers=1, most_lanes=2)
    for pk in (1, 2):
        site.launch(pk)
    site.run(60)
    for pk, rank in ((3, 2), (4, 0)):
        site.launch(pk, rank)
    site.run(60)
    assert site.first_call[4] - 60 <= 10
    assert 3 not in site.first_call, "what comes after the others waits for them"


@pytest.mark.django_db
@pytest.mark.both
def test_a_message_leads_to_the_job_whose_turn_it_is(tmp_path: Path, models: str, clock: Clock) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 9))
    one, two, urgent = (launch_batch(source, endpoint(models), limit=3) for _number in range(3))
    life_cycle.change_limits(urgent.pk, priority="high", most_lanes=1)
    Job.objects.filter(pk=one.pk).update(idle_since=clock.now + timedelta(seconds=1))
    reserved = [lanes.reserve(f"here:{number}") for number in range(4)]
    assert [lane and lane.job_id for lane in reserved] == [urgent.pk, two.pk, one.pk, None]


@pytest.mark.django_db
@pytest.mark.both
def test_a_lane_ends_when_another_job_has_none(tmp_path: Path, models: str, clock: Clock) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 9))
    long = launch_batch(source, endpoint(models), limit=3)
    lane = create_lane(long)
    clock.advance(seconds=10)
    assert not lanes.ends_early(lane)
    waiting = launch_batch(source, endpoint(models), limit=3)
    clock.advance(seconds=4)
    assert not lanes.ends_early(lane)
    clock.advance(seconds=1)
    assert lanes.ends_early(lane)
    assert lanes.reserve("here:1") is not None
    assert Lane.objects.filter(job=waiting.pk).exists()
    assert not lanes.ends_early(lane)


@pytest.mark.django_db
def test_a_reserved_lane_is_the_one_that_works(tmp_path: Path, models: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 3)), endpoint(models))
    monkeypatch.setattr("celery.app.task.Task.delay", lambda _task: None)
    tasks.run_lane()
    assert Batch.objects.get(pk=batch.pk).status == Batch.Status.FINISHED
    assert not Lane.objects.exists()


@pytest.mark.django_db
def test_a_job_whose_models_are_not_tried_yet_keeps_its_place(
    tmp_path: Path, models: str, clock: Clock, sent_tasks: list[Any]
) -> None:
    """Else it waits for the end of a second lane."""
    batch = launch_batch(import_file(conversations_file(tmp_path / "own.jsonl", 3)), endpoint(models, simulated=False))
    waits_since = Job.objects.get(pk=batch.pk).waits_since
    clock.advance(seconds=20)
    tasks.run_lane()
    assert sent_tasks == [("check_models", batch.pk)]
    assert not Lane.objects.exists()
    assert Job.objects.get(pk=batch.pk).waits_since == waits_since
