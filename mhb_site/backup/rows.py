"""The rows of all tables as text that is the same for SQLite and PostgreSQL."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest
from typing import Any
from uuid import UUID

from allauth.usersessions.models import UserSession
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, models, transaction
from django.db.models.functions import Cast, Collate
from knox.models import AuthToken

from generation.models import SentImage, WorkerBeat
from mhb_site.models import CacheEntry
from review.models import SitePause

# A session or token is a key to an account, which may have been revoked since; a beat is of a
# process that runs; the cache may be emptied; and every restored site is paused.
LEFT_OUT = {Session, UserSession, AuthToken, WorkerBeat, CacheEntry, SitePause}
INSERTED = 2000  # rows a statement, at most
INSERTED_BYTES = 4 * 2**20  # and not many more bytes
READ = 50  # rows in memory: a text may have a megabyte
WIDE = {SentImage}  # tables with files
READ_WIDE = 5  # of such a table


class RowError(Exception):
    """A row that the target database refuses, or that differs after it was restored."""


@contextmanager
def snapshot() -> Iterator[None]:
    """Let all reads see the database at one moment, while others write to it."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        # The site's own transactions are IMMEDIATE and would stop every writer.
        mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"  # type: ignore[attr-defined]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor != "sqlite":
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    finally:
        if connection.vendor == "sqlite":
            connection.transaction_mode = mode  # type: ignore[attr-defined]


class BackupTable:
    """A table of the site, read and filled by its columns."""

    def __init__(self, model: type[models.Model]) -> None:
        self.model = model
        self.name = model._meta.db_table
        self.fields: list[models.Field[Any, Any]] = list(model._meta.local_concrete_fields)
        self.columns = [str(field.column) for field in self.fields]
        pk = model._meta.pk
        self._pk: models.Field[Any, Any] = pk
        if isinstance(pk, models.AutoField):
            self.numbered = pk.column
        else:
            self.numbered = ""

    def rows(self) -> Iterator[str]:
        """Every row as one line of JSON, in the order of primary keys."""
        # Collations differ: text is ordered by its code points.
        order: Collate | str = "pk"
        if isinstance(self._pk, models.CharField) and connection.vendor != "sqlite":
            order = Collate(self._pk.attname, "C")
        columns: list[Cast | str] = []
        for field in self.fields:
            if isinstance(field, models.JSONField):
                # As it is stored, where a null of JSON is not that of SQL and no number is rounded.
                columns.append(Cast(field.attname, models.TextField()))
            else:
                columns.append(field.attname)
        chunk_size = READ
        if self.model in WIDE:
            chunk_size = READ_WIDE
        found = self.model._base_manager.order_by(order).values_list(*columns)
        for row in found.iterator(chunk_size=chunk_size):
            yield json.dumps(row, default=_as_text, ensure_ascii=False, separators=(",", ":"))

    def insert(self, lines: Iterable[str]) -> int:
        """Insert rows as they are and count them. Raises RowError for one that does not fit."""
        count, size, held = 0, 0, list[str]()
        for line in lines:
            count, size = count + 1, size + len(line)
            held.append(line)
            if len(held) >= INSERTED or size >= INSERTED_BYTES:
                self._insert(held)
                size, held = 0, []
        self._insert(held)
        return count

    def _insert(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                if connection.vendor == "sqlite":
                    cursor.executemany(self._statement, [self._values(line) for line in lines])
                else:
                    self._copy(cursor, lines)
        except (DatabaseError, ValueError) as error:
            if len(lines) == 1:
                row = f"{self.name}, row {json.loads(lines[0])[self.fields.index(self._pk)]}"
                cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise RowError(f"{row} does not fit into this database: {cause}") from error
            for line in lines:  # which one is it?
                self._insert([line])

    def _copy(self, cursor: Any, lines: Sequence[str]) -> None:
        """Store rows by PostgreSQL's COPY, which reads dates, numbers and JSON as written."""
        quote = connection.ops.quote_name
        columns = ", ".join(map(quote, self.columns))
        binary = [place for place, field in enumerate(self.fields) if isinstance(field, models.BinaryField)]
        with (
            connection.wrap_database_errors,
            cursor.copy(f"COPY {quote(self.name)} ({columns}) FROM STDIN") as copy,
        ):
            for line in lines:
                values = json.loads(line)
                for place in binary:
                    if values[place] is not None:
                        values[place] = base64.b64decode(values[place])
                copy.write_row(values)

    @cached_property
    def _statement(self) -> str:
        quote = connection.ops.quote_name
        columns = ", ".join(map(quote, self.columns))
        return f"INSERT INTO {quote(self.name)} ({columns}) VALUES ({', '.join(['%s'] * len(self.columns))})"  # noqa: S608

    def _values(self, line: str) -> list[Any]:
        return [_stored(field, value) for field, value in zip(self.fields, json.loads(line), strict=True)]

    def compare(self, lines: Iterable[str]) -> None:
        """Compare the table with the rows that it was filled with.

        Raises RowError at the first difference.
        """
        for number, (kept, found) in enumerate(zip_longest(lines, self.rows()), 1):
            if kept != found and (kept is None or found is None or not self._equal(kept, found)):
                raise RowError(f"{self.name}: row {number} of the backup differs from the restored one")

    def _equal(self, kept: str, found: str) -> bool:
        """PostgreSQL stores JSON in an order and with numbers of its own."""
        pairs = zip(self.fields, json.loads(kept), json.loads(found), strict=True)
        for field, ours, theirs in pairs:
            is_json = isinstance(field, models.JSONField)
            if ours != theirs and not (is_json and _parsed(ours) == _parsed(theirs)):
                return False
        return True

    def last_number(self) -> int:
        """The highest number that a row of this table ever had: numbers are not used again."""
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [self.name])
            else:
                cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [f'"{self.name}"', self.numbered])
                [(sequence,)] = cursor.fetchall()
                cursor.execute(f"SELECT last_value FROM {sequence} WHERE is_called")  # noqa: S608
            return next((int(last) for (last,) in cursor.fetchall()), 0)

    def continue_after(self, last: int) -> None:
        """Number the next row `last` + 1."""
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [self.name])
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [self.name, last])
            else:
                cursor.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                    [f'"{self.name}"', self.numbered, max(last, 1), last > 0],
                )


