"""SQLite whose features do not depend on a lock, and whose errors have a name."""

import sqlite3
from contextlib import closing
from typing import Any

from django.db.backends.sqlite3 import base, features


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
    """Django's, with the features above."""

    features_class = DatabaseFeatures

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises sqlite3.Error with a note: "disk I/O error" alone can have about thirty causes."""
        try:
            return super().get_new_connection(conn_params)
        except sqlite3.Error as error:
            error.add_note(f"SQLite calls it {error.sqlite_errorname}.")
            raise
