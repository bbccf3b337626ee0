"""kill -9, again and again, in the middle of many calls: nothing is lost, nothing is there twice, the budget holds."""

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
from tests.engine import served
from tests.processes import Site
from tests.profile import far

pytestmark = pytest.mark.processes

SAMPLES, RUBRICS = far(100, 500), 3
CALLS = SAMPLES * (1 + RUBRICS)
BUDGET = CALLS * 3 // 4
KILLS = far(4, 20)
LEASE = (
    5.0  # seconds; a lane that a busy machine keeps waiting for longer loses its rows, and their calls are paid twice
)
STILL = 1.2  # seconds without a sign of life, of which lanes give two a second
LATENCY = 0.6  # seconds: there is work for as long as there are kills
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
print(launch_run(RunSettings(release, made[:1], made[1], budget_calls={budget})).pk)
"""
RAISE = "from generation.jobs.life_cycle import set_budget\nset_budget({run}, money=None, calls=None)\n"


class Says:
    """Every model says what a judge would."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        return json.dumps({"explanation": "It does.", "criteria_met": True})


@contextmanager
def workers(site: Site, run: int) -> Iterator[Callable[[], int]]:
    """A function that starts a worker and returns its process id."""
    begun: list[Process] = []

    def start() -> int:
        begun.append(site.family.run([sys.executable, "-m", "tests.lane_workers", str(run), str(LEASE)]))
        return begun[-1].pid

    try:
        yield start
    finally:
        for process in begun:
            if process.poll() is None:
                kill_group(process.pid)


def test_kills_amid_many_calls(site: Site) -> None:
    dice = random.Random(7)
    with run_in_background(make_app([Says()], latency=LATENCY)) as url:
        setup = SETUP.format(url=url, samples=SAMPLES, rubrics=RUBRICS, budget=BUDGET, concurrency=CONCURRENCY)
        made = site.manage("shell", "-v0", "-c", setup)
        assert made.returncode == 0, made.stderr
        run = int(made.stdout)
        lost_at_most = 0
        with workers(site, run) as start:
            pids = [start(), start()]
            for _ in range(KILLS):
                time.sleep(dice.uniform(0.1, 0.8))
                lost_at_most += _kill(site, pids.pop(dice.randrange(2)))
                pids.append(start())
            site.until("the budget is spent", lambda: site.sql(STATE) == [("paused", "BudgetSpent")])
            time.sleep(LEASE)
            ledger, asked = site.number(LEDGER), served(url)["requests"]
            assert ledger <= BUDGET, "never more than the budget"
            assert BUDGET - lost_at_most <= ledger
            assert ledger <= asked <= ledger + lost_at_most
            raised = site.manage("shell", "-v0", "-c", RAISE.format(run=run))
            assert raised.returncode == 0, raised.stderr
            site.until("the run is finished", lambda: site.sql(STATE) == [("finished", "")])
        ledger, asked = site.number(LEDGER), served(url)["requests"]

    for table, rows in (("response", SAMPLES), ("judgment", SAMPLES * RUBRICS)):
        ended = site.sql(f"SELECT status, error, count(*) FROM evaluation_{table} GROUP BY status, error")
        assert ended == [("done", "", rows)]
    # What the ledger does not have was in flight when its worker was killed.
    assert ledger <= asked <= ledger + lost_at_most
    # Each result was paid for once: what was paid for and not yet kept when its worker was killed is found in the ledger.
    assert ledger == CALLS
    again = site.number("SELECT sum(tries - 1) FROM evaluation_response") + site.number(
        "SELECT sum(tries - 1) FROM evaluation_judgment"
    )
    marked = site.number("SELECT count(*) FROM generation_call WHERE repeated AND hit_of_id IS NULL")
    hits = site.number("SELECT count(*) FROM generation_call WHERE hit_of_id IS NOT NULL")
    assert asked - ledger <= again, "what was lost is repeated"
    assert marked + hits <= again
    assert marked >= 1, "and marked so"
    assert site.sql("SELECT calls, hits FROM generation_job WHERE kind = 'run'") == [(ledger, hits)]


LEDGER = "SELECT count(*) FROM generation_call WHERE hit_of_id IS NULL"
STATE = "SELECT status, paused_because FROM generation_job WHERE kind = 'run'"


def _kill(site: Site, pid: int) -> int:
    """kill -9; returns how many of its calls may have been in flight. A dead lane is the one that says nothing any more."""
    os.kill(pid, signal.SIGKILL)
    lanes = "SELECT id, until, flying FROM generation_lane"
    before = site.sql(lanes)
    time.sleep(STILL)
    after = {(number, until) for number, until, _flying in site.sql(lanes)}
    ids = {number for number, _until in after}
    return sum(flying for number, until, flying in before if (number, until) in after or number not in ids)
