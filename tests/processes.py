"""A site as real processes, for tests.

A site is of one of two kinds: embedded (SQLite, file broker), or production (PostgreSQL, Redis).
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import servers
from mhb_site.server import children
from review.models.public_ids import AssignmentId
from tests import databases
from tests.fork_server import ForkServer

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
TIMEOUT = 120.0  # seconds; only a process that hangs takes that long


class ForkedChildren(children.Children):
    """The processes of a site. Python processes are forked, others are started normally."""

    def __init__(self, server: ForkServer) -> None:
        super().__init__(cwd=str(ROOT), environment=server.environment)
        self.server = server

    def run(self, command: Sequence[str]) -> children.Process:
        return self.server.start(command) if command[0] == sys.executable else super().run(command)


@dataclass
class Site:
    """A running site.

    Tests read its database with plain SQL, so that the project's own code does not confirm itself.
    """

    environment: dict[str, str]
    children: ForkedChildren
    port: int
    models_port: int
    database_url: str  # empty: SQLite under the data directory
    postgres: servers.Postgres | None = None  # of a production site; tests may stop and start it
    redis: servers.Redis | None = None
    _connection: psycopg.Connection[tuple[Any, ...]] | sqlite3.Connection | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def models_url(self) -> str:
        return f"http://{HOST}:{self.models_port}/v1"

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command. Returns its exit code and output; a failure raises nothing."""
        return self.children.server.run(children.django(*arguments), TIMEOUT * 2)

    def json(self, *arguments: str) -> Any:
        """Return the JSON object that a management command prints. The command must succeed."""
        result = self.manage(*arguments, "--json")
        assert result.returncode == 0, result.stderr or result.stdout
        return json.loads(result.stdout)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT.

        All queries share one connection: `wait_until` asks twenty times a second, and a new
        connection starts a process of PostgreSQL or reads SQLite's whole schema.
        """
        if self._connection is not None:
            with suppress(psycopg.OperationalError):  # PostgreSQL was stopped meanwhile
                return self._connection.execute(query).fetchall()
            self._connection.close()
        self._connection = self._connect()
        return self._connection.execute(query).fetchall()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]] | sqlite3.Connection:
        if self.database_url:
            return psycopg.connect(self.database_url, autocommit=True)
        return sqlite3.connect(Path(self.environment["MHB_DATA_DIR"]) / "mhb.sqlite3", timeout=30)

    def number(self, query: str) -> int:
        """Return the single number that a SELECT finds."""
        return int(self.sql(query)[0][0])

    def wait_until(self, description: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds. On timeout the test fails with the description."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < end, f"waited in vain: {description}"
            time.sleep(0.05)

    def start_models(self, *options: str) -> None:
        """Start the simulated models."""
        self.children.start("models", children.django("simulate_llm", "--port", str(self.models_port), *options))
        assert children.wait_for_port(HOST, self.models_port)

    def add_endpoints(self, concurrency: int = 8) -> None:
        """Add an endpoint for each simulated model, under the model's name."""
        models = ("sim-generator", "sim-examiner", "sim-careful", "sim-average", "sim-reckless", "sim-judge")
        result = self.manage(
            "shell",
            "-v0",
            "-c",
            "from generation.endpoints.services import add_endpoint\n"
            f"for name in {models!r}:\n"
            f"    add_endpoint(name=name, url={self.models_url!r}, model=name, concurrency={concurrency})\n",
        )
        assert result.returncode == 0, result.stderr

    def start_worker(self) -> None:
        self.children.start("worker", children.worker())

    def start_sweeper(self) -> None:
        self.children.start("sweeper", children.django("sweep", "--forever"))

    def start_web_for_browsers(self) -> None:
        """Start the web server with static files, which production serves from one folder."""
        if self.database_url:
            result = self.manage("collectstatic", "--noinput", "-v0")
            assert result.returncode == 0, result.stderr
        self.start_web()

    def start_web(self) -> None:
        self.children.start("web", children.web(HOST, self.port))
        assert children.wait_for_port(HOST, self.port)

    def kill(self, name: str) -> None:
        """Kill a child and its whole process group with SIGKILL. It is not restarted."""
        process = self.children.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_while(self, name: str, description: str, condition: Callable[[], bool]) -> None:
        """Kill a child with SIGKILL while a condition holds.

        The child is halted first and the condition checked again, so that it still holds when the
        child dies.
        """
        group = self.children.processes[name].pid

        def halted() -> bool:
            if not condition():
                return False
            os.killpg(group, signal.SIGSTOP)
            time.sleep(0.1)  # the database finishes the statements that it has already received
            if condition():
                return True
            os.killpg(group, signal.SIGCONT)
            return False

        self.wait_until(description, halted)
        self.kill(name)

    def assignment_pk(self, public_id: str) -> int:
        """Return the primary key of an assignment whose public ID stands in an address."""
        key_file = Path(self.environment["MHB_DATA_DIR"]) / "secret_key"
        key = self.environment.get("MHB_SECRET_KEY") or key_file.read_text().strip()
        return AssignmentId(key).to_python(public_id)

    def simulator_stats(self) -> dict[str, Any]:
        """Return the request counts of the simulated models, counted by themselves."""
        with urllib.request.urlopen(f"http://{HOST}:{self.models_port}/stats") as response:
            return dict(json.load(response))


@contextmanager
def running_site(kind: str, folder: Path, **more: str) -> Iterator[Site]:
    """Provide a migrated site, 'embedded' or 'production', with no process started yet.

    `more` is its environment. Raises servers.Missing where its services are not installed.
    """
    environment = {**more, "MHB_DATA_DIR": str(folder), "MHB_STATIC_ROOT": str(folder / "static")}
    environment["MHB_LEASE_SECONDS"] = "5"
    if kind == "embedded":
        # Empty URLs, so that an embedded site does not inherit those of the PostgreSQL pass.
        shutil.copy(databases.migrated_sqlite(), folder / "mhb.sqlite3")
        with _site({**environment, "MHB_DATABASE_URL": "", "MHB_REDIS_URL": ""}, "") as site:
            yield site
        return
    with servers.postgres_server(like=databases.migrated_cluster()) as postgres, servers.redis_server() as redis:
        environment |= {"MHB_DATABASE_URL": postgres.url, "MHB_REDIS_URL": redis.url, "MHB_SECRET_KEY": "x" * 40}
        environment |= {"MHB_HTTPS": "false"}
        with _site(environment, postgres.url) as site:
            site.postgres, site.redis = postgres, redis
            yield site


@contextmanager
def _site(environment: dict[str, str], database_url: str) -> Iterator[Site]:
    with ForkServer(environment) as server:
        site_children = ForkedChildren(server)
        site = Site(environment, site_children, servers.free_port(), servers.free_port(), database_url)
        stopped = threading.Event()
        # As in the demo, children that die by themselves are restarted.
        watcher = threading.Thread(
            target=site_children.watch, args=(print,), kwargs={"until": stopped.is_set}, daemon=True
        )
        watcher.start()
        try:
            yield site
        finally:
            stopped.set()
            watcher.join()
            site_children.stop()
            if site._connection is not None:
                site._connection.close()
