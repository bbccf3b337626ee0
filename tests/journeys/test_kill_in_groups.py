"""kill -9 amid judgments that share a beginning: before the first of them has ended, and after."""

import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import pytest
from aiohttp import web

from generation.llm.simulator.server import run_in_background
from mhb_site.server.children import kill_group
from tests.generation.llm.helpers import app_of, completion
from tests.processes import Site

pytestmark = pytest.mark.processes

CRITERIA = (3, 3, 1)  # of each sample: groups of three judgments, and one of a single judgment
LEASE = 5.0  # seconds
SETUP = f"""
from evaluation.runs.services import launch_run
from evaluation.runs.settings import RunSettings
from generation.endpoints.services import add_endpoint
from tests.engine import bare_release
release = bare_release(*[("dialogue", [["A1"]] * criteria) for criteria in {CRITERIA}])
target, judge = [add_endpoint(name=name, url="{{url}}", model=name, concurrency=16) for name in ("m", "judge")]
for _ in range(2):
    print(launch_run(RunSettings(release=release, endpoints=[target], judge=judge, fresh=True)).pk)
"""


class Judge:
    """A judge whose verdict follows from the prompt. It holds calls until it is set free.

    `held_from`: the place of a call among those with its beginning from which on it is held, from
    0. `begun`: how often each prompt arrived.
    """

    def __init__(self, held_from: int) -> None:
        self.held_from, self.is_free = held_from, False
        self.begun: Counter[str] = Counter()
        self.held: set[str] = set()
        self._in_group: dict[str, int] = defaultdict(int)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        if body["model"] != "judge":
            return web.json_response(completion(f"An answer to {crc32(prompt.encode())}."))
        self.begun[prompt] += 1
        beginning = prompt.split("<<<TRAP")[0]
        place = self._in_group[beginning]
        self._in_group[beginning] += 1
        if place >= self.held_from and not self.is_free:
            self.held.add(prompt)
            await asyncio.sleep(600)
        number = crc32(prompt.encode())
        verdict = {"explanation": f"Number {number}.", "criteria_met": number % 2 == 0}
        return web.json_response(completion(json.dumps(verdict)))


def judgments(site: Site, run: int) -> list[tuple[Any, ...]]:
    return site.sql(
        "SELECT rubric_id, status, verdict, explanation FROM evaluation_judgment"
        f" WHERE run_id = {run} ORDER BY rubric_id"
    )


@contextmanager
def worker(site: Site, run: int) -> Iterator[None]:
    """A worker on a run, until it is killed with -9."""
    process = site.children.run([sys.executable, "-m", "tests.lane_workers", str(run), str(LEASE)])
    try:
        yield
    finally:
        kill_group(process.pid)


def work_to_the_end(site: Site, run: int) -> None:
    state = f"SELECT status FROM generation_job WHERE id = {run}"
    with worker(site, run):
        site.wait_until("the run is finished", lambda: site.sql(state) == [("finished",)])


@pytest.mark.parametrize(("held_from", "answered"), [(0, 0), (1, 3)], ids=["warming", "warm"])
def test_a_kill_in_a_group_loses_nothing_and_pays_for_nothing_twice(site: Site, held_from: int, answered: int) -> None:
    judge = Judge(held_from)
    in_flight = len(CRITERIA) if held_from == 0 else sum(CRITERIA) - len(CRITERIA)
    with run_in_background(app_of(judge.answer)) as url:
        setup = site.manage("shell", "-v0", "-c", SETUP.format(url=url))
        assert setup.returncode == 0, setup.stderr
        killed, whole = map(int, setup.stdout.split())
        paid = f"SELECT count(*) FROM generation_call WHERE job_id = {killed} AND subject LIKE 'judgment:%'"
        with worker(site, killed):
            site.wait_until("calls are held", lambda: (len(judge.held), site.number(paid)) == (in_flight, answered))
        assert judge.begun.total() == in_flight + answered, "nobody sent what waited for the first of its group"
        judge.is_free = True
        work_to_the_end(site, killed)
        assert judge.begun == Counter(dict.fromkeys(judge.begun, 1)) + Counter(judge.held), "only lost calls again"
        assert site.number(f"{paid} AND error = '' AND hit_of_id IS NULL") == len(judge.begun) == sum(CRITERIA)
        work_to_the_end(site, whole)
    assert {status for _rubric, status, _verdict, _reason in judgments(site, killed)} == {"done"}
    assert judgments(site, killed) == judgments(site, whole), "with the verdicts of a run that nobody killed"
