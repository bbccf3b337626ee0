"""Inserting rows by the ten thousand: COPY on PostgreSQL, multi-row statements on SQLite.

Django's `bulk_create` builds an object and a piece of SQL for every row, which takes ten times as
long as storing the row: 29,000 rubrics with their facets are 120,000 rows.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any

from django.db import DatabaseError, connection, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLite

_PLAIN_TYPES = (str, int, bool, type(None))  # types that both databases accept from Python
SQLITE_BATCH = 500  # rows in one statement on SQLite, which accepts 32,766 values
MAX_WAL_PAGES = 16_000  # WAL size (pages) at which a commit checkpoints anyway during `background_checkpoints`
DEFAULT_WAL_PAGES = 1_000  # SQLite's default for wal_autocheckpoint
CHECKPOINT_INTERVAL = 0.02  # seconds between two background checkpoints
ANALYZE_THRESHOLD = 1000  # rows written at once from which it pays to `analyze_tables`


def reserve_keys(model: type[models.Model], count: int) -> list[int]:
    """Reserve primary keys that nobody else will use.

    On SQLite the caller's transaction must already hold the write lock, as all of ours do.
    """
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


def insert_missing_rows(model: type[models.Model], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert a few hundred `rows` (see `insert_rows`), skipping those that violate a constraint."""
    if not rows:
        return
    marks = "(" + ", ".join(["%s"] * len(columns)) + ")"
    sql = f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES "  # noqa: S608 - our own names
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            values = [value for row in rows for value in row]
            cursor.execute(f"{sql}{', '.join([marks] * len(rows))} ON CONFLICT DO NOTHING", values)
        else:
            cursor.executemany(f"{sql}{marks} ON CONFLICT DO NOTHING", rows)


def insert_rows(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert `rows` of database values (JSON as text) into `columns` of the model's table."""
    table, names = model._meta.db_table, ", ".join(columns)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        marks = f"({', '.join(['%s'] * len(columns))})"
        remaining = iter(rows)
        while batch := list(islice(remaining, SQLITE_BATCH)):
            # Many rows per statement: SQLite flushes its full-text index after each one.
            values = ", ".join([marks] * len(batch))
            cursor.execute(f"INSERT INTO {table} ({names}) VALUES {values}", list(chain.from_iterable(batch)))  # noqa: S608 - our own names


def default_values(model: type[models.Model], columns: Sequence[str]) -> dict[str, Any]:
    """Database defaults, by column, for the non-nullable columns that are not in `columns`."""
    values: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        column = str(field.column)
        if column not in columns and not field.null and not field.primary_key:
            value = field.get_default()
            values[column] = "{}" if value == {} else value
    return values


def bulk_insert(rows: Sequence[models.Model]) -> None:
    """Insert new rows of one model, like `bulk_create`; rows without a primary key get one."""
    if not rows:
        return
    model = type(rows[0])
    keyless = [row for row in rows if row.pk is None]
    for row, key in zip(keyless, reserve_keys(model, len(keyless)) if keyless else (), strict=True):
        row.pk = key
    fields = _fields(model)
    columns = [f'"{field.column}"' for field, _is_plain in fields]
    insert_rows(model, columns, ([_db_value(row, field, is_plain) for field, is_plain in fields] for row in rows))
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


@cache
def _fields(model: type[models.Model]) -> list[tuple[Any, bool]]:
    """The fields of a model, each with whether its plain values are stored unconverted."""
    return [(field, not isinstance(field, models.JSONField)) for field in model._meta.concrete_fields]


def _db_value(row: models.Model, field: Any, is_plain: bool) -> Any:
    value = getattr(row, field.attname)
    return value if is_plain and type(value) in _PLAIN_TYPES else field.get_db_prep_save(value, connection)


def analyze_tables(tables: Collection[type[models.Model]]) -> None:
    """Refresh PostgreSQL's statistics of tables that have just received many rows.

    Autovacuum would do so within minutes. Until then the planner believes that the tables are as
    small as before, and joins a million rows by nested loops. Does nothing on SQLite.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for model in tables:
                cursor.execute(f"ANALYZE {model._meta.db_table}")


@contextmanager
def background_checkpoints() -> Iterator[None]:
    """Let a thread checkpoint SQLite's write-ahead log in this context; no-op on PostgreSQL.

    Otherwise a commit does so itself once the log has grown, and waits for the disk, which takes a
    fifth of the time of storing long texts.
    """
    wrapper = connections[connection.alias]
    if not isinstance(wrapper, SQLite) or wrapper.is_in_memory_db():
        yield
        return
    stopped = threading.Event()
    checkpointer = threading.Thread(target=_checkpoint_wal, args=(stopped, wrapper), name="copy-log", daemon=True)
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA wal_autocheckpoint = {MAX_WAL_PAGES}")
    checkpointer.start()
    try:
        yield
    finally:
        stopped.set()
        checkpointer.join()
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA wal_autocheckpoint = {DEFAULT_WAL_PAGES}")


def _checkpoint_wal(stopped: threading.Event, wrapper: BaseDatabaseWrapper) -> None:
    thread_connection = wrapper.copy()
    try:
        while not stopped.wait(CHECKPOINT_INTERVAL):
            with thread_connection.cursor() as cursor:
                cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except DatabaseError:
        return  # a later commit will checkpoint
    finally:
        thread_connection.close()