def tables() -> list[BackupTable]:
    """The tables that a backup contains, those that others refer to first where possible."""
    found = [model for model in apps.get_models(include_auto_created=True) if model not in LEFT_OUT]
    return [BackupTable(model) for model in found if model._meta.managed and not model._meta.proxy]


def used_table() -> str:
    """A table in which somebody has stored something, beyond what `migrate` puts there; else ""."""
    quote, made = connection.ops.quote_name, _made()
    with connection.cursor() as cursor:
        names = {*connection.introspection.table_names(cursor)} - made
        for name in [table.name for table in tables()]:
            if name not in names:
                continue
            cursor.execute(f"SELECT 1 FROM {quote(name)} LIMIT 1")  # noqa: S608 -- it may be of an older version
            if cursor.fetchone():
                return name
    return ""


def _made() -> set[str]:
    """The tables with rows after `migrate`."""
    names = ("auth.Permission", "review.ChainHead")
    return {ContentType._meta.db_table, *(apps.get_model(name)._meta.db_table for name in names)}


@contextmanager
def emptied() -> Iterator[None]:
    """Remove the rows that `migrate` has made, and check all references at the end."""
    made = sorted(_made())
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            guards = "SELECT name, sql, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%%_no_delete'"
            cursor.execute(guards)
            triggers = [(name, sql) for name, sql, table in cursor.fetchall() if table in made]
            before = [f'DROP TRIGGER "{name}"' for name, _sql in triggers]
            after = [sql for _name, sql in triggers]
        else:
            before = [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in made]
            after = [f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in made]
        deletions = [f"DELETE FROM {table}" for table in made]  # noqa: S608
        for statement in (*before, *deletions):
            cursor.execute(statement)
        connection.check_constraints()
        for statement in after:
            cursor.execute(statement)
    yield
    connection.check_constraints()


def _as_text(value: Any) -> str:
    if isinstance(value, date):  # and times, to the microsecond
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return base64.b64encode(value).decode()


def _stored(field: models.Field[Any, Any], value: Any) -> Any:
    if value is None or isinstance(field, models.JSONField):
        return value
    if isinstance(field, models.BinaryField):
        value = base64.b64decode(value)
    target: models.Field[Any, Any] = field
    if isinstance(field, models.ForeignKey):
        target = field.target_field
    return field.get_db_prep_save(target.to_python(value), connection)


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    return json.loads(text, parse_float=Decimal)
