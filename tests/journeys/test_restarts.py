"""What the site stands on goes away amid a run and comes back: PostgreSQL, Redis, the network to the models, room for the log.

Real gunicorn, Celery worker and sweeper. None of them may die; every result is there once; the ledger is the server's count.
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
from tests.engine import served
from tests.processes import HOST, Site, running_site

pytestmark = pytest.mark.processes

SAMPLES, RUBRICS = 40, 2
CALLS = SAMPLES * (1 + RUBRICS)
CONCURRENCY = 8  # of each of the two endpoints
LATENCY = 0.25  # seconds: a run takes some
TIMEOUT = 4.0  # seconds; of a call that nobody answers
AWAY = 1.5  # seconds; patience ends after half a lease, so lanes that hold out and lanes that end are both seen
RUNS = 7

SETUP = f"""
import json
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
Draft.objects.update(status="dropped")  # of no use here
runs = [pause(launch_run(RunSettings(release, [target], judge, fresh=True)).pk).pk for _ in range({RUNS})]
client = Client()
client.force_login(User.objects.create_user("adela", role="admin"))
print(json.dumps({{"runs": runs, "cookie": client.cookies["sessionid"].value}}))
"""


class Says:
    """Every model says what a judge would."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        return json.dumps({"explanation": "It does.", "criteria_met": True})


class Network:
    """The way to a port: a TCP proxy that can be cut (nobody listens, connections break) or fall silent (nothing arrives)."""

    def __init__(self, to: int) -> None:
        self.port = servers.free_port()
        self._to = to
        self._silent = False
        self._listening: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._open)

    def cut(self) -> None:
        self._do(self._close)

    def fall_silent(self) -> None:
        self._silent = True

    def mend(self) -> None:
        """New connections get through again; those of before are dead."""
        self._do(self._close)
        self._silent = False
        self._do(self._open)

    def end(self) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _do(self, what: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(what(), self._loop).result(timeout=30)

    async def _open(self) -> None:
        self._listening = await asyncio.start_server(self._join, HOST, self.port)

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._to)
        self._ends |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while some := await reader.read(1 << 16):
                if not self._silent:
                    writer.write(some)
                    await writer.drain()
        writer.close()


