"""While the database is away, web processes refuse at once and probes are answered beside them."""

import socket
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from gunicorn.workers.gthread import _DEFER

from mhb_site.postgresql.breaker import REST, Breaker
from mhb_site.server.probe_worker import ProbeWorker


class Seconds:
    """A clock that moves by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(breaker: Breaker) -> bool:
    """Whether the breaker refuses an attempt that would succeed."""
    try:
        with breaker.attempt():
            return False
    except psycopg.OperationalError:
        return True


def fail(breaker: Breaker) -> None:
    with pytest.raises(psycopg.OperationalError, match="no connection"), breaker.attempt():
        raise psycopg.OperationalError("no connection")


def test_after_a_failure_one_attempt_a_second_reaches_the_database() -> None:
    clock = Seconds()
    breaker = Breaker(clock)
    breaker.engaged = True
    assert not refused(breaker)
    fail(breaker)
    assert refused(breaker)
    clock.now += REST
    with breaker.attempt():
        assert refused(breaker), "while one thread tries, the others are refused"
    assert not refused(breaker), "it is back"


def test_a_worker_may_wait() -> None:
    breaker = Breaker(Seconds())
    fail(breaker)
    assert not refused(breaker)


@pytest.mark.parametrize(
    ("request_line", "beside"),
    [
        (b"GET /live HTTP/1.1\r\n", True),
        (b"GET /ready?x=1 HTTP/1.1\r\n", True),
        (b"HEAD /metrics/ HTTP/1.1\r\n", True),
        (b"GET /livestock HTTP/1.1\r\n", False),
        (b"POST /live HTTP/1.1\r\n", False),
        (b"GET /review/live HTTP/1.1\r\n", False),
        (b"", None),
    ],
)
def test_probes_have_threads_of_their_own(request_line: bytes, beside: bool | None) -> None:
    client, server = socket.socketpair()
    with client, server:
        client.sendall(request_line)
        submitted: list[str] = []
        worker: Any = ProbeWorker.__new__(ProbeWorker)
        worker._probes, worker.tpool = (_Threads(name, submitted) for name in ("beside", "usual"))
        worker.finish_request = lambda _conn, done: submitted.append("deferred" if done.result() is _DEFER else "?")
        worker.enqueue_req(SimpleNamespace(sock=server, initialized=False, data_ready=False))
        assert submitted == [{True: "beside", False: "usual", None: "deferred"}[beside]]
        assert beside is None or server.recv(100) == request_line, "the request is still there"


class _Threads:
    def __init__(self, name: str, submitted: list[str]) -> None:
        self._name, self._submitted = name, submitted

    def submit(self, _work: object, _conn: object) -> Any:
        self._submitted.append(self._name)
        return SimpleNamespace(add_done_callback=lambda _done: None)
