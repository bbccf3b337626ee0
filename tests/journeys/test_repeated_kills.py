"""Repeated kill -9 during many calls: nothing is lost or duplicated, and the budget holds."""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from mhb_site.server.children import Process, kill_group
from tests.engine import simulator_stats
from tests.processes import Site
from tests.profile import by_profile

pytestmark = pytest.mark.processes

SAMPLES, RUBRICS = by_profile(100, 500), 3
CALLS = SAMPLES * (1 + RUBRICS)
BUDGET = CALLS * 3 // 4
KILLS = by_profile(4, 20)
# Seconds. A lane that a busy machine delays for longer loses its rows, and their calls are paid for
# twice.
LEASE = 5.0
SILENCE = 1.2  # seconds without a heartbeat; live lanes send two per second
LATENCY = 0.6  # seconds; so that the work outlasts the kills
CONCURRENCY = 16  # of each of the two endpoints

SETUP = """
from evaluation.runs.services import launch_run
from evaluation.runs.settings import RunSettings
from generation.endpoints.services import add_endpoint
from tests.engine import bare_release
release = bare_release(*[("dialogue", [["A1"]] * {rubrics})] * {samples})
made = [
    add_endpoint(name=name, url="{url}", model=name, concurrency={concurrency})
    for name in ("sim-average", "sim-judge")
]
print(launch_run(RunSettings(release=release, endpoints=made[:1], judge=made[1], budget_calls={budget})).pk)
"""
REMOVE_BUDGET = """
from generation.jobs.life_cycle import change_limits
change_limits({run}, budget_money=None, budget_calls=None)
"""


class FixedVerdict:
    """Every model replies with the verdict of a judge."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        return json.dumps({"explanation": "It does.", "criteria_met": True})


@contextmanager
def workers(site: Site, run: int) -> Iterator[Callable[[], int]]:
    """Yield a function that starts a worker and returns its process id; kill all workers at the
    end."""
    processes: list[Process] = []

    def start() -> int:
        processes.append(site.children.run([sys.executable, "-m", "tests.lane_workers", str(run), str(LEASE)]))
        return processes[-1].pid

    try:
        yield start
    finally:
        for process in processes:
            if process.poll() is None:
                kill_group(process.pid)


def test_a_run_finishes_within_budget_after_repeated_kills(site: Site) -> None:
    rng = random.Random(7)
    with run_in_background(make_app([FixedVerdict()], latency=LATENCY)) as url:
        setup = SETUP.format(url=url, samples=SAMPLES, rubrics=RUBRICS, budget=BUDGET, concurrency=CONCURRENCY)
        result = site.manage("shell", "-v0", "-c", setup)
        assert result.returncode == 0, result.stderr
        run = int(result.stdout)
        lost_at_most = 0
        with workers(site, run) as start:
            pids = [start(), start()]
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.1, 0.8))
                lost_at_most += _kill(site, pids.pop(rng.randrange(2)))
                pids.append(start())
            site.wait_until("the budget is spent", lambda: site.sql(STATE) == [("paused", "BudgetSpent")])
            time.sleep(LEASE)
            ledger, n_requests = site.number(LEDGER), simulator_stats(url)["requests"]
            assert ledger <= BUDGET, "the budget is never exceeded"
            assert BUDGET - lost_at_most <= ledger
            assert ledger <= n_requests <= ledger + lost_at_most
            raised = site.manage("shell", "-v0", "-c", REMOVE_BUDGET.format(run=run))
            assert raised.returncode == 0, raised.stderr
            site.wait_until("the run is finished", lambda: site.sql(STATE) == [("finished", "")])
        ledger, n_requests = site.number(LEDGER), simulator_stats(url)["requests"]

    for table, rows in (("response", SAMPLES), ("judgment", SAMPLES * RUBRICS)):
        statuses = site.sql(f"SELECT status, error, count(*) FROM evaluation_{table} GROUP BY status, error")
        assert statuses == [("done", "", rows)]
    # Calls missing in the ledger were in flight when their worker was killed.
    assert ledger <= n_requests <= ledger + lost_at_most
    # Each result was paid for once: a reply that was paid for but not stored when its worker was
    # killed is found in the ledger.
    assert ledger == CALLS
    n_retries = site.number("SELECT sum(tries - 1) FROM evaluation_response") + site.number(
        "SELECT sum(tries - 1) FROM evaluation_judgment"
    )
    marked = site.number("SELECT count(*) FROM generation_call WHERE repeated AND hit_of_id IS NULL")
    hits = site.number("SELECT count(*) FROM generation_call WHERE hit_of_id IS NOT NULL")
    assert n_requests - ledger <= n_retries, "lost calls are repeated"
    assert marked + hits <= n_retries
    assert marked >= 1, "and marked as repeated"
    assert site.sql("SELECT calls, hits FROM generation_job WHERE kind = 'run'") == [(ledger, hits)]


LEDGER = "SELECT count(*) FROM generation_call WHERE hit_of_id IS NULL"
STATE = "SELECT status, paused_because FROM generation_job WHERE kind = 'run'"


def _kill(site: Site, pid: int) -> int:
    """Kill a worker with -9; returns how many of its calls may have been in flight.

    The dead lane is the one without further heartbeats.
    """
    os.kill(pid, signal.SIGKILL)
    lanes = "SELECT id, until, in_flight FROM generation_lane"
    lanes_before = site.sql(lanes)
    time.sleep(SILENCE)
    lanes_after = {(number, until) for number, until, _flying in site.sql(lanes)}
    ids = {number for number, _until in lanes_after}
    return sum(flying for number, until, flying in lanes_before if (number, until) in lanes_after or number not in ids)
