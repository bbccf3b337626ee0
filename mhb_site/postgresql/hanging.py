"""Finds out that the server hangs: it is there, and answers nobody.

A stopped process or machine closes no connection, and no limit of the server's own applies. Who
has waited for a while asks whether it answers a new client, one thread for all.
"""

import socket
import struct
import threading
from collections.abc import Generator
from time import monotonic
from typing import Any

import psycopg
from psycopg.waiting import Ready

PATIENCE = 0.4  # seconds without an answer after which somebody asks; a statement may take longer
ANSWERS_WITHIN = 0.8  # seconds in which a server that lives answers a new client or, with much to do, somebody
EVERY = 1.0  # seconds between two questions
SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # the first message of a client; the answer is one byte


class HangingServer:
    """Whether the server hangs, as far as this process knows."""

    def __init__(self) -> None:
        self.hangs = False
        self._asking = threading.Lock()
        self._next = 0.0
        self._heard_at = 0.0

    def hear(self) -> None:
        """Note that it has answered a client of this process."""
        self._heard_at = monotonic()

    def look(self, host: str, port: int) -> bool:
        """Whether it hangs; asks it, unless another thread does or has just done so."""
        if self.hangs or monotonic() < self._next or not self._asking.acquire(blocking=False):
            return self.hangs
        try:
            began = monotonic()
            self.hangs = not answers(host, port) and self._heard_at < began
            self._next = monotonic() + EVERY
        finally:
            self._asking.release()
        return self.hangs


server = HangingServer()


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that is closed, with an OperationalError, once its server hangs."""

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        return super().wait(self._watched(gen), *arguments, **options)

    def _watched(self, steps: Any) -> Generator[Any, Any, Any]:
        """The steps of a statement. They are told every tenth of a second that nothing has come."""
        began = monotonic()
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if ready & Ready.R:
                    server.hear()
                if not ready and self._server_hangs(monotonic() - began):
                    self.close()
                    raise psycopg.OperationalError("the database does not answer")
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value

    def _server_hangs(self, waited: float) -> bool:
        if waited < PATIENCE:
            return server.hangs
        return server.look(self.info.hostaddr or self.info.host, self.info.port)


def answers(host: str, port: int) -> bool:
    """Whether a server, or a pooler, answers a new client. host: a path for a Unix socket."""
    try:
        with _connected(host, port) as client:
            client.sendall(SSL_REQUEST)
            return bool(client.recv(1))
    except OSError:
        return False


def _connected(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port), ANSWERS_WITHIN)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(ANSWERS_WITHIN)
    client.connect(f"{host}/.s.PGSQL.{port}")
    return client
