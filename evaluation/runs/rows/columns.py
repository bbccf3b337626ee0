"""Columns of numbers read from the database as numpy arrays, without an object per row.

The database aggregates the numbers of each group into one value. PostgreSQL sends integers as
bytes; everything else comes as text, which numpy takes ten times as long to parse.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Aggregate, BinaryField, Func, QuerySet, TextField
from numpy.typing import NDArray

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


class _JoinedBytes(Aggregate):
    """The integers of a group concatenated, eight bytes each."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, '')"
    arg_joiner = " || "
    output_field = BinaryField()


def read_lists(rows: QuerySet[Any], by: Sequence[Any], *columns: str) -> list[tuple[Group, tuple[Ints, ...]]]:
    """(group, arrays of integer columns) for each group, in order.

    Rows with a null in a column are left out.
    """
    return [
        (group, _parse_integers(value, columns)) for group, (value,) in _aggregate(rows, by, _integer_list(columns))
    ]


def read_floats(
    rows: QuerySet[Any], by: Sequence[Any], whole: Sequence[str], texts: str
) -> list[tuple[Group, tuple[Ints, ...], Floats]]:
    """(group, arrays of integer columns, floats) for each group, in order.

    `whole`: integer columns; `texts`: a column of space-separated numbers.
    """
    return [
        (group, _parse_integers(integers, whole), np.fromstring(numbers, dtype=np.float64, sep=" "))
        for group, (integers, numbers) in _aggregate(rows, by, _integer_list(whole), _JoinedTexts(texts))
    ]


def _integer_list(columns: Sequence[str]) -> Aggregate:
    if connection.vendor == "postgresql":
        return _JoinedBytes(*map(_IntegerBytes, columns))
    return _JoinedTexts(_Texts(*columns))


def _parse_integers(value: Any, columns: Sequence[str]) -> tuple[Ints, ...]:
    postgresql = connection.vendor == "postgresql"
    numbers = np.frombuffer(value, dtype=">i8") if postgresql else np.fromstring(value, dtype=np.int64, sep=" ")
    return tuple(numbers.reshape(-1, len(columns)).T.astype(np.int64, order="C"))


def _aggregate(rows: QuerySet[Any], by: Sequence[Any], *aggregates: Aggregate) -> list[tuple[Group, Group]]:
    """(group, aggregates) of each group, in order."""
    annotations = {f"listed{position}": aggregate for position, aggregate in enumerate(aggregates)}
    query, values = rows.order_by().values_list(*by).annotate(**annotations).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        groups = [(row[: len(by)], row[len(by) :]) for row in cursor.fetchall() if row[len(by)] is not None]
    return sorted(groups, key=lambda item: tuple(map(str, item[0])))
