"""The rows of all tables as text that is the same for SQLite and PostgreSQL."""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest
from typing import Any
from uuid import UUID

from allauth.usersessions.models import UserSession
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import Error, OperationalError, connection, models, transaction
from django.db.models.functions import Cast
from knox.models import AuthToken

from generation.models import WorkerBeat
from mhb_site.models import CacheEntry, TokenName
from review.models import SitePause

# A session or token is a key to an account, which may have been revoked since; a beat is of a
# process that runs; the cache may be emptied; and every restored site is paused.
LEFT_OUT = {Session, UserSession, AuthToken, TokenName, WorkerBeat, CacheEntry, SitePause}
INSERTED = 2000  # rows a statement, at most
INSERTED_BYTES = 4 * 2**20  # and not many more bytes
READ = 5  # rows in memory: some have images
LOCK_SECONDS = 10.0  # that `lock_tables` waits


# PostgreSQL reads all but bytes as a backup writes it, SQLite only text, numbers and JSON.
ADAPTED: dict[str, tuple[type[models.Field[Any, Any]], ...]] = {
    "postgresql": (models.BinaryField,),
    "sqlite": (models.BinaryField, models.DateField, models.DecimalField, models.UUIDField),
}
# Of these SQLite takes any value in any column; PostgreSQL refuses the others itself.
_TYPES = ((models.BooleanField, bool), (models.IntegerField, int))
# How PostgreSQL writes the values of a column into JSON, where it is not by its own rule.
_AS_JSON = {
    "BinaryField": "translate(encode({}, 'base64'), E'\\n', '')",
    "DateTimeField": """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')""",
    "DecimalField": "{}::text",
    "GenericIPAddressField": "host({})",
    "JSONField": "{}::text",
}


class InUse(Exception):
    """Another process uses the tables all the time."""


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
        if connection.vendor == "sqlite":
            yield from self._encoded_rows()
            return
        quote = connection.ops.quote_name
        columns = []
        for field, target in zip(self.fields, self._targets, strict=True):
            written = _AS_JSON.get(target.get_internal_type(), "{}")
            columns.append(written.format(quote(str(field.column))))
        order = quote(str(self._pk.column))
        if isinstance(self._pk, models.CharField):
            order += ' COLLATE "C"'  # collations differ: text is ordered by its code points
        rows = f"SELECT json_build_array({', '.join(columns)}) FROM {quote(self.name)} ORDER BY {order}"  # noqa: S608
        statement = f"COPY ({rows}) TO STDOUT"
        with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
            for line in copy:
                # The text form of COPY doubles backslashes; JSON has none of its other signs.
                yield bytes(line[:-1]).replace(b"\\\\", b"\\").decode()

    def _encoded_rows(self) -> Iterator[str]:
        columns: list[Cast | str] = []
        for field in self.fields:
            if isinstance(field, models.JSONField):
                # As it is stored, where a null of JSON is not that of SQL and no number is rounded.
                columns.append(Cast(field.attname, models.TextField()))
            else:
                columns.append(field.attname)
        for row in self.model._base_manager.order_by("pk").values_list(*columns).iterator(chunk_size=READ):
            yield _JSON.encode(row)

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
            values = [self._values(line) for line in lines]
            with transaction.atomic(), connection.cursor() as cursor:
                self._store(cursor, values)
        except (Error, ValueError, TypeError, ArithmeticError, ValidationError) as error:
            if len(lines) == 1:
                row = f"{self.name}, row {self._key(lines[0])}"
                cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise RowError(f"{row} does not fit into this database: {cause}") from error
            for line in lines:  # which one is it?
                self._insert([line])

    def _key(self, line: str) -> Any:
        """The primary key of a row; the beginning of a line that is none."""
        try:
            return self._cells(line)[self.fields.index(self._pk)]
        except ValueError:
            return repr(line[:40])

    def _cells(self, line: str) -> list[Any]:
        """The values of a row as they are written. Raises ValueError."""
        cells = json.loads(line)
        if not isinstance(cells, list) or len(cells) != len(self.fields):
            raise ValueError(f"it is no list of {len(self.fields)} values")
        return cells

    def _store(self, cursor: Any, values: Sequence[Sequence[Any]]) -> None:
        quote = connection.ops.quote_name
        table = f"{quote(self.name)} ({', '.join(map(quote, self.columns))})"
        if connection.vendor == "sqlite":
            marks = ", ".join(["%s"] * len(self.columns))
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608
            return
        with connection.wrap_database_errors, cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)

    def _values(self, line: str) -> list[Any]:
        values = self._cells(line)
        for place, kind in self._typed.items():
            if values[place] is not None and not isinstance(values[place], kind):
                raise ValueError(f"{self.columns[place]} is no {kind.__name__}")
        for place, field in self._adapted.items():
            if values[place] is not None:
                values[place] = _adapt(field, values[place])
        return values

    @cached_property
    def _targets(self) -> list[models.Field[Any, Any]]:
        """The fields that say of which type the values are."""
        return [getattr(field, "target_field", field) for field in self.fields]

    @cached_property
    def _typed(self) -> dict[int, type]:
        """The places of numbers and of yes or no, with the type of their values."""
        typed: dict[int, type] = {}
        for field_type, kind in _TYPES:
            typed |= {place: kind for place, field in enumerate(self._targets) if isinstance(field, field_type)}
        return typed

    @cached_property
    def _adapted(self) -> dict[int, models.Field[Any, Any]]:
        """The places of values that this database cannot read as they are, with their fields."""
        adapted = ADAPTED[connection.vendor]
        return {place: field for place, field in enumerate(self._targets) if isinstance(field, adapted)}

    def compare(self, lines: Iterable[str]) -> None:
        """Compare the table with the rows that it was filled with.

        Raises RowError at the first difference.
        """
        for number, (kept, found) in enumerate(zip_longest(lines, self.rows()), 1):
            if kept != found and (kept is None or found is None or not self._equal(kept, found)):
                raise RowError(f"{self.name}: row {number} of the backup differs from the restored one")

    def _equal(self, kept: str, found: str) -> bool:
        """Whether both mean the same: PostgreSQL orders JSON and writes numbers its own way."""
        for field, ours, theirs in zip(self._targets, json.loads(kept), json.loads(found), strict=True):
            if isinstance(field, models.JSONField):
                is_equal = ours == theirs or _parsed(ours) == _parsed(theirs)
            else:
                is_equal = ours == theirs or field.to_python(ours) == field.to_python(theirs)
            if not is_equal:
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


