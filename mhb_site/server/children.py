"""Runs the site's processes as children, so that `make demo` stops everything that it starts."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

# Seconds for all children to end before they are killed; a worker may have calls in flight.
GRACE = 30.0
TOO_OFTEN = 5  # deaths of one child in a minute: restarting does not help


class ChildFailed(Exception):
    """A child process keeps failing."""


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def wait_for_port(host: str, port: int, *, seconds: float = 30) -> bool:
    """Wait until something listens on this port; False after the timeout."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((host, port)) == 0:
                return True
        time.sleep(0.05)
    return False


def django(*arguments: str) -> list[str]:
    """The command line of one of our management commands."""
    return [sys.executable, "manage.py", *arguments]


def worker(queues: str = "mhb,mhb-lanes") -> list[str]:
    """The command line of a Celery worker of these queues.

    Threads, because a lane is asyncio and the rest waits for the database. Without gossip: nothing
    here uses it, and a worker with gossip dies when Redis goes away (kombu #582). With less of the
    processor than the web server beside it: a physician's page must not wait for batches and runs.
    """
    arguments = ["--pool", "threads", "--concurrency", "4", "--loglevel", "WARNING"]
    isolation = ["--without-mingle", "--without-gossip"]
    return [
        *("nice", "-n", "10", sys.executable, "-m", "celery"),
        *("--quiet", "--app", "mhb_site", "worker", "-Q", queues),
        *arguments,
        *isolation,
    ]


def web(host: str, port: int) -> list[str]:
    """The command line of the embedded site's web server."""
    return django("serve", "--host", host, "--port", str(port))


class Process(Protocol):
    """The part of `subprocess.Popen` that children need."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass
class Children:
    """Named child processes, restarted when they die, all stopped at the end."""

    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    commands: dict[str, Sequence[str]] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    deaths: dict[str, list[float]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a child in its own session: only we receive Ctrl-C, and stop children in order."""
        self.commands[name] = command
        self.processes[name] = self.run(command)

    def run(self, command: Sequence[str]) -> Process:
        """Start a process in a session of its own."""
        return subprocess.Popen(  # noqa: S603
            list(command), cwd=self.cwd, env={**os.environ, **self.environment}, start_new_session=True
        )

    def watch(self, tell: Callable[[str], None], *, until: Callable[[], bool]) -> None:
        """Restart children that die, until `until()`.

        Raises ChildFailed for one that keeps dying.
        """
        while not until():
            for name, process in list(self.processes.items()):
                if (code := process.poll()) is not None and self.processes.get(name) is process:
                    self._restart(name, code, tell)
            time.sleep(0.2)

    def _restart(self, name: str, code: int, tell: Callable[[str], None]) -> None:
        now = time.monotonic()
        recent = [death for death in self.deaths.get(name, []) if now - death < 60]
        self.deaths[name] = [*recent, now]
        if len(self.deaths[name]) >= TOO_OFTEN:
            raise ChildFailed(f"{name} keeps stopping (exit code {code}).")
        tell(f"{name} stopped (exit code {code}); restarting it")
        kill_group(self.processes[name].pid)
        self.start(name, self.commands[name])

    def stop(self) -> None:
        """Stop all children in reverse order, so that models answer until the worker has ended.

        Children that do not end in time are killed.
        """
        deadline = time.monotonic() + GRACE
        for process in reversed(self.processes.values()):
            _send_signal(process, signal.SIGTERM)
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _send_signal(process, signal.SIGKILL)
                process.wait()
            kill_group(process.pid)
        self.processes.clear()


def kill_group(group: int) -> None:
    """Kill what is left of a child, such as processes of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _send_signal(process: Process, number: signal.Signals) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
