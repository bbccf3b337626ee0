"""Columns of numbers out of the database as arrays: it lists those of each group as one value, so that no row is an object.

Whole numbers come as bytes from PostgreSQL, all else as text: numpy takes ten times as long to read that.
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


class _Together(Func):
    """Two whole numbers below 2**31 as one."""

    template = "(%(expressions)s)"
    arg_joiner = " << 32 | "
    output_field = BigIntegerField()


class _ListedBytes(Aggregate):
    """The numbers of a group, 8 bytes each."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, '')"
    arg_joiner = " || "
    output_field = BinaryField()


Rows = tuple[QuerySet[Any], Sequence[Any]]  # and by which columns they are grouped


def are_small(*kinds: type[Model]) -> bool:
    """Whether the numbers of these rows are below 2**31, and those of a billion more will be."""
    if connection.vendor != "postgresql":
        return False
    return all((kind._default_manager.aggregate(last=Max("pk"))["last"] or 0) < 2**30 for kind in kinds)


def requested_lists(
    parts: Sequence[Rows], *columns: str, small: bool = False, by_index: bool = False
) -> Callable[[], list[tuple[Group, tuple[Ints, ...]]]]:
    """What gives (group, the whole numbers of each column) of several sets of rows, the groups in order. A row without one of
    the numbers is left out. It is one statement, which is sent now where statements are `pipelined`.

    `small`: there are two columns, of numbers below 2**31. `by_index`: an index has the rows in the order of their groups.
    """
    of_whole = _Together(*columns) if small and connection.vendor == "postgresql" else None
    told = _asked(parts, _ListedBytes(_EightBytes(of_whole)) if of_whole else _of_whole(columns), by_index=by_index)
    whole = _apart if of_whole else _whole
    return lambda: [(group, whole(of, columns)) for group, (of,) in told()]


def requested_floats(
    rows: QuerySet[Any], by: Sequence[Any], whole: Sequence[str], texts: str
) -> Callable[[], list[tuple[Group, tuple[Ints, ...], Floats]]]:
    """What gives (group, the whole numbers of each of these columns, all numbers in a column of texts), the groups in order."""
    told = _asked([(rows, by)], _of_whole(whole), _ListedTexts(texts))
    return lambda: [
        (group, _whole(of, whole), np.fromstring(numbers, dtype=np.float64, sep=" ")) for group, (of, numbers) in told()
    ]


def _of_whole(columns: Sequence[str]) -> Aggregate:
    if connection.vendor == "postgresql":
        return _ListedBytes(*map(_EightBytes, columns))
    return _ListedTexts(_Texts(*columns))


def _whole(of: Any, columns: Sequence[str]) -> tuple[Ints, ...]:
    postgresql = connection.vendor == "postgresql"
    numbers = np.frombuffer(of, dtype=">i8") if postgresql else np.fromstring(of, dtype=np.int64, sep=" ")
    return tuple(numbers.reshape(-1, len(columns)).T.astype(np.int64, order="C"))


def _apart(of: Any, _columns: Sequence[str]) -> tuple[Ints, ...]:
    return tuple(np.frombuffer(of, dtype=">i4").reshape(-1, 2).T.astype(np.int64, order="C"))


def _asked(
    parts: Sequence[Rows], *aggregates: Aggregate, by_index: bool = False
) -> Callable[[], list[tuple[Group, Group]]]:
    """What gives (group, what is listed of it): of several, each in the same order."""
    of = {f"listed{at}": each for at, each in enumerate(aggregates)}
    first, *more = (rows.order_by().values_list(*by).annotate(**of) for rows, by in parts)
    query, values = (first.union(*more, all=True) if more else first).query.sql_with_params()
    many = len(parts[0][1])

    def asked() -> Any:
        cursor = connection.cursor()
        if connection.vendor == "postgresql":
            cursor.cursor.format = Format.BINARY  # bytes as they are: as text they are twice as long
        cursor.execute(query, values)
        return cursor

    if is_pipelined() and by_index:
        # Put in a place of its group by a hash, a row takes twice as long as it takes the index to give them in order.
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_hashagg = off")
            there = asked()
            cursor.execute("SET LOCAL enable_hashagg = on")
    else:
        there = asked() if is_pipelined() else None

    def told() -> list[tuple[Group, Group]]:
        with there or asked() as cursor:
            found = [(row[:many], row[many:]) for row in cursor.fetchall() if row[many] is not None]
        return sorted(found, key=lambda each: tuple(map(str, each[0])))

    return told
