"""What the site depends on disappears during a run and comes back: PostgreSQL, Redis, the network,
disk space for logs.

Real web server, Celery worker and sweeper. None of them may die, every result exists once, and the
ledger matches the count of the models' server.
"""

import asyncio
import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench import servers
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from mhb_site.server import children
from tests.engine import simulator_stats
from tests.processes import HOST, Site, running_site
from tests.profile import installed

pytestmark = pytest.mark.processes

SAMPLES, RUBRICS = 40, 2
CALLS = SAMPLES * (1 + RUBRICS)
CONCURRENCY = 8  # of each of the two endpoints
LATENCY = 0.25  # seconds; makes a run take long enough
TIMEOUT = 4.0  # seconds; for a call without an answer
DOWNTIME = 1.5  # seconds; lanes give up after half a lease, so some lanes survive and some end
RUNS = 7

SETUP = f"""
import json
from django.conf import settings
from django.test import Client
from evaluation.runs.services import launch_run
from evaluation.runs.settings import RunSettings
from generation.jobs.life_cycle import pause
from generation.models import Draft
from generation.endpoints.services import add_endpoint
from review.models import User
from tests.engine import bare_release
release = bare_release(*[("dialogue", [["A1"]] * {RUBRICS})] * {SAMPLES})
target, judge = [
    add_endpoint(name=name, url="URL", model=name, concurrency={CONCURRENCY}, timeout={TIMEOUT})
    for name in ("sim-average", "sim-judge")
]
Draft.objects.update(status="dropped")  # not needed here
wanted = RunSettings(release=release, endpoints=[target], judge=judge, fresh=True)
runs = [pause(launch_run(wanted).pk).pk for _ in range({RUNS})]
client = Client()
client.force_login(User.objects.create_user("adela", role="admin"))
name = settings.SESSION_COOKIE_NAME
print(json.dumps({{"runs": runs, "cookie": f"{{name}}={{client.cookies[name].value}}"}}))
"""


