"""Refuses new connections at once while the database is away, so that no thread waits for it."""

import threading
from collections.abc import Callable

import psycopg

SECONDS = 1.0  # that a web process waits for a pooled connection
CONNECT_SECONDS = 2  # for a new one: the least that psycopg takes
PATIENCE = 0.5  # seconds that others wait for the outcome of an attempt


class Breaker:
    """Open from a failed attempt to the next that succeeds; one thread at a time attempts.

    There is no rest between two attempts: the first request after the database is back is served,
    and an attempt that is refused costs little. Without effect until `engaged`: workers may wait.
    """

    def __init__(self) -> None:
        self.engaged = False
        self.is_open = False
        self._attempting = threading.Lock()

    def attempt(self, connect: Callable[[], object]) -> None:
        """Close it if `connect` succeeds now, or has just succeeded elsewhere.

        Raises:
            psycopg.OperationalError: the database is away, or an attempt takes longer than
                `PATIENCE`.
        """
        if not self._attempting.acquire(timeout=PATIENCE):
            raise psycopg.OperationalError("the database is away")
        try:
            if self.is_open:
                connect()
                self.is_open = False
        finally:
            self._attempting.release()


breaker = Breaker()
