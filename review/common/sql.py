"""Hand-written SQL for the busiest requests: Next, pages with a case, saving a draft, submitting.

The ORM takes 0.2 to 1.5 ms to build such a statement, a database 0.02 to 0.2 ms to answer it, and
each of these requests needs half a dozen. Everything else goes through the ORM.
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

T = TypeVar("T")
Row = TypeVar("Row", bound=models.Model)
Rows = models.QuerySet[Any, tuple[Any, ...]]


def rows_unless_empty(query: "models.QuerySet[Row]") -> list[Row]:
    """The rows of `query`; a query known to be empty (`none()`) is not even compiled.

    Compiling an empty query takes as long as compiling any other.
    """
    return [] if query.query.is_empty() else list(query)


def fetch_first_row(sql: str, *params: Any) -> tuple[Any, ...] | None:
    """The first row, its values as the database driver returns them; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def fetch_rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """All rows of the result, their values as the database driver returns them."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def execute(sql: str, *params: Any) -> int:
    """Run a statement and return the number of rows it wrote."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        written: int = cursor.rowcount
        return written


def select_instances(
    sql: str, params: Sequence[Any], /, **parts: "type[models.Model] | DeferredColumn"
) -> list[tuple[Any, ...]]:
    """Select whole instances of several models in one statement.

    In `sql`, `{a}` expands to the columns of the model passed as `a`, and `a` must also be its
    table alias. `{a}, {b}` must come first after SELECT, in the order of `parts`. Each returned row
    has one instance per part, in their order (None where an outer join found no row), followed by
    whatever else was selected.
    """
    statement, readers = _compile(sql, tuple(parts.items()))
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return [_build_instances(readers, row) for row in cursor.fetchall()]


class _Comparison(models.Func):
    """A comparison of a column with values that are passed to PostgreSQL unconverted."""

    output_field = models.BooleanField()

    def as_postgresql(self, compiler: Any, connection: Any, **_options: Any) -> tuple[str, list[Any]]:
        column, *values = self.get_source_expressions()
        sql, params = compiler.compile(column)
        return f"{sql} {self.extra['comparison']}", [*params, *(value.value for value in values)]


def _comparison(column: str, comparison: str, *values: Any) -> models.Q:
    literals = [models.Value(value, output_field=models.JSONField()) for value in values]
    return models.Q(_Comparison(models.F(column), *literals, comparison=comparison))


def among(column: str, values: Collection[Any]) -> models.Q:
    """An ORM filter like `column__in` whose statement does not grow with the number of values.

    A statement that lists hundreds of values takes longer to build and parse than to answer. The
    values must be numbers or texts.
    """
    if connection.vendor != "postgresql":
        return models.Q(**{f"{column}__in": values})
    return _comparison(column, "= ANY(%s)", values if isinstance(values, _Placeholder) else list(values))


def between(column: str, first: int, last: int) -> models.Q:
    """An ORM filter like `column__range`, for use in a `repeatable_query`."""
    if connection.vendor != "postgresql":
        return models.Q(**{f"{column}__range": (first, last)})
    return _comparison(column, "BETWEEN %s AND %s", first, last)


def as_text(column: str) -> Cast:
    """A JSON column as text, for `values_list`; `parse_json` decodes it in half the ORM's time."""
    return Cast(column, models.TextField())


@contextmanager
def pipelined() -> Iterator[None]:
    """Within this context, PostgreSQL answers a `repeatable_query` while Python works on.

    For reading only: no transaction can begin inside.
    """
    connection.ensure_connection()
    if connection.vendor == "postgresql" and Pipeline.is_supported():
        with connection.connection.pipeline():
            yield
    else:
        yield


def is_pipelined() -> bool:
    """Whether statements can be sent before the results of earlier ones have been read."""
    return (
        connection.vendor == "postgresql"
        and bool(connection.connection)
        and bool(connection.connection.pgconn.pipeline_status)
    )


class _Placeholder(list[Any]):
    """Placeholder for a value in a statement that is built before the value is known."""


def repeatable_query(
    build_query: Callable[..., Rows], values: int = 1
) -> Callable[..., Callable[[], list[tuple[Any, ...]]]]:
    """Prepare a query that is run for many sets of values.

    Returns a function that takes the values and returns a function that fetches the rows. Inside
    `pipelined` the statement is sent as soon as the values are passed; elsewhere it runs on
    fetching.

    build_query: builds the query (a `values_list` of numbers, texts and booleans) from that many
    `values`, which it may pass to `among` and `between` only. Inside `pipelined` it is called only
    once, as the ORM takes as long to build a statement as PostgreSQL takes to answer it.
    """
    if not is_pipelined():
        return lambda *arguments: lambda: list(build_query(*arguments))
    driver = connection.connection
    placeholders = [_Placeholder() for _ in range(values)]
    sql, params = build_query(*placeholders).query.sql_with_params()

    def request(*arguments: Any) -> Callable[[], list[tuple[Any, ...]]]:
        by_placeholder = {id(placeholder): value for placeholder, value in zip(placeholders, arguments, strict=True)}
        cursor = driver.cursor()
        cursor.execute(sql, [by_placeholder.get(id(param), param) for param in params])
        return lambda: list(cursor.fetchall())

    return request


def read_ahead(parts: Iterable[T]) -> Iterator[T]:
    """Yield each part only after the next one has been produced, and has thus sent its queries."""
    pending: list[T] = []
    for part in parts:
        yield from pending
        pending = [part]
    yield from pending


