"""Columns of numbers read from the database as numpy arrays, without an object per row.

The database aggregates the numbers of each group into one value. PostgreSQL sends integers as
bytes; everything else comes as text, which numpy takes ten times as long to parse.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Aggregate, BigIntegerField, BinaryField, Func, Max, Model, QuerySet, TextField
from numpy.typing import NDArray
from psycopg.pq import Format

from review.common.sql import is_pipelined

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Group = tuple[Any, ...]


class _Texts(Func):
    """Columns as text, separated by spaces."""

    template = "%(expressions)s"
    arg_joiner = " || ' ' || "
    output_field = TextField()


class _JoinedTexts(Aggregate):
    """The texts of a group joined by spaces, in no particular order: they are only counted."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ' ')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="GROUP_CONCAT", **context)


class _IntegerBytes(Func):
    """An integer as eight bytes, big-endian."""

    function = "int8send"
    output_field = BinaryField()


class _PackedPair(Func):
    """Two integers below 2**31 packed into one."""

    template = "(%(expressions)s)"
    arg_joiner = " << 32 | "
    output_field = BigIntegerField()


class _JoinedBytes(Aggregate):
    """The integers of a group concatenated, eight bytes each."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, '')"
    arg_joiner = " || "
    output_field = BinaryField()


Rows = tuple[QuerySet[Any], Sequence[Any]]  # and the columns that group them


def have_small_ids(*models: type[Model]) -> bool:
    """Whether the ids of these models are below 2**31, and stay so for another billion rows."""
    if connection.vendor != "postgresql":
        return False
    return all((model._default_manager.aggregate(last=Max("pk"))["last"] or 0) < 2**30 for model in models)


def send_list_query(
    parts: Sequence[Rows], *columns: str, small: bool = False, by_index: bool = False
) -> Callable[[], list[tuple[Group, tuple[Ints, ...]]]]:
    """Query integer columns by group; returns a function that reads (group, arrays of the columns).

    Groups are in order; rows with a null in a column are left out. All parts are one statement,
    sent immediately while statements are `pipelined`, otherwise when read.

    Args:
        parts: sets of rows with the columns that group them.
        columns: the integer columns to read.
        small: there are two columns, of integers below 2**31, which can be packed into one.
        by_index: an index returns the rows in the order of their groups.
    """
    packed = _PackedPair(*columns) if small and connection.vendor == "postgresql" else None
    read = _send_aggregate_query(
        parts, _JoinedBytes(_IntegerBytes(packed)) if packed else _integer_aggregate(columns), by_index=by_index
    )
    parse = _parse_packed if packed else _parse_integers
    return lambda: [(group, parse(value, columns)) for group, (value,) in read()]


def send_float_query(
    rows: QuerySet[Any], by: Sequence[Any], whole: Sequence[str], texts: str
) -> Callable[[], list[tuple[Group, tuple[Ints, ...], Floats]]]:
    """Query numbers stored as text; returns a function that reads (group, integer arrays, floats).

    `whole`: integer columns; `texts`: a column of space-separated numbers. Groups are in order.
    """
    read = _send_aggregate_query([(rows, by)], _integer_aggregate(whole), _JoinedTexts(texts))
    return lambda: [
        (group, _parse_integers(integers, whole), np.fromstring(numbers, dtype=np.float64, sep=" "))
        for group, (integers, numbers) in read()
    ]


def _integer_aggregate(columns: Sequence[str]) -> Aggregate:
    if connection.vendor == "postgresql":
        return _JoinedBytes(*map(_IntegerBytes, columns))
    return _JoinedTexts(_Texts(*columns))


def _parse_integers(value: Any, columns: Sequence[str]) -> tuple[Ints, ...]:
    postgresql = connection.vendor == "postgresql"
    numbers = np.frombuffer(value, dtype=">i8") if postgresql else np.fromstring(value, dtype=np.int64, sep=" ")
    return tuple(numbers.reshape(-1, len(columns)).T.astype(np.int64, order="C"))


def _parse_packed(value: Any, _columns: Sequence[str]) -> tuple[Ints, ...]:
    return tuple(np.frombuffer(value, dtype=">i4").reshape(-1, 2).T.astype(np.int64, order="C"))


def _send_aggregate_query(
    parts: Sequence[Rows], *aggregates: Aggregate, by_index: bool = False
) -> Callable[[], list[tuple[Group, Group]]]:
    """Query aggregates by group; returns a function that reads (group, aggregates) in order."""
    annotations = {f"listed{position}": aggregate for position, aggregate in enumerate(aggregates)}
    first, *more = (rows.order_by().values_list(*by).annotate(**annotations) for rows, by in parts)
    query, values = (first.union(*more, all=True) if more else first).query.sql_with_params()
    group_size = len(parts[0][1])

    def execute() -> Any:
        cursor = connection.cursor()
        if connection.vendor == "postgresql":
            cursor.cursor.format = Format.BINARY  # as text, bytes take twice the space
        cursor.execute(query, values)
        return cursor

    if is_pipelined() and by_index:
        # Aggregating by hash takes twice as long as reading the rows in the order of the index.
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_hashagg = off")
            cursor_sent = execute()
            cursor.execute("SET LOCAL enable_hashagg = on")
    else:
        cursor_sent = execute() if is_pipelined() else None

    def read() -> list[tuple[Group, Group]]:
        with cursor_sent or execute() as cursor:
            groups = [(row[:group_size], row[group_size:]) for row in cursor.fetchall() if row[group_size] is not None]
        return sorted(groups, key=lambda item: tuple(map(str, item[0])))

    return read