@dataclass
class World:
    """The site with all its processes, and what they stand on."""

    site: Site
    network: Network
    models_url: str  # the server itself, past the network
    cookie: str
    postgres: servers.Postgres
    redis: servers.Redis
    runs: list[int] = field(default_factory=list)  # that nobody has begun

    def begin(self) -> "Began":
        """A run goes on, told by plain SQL: the sweeper finds it."""
        began = Began(self, self.runs.pop(), served(self.models_url)["requests"])
        self.site.sql(f"UPDATE generation_job SET status = 'running' WHERE id = {began.run} RETURNING id")
        return began

    def page(self) -> int:
        """The HTTP status of an answer that takes the session and rows from the database."""
        request = urllib.request.Request(f"{self.site.url}/api/v1/runs", headers={"Cookie": f"sessionid={self.cookie}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def pages(self) -> set[int]:
        """The statuses of as many answers at once as the web process gives, so that all its connections are used."""
        with ThreadPoolExecutor(8) as pool:
            return set(pool.map(lambda _n: self.page(), range(24)))

    def beat(self) -> Any:
        """When the worker last said that it lives."""
        return self.site.sql("SELECT max(seen_at) FROM generation_workerbeat")[0][0]


@dataclass
class Began:
    """A run under way."""

    world: World
    run: int
    asked_before: int  # requests that the server had counted

    def number(self, query: str) -> int:
        return self.world.site.number(query.format(run=self.run))

    def amid(self) -> None:
        """Wait until some is done and some in flight."""
        self.world.site.until(
            "the run is under way",
            lambda: (
                self.number("SELECT count(*) FROM evaluation_judgment WHERE run_id = {run} AND status = 'done'") >= 6
                and self.number("SELECT coalesce(sum(flying), 0) FROM generation_lane WHERE job_id = {run}") > 0
            ),
        )
        assert not self.finished()

    def finished(self) -> bool:
        return bool(self.number("SELECT count(*) FROM generation_job WHERE id = {run} AND status = 'finished'"))

    def comes_to_its_end(self, *, lost_at_most: int) -> None:
        """Every result is there once; paid for once, but for calls that were in flight where their lane was lost."""
        site = self.world.site
        site.until(f"run {self.run} is finished", self.finished)
        for table, rows in (("response", SAMPLES), ("judgment", SAMPLES * RUBRICS)):
            ended = site.sql(
                f"SELECT status, error, count(*) FROM evaluation_{table} WHERE run_id = {self.run} GROUP BY status, error"
            )
            assert ended == [("done", "", rows)]
        ledger = "SELECT count(*) FROM generation_call WHERE job_id = {run} AND hit_of_id IS NULL"
        assert self.number(ledger + " AND error = ''") == CALLS
        assert self.number("SELECT calls FROM generation_job WHERE id = {run}") == self.number(ledger)
        asked = served(self.world.models_url)["requests"] - self.asked_before
        assert CALLS <= asked <= CALLS + lost_at_most


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The whole site, once for all tests here."""
    with contextlib.ExitStack() as stack:
        try:
            site = stack.enter_context(running_site("production", tmp_path_factory.mktemp("site")))
        except servers.Missing as missing:
            if servers.ci():
                raise
            pytest.skip(str(missing))
        assert site.postgres is not None
        assert site.redis is not None
        url = stack.enter_context(run_in_background(make_app([Says()], latency=LATENCY)))
        network = Network(int(url.removesuffix("/v1").rpartition(":")[2]))
        stack.callback(network.end)
        made = site.manage("shell", "-v0", "-c", SETUP.replace("URL", f"http://{HOST}:{network.port}/v1"))
        assert made.returncode == 0, made.stderr
        site.start_worker()
        site.start_sweeper()
        site.start_web()
        world = World(site, network, url, postgres=site.postgres, redis=site.redis, **json.loads(made.stdout))
        site.until("the worker says that it lives", lambda: world.beat() is not None)
        yield world


@pytest.fixture
def world(built: World) -> Iterator[World]:
    """All is well before, and no process has died after."""
    assert built.pages() == {200}
    yield built
    assert built.site.family.deaths == {}, "nobody may die for what comes back"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_restarts(world: World, mode: str) -> None:
    run = world.begin()
    run.amid()
    last = world.beat()
    world.postgres.stop(mode)
    time.sleep(AWAY)
    world.postgres.start()
    assert world.pages() == {200}, "connections that died are replaced before anybody meets them"
    run.comes_to_its_end(lost_at_most=2 * CONCURRENCY)
    world.site.until("the worker says again that it lives", lambda: world.beat() > last)


def test_redis_restarts_empty(world: World) -> None:
    run = world.begin()
    run.amid()
    world.redis.stop()
    meanwhile = world.begin()
    time.sleep(AWAY)
    assert world.pages() == {200}
    world.redis.start()
    run.comes_to_its_end(lost_at_most=CALLS)  # of the other run
    meanwhile.comes_to_its_end(lost_at_most=CALLS)
    assert served(world.models_url)["requests"] - run.asked_before == 2 * CALLS


@pytest.mark.parametrize("how", ["cut", "fall_silent"])
def test_network_goes_away(world: World, how: str) -> None:
    run = world.begin()
    run.amid()
    getattr(world.network, how)()
    kept = "SELECT because FROM generation_endpointstate WHERE blocked_until > now()"
    because = "NotReached" if how == "cut" else "TimedOut"
    world.site.until("the endpoints are left alone, and it is said why", lambda: (because,) in world.site.sql(kept))
    world.network.mend()
    run.comes_to_its_end(lost_at_most=4 * CONCURRENCY)  # broken off amid an answer; a probe or two


def test_no_room_for_the_log(world: World) -> None:
    """Everybody's log on a full disk, while there is much to say: the database is away."""
    site = world.site
    commands = dict(site.family.commands)
    for name in ("web", "sweeper", "worker"):
        site.kill(name)
        site.family.start(name, ["sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh", *commands[name]])
    assert children.wait_for_port(HOST, site.port)
    run = world.begin()
    run.amid()
    world.postgres.stop("fast")
    time.sleep(AWAY)
    world.postgres.start()
    assert world.pages() == {200}
    run.comes_to_its_end(lost_at_most=2 * CONCURRENCY)
