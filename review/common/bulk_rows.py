"""Rows by the ten thousand: COPY on PostgreSQL, one prepared statement on SQLite.

Django's `bulk_create` builds an object and a piece of SQL for every row, which takes it ten times as long as the database
needs to store it: 29,000 rubrics with their facets are 120,000 rows.
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

_AS_THEY_ARE = (str, int, bool, type(None))  # values that both databases take from Python
AT_ONCE = 500  # rows of one statement on SQLite, which may have 32,766 values
LOG = 16_000  # pages that SQLite's log may have before a commit copies them itself; usually 1000
USUAL_LOG = 1_000
PAUSE = 0.02  # seconds between two looks at the log
MANY = 1000  # rows written in one go, after which PostgreSQL had better count anew what is in a table


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


def insert_new(model: type[models.Model], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert those of some hundred `rows` (`insert_rows`) that break no rule of the table: what is known stays as it is."""
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
    """Insert `rows` of database values (JSON as text) into `columns`."""
    table, names = model._meta.db_table, ", ".join(columns)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        marks = f"({', '.join(['%s'] * len(columns))})"
        left = iter(rows)
        while some := list(islice(left, AT_ONCE)):
            # One statement for many rows: with each statement, SQLite writes out anew what it indexes the words of.
            values = ", ".join([marks] * len(some))
            cursor.execute(f"INSERT INTO {table} ({names}) VALUES {values}", list(chain.from_iterable(some)))  # noqa: S608 - our own names


def defaults(model: type[models.Model], given: Sequence[str]) -> dict[str, Any]:
    """The columns that are not given and must not be null, with their defaults as the database takes them."""
    found: dict[str, Any] = {}
    for each in model._meta.concrete_fields:
        column = str(each.column)
        if column not in given and not each.null and not each.primary_key:
            value = each.get_default()
            found[column] = "{}" if value == {} else value
    return found


def store(rows: Sequence[models.Model]) -> None:
    """Insert new rows of one model, as `bulk_create` does. Those without a key get one."""
    if not rows:
        return
    kind = type(rows[0])
    keyless = [row for row in rows if row.pk is None]
    for row, key in zip(keyless, new_keys(kind, len(keyless)) if keyless else (), strict=True):
        row.pk = key
    fields = _fields(kind)
    columns = [f'"{field.column}"' for field, _as_it_is in fields]
    insert_rows(kind, columns, ([_stored(row, field, as_it_is) for field, as_it_is in fields] for row in rows))
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


@cache
def _fields(kind: type[models.Model]) -> list[tuple[Any, bool]]:
    """The fields of a row, and whether a plain value of each is stored as it is."""
    return [(field, not isinstance(field, models.JSONField)) for field in kind._meta.concrete_fields]


def _stored(row: models.Model, field: Any, as_it_is: bool) -> Any:
    value = getattr(row, field.attname)
    return value if as_it_is and type(value) in _AS_THEY_ARE else field.get_db_prep_save(value, connection)


def counted(kinds: Collection[type[models.Model]]) -> None:
    """Have PostgreSQL count anew what is in these tables, of which much is new. Its autovacuum does so within minutes; until
    then it takes them for as small as they were, and joins a million rows by nested loops. SQLite never counts."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for kind in kinds:
                cursor.execute(f"ANALYZE {kind._meta.db_table}")


@contextmanager
def quick_commits() -> Iterator[None]:
    """Meanwhile, on SQLite, a thread copies what was committed from the log into the database. Else a commit does so itself as
    soon as the log has some pages, and waits for the disk: that is a fifth of the time that long texts take to be stored."""
    like = connections[connection.alias]
    if not isinstance(like, SQLite) or like.is_in_memory_db():
        yield
        return
    is_over = threading.Event()
    copying = threading.Thread(target=_copy_log, args=(is_over, like), name="copy-log", daemon=True)
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA wal_autocheckpoint = {LOG}")
    copying.start()
    try:
        yield
    finally:
        is_over.set()
        copying.join()
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA wal_autocheckpoint = {USUAL_LOG}")


def _copy_log(is_over: threading.Event, like: BaseDatabaseWrapper) -> None:
    own = like.copy()
    try:
        while not is_over.wait(PAUSE):
            with own.cursor() as cursor:
                cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except DatabaseError:
        return  # the commits do it, if later
    finally:
        own.close()