class FixedVerdict:
    """Every model replies with the verdict of a judge."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        return json.dumps({"explanation": "It does.", "criteria_met": True})


class Network:
    """A TCP proxy to a port that can be cut (connections break and are refused) or fall silent
    (nothing arrives)."""

    def __init__(self, target_port: int) -> None:
        self.port = servers.free_port()
        self._target_port = target_port
        self._silent = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._open)

    def cut(self) -> None:
        self._do(self._close)

    def fall_silent(self) -> None:
        self._silent = True

    def restore(self) -> None:
        """Let new connections through again; earlier connections stay closed."""
        self._do(self._close)
        self._silent = False
        self._do(self._open)

    def stop(self) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _do(self, operation: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(operation(), self._loop).result(timeout=30)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._join, HOST, self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(HOST, self._target_port)
        self._writers |= {writer, upstream_writer}
        await asyncio.gather(self._pump(reader, upstream_writer), self._pump(upstream_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1 << 16):
                if not self._silent:
                    writer.write(chunk)
                    await writer.drain()
        writer.close()


@dataclass
class World:
    """The site with all its processes and the services they depend on."""

    site: Site
    network: Network
    models_url: str  # the server itself, bypassing the network
    cookie: str
    postgres: servers.Postgres
    redis: servers.Redis
    runs: list[int] = field(default_factory=list)  # paused runs that have not started

    def start_run(self) -> "StartedRun":
        """Start a paused run by plain SQL, so that the sweeper finds it."""
        started = StartedRun(self, self.runs.pop(), simulator_stats(self.models_url)["requests"])
        self.site.sql(f"UPDATE generation_job SET status = 'running' WHERE id = {started.run} RETURNING id")
        return started

    def page_status(self) -> int:
        """Return the HTTP status of a page that reads the session and rows from the database."""
        request = urllib.request.Request(f"{self.site.url}/api/v1/runs", headers={"Cookie": self.cookie})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    def page_statuses(self) -> set[int]:
        """Return the statuses of enough parallel pages to use all database connections of the web
        process."""
        with ThreadPoolExecutor(8) as pool:
            return set(pool.map(lambda _n: self.page_status(), range(24)))

    def last_heartbeat(self) -> Any:
        """Return the time of the last heartbeat of the worker."""
        return self.site.sql("SELECT max(seen_at) FROM generation_workerbeat")[0][0]


@dataclass
class StartedRun:
    """A run in progress."""

    world: World
    run: int
    requests_before: int  # requests counted by the server before the run

    def number(self, query: str) -> int:
        return self.world.site.number(query.format(run=self.run))

    def wait_until_under_way(self) -> None:
        """Wait until some judgments are done and some calls in flight."""
        self.world.site.wait_until(
            "the run is under way",
            lambda: (
                self.number("SELECT count(*) FROM evaluation_judgment WHERE run_id = {run} AND status = 'done'") >= 6
                and self.number("SELECT coalesce(sum(in_flight), 0) FROM generation_lane WHERE job_id = {run}") > 0
            ),
        )
        assert not self.is_finished()

    def is_finished(self) -> bool:
        return bool(self.number("SELECT count(*) FROM generation_job WHERE id = {run} AND status = 'finished'"))

    def check_finishes(self, *, lost_at_most: int) -> None:
        """Check that the run finishes with every result once, paid for once except calls in flight
        of a lost lane."""
        site = self.world.site
        site.wait_until(f"run {self.run} is finished", self.is_finished)
        for table, rows in (("response", SAMPLES), ("judgment", SAMPLES * RUBRICS)):
            statuses = site.sql(
                f"SELECT status, error, count(*) FROM evaluation_{table} WHERE run_id = {self.run} GROUP BY status, error"
            )
            assert statuses == [("done", "", rows)]
        ledger = "SELECT count(*) FROM generation_call WHERE job_id = {run} AND hit_of_id IS NULL"
        assert self.number("SELECT calls FROM generation_job WHERE id = {run}") == self.number(ledger)
        n_requests = simulator_stats(self.world.models_url)["requests"] - self.requests_before
        # A lane that lost its rows may still enter a reply that another lane has asked for again.
        assert CALLS <= self.number(ledger + " AND error = ''") <= n_requests <= CALLS + lost_at_most


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The whole site, shared by all tests of this module."""
    with contextlib.ExitStack() as stack:
        with installed():
            site = stack.enter_context(running_site("production", tmp_path_factory.mktemp("site")))
        assert site.postgres is not None
        assert site.redis is not None
        url = stack.enter_context(run_in_background(make_app([FixedVerdict()], latency=LATENCY)))
        network = Network(int(url.removesuffix("/v1").rpartition(":")[2]))
        stack.callback(network.stop)
        setup = site.manage("shell", "-v0", "-c", SETUP.replace("URL", f"http://{HOST}:{network.port}/v1"))
        assert setup.returncode == 0, setup.stderr
        site.start_worker()
        site.start_sweeper()
        site.start_web()
        world = World(site, network, url, postgres=site.postgres, redis=site.redis, **json.loads(setup.stdout))
        site.wait_until("the worker sends a heartbeat", lambda: world.last_heartbeat() is not None)
        yield world


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """Check that pages work before a test, and that no process has died after it."""
    assert shared_world.page_statuses() == {200}
    yield shared_world
    assert shared_world.site.children.deaths == {}, "no process may die because of a temporary failure"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_run_survives_a_restart_of_postgres(world: World, mode: str) -> None:
    run = world.start_run()
    run.wait_until_under_way()
    last = world.last_heartbeat()
    world.postgres.stop(mode)
    time.sleep(DOWNTIME)
    world.postgres.start()
    assert world.page_statuses() == {200}, "dead connections are replaced before a request uses them"
    run.check_finishes(lost_at_most=2 * CONCURRENCY)
    world.site.wait_until("the worker sends a new heartbeat", lambda: world.last_heartbeat() > last)


def test_runs_survive_a_restart_of_redis_with_empty_data(world: World) -> None:
    run = world.start_run()
    run.wait_until_under_way()
    world.redis.stop()
    run_without_redis = world.start_run()
    time.sleep(DOWNTIME)
    assert world.page_statuses() == {200}
    world.redis.start()
    run.check_finishes(lost_at_most=CALLS)  # calls of the other run
    run_without_redis.check_finishes(lost_at_most=CALLS)
    assert simulator_stats(world.models_url)["requests"] - run.requests_before == 2 * CALLS


@pytest.mark.parametrize("failure", ["cut", "fall_silent"])
def test_a_run_survives_a_network_failure(world: World, failure: str) -> None:
    run = world.start_run()
    run.wait_until_under_way()
    getattr(world.network, failure)()
    block_reasons = "SELECT error FROM generation_endpointstate WHERE blocked_until > now()"
    reason = "NobodyListens" if failure == "cut" else "TimedOut"
    world.site.wait_until(
        "the endpoints are blocked with the reason", lambda: (reason,) in world.site.sql(block_reasons)
    )
    world.network.restore()
    run.check_finishes(lost_at_most=4 * CONCURRENCY)  # calls broken off during an answer, and probes


def test_a_run_survives_a_full_disk_for_logs(world: World) -> None:
    """All processes log to a full disk, and log much because the database is unavailable."""
    site = world.site
    commands = dict(site.children.commands)
    for name in ("web", "sweeper", "worker"):
        site.kill(name)
        site.children.start(name, ["sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh", *commands[name]])
    assert children.wait_for_port(HOST, site.port)
    run = world.start_run()
    run.wait_until_under_way()
    world.postgres.stop("fast")
    time.sleep(DOWNTIME)
    world.postgres.start()
    assert world.page_statuses() == {200}
    run.check_finishes(lost_at_most=2 * CONCURRENCY)
