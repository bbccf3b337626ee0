"""Real PostgreSQL and Redis for tests: found on the machine, started on free ports in a folder of their own, stopped after.

Nothing here talks to a server that runs already.
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


class Missing(Exception):
    """A service that tests want is not installed; the message names it."""


def ci() -> bool:
    """On CI a missing service is a failure, elsewhere a named skip."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    """Debian's Chromium, or Chrome. Raises Missing."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise Missing("Chromium is not installed")


def _postgres_tool(name: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which(name)
    if found is None:
        raise Missing(f"PostgreSQL is not installed (no {name})")
    return found


def _as_postgres(command: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root: then its own account runs it."""
    return ["runuser", "-u", "postgres", "--", *command] if os.getuid() == 0 else list(command)


@contextmanager
def postgres(*, durable: bool = False) -> Iterator[str]:
    """A fresh PostgreSQL cluster; yields the URL of its database `mhb`. Raises Missing.

    Not `durable`: commits are not flushed to disk.
    """
    initdb, pg_ctl = _postgres_tool("initdb"), _postgres_tool("pg_ctl")
    folder = tempfile.mkdtemp(prefix="mhb-postgres-")
    port = free_port()
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    data = f"{folder}/data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    try:
        subprocess.run(
            _as_postgres([initdb, "-D", data, "-A", "trust", "-U", "mhb", "-E", "UTF8", "--no-sync"]), **quiet
        )  # type: ignore[call-overload]
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
        options += "" if durable else " -c fsync=off"
        start = [pg_ctl, "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start"]
        subprocess.run(_as_postgres(start), **quiet)  # type: ignore[call-overload]
        try:
            import psycopg

            with psycopg.connect(f"postgresql://mhb@127.0.0.1:{port}/postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE mhb")
            yield f"postgresql://mhb@127.0.0.1:{port}/mhb"
        finally:
            subprocess.run(_as_postgres([pg_ctl, "-D", data, "-m", "immediate", "stop"]), **quiet)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis() -> Iterator[str]:
    """A fresh Redis without persistence; yields its URL. Raises Missing."""
    server = shutil.which("redis-server")
    if server is None:
        raise Missing("Redis is not installed (no redis-server)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="mhb-redis-") as folder:
        process = subprocess.Popen(
            [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()
