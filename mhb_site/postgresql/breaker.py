"""Refuses new connections at once while the database is away, so that no thread waits for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

REST = 1.0  # seconds between two attempts while the database is away
SECONDS = 1.0  # that a web process waits for a connection


class Breaker:
    """Open after an attempt that failed; then one thread tries every `REST` seconds.

    Closed, and without effect, until `engaged`: workers may wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.engaged = False
        self._clock = clock
        self._lock = threading.Lock()
        self._next_try: float | None = None  # None: the last attempt succeeded

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Around an attempt to connect. Raises psycopg.OperationalError while it is open."""
        with self._lock:
            if self.engaged and self._next_try is not None:
                if self._clock() < self._next_try:
                    raise psycopg.OperationalError("the database is away")
                self._next_try = self._clock() + REST
        try:
            yield
        except psycopg.OperationalError:
            with self._lock:
                self._next_try = self._clock() + REST
            raise
        with self._lock:
            self._next_try = None


breaker = Breaker()
