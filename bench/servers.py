"""Temporary PostgreSQL and Redis servers for benches and tests, on free ports and in new folders.

Uses the programs installed on this machine, never a server that is already running.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"


class Missing(Exception):
    """A required service is not installed; the message names it."""


def ci() -> bool:
    """Whether this is CI, where a missing service is a failure; elsewhere it is a reported skip."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    """Path of Chromium or Chrome. The headless shell opens windows in a quarter of the time.

    Raises Missing.
    """
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise Missing("Chromium is not installed")


def nginx() -> str:
    """Path of nginx. Raises Missing."""
    if path := shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"):
        return path
    raise Missing("nginx is not installed")


def _postgres_tool(name: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    tool = str(installed[-1]) if installed else shutil.which(name)
    if tool is None:
        raise Missing(f"PostgreSQL is not installed (no {name})")
    return tool


def _as_postgres(command: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root, so root runs it with the account `postgres`."""
    return ["runuser", "-u", "postgres", "--", *command] if os.getuid() == 0 else list(command)


class Postgres:
    """A PostgreSQL cluster that can be restarted, in a folder that the caller removes."""

    def __init__(
        self,
        folder: str,
        *,
        durable: bool = False,
        careless: bool = False,
        like: Path | None = None,
        host: str = HOST,
    ) -> None:
        """Raises Missing.

        Args:
            durable: flush commits to disk.
            careless: for tests. A crash may lose commits, and nothing is vacuumed: a vacuum would
                not see a test's uncommitted rows and would record that the tables are empty, and
                the planner would then join thousands of rows by nested loops.
            like: a data directory to copy.
            host: an address of this machine, beside which its network may connect too.
        """
        self._durable, self._careless = durable, careless
        initdb, self._pg_ctl = _postgres_tool("initdb"), _postgres_tool("pg_ctl")
        self._folder = folder
        self._host, self._port = host, free_port()
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        if like is not None:
            subprocess.run(["cp", "-a", str(like), f"{folder}/data"], check=True)
        else:
            self._run(initdb, "-D", f"{folder}/data", "-A", "trust", "-U", "mhb", "-E", "UTF8", "--no-sync")
            if host != HOST:
                with open(f"{folder}/data/pg_hba.conf", "a") as access:
                    access.write("host all all samenet trust\n")

    @property
    def url(self) -> str:
        """The URL of its database `mhb`."""
        return f"postgresql://mhb@{self._host}:{self._port}/mhb"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        location = f"-p {self._port} -k {self._folder}"
        options = f"{location} -c listen_addresses={self._host} -c max_connections=200"
        options += "" if self._durable else " -c fsync=off"
        if self._careless:
            options += " -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c jit=off"
        data, log = f"{self._folder}/data", f"{self._folder}/log"
        self._run(self._pg_ctl, "-D", data, "-w", "-l", log, "-o", options, "start")

    def create_database(self) -> None:
        """Create the empty database `mhb`."""
        import psycopg

        with psycopg.connect(self.url.removesuffix("mhb") + "postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE mhb")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `fast` closes connections, `immediate` is a crash."""
        self._run(self._pg_ctl, "-D", f"{self._folder}/data", "-w", "-m", mode, "stop")

    def send(self, number: int) -> None:
        """Send a signal to all its processes, such as SIGSTOP: then it hangs."""
        with open(f"{self._folder}/data/postmaster.pid") as file:
            first = int(file.readline())
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for process in (first, *map(int, children)):
            os.kill(process, number)

    def _run(self, *command: str) -> None:
        subprocess.run(_as_postgres(command), check=True, stdout=subprocess.DEVNULL, cwd=self._folder)


@contextmanager
def postgres_server(
    *, durable: bool = False, careless: bool = False, like: Path | None = None, host: str = HOST
) -> Iterator[Postgres]:
    """Run a new PostgreSQL with an empty database `mhb`, or a copy of `like`. Raises Missing."""
    folder = tempfile.mkdtemp(prefix="mhb-postgres-")
    try:
        server = Postgres(folder, durable=durable, careless=careless, like=like, host=host)
        server.start()
        try:
            if like is None:
                server.create_database()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres(*, durable: bool = False, careless: bool = False, like: Path | None = None) -> Iterator[str]:
    """Run a `postgres_server`; yields the URL of its database `mhb`. Raises Missing."""
    with postgres_server(durable=durable, careless=careless, like=like) as server:
        yield server.url


class Redis:
    """A Redis without persistence: it is empty after a restart."""

    def __init__(self, folder: str, host: str = HOST) -> None:
        """Raises Missing."""
        server = shutil.which("redis-server")
        if server is None:
            raise Missing("Redis is not installed (no redis-server)")
        self._host, self._port = host, free_port()
        self._command = [server, "--port", str(self._port), "--bind", host, "--save", "", "--dir", folder]
        self._command += ["--protected-mode", "no"] if host != HOST else []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{self._host}:{self._port}/0"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex((self._host, self._port)) == 0:
                    break
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill the server, if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis_server(host: str = HOST) -> Iterator[Redis]:
    """Run a new Redis. Raises Missing."""
    with tempfile.TemporaryDirectory(prefix="mhb-redis-") as folder:
        server = Redis(folder, host)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def redis() -> Iterator[str]:
    """Run a new Redis; yields its URL. Raises Missing."""
    with redis_server() as server:
        yield server.url
