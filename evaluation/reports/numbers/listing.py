"""Columns of numbers out of the database as arrays: it lists those of each group as one value, so that no row is an object.

Whole numbers come as bytes from PostgreSQL, all else as text: numpy takes ten times as long to read that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Aggregate, BinaryField, Func, QuerySet, TextField
from numpy.typing import NDArray
from psycopg.pq import Format

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Group = tuple[Any, ...]


class _Texts(Func):
    """Columns as text, a space between them."""

    template = "%(expressions)s"
    arg_joiner = " || ' ' || "
    output_field = TextField()


class _ListedTexts(Aggregate):
    """The texts of a group as one, spaces between them. In no order: what is counted of them has none."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ' ')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="GROUP_CONCAT", **context)


class _EightBytes(Func):
    """A whole number, its highest byte first."""

    function = "int8send"
    output_field = BinaryField()


class _ListedBytes(Aggregate):
    """The numbers of a group, 8 bytes each."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, '')"
    arg_joiner = " || "
    output_field = BinaryField()


def listed(rows: QuerySet[Any], by: Sequence[Any], *columns: str) -> list[tuple[Group, tuple[Ints, ...]]]:
    """(group, the whole numbers of each column), the groups in order. A row without one of the numbers is left out."""
    return [(group, _whole(of, columns)) for group, (of,) in _told(rows, by, _of_whole(columns))]


def listed_floats(
    rows: QuerySet[Any], by: Sequence[Any], whole: Sequence[str], texts: str
) -> list[tuple[Group, tuple[Ints, ...], Floats]]:
    """(group, the whole numbers of each of these columns, all numbers in a column of texts), the groups in order."""
    return [
        (group, _whole(of, whole), np.fromstring(numbers, dtype=np.float64, sep=" "))
        for group, (of, numbers) in _told(rows, by, _of_whole(whole), _ListedTexts(texts))
    ]


def _of_whole(columns: Sequence[str]) -> Aggregate:
    if connection.vendor == "postgresql":
        return _ListedBytes(*map(_EightBytes, columns))
    return _ListedTexts(_Texts(*columns))


def _whole(of: Any, columns: Sequence[str]) -> tuple[Ints, ...]:
    postgresql = connection.vendor == "postgresql"
    numbers = np.frombuffer(of, dtype=">i8") if postgresql else np.fromstring(of, dtype=np.int64, sep=" ")
    return tuple(numbers.reshape(-1, len(columns)).T.astype(np.int64, order="C"))


def _told(rows: QuerySet[Any], by: Sequence[Any], *aggregates: Aggregate) -> list[tuple[Group, Group]]:
    """(group, what is listed of it): of several, each in the same order."""
    of = {f"listed{at}": each for at, each in enumerate(aggregates)}
    query, values = rows.order_by().values_list(*by).annotate(**of).query.sql_with_params()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.cursor.format = Format.BINARY  # bytes as they are: as text they are twice as long
        cursor.execute(query, values)
        found = [(row[: len(by)], row[len(by) :]) for row in cursor.fetchall() if row[len(by)] is not None]
    return sorted(found, key=lambda each: tuple(map(str, each[0])))
