"""Reading and writing many rows."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.db import connection, models

# Rows per transaction of an import: one commit per row would take minutes, a single one for all
# rows would block other writers.
CHUNK = 500


def chunked(rows: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield lists of up to `CHUNK` rows."""
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def analyze_tables(*tables: type[models.Model]) -> None:
    """Refresh PostgreSQL's statistics of tables that have just received many rows.

    Autovacuum would do so within minutes. Until then the planner believes that the tables are as
    small as before, and joins a million rows by nested loops. Does nothing on SQLite.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for model in tables:
                cursor.execute(f"ANALYZE {model._meta.db_table}")
