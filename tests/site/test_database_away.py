"""While the database is away, web processes refuse at once and probes are answered beside them."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from gunicorn.workers.gthread import _DEFER

from mhb_site.postgresql import breaker as breaker_module
from mhb_site.postgresql.breaker import Breaker
from mhb_site.server.probe_worker import ProbeWorker


def away() -> None:
    raise psycopg.OperationalError("no connection")


def opened() -> Breaker:
    breaker = Breaker()
    breaker.is_open = True
    return breaker


def test_the_first_request_after_the_database_is_back_is_served() -> None:
    breaker = opened()
    for _ in range(3):
        with pytest.raises(psycopg.OperationalError, match="no connection"):
            breaker.attempt(away)
    breaker.attempt(lambda: None)
    assert not breaker.is_open


def test_one_thread_holds_on_to_a_hanging_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker_module, "PATIENCE", 0.01)
    breaker = opened()
    hangs, ends = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        ends.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(breaker.attempt, hang)
        assert hangs.wait(60)
        with pytest.raises(psycopg.OperationalError, match="the database is away"):
            breaker.attempt(away)
        ends.set()
        first.result(60)
    breaker.attempt(away)  # not asked again: the first thread found it


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
