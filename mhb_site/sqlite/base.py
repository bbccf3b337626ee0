"""SQLite for a web process with threads.

SQLite lets one transaction write at a time. Other writers sleep and retry at growing intervals, and
are overtaken by later ones. Inside a process they wait for a lock instead; between processes
SQLite's own waiting remains.
"""

import sqlite3
import threading
from collections import defaultdict
from contextlib import closing
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base, features

_write_locks: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by database file


def _has_json() -> bool:
    with closing(sqlite3.connect(":memory:")) as memory:
        try:
            return bool(memory.execute("SELECT JSON('{}')"))
        except sqlite3.OperationalError:
            return False


class DatabaseFeatures(features.DatabaseFeatures):
    """Asks the library, not the site's database.

    Django asks the database at first use and remembers the answer: no JSON for the rest of the
    process if it was locked at that moment.
    """

    supports_json_field = _has_json()


class DatabaseWrapper(base.DatabaseWrapper):
    """Holds the process's write lock from BEGIN IMMEDIATE to the end of the transaction."""

    features_class = DatabaseFeatures
    _write_lock: "threading.Lock | None" = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises sqlite3.Error with a note: "disk I/O error" alone can have about thirty causes."""
        try:
            return super().get_new_connection(conn_params)
        except sqlite3.Error as error:
            error.add_note(f"SQLite calls it {error.sqlite_errorname}.")
            raise

    def _start_transaction_under_autocommit(self) -> None:
        if self._write_lock is None:
            lock = _write_locks[str(self.settings_dict["NAME"])]
            if not lock.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
                raise OperationalError("database is locked")
            self._write_lock = lock
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._release_write_lock()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self._release_write_lock()  # not if the commit failed: a rollback follows

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._release_write_lock()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._release_write_lock()

    def _release_write_lock(self) -> None:
        lock, self._write_lock = self._write_lock, None
        if lock is not None:
            lock.release()
