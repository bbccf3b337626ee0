"""Start the processes of a site by forking a server that has already imported everything.

They are ordinary processes, but save the seconds that the imports of each would take.

`python -m tests.fork_server` imports the site with the settings of its environment. Then it reads
requests, one JSON object a line: it forks a process for a command, or tells how a process ended. It
exits when its standard input is closed.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SITE_MODULES = (
    "celery.apps.worker",
    "mhb_site.management.commands.serve",
    "generation.tasks",
    "evaluation.tasks",
)


class ForkedProcess:
    """A forked process in a session of its own, with the interface of `subprocess.Popen`."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self.pid, self._server, self._lock = pid, server, threading.Lock()
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        with self._lock:
            if self._exit_code is None:
                self._exit_code = self._server.ask(ended=self.pid)
            return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.02)
        return code


class ForkServer:
    """The fork server of a site whose settings are in this environment, like all its processes'."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment, self._lock = {**os.environ, **environment}, threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> Any:
        """Send a request, and return the reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())

    def start(self, command: Sequence[str], *outputs: str) -> ForkedProcess:
        """Start a process. `outputs`: files for its standard output and error."""
        return ForkedProcess(self, self.ask(command=command, outputs=outputs))

    def run(self, command: Sequence[str], timeout: float) -> "subprocess.CompletedProcess[str]":
        """Run a process to its end. Returns its exit code and output; a failure raises nothing.

        Kills the process and raises TimeoutExpired when it takes longer than `timeout` seconds.
        """
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            process = self.start(command, output.name, errors.name)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(list(command), code, output.read(), errors.read())


# ---------------------------------------------------------------------------------- the server


def main() -> None:
    """Serve; in a forked process, run the requested command."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no reply
    _import_site()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if pid := request.get("ended"):
            ended, status = os.waitpid(pid, os.WNOHANG)
            print(json.dumps(os.waitstatus_to_exitcode(status) if ended else None), file=replies, flush=True)
        elif not os.fork():
            os.setsid()
            for number, path in enumerate((os.devnull, *request["outputs"])):
                os.dup2(os.open(path, os.O_RDWR), number)
            print(os.getpid(), file=replies, flush=True)
            replies.close()
            return _run(request["command"])
    return None


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


def _run(command: Sequence[str]) -> None:
    if command[1] == "-m":
        sys.argv = list(command[2:])
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command[1:])
        runpy.run_path(command[1], run_name="__main__")


if __name__ == "__main__":
    main()
