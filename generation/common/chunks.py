"""Reading and writing many rows."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from django.db import connection, models

# Rows per transaction of an import: one commit per row would take minutes, a single one for all
# rows would block other writers.
CHUNK = 500


def chunked(rows: Iterator[Any], size: int = CHUNK) -> Iterator[list[Any]]:
    """Yield lists of up to `size` rows."""
    while chunk := list(islice(rows, size)):
        yield chunk


def insert_rows(model: type[models.Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows without making an object of each, several times as fast as `bulk_create`.

    No primary keys come back.

    Args:
        rows: numbers and texts by field, JSON as text, each with the same fields in the same
            order. The other fields get their defaults.
    """
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    options: Any = model._meta
    given = [options.get_field(name) for name in first]
    others = [field for field in options.concrete_fields if field not in given and not field.primary_key]
    defaults = [field.get_db_prep_save(field.get_default(), connection) for field in others]
    complete_rows = ((*row.values(), *defaults) for row in chain([first], rows))
    columns = [field.column for field in (*given, *others)]
    target = f"{options.db_table} ({', '.join(columns)})"
    with connection.cursor() as cursor, connection.wrap_database_errors:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {target} FROM STDIN") as copy:
                for row in complete_rows:
                    copy.write_row(row)
            return
        # One statement for many rows takes half the time of one for each.
        row_places = f"({', '.join(['%s'] * len(columns))})"
        for chunk in chunked(complete_rows, connection.ops.bulk_batch_size(columns, [])):
            places = ", ".join([row_places] * len(chunk))
            cursor.execute(f"INSERT INTO {target} VALUES {places}", list(chain.from_iterable(chunk)))  # noqa: S608


def analyze_tables(*tables: type[models.Model]) -> None:
    """Refresh PostgreSQL's statistics of tables that have just received many rows.

    Autovacuum would do so within minutes. Until then the planner believes that the tables are as
    small as before, and joins a million rows by nested loops. Does nothing on SQLite.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for model in tables:
                cursor.execute(f"ANALYZE {model._meta.db_table}")
