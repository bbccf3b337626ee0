"""The site as its real processes, for tests: embedded (SQLite, file broker) or in production shape (PostgreSQL, Redis)."""

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
from tests.fork_server import Forks, forks

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds; only a hang is ever waited for that long


class Family(children.Children):
    """The site's processes, forked where they are Python's."""

    def __init__(self, forks: Forks) -> None:
        super().__init__(cwd=str(ROOT), environment=forks.environment)
        self.forks = forks

    def run(self, command: Sequence[str]) -> children.Process:
        return self.forks.start(command) if command[0] == sys.executable else super().run(command)


@dataclass
class Site:
    """A running site. Its database is read with plain SQL, so that nothing of the project vouches for itself."""

    environment: dict[str, str]
    family: Family
    port: int
    models_port: int
    database_url: str  # empty: SQLite under the data directory
    postgres: servers.Postgres | None = None  # in production shape, to be stopped and started
    redis: servers.Redis | None = None
    _connection: psycopg.Connection[tuple[Any, ...]] | sqlite3.Connection | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def models_url(self) -> str:
        return f"http://{HOST}:{self.models_port}/v1"

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command; what it says is kept, its exit code is the caller's to judge."""
        return self.family.forks.run(children.django(*arguments), PATIENCE * 2)

    def json(self, *arguments: str) -> Any:
        """The JSON object a command prints; a failing command fails the test with what it said."""
        done = self.manage(*arguments, "--json")
        assert done.returncode == 0, done.stderr or done.stdout
        return json.loads(done.stdout)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a plain SELECT, over one connection: `until` asks twenty times a second, each new one would start a process
        of PostgreSQL or read SQLite's whole schema.
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
        """The single number of a SELECT."""
        return int(self.sql(query)[0][0])

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Wait for `true`; the test fails naming `what` when it never comes."""
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"never came: {what}"
            time.sleep(0.05)

    def start_models(self, *options: str) -> None:
        """The simulated models, and an endpoint for each."""
        self.family.start("models", children.django("simulate_llm", "--port", str(self.models_port), *options))
        assert children.wait_for_port(HOST, self.models_port)

    def add_endpoints(self, concurrency: int = 8) -> None:
        """One endpoint per simulated model, under the model's name."""
        models = ("sim-generator", "sim-careful", "sim-average", "sim-reckless", "sim-judge")
        done = self.manage(
            "shell",
            "-v0",
            "-c",
            "from generation.endpoints.services import add_endpoint\n"
            f"for name in {models!r}:\n"
            f"    add_endpoint(name=name, url={self.models_url!r}, model=name, concurrency={concurrency})\n",
        )
        assert done.returncode == 0, done.stderr

    def start_worker(self) -> None:
        self.family.start("worker", children.worker())

    def start_sweeper(self) -> None:
        self.family.start("sweeper", children.django("sweep", "--forever"))

    def start_web_for_browsers(self) -> None:
        """With the static files in place, which production serves from one folder."""
        if self.database_url:
            collected = self.manage("collectstatic", "--noinput", "-v0")
            assert collected.returncode == 0, collected.stderr
        self.start_web()

    def start_web(self) -> None:
        self.family.start("web", children.web(HOST, self.port))
        assert children.wait_for_port(HOST, self.port)

    def kill(self, name: str) -> None:
        """kill -9, the whole process group, no good-bye."""
        process = self.family.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_amid(self, name: str, what: str, amid: Callable[[], bool]) -> None:
        """kill -9 once `amid` holds. It is asked of a halted process, so that it still holds when the signal comes."""
        group = self.family.processes[name].pid

        def halted_amid() -> bool:
            if not amid():
                return False
            os.killpg(group, signal.SIGSTOP)
            time.sleep(0.1)  # what it had sent to the database comes to its end there
            if amid():
                return True
            os.killpg(group, signal.SIGCONT)
            return False

        self.until(what, halted_amid)
        self.kill(name)

    def assignment(self, public: str) -> int:
        """The key behind the number that an address of the workbench shows."""
        kept = Path(self.environment["MHB_DATA_DIR"]) / "secret_key"
        return AssignmentId(self.environment.get("MHB_SECRET_KEY") or kept.read_text().strip()).to_python(public)

    def served(self) -> dict[str, Any]:
        """What the simulated models themselves counted."""
        with urllib.request.urlopen(f"http://{HOST}:{self.models_port}/stats") as answer:
            return dict(json.load(answer))


@contextmanager
def running_site(kind: str, folder: Path) -> Iterator[Site]:
    """A migrated site without any process yet. Raises servers.Missing where its services are not installed."""
    environment = {"MHB_DATA_DIR": str(folder), "MHB_STATIC_ROOT": str(folder / "static"), "MHB_LEASE_SECONDS": "5"}
    if kind == "embedded":
        # The suite's own PostgreSQL pass must not leak into a site that is meant to be embedded.
        shutil.copy(databases.sqlite(), folder / "mhb.sqlite3")
        with _site({**environment, "MHB_DATABASE_URL": "", "MHB_REDIS_URL": ""}, "") as site:
            yield site
        return
    with servers.postgres_server(like=databases.cluster()) as postgres, servers.redis_server() as redis:
        environment |= {"MHB_DATABASE_URL": postgres.url, "MHB_REDIS_URL": redis.url, "MHB_SECRET_KEY": "x" * 40}
        environment |= {"MHB_HTTPS": "false"}
        with _site(environment, postgres.url) as site:
            site.postgres, site.redis = postgres, redis
            yield site


@contextmanager
def _site(environment: dict[str, str], database_url: str) -> Iterator[Site]:
    with forks(environment) as processes:
        family = Family(processes)
        site = Site(environment, family, servers.free_port(), servers.free_port(), database_url)
        over = threading.Event()
        restart = threading.Thread(target=family.watch, args=(print,), kwargs={"until": over.is_set}, daemon=True)
        restart.start()  # as in the demo: what dies by itself is started again
        try:
            yield site
        finally:
            over.set()
            restart.join()
            family.stop()
            if site._connection is not None:
                site._connection.close()
