"""Processes of the site, forked from one that has imported everything: as real as any other, without seconds of imports each.

`python -m tests.fork_server SOCKET` imports the site in its environment (with `--packages` only what others have written, which all
sites share), then forks for each command line that it is sent. It ends with its standard input.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
STDIN = 0
HEADER = 4  # bytes: the length of a request
PACKAGES = (  # that can be imported before anybody knows the settings
    *("PIL.Image", "aiohttp", "allauth", "celery.apps.worker", "celery.bin.celery", "celery.concurrency.thread", "csp"),
    *("django.core.handlers.wsgi", "django.core.management", "django.core.serializers.json", "django.db.models"),
    *("django.forms", "django.template.loader", "django_stubs_ext", "drf_spectacular", "gunicorn.app.wsgiapp"),
    *(
        "gunicorn.workers.gthread",
        "ijson",
        "kombu.transport.filesystem",
        "kombu.transport.redis",
        "lingua",
        "markdown_it",
    ),
    *("numpy", "openai", "psycopg", "psycopg_pool", "pyarrow.parquet", "pydantic_settings", "redis", "rest_framework"),
    "structlog",
)
SITE = (
    "celery.apps.worker",
    "gunicorn.app.wsgiapp",
    "mhb_site.server.web_server",
    "generation.tasks",
    "evaluation.tasks",
)


class Forked:
    """A process as `subprocess.Popen` shows it."""

    def __init__(self, server: str, command: Sequence[str], environment: Mapping[str, str], *streams: int) -> None:
        """`streams`: its standard input, output and error."""
        self._ended: int | None = None
        self._asking = threading.Lock()
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(server)
        request = json.dumps([list(command), dict(environment)]).encode()
        socket.send_fds(self._line, [len(request).to_bytes(HEADER)], list(streams))
        self._line.sendall(request)
        self._said = self._line.makefile()
        self.pid = int(self._said.readline())

    def poll(self) -> int | None:
        with self._asking:
            if self._ended is None and select.select([self._line], [], [], 0)[0]:
                self._ended = int(self._said.readline())
            return self._ended

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._line], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        code = self.poll()
        assert code is not None
        return code


class Forks:
    """A site's processes, all with the same environment."""

    def __init__(self, server: str, environment: Mapping[str, str]) -> None:
        self._server, self.environment = server, environment

    def start(self, command: Sequence[str], output: IO[bytes] | None = None, errors: IO[bytes] | None = None) -> Forked:
        """It has a session of its own."""
        with open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), output.fileno() if output else 1, errors.fileno() if errors else 2)
            return Forked(self._server, command, self.environment, *streams)

    def run(self, command: Sequence[str], timeout: float) -> "subprocess.CompletedProcess[str]":
        """What it says is kept, its exit code is the caller's to judge."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = self.start(command, output, errors)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            said = []
            for file in (output, errors):
                file.seek(0)
                said.append(file.read().decode())
        return subprocess.CompletedProcess(list(command), code, *said)


@contextlib.contextmanager
def forks(environment: Mapping[str, str]) -> Iterator[Forks]:
    """Processes of a site whose settings are in this environment."""
    with tempfile.TemporaryDirectory(prefix="mhb-forks-") as folder:
        lifeline, end = os.pipe()
        try:
            address = f"{folder}/site"
            command = [sys.executable, "-m", "tests.fork_server", address]
            process = Forked(_packages()[0], command, {**os.environ, **environment}, lifeline, 1, 2)
            _until(address, process)
            yield Forks(address, {**os.environ, **environment})
        finally:
            os.close(end)
            os.close(lifeline)


@cache
def _packages() -> tuple[str, "subprocess.Popen[bytes]"]:
    """The address of the one from which those of all sites are forked; it ends when its input does, with this process."""
    folder = tempfile.mkdtemp(prefix="mhb-forks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = f"{folder}/packages"
    command = [sys.executable, "-m", "tests.fork_server", address, "--packages"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    _until(address, process)
    return address, process


def _until(address: str, process: "subprocess.Popen[bytes] | Forked") -> None:
    while not os.path.exists(address):
        assert process.poll() is None, "what processes are forked from has died"
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------------------ the server


def main(address: str, *options: str) -> None:
    if options:
        for name in PACKAGES:
            importlib.import_module(name)
    else:
        _import_site()
    gc.collect()
    gc.freeze()
    command = _serve(address)
    # From here on this is the process that was asked for.
    if command[1] == "-m":
        sys.argv = list(command[2:])
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command[1:])
        runpy.run_path(command[1], run_name="__main__")


def _import_site() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    django.setup()
    from django.db import connections
    from django.urls import get_resolver

    for name in SITE:
        importlib.import_module(name)
    get_resolver().url_patterns  # noqa: B018 -- imports all views
    connections.close_all()


def _serve(address: str) -> list[str]:
    """Returns in each process that was forked, with its command line."""
    children: dict[int, socket.socket] = {}
    wakes, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    os.rename(f"{address}.new", address)
    while True:
        ready, _, _ = select.select([STDIN, wakes.fileno(), listener.fileno()], [], [])
        if STDIN in ready and not os.read(STDIN, 1):
            os._exit(0)
        if wakes.fileno() in ready:
            wakes.recv(1024)
            _bury(children)
        if listener.fileno() in ready:
            line, _ = listener.accept()
            header, streams, _, _ = socket.recv_fds(line, HEADER, 3)
            with line.makefile("rb") as sent:
                command, environment = json.loads(sent.read(int.from_bytes(header)))
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                for other in (wakes, waker, listener, *children.values()):
                    other.close()
                os.environ.clear()
                os.environ.update(environment)
                line.sendall(f"{os.getpid()}\n".encode())
                line.close()
                return list(command)
            for stream in streams:
                os.close(stream)
            children[pid] = line


def _bury(children: dict[int, socket.socket]) -> None:
    """Tell who asked for them how those have ended that have."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            with children.pop(found[0]) as line, contextlib.suppress(OSError):
                line.sendall(f"{os.waitstatus_to_exitcode(found[1])}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
