"""Start the processes of a site by forking a server that has already imported everything.

They are ordinary processes, but save the seconds that the imports of each would take.

`python -m tests.fork_server SOCKET` imports the site with the settings of its environment, then
forks a process for each command line that it receives on the socket, and exits when its standard
input is closed. With `--packages` it imports only third-party packages: the servers of all sites
are forked from that one.
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
HEADER = 4  # bytes, which contain the length of a request
PACKAGE_MODULES = (  # third-party modules that can be imported without the settings
    *("PIL.Image", "aiohttp", "allauth", "celery.apps.worker", "celery.bin.celery", "celery.concurrency.thread", "csp"),
    *("django.core.handlers.wsgi", "django.core.management", "django.core.serializers.json", "django.db.models"),
    *("django.forms", "django.template.loader", "django_stubs_ext", "drf_spectacular"),
    *(
        "kombu.transport.filesystem",
        "kombu.transport.redis",
        "lingua",
        "markdown_it",
    ),
    *("numpy", "openai", "psycopg", "psycopg_pool", "pyarrow.parquet", "pydantic_settings", "redis", "rest_framework"),
    "structlog",
)
SITE_MODULES = (
    "celery.apps.worker",
    "mhb_site.management.commands.serve",
    "generation.tasks",
    "evaluation.tasks",
)


class ForkedProcess:
    """A forked process, with the interface of `subprocess.Popen`."""

    def __init__(self, address: str, command: Sequence[str], environment: Mapping[str, str], *streams: int) -> None:
        """Ask the server at `address` to fork. `streams`: standard input, output, error."""
        self._exit_code: int | None = None
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        request = json.dumps([list(command), dict(environment)]).encode()
        socket.send_fds(self._socket, [len(request).to_bytes(HEADER)], list(streams))
        self._socket.sendall(request)
        self._replies = self._socket.makefile()
        self.pid = int(self._replies.readline())

    def poll(self) -> int | None:
        with self._lock:
            if self._exit_code is None and select.select([self._socket], [], [], 0)[0]:
                self._exit_code = int(self._replies.readline())
            return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._socket], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        code = self.poll()
        assert code is not None
        return code


class ForkServer:
    """The fork server of one site. All its processes have the same environment."""

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        self._address, self.environment = address, environment

    def start(
        self, command: Sequence[str], output: IO[bytes] | None = None, errors: IO[bytes] | None = None
    ) -> ForkedProcess:
        """Start a process in a session of its own."""
        with open(os.devnull, "rb") as empty_input:
            streams = (empty_input.fileno(), output.fileno() if output else 1, errors.fileno() if errors else 2)
            return ForkedProcess(self._address, command, self.environment, *streams)

    def run(self, command: Sequence[str], timeout: float) -> "subprocess.CompletedProcess[str]":
        """Run a process to its end. Returns its exit code and output; a failure raises nothing.

        Kills the process and raises TimeoutExpired when it takes longer than `timeout` seconds.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = self.start(command, output, errors)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(command), code, *texts)


@contextlib.contextmanager
def fork_server(environment: Mapping[str, str]) -> Iterator[ForkServer]:
    """Provide the fork server of a site whose settings are in this environment."""
    with tempfile.TemporaryDirectory(prefix="mhb-forks-") as folder:
        # The pipe is the standard input of the server, which exits when our end is closed.
        server_input, our_end = os.pipe()
        try:
            address = f"{folder}/site"
            command = [sys.executable, "-m", "tests.fork_server", address]
            process = ForkedProcess(_package_server()[0], command, {**os.environ, **environment}, server_input, 1, 2)
            _wait_for_socket(address, process)
            yield ForkServer(address, {**os.environ, **environment})
        finally:
            os.close(our_end)
            os.close(server_input)


@cache
def _package_server() -> tuple[str, "subprocess.Popen[bytes]"]:
    """Start the server from which the servers of all sites are forked.

    Returns its address and process. It exits with this process, which holds the other end of its
    standard input.
    """
    folder = tempfile.mkdtemp(prefix="mhb-forks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = f"{folder}/packages"
    command = [sys.executable, "-m", "tests.fork_server", address, "--packages"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    _wait_for_socket(address, process)
    return address, process


def _wait_for_socket(address: str, process: "subprocess.Popen[bytes] | ForkedProcess") -> None:
    while not os.path.exists(address):
        assert process.poll() is None, "the fork server has died"
        time.sleep(0.02)


# ---------------------------------------------------------------------------------- the server


def main(address: str, *options: str) -> None:
    if options:
        for name in PACKAGE_MODULES:
            importlib.import_module(name)
    else:
        _import_site()
    gc.collect()
    gc.freeze()
    command = _serve(address)
    # `_serve` returns in forked processes only: run the requested command.
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

    for name in SITE_MODULES:
        importlib.import_module(name)
    get_resolver().url_patterns  # noqa: B018 -- imports all views
    connections.close_all()


def _serve(address: str) -> list[str]:
    """Fork a process for each request, until the standard input is closed.

    Does not return in the server itself. Returns the requested command line in each forked process.
    """
    clients: dict[int, socket.socket] = {}  # process ID -> connection to the client that asked
    wakeup_reader, wakeup_writer = socket.socketpair()
    wakeup_writer.setblocking(False)
    signal.set_wakeup_fd(wakeup_writer.fileno())
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    os.rename(f"{address}.new", address)
    while True:
        ready, _, _ = select.select([STDIN, wakeup_reader.fileno(), listener.fileno()], [], [])
        if STDIN in ready and not os.read(STDIN, 1):
            os._exit(0)
        if wakeup_reader.fileno() in ready:
            wakeup_reader.recv(1024)
            _report_exits(clients)
        if listener.fileno() in ready:
            client, _ = listener.accept()
            header, streams, _, _ = socket.recv_fds(client, HEADER, 3)
            with client.makefile("rb") as request:
                command, environment = json.loads(request.read(int.from_bytes(header)))
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                for inherited in (wakeup_reader, wakeup_writer, listener, *clients.values()):
                    inherited.close()
                os.environ.clear()
                os.environ.update(environment)
                client.sendall(f"{os.getpid()}\n".encode())
                client.close()
                return list(command)
            for stream in streams:
                os.close(stream)
            clients[pid] = client


def _report_exits(clients: dict[int, socket.socket]) -> None:
    """Send the exit code of each process that has ended to the client that asked for it."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with clients.pop(ended[0]) as client, contextlib.suppress(OSError):
                client.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
