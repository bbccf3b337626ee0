"""SQLite for a web process with threads.

SQLite lets one transaction write at a time. A writer that comes meanwhile sleeps and looks again, ever more seldom, and is
overtaken by later ones. Inside a process there is a better way to wait; between processes SQLite's own remains.
"""

import sqlite3
import threading
from collections import defaultdict
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

_writers: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by the database's file


class DatabaseWrapper(base.DatabaseWrapper):
    """Holds the process's turn to write from BEGIN IMMEDIATE to the end of the transaction."""

    _turn: "threading.Lock | None" = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises sqlite3.Error with a note: "disk I/O error" alone is any of some thirty faults."""
        try:
            return super().get_new_connection(conn_params)
        except sqlite3.Error as error:
            error.add_note(f"SQLite calls it {error.sqlite_errorname}.")
            raise

    def _start_transaction_under_autocommit(self) -> None:
        if self._turn is None:
            turn = _writers[str(self.settings_dict["NAME"])]
            if not turn.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
                raise OperationalError("database is locked")
            self._turn = turn
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._end_turn()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self._end_turn()  # not where it failed: it is rolled back next

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()
