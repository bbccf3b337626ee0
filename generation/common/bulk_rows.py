"""Rows by the ten thousand: COPY on PostgreSQL, one prepared statement on SQLite.

Django's `bulk_create` builds an object and a piece of SQL for every row, which takes it ten times as long as the database
needs to store it: 29,000 rubrics with their facets are 120,000 rows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection, models


def new_keys(model: type[models.Model], count: int) -> list[int]:
    """Primary keys that nobody else will use. On SQLite, the transaction must have the database for itself, as ours have."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", [table, count]
            )
            return [row[0] for row in cursor.fetchall()]
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        last = cursor.fetchone()
        first = (last[0] if last else 0) + 1
        return list(range(first, first + count))


def insert_rows(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert `rows` of database values (JSON as text) into `columns`."""
    table, names = model._meta.db_table, ", ".join(columns)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        marks = ", ".join(["%s"] * len(columns))
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(rows))  # noqa: S608 - our own names