def lock_tables() -> None:
    """Keep other processes away from all tables until this transaction ends.

    All or none of the locks are taken: a process that waits for one while this one waits for
    another is a deadlock. Raises InUse after `LOCK_SECONDS`.
    """
    if connection.vendor == "sqlite":
        return  # the transaction itself keeps them away
    end = time.monotonic() + LOCK_SECONDS
    with connection.cursor() as cursor:
        names = ", ".join(map(connection.ops.quote_name, connection.introspection.table_names(cursor)))
        while True:
            try:
                with transaction.atomic():
                    cursor.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE NOWAIT")
                return
            except OperationalError as error:
                if time.monotonic() > end:
                    raise InUse from error
                time.sleep(0.1)


@contextmanager
def emptied() -> Iterator[None]:
    """Remove the rows that `migrate` has made, and build indexes and references at the end.

    A row is then stored without a look at others, and all of them are checked at once. Raises
    IntegrityError for rows that do not fit together.
    """
    made = sorted(_made())
    with connection.cursor() as cursor:
        dropped = _indexes_and_references(cursor)
        if connection.vendor == "sqlite":
            guards = "SELECT name, sql, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%%_no_delete'"
            cursor.execute(guards)
            triggers = [(name, sql) for name, sql, table in cursor.fetchall() if table in made]
            before = [f'DROP TRIGGER "{name}"' for name, _sql in triggers]
            after = [sql for _name, sql in triggers]
        else:
            before = [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in made]
            after = [f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in made]
        drops = [drop for drop, _build in dropped]
        deletions = [f"DELETE FROM {table}" for table in made]  # noqa: S608
        for statement in (*drops, *before, *deletions, *after):
            cursor.execute(statement)
        yield
        for _drop, build in reversed(dropped):
            cursor.execute(build)
    connection.check_constraints()


def _indexes_and_references(cursor: Any) -> list[tuple[str, str]]:
    """Statements that drop PostgreSQL's, but primary keys, and those that build them again."""
    if connection.vendor == "sqlite":
        return []  # it looks up references in these indexes at each row
    cursor.execute("""
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
               format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint
        WHERE contype IN ('f', 'u') AND connamespace = current_schema()::regnamespace
        ORDER BY contype  -- references before the unique columns that they name
    """)
    constraints = list(cursor.fetchall())
    cursor.execute("""
        SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'i'
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype IN ('p', 'u') AND conindid = indexrelid)
    """)
    return [*constraints, *cursor.fetchall()]


# How SQLite's values are written, the same as PostgreSQL's.
def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, UUID):
        return str(value)
    return base64.b64encode(value).decode()


_JSON = json.JSONEncoder(default=_as_text, ensure_ascii=False)


def _adapt(field: models.Field[Any, Any], value: str) -> Any:
    if isinstance(field, models.BinaryField):
        return base64.b64decode(value)
    return field.get_db_prep_save(field.to_python(value), connection)


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    return json.loads(text, parse_float=Decimal)