class _UtcText(models.Func):
    """A time in UTC to the microsecond, formatted as by `chain_entries.instant`."""

    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        form = """TO_CHAR(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        return self.as_sql(compiler, connection, template=form, **options)

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        form = "SUBSTR(REPLACE(%(expressions)s, ' ', 'T') || '.000000', 1, 26) || 'Z'"  # SQLite stores no zero fraction
        return self.as_sql(compiler, connection, template=form, **options)


def as_utc_text(column: str) -> models.Func:
    """A time column for `values_list` as text like ``2026-03-01T09:30:00.000000Z``.

    Parsing a time in the driver takes longer than everything else done to an event of the trail.
    """
    return _UtcText(column)


def parse_json(text: str) -> Any:
    """Decode a JSON column that was read `as_text`."""
    try:
        return from_json(text)  # three times as fast as `json.loads`
    except ValueError:
        return json.loads(text)  # pydantic refuses lone surrogates and nesting deeper than 200


@dataclass(frozen=True, slots=True)
class DeferredColumn:
    """A model selected without one of its columns, which is loaded on first access."""

    model: type[models.Model]
    column: str


def update(row: models.Model, *names: str) -> None:
    """Update the named fields of a stored row, like `save(update_fields=names)`."""
    statement, values = _update_statement(row, names)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def insert(*rows: models.Model) -> None:
    """Insert new rows of one model in one statement and set their primary keys."""
    _store(rows)


def insert_and_update(rows: Sequence[models.Model], row: models.Model, *names: str) -> None:
    """`insert` and `update` in one statement, to hold the lock of `row` as briefly as possible."""
    if connection.vendor != "postgresql":
        insert(*rows)
        update(row, *names)
        return
    statement, values = _update_statement(row, names)
    _store(rows, prefix=f"WITH updated AS ({statement}) ", values=values)


def insert_if_absent(row: models.Model) -> bool:
    """Insert a row unless it violates a unique constraint; return whether it was inserted."""
    return _store([row], "ON CONFLICT DO NOTHING") == 1


def _update_statement(row: models.Model, names: tuple[str, ...]) -> tuple[str, list[Any]]:
    statement, fields = _update_sql(type(row), names)
    return statement, [*(field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields), row.pk]


def _store(rows: Sequence[models.Model], on_conflict: str = "", prefix: str = "", values: Sequence[Any] = ()) -> int:
    """Insert rows and return how many were inserted; `prefix` (a WITH clause) takes `values`."""
    head, marks, fields = _insert_sql(type(rows[0]))
    row_values = [field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(
            f"{prefix}{head} {', '.join([marks] * len(rows))} {on_conflict} RETURNING id", [*values, *row_values]
        )
        keys = cursor.fetchall()
    for row, (key,) in zip(rows, keys, strict=not on_conflict):
        row.pk = key
        row._state.adding, row._state.db = False, connection.alias
    return len(keys)


@cache
def _update_sql(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, list[Any]]:
    fields = [model._meta.get_field(name) for name in names]
    columns = ", ".join(f'"{field.column}" = %s' for field in fields)  # type: ignore[union-attr]
    key = model._meta.pk.column
    return f"UPDATE {model._meta.db_table} SET {columns} WHERE {key} = %s", fields  # noqa: S608 -- names of the models


@cache
def _insert_sql(model: type[models.Model]) -> tuple[str, str, list[Any]]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    head = f"INSERT INTO {model._meta.db_table} ({columns}) VALUES"
    return head, f"({', '.join(['%s'] * len(fields))})", fields


def db_value(model: type[models.Model], name: str, value: object) -> Any:
    """`value` as a column parameter: each database stores times, UUIDs and JSON differently."""
    return model._meta.get_field(name).get_db_prep_save(value, connection)  # type: ignore[union-attr]


def lock_clause(*aliases: str) -> str:
    """The FOR UPDATE clauses that lock the rows of `aliases`, in this order.

    `no key <alias>` asks for the weaker lock, under which others can still reference the row. Empty
    on SQLite, where writers take turns anyway.
    """
    if not connection.features.has_select_for_update:
        return ""
    return "".join(
        f" FOR NO KEY UPDATE OF {alias.removeprefix('no key ')}"
        if alias.startswith("no key ")
        else f" FOR UPDATE OF {alias}"
        for alias in aliases
    )


def generic_plan_column() -> str:
    """A SELECT column that makes PostgreSQL use generic plans until the transaction ends.

    By default it replans a statement at least five times, or every time where a custom plan looks
    slightly cheaper, and planning a claim takes longer than running it.
    """
    return ", set_config('plan_cache_mode', 'force_generic_plan', TRUE)" if connection.vendor == "postgresql" else ""


@dataclass(frozen=True, slots=True)
class _Reader:
    model: type[models.Model]
    names: tuple[str, ...]
    key: int  # index of the primary key
    converters: tuple[tuple[int, tuple[Callable[[Any, Any, Any], Any], ...], Any], ...]

    def read(self, values: list[Any]) -> models.Model | None:
        if values[self.key] is None:
            return None
        for place, functions, expression in self.converters:
            for function in functions:
                values[place] = function(values[place], expression, connection)
        return self.model.from_db(connection.alias, self.names, values)


@cache
def _compile(sql: str, parts: tuple[tuple[str, Any], ...]) -> tuple[str, tuple[_Reader, ...]]:
    """The expanded statement and the readers of its rows, cached for the life of the process."""
    columns, readers = {}, []
    for alias, part in parts:
        model, without = (part.model, part.column) if isinstance(part, DeferredColumn) else (part, "")
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


def _build_instances(readers: Sequence[_Reader], row: Sequence[Any]) -> tuple[Any, ...]:
    built: list[Any] = []
    start = 0
    for reader in readers:
        end = start + len(reader.names)
        built.append(reader.read(list(row[start:end])))
        start = end
    return (*built, *row[start:])
