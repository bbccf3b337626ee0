"""SQL that is written out: what every Next, every page with a case, every draft and every submit asks.

The ORM takes 0.2 to 1.5 ms to build such a statement, a database 0.02 to 0.2 ms to answer it, and there are half a dozen in
each of these requests. Anything else is asked through the ORM.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.functions import Cast
from psycopg import Pipeline
from pydantic_core import from_json

Part = TypeVar("Part")
Row = TypeVar("Row", bound=models.Model)
Rows = models.QuerySet[Any, tuple[Any, ...]]


def if_any(query: "models.QuerySet[Row]") -> list[Row]:
    """Its rows. Where it is known that there are none nothing is asked: to compile a query that finds nothing takes as long as
    to compile any other."""
    return [] if query.query.is_empty() else list(query)


def first_row(sql: str, *params: Any) -> tuple[Any, ...] | None:
    """The first row that `sql` finds, its values as the database driver gives them; None: it finds none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def rows_of(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """All rows that `sql` finds, their values as the database driver gives them."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def execute(sql: str, *params: Any) -> int:
    """How many rows a statement has written."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        written: int = cursor.rowcount
        return written


def instances(sql: str, params: Sequence[Any], /, **parts: "type[models.Model] | Without") -> list[tuple[Any, ...]]:
    """Whole rows of several models in one statement.

    In `sql`, `{a}` stands for the columns of the model given as `a`, which is its alias there too. Every row holds an instance
    for each of `parts`, in their order (None where an outer join found no row), and behind them what else was selected.
    `{a}, {b}` come first after SELECT, in the order of `parts`.
    """
    statement, readers = _read(sql, tuple(parts.items()))
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return [_made(readers, row) for row in cursor.fetchall()]


class _Compared(models.Func):
    """A column compared with values that go to PostgreSQL as they are."""

    output_field = models.BooleanField()

    def as_postgresql(self, compiler: Any, connection: Any, **_options: Any) -> tuple[str, list[Any]]:
        column, *values = self.get_source_expressions()
        sql, params = compiler.compile(column)
        return f"{sql} {self.extra['comparison']}", [*params, *(value.value for value in values)]


def _compared(column: str, comparison: str, *values: Any) -> models.Q:
    held = [models.Value(value, output_field=models.JSONField()) for value in values]
    return models.Q(_Compared(models.F(column), *held, comparison=comparison))


def among(column: str, values: Collection[Any]) -> models.Q:
    """A filter for the ORM as `column__in`, whose statement does not grow with the values: one that names hundreds of them
    takes longer to build and to parse than to answer. The values are numbers or texts."""
    if connection.vendor != "postgresql":
        return models.Q(**{f"{column}__in": values})
    return _compared(column, "= ANY(%s)", values if isinstance(values, _Later) else list(values))


def between(column: str, first: int, last: int) -> models.Q:
    """A filter for the ORM as `column__range`, for a statement that is `repeated`."""
    if connection.vendor != "postgresql":
        return models.Q(**{f"{column}__range": (first, last)})
    return _compared(column, "BETWEEN %s AND %s", first, last)


def as_text(column: str) -> Cast:
    """A JSON column for `values_list` as its text. `json_of` makes it a value in half the time that the ORM takes."""
    return Cast(column, models.TextField())


@contextmanager
def pipelined() -> Iterator[None]:
    """Within, what is `repeated` is looked for while Python works on (PostgreSQL). To read only: no transaction can begin."""
    connection.ensure_connection()
    if connection.vendor == "postgresql" and Pipeline.is_supported():
        with connection.connection.pipeline():
            yield
    else:
        yield


def is_pipelined() -> bool:
    """Whether statements can be sent before the answers to earlier ones are read."""
    return (
        connection.vendor == "postgresql"
        and bool(connection.connection)
        and bool(connection.connection.pgconn.pipeline_status)
    )


class _Later(list[Any]):
    """Stands for a value in a statement that is built before the value is known."""


def repeated(rows_of: Callable[..., Rows], values: int = 1) -> Callable[..., Callable[[], list[tuple[Any, ...]]]]:
    """What requests the rows of `values_list` (numbers, texts and truth values) for some values after others, and gives what
    gives them. They are asked for at once where statements are `pipelined`, and elsewhere when they are wanted.

    rows_of: takes so many values, for `among` and `between` alone. Where statements are pipelined it is called once: the ORM
    takes as long to build a statement as PostgreSQL to answer it.
    """
    if not is_pipelined():
        return lambda *given: lambda: list(rows_of(*given))
    driver = connection.connection
    places = [_Later() for _ in range(values)]
    sql, params = rows_of(*places).query.sql_with_params()

    def request(*given: Any) -> Callable[[], list[tuple[Any, ...]]]:
        known = {id(place): value for place, value in zip(places, given, strict=True)}
        cursor = driver.cursor()
        cursor.execute(sql, [known.get(id(param), param) for param in params])
        return lambda: list(cursor.fetchall())

    return request


def requested(rows: Rows) -> Callable[[], list[tuple[Any, ...]]]:
    """The same for rows that are asked for once."""
    return repeated(lambda: rows, values=0)()


def ahead(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts, each given out when the next one is there, which has then requested its rows."""
    held: list[Part] = []
    for part in parts:
        yield from held
        held = [part]
    yield from held


class _Instant(models.Func):
    """A time in UTC to the microsecond, as `chain_entries.instant` writes it."""

    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        form = """TO_CHAR(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        return self.as_sql(compiler, connection, template=form, **options)

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        form = "SUBSTR(REPLACE(%(expressions)s, ' ', 'T') || '.000000', 1, 26) || 'Z'"  # it keeps no fraction of zero
        return self.as_sql(compiler, connection, template=form, **options)


def instant_of(column: str) -> models.Func:
    """A column of times for `values_list` as ``2026-03-01T09:30:00.000000Z``. Reading a time takes the driver longer than all
    else that is done to an event of the trail."""
    return _Instant(column)


def json_of(text: str) -> Any:
    """The value of a JSON column that was read `as_text`."""
    try:
        return from_json(text)  # three times as fast as `json.loads`
    except ValueError:
        return json.loads(text)  # half a surrogate pair, or nested deeper than 200


@dataclass(frozen=True, slots=True)
class Without:
    """A model without one of its columns, which is read when it is asked for."""

    model: type[models.Model]
    column: str


def update(row: models.Model, *names: str) -> None:
    """Write these attributes of a stored row, as `save(update_fields=names)` does."""
    statement, values = _update_of(row, names)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def insert(*rows: models.Model) -> None:
    """Store new rows of one model in one statement. They have no keys yet, and get them by it."""
    _store(rows)


def insert_and_update(rows: Sequence[models.Model], row: models.Model, *names: str) -> None:
    """`insert` and `update` at once: while they last, others may wait for the lock of `row`."""
    if connection.vendor != "postgresql":
        insert(*rows)
        update(row, *names)
        return
    statement, values = _update_of(row, names)
    _store(rows, before=f"WITH updated AS ({statement}) ", values=values)


def insert_missing(row: models.Model) -> bool:
    """Store a new row, unless there is one that has to be the only one of its kind; whether it was stored."""
    return _store([row], "ON CONFLICT DO NOTHING") == 1


def _update_of(row: models.Model, names: tuple[str, ...]) -> tuple[str, list[Any]]:
    statement, fields = _update(type(row), names)
    return statement, [*(field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields), row.pk]


def _store(rows: Sequence[models.Model], unless: str = "", before: str = "", values: Sequence[Any] = ()) -> int:
    """`before`: what the statement does first, with these values."""
    head, one, fields = _insert(type(rows[0]))
    stored = [field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(f"{before}{head} {', '.join([one] * len(rows))} {unless} RETURNING id", [*values, *stored])
        keys = cursor.fetchall()
    for row, (key,) in zip(rows, keys, strict=not unless):
        row.pk = key
        row._state.adding, row._state.db = False, connection.alias
    return len(keys)


@cache
def _update(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, list[Any]]:
    fields = [model._meta.get_field(name) for name in names]
    columns = ", ".join(f'"{field.column}" = %s' for field in fields)  # type: ignore[union-attr]
    key = model._meta.pk.column
    return f"UPDATE {model._meta.db_table} SET {columns} WHERE {key} = %s", fields  # noqa: S608 -- names of the models


@cache
def _insert(model: type[models.Model]) -> tuple[str, str, list[Any]]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    head = f"INSERT INTO {model._meta.db_table} ({columns}) VALUES"
    return head, f"({', '.join(['%s'] * len(fields))})", fields


def prepared(model: type[models.Model], name: str, value: object) -> Any:
    """A value of the attribute as a parameter: times, tokens and JSON are written in their own way by each database."""
    return model._meta.get_field(name).get_db_prep_save(value, connection)  # type: ignore[union-attr]


def locks(*aliases: str) -> str:
    """The end of a SELECT that locks the rows of `aliases`, in this order, as `select_for_update(of=...)` does.

    `no key <alias>` is the weaker lock that lets others refer to the row. Nothing where writers take turns.
    """
    if not connection.features.has_select_for_update:
        return ""
    return "".join(
        f" FOR NO KEY UPDATE OF {alias.removeprefix('no key ')}"
        if alias.startswith("no key ")
        else f" FOR UPDATE OF {alias}"
        for alias in aliases
    )


def planned_once() -> str:
    """A column more of a SELECT, after which PostgreSQL plans each statement of the transaction once for all values.

    Otherwise it plans it anew at least five times, or for ever where that looks a little cheaper; and planning a claim takes
    longer than the claim.
    """
    return ", set_config('plan_cache_mode', 'force_generic_plan', TRUE)" if connection.vendor == "postgresql" else ""


@dataclass(frozen=True, slots=True)
class _Reader:
    model: type[models.Model]
    names: tuple[str, ...]
    key: int  # the place of the primary key
    converters: tuple[tuple[int, tuple[Callable[[Any, Any, Any], Any], ...], Any], ...]

    def read(self, values: list[Any]) -> models.Model | None:
        if values[self.key] is None:
            return None
        for place, functions, expression in self.converters:
            for function in functions:
                values[place] = function(values[place], expression, connection)
        return self.model.from_db(connection.alias, self.names, values)


@cache
def _read(sql: str, parts: tuple[tuple[str, Any], ...]) -> tuple[str, tuple[_Reader, ...]]:
    """The statement as it is sent, and how its rows are read; the same for as long as a process lives."""
    columns, readers = {}, []
    for alias, part in parts:
        model, without = (part.model, part.column) if isinstance(part, Without) else (part, "")
        fields = [field for field in model._meta.concrete_fields if field.attname != without]
        columns[alias] = ", ".join(f'{alias}."{field.column}"' for field in fields)
        converters = []
        for place, field in enumerate(fields):
            expression = field.get_col(alias)
            functions = (
                *connection.ops.get_db_converters(expression),
                *expression.get_db_converters(connection),
            )
            if functions:
                converters.append((place, functions, expression))
        names = tuple(field.attname for field in fields)
        readers.append(_Reader(model, names, names.index(model._meta.pk.attname), tuple(converters)))
    return sql.format(**columns), tuple(readers)


def _made(readers: Sequence[_Reader], row: Sequence[Any]) -> tuple[Any, ...]:
    made: list[Any] = []
    start = 0
    for reader in readers:
        end = start + len(reader.names)
        made.append(reader.read(list(row[start:end])))
        start = end
    return (*made, *row[start:])
