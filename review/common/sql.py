"""SQL that is written out: what every Next, every page with a case and every draft asks.

The ORM takes 0.2 to 1.5 ms to build such a statement, a database 0.02 to 0.2 ms to answer it, and there are a dozen in each of
these requests. Anything else is asked through the ORM.
"""

from typing import Any

from django.db import connection


def first_row(sql: str, *params: int | str) -> tuple[Any, ...] | None:
    """The first row that `sql` finds, its values as the database driver gives them; None: it finds none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row
