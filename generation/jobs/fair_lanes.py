"""Which job a free thread works on, and which lane makes room for one that waits."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

PATIENCE = timedelta(seconds=5)  # a job without a lane waits so long before a lane of another job ends for it
LEAST_TURN = timedelta(seconds=5)  # of a lane that ends early: to begin and to end one takes a tenth of a second


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A running job with rows to take. `rank`: of its priority, from 0 for the highest.

    `most_lanes`: that it may have. `waits_since`: its launch, or the end of its last lane.
    """

    pk: int
    rank: int
    most_lanes: int
    waits_since: datetime


@dataclass(frozen=True, slots=True)
class HeldLane:
    """A live lane: a thread of `worker`, a process, works on `job` since then, or is about to."""

    pk: int
    job: int
    rank: int
    worker: str
    started_at: datetime | None


class FairLanes:
    """The jobs that wait and the lanes that work, at one moment.

    A message to workers says that a lane is wanted, and names no job. The thread that gets it takes
    the first job of `next_jobs`. So it does not matter in which order messages come, how many there
    are, or whether some are lost.
    """

    def __init__(self, jobs: Iterable[WaitingJob], lanes: Collection[HeldLane], now: datetime) -> None:
        self._lanes, self._now = lanes, now
        self._count = Counter(lane.job for lane in lanes)
        self._jobs = sorted(jobs, key=self._order)

    def _order(self, job: WaitingJob) -> tuple[int, int, datetime, int]:
        return job.rank, self._count[job.pk], job.waits_since, job.pk

    def lanes_of(self, job: int) -> int:
        """How many lanes a job has."""
        return self._count[job]

    def wanted(self) -> list[int]:
        """The jobs that may have further lanes, each once for every lane, in their order."""
        wanted: list[int] = []
        for job in self._jobs:
            wanted += [job.pk] * max(0, job.most_lanes - self._count[job.pk])
        return wanted

    def next_jobs(self, worker: str) -> list[int]:
        """The jobs that a free thread of this process may take, the first one first.

        The highest priority comes first; then the fewest lanes; then the longest wait. A process
        has at most one lane of a job.
        """
        own = {lane.job for lane in self._lanes if lane.worker == worker}
        free = [job for job in self._jobs if job.pk not in own and self._count[job.pk] < job.most_lanes]
        return [job.pk for job in free]

    def ending_early(self) -> set[int]:
        """The lanes that end now: one for each job that has had none for `PATIENCE`.

        No lane ends for a job of lower priority. Those of the lowest priority end first, then those
        of jobs with the most lanes, then the oldest.
        """
        starved = [job for job in self._jobs if not self._count[job.pk] and self._now - job.waits_since >= PATIENCE]
        oldest = sorted(
            (lane for lane in self._lanes if lane.started_at and self._now - lane.started_at >= LEAST_TURN),
            key=lambda lane: (-lane.rank, -self._count[lane.job], lane.started_at, lane.pk),
        )
        ending: set[int] = set()
        for job in starved:
            lane = next((lane for lane in oldest if lane.rank >= job.rank and lane.pk not in ending), None)
            if lane is not None:
                ending.add(lane.pk)
        return ending
