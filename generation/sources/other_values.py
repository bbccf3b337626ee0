"""Draws what another record of the same source says under the same name: seeded, indexed, and never what this one says.

Values are kept some dozens a row, numbered by name. A draw begins at a number that its seed tells, goes round all of that name
from there and takes one of the next few: where many read the same, the value after them is not drawn for each of them.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import QuerySet

from generation.common import chunks
from generation.models import NamedValues, Source, SourceRecord
from generation.sources.importers.base import digest_of, plain
from review.common import bulk_rows

FEW = 16  # values of which one is drawn
TOGETHER = 64  # values of a row
LONG = 100_000  # characters of a row of several
PAGE = 64  # rows read at once, at most


def keep(source: Source, records: Iterable[tuple[int, Iterable[tuple[str, str]]]]) -> None:
    """Keep the values of new records (key, name and text of each), after those that are there. In a transaction."""
    by_name: dict[str, list[Any]] = defaultdict(list)
    for record, values in records:
        for name, text in values:
            by_name[name] += (record, text)
    if not by_name:
        return
    Source.objects.select_for_update().get(pk=source.pk)  # no other import numbers its values meanwhile
    for some in chunks.chunked(iter(by_name.items())):
        ends = _ends(source, digests := [digest_of(name) for name, _values in some])
        rows = [
            (source.pk, digest, first, first + len(part) // 2, json.dumps(part))
            for digest, (_name, values) in zip(digests, some, strict=True)
            for first, part in _parts(values, ends.get(digest, 0))
        ]
        for chunk in chunks.chunked(iter(rows)):
            bulk_rows.insert_new(NamedValues, ("source_id", "name", "first", '"end"', '"values"'), chunk)


def _parts(values: list[Any], first: int) -> Iterator[tuple[int, list[Any]]]:
    """What each row has of these values, and the number of the first in it."""
    at = 0
    while at < len(values):
        part = values[at : at + 2 * TOGETHER]
        if sum(map(len, part[1::2])) > LONG:
            size = accumulate(map(len, part[1::2]))
            part = part[: 2 * max(1, sum(each <= LONG for each in size))]
        yield first + at // 2, part
        at += len(part)


def _ends(source: Source, names: list[str]) -> dict[str, int]:
    """How many values there are under each of these names that is known. One look into the index for each."""
    marks = ", ".join(["(%s)"] * len(names))
    with connection.cursor() as cursor:
        cursor.execute(
            f'WITH asked (name) AS (VALUES {marks}) SELECT name, (SELECT "end" FROM generation_namedvalues kept WHERE'  # noqa: S608
            " kept.source_id = %s AND kept.name = asked.name ORDER BY first DESC LIMIT 1) FROM asked",
            [*names, source.pk],
        )
        return {name: end for name, end in cursor.fetchall() if end is not None}


class SourceValues:
    """The other records of one record's source."""

    def __init__(self, record: SourceRecord) -> None:
        self._record = record

    async def draw(self, name: str, besides: Collection[str], seed: str) -> str | None:
        """What another record says under this name that is none of `besides`; None where there is nothing. Case and white
        space make no difference."""
        return await sync_to_async(self.draw_now)(name, besides, seed)

    def draw_now(self, name: str, besides: Collection[str], seed: str) -> str | None:
        """The same, at once."""
        own = set(map(plain, besides))
        rows = NamedValues.objects.filter(source=self._record.source_id, name=digest_of(name)).order_by("first")
        end = rows.values_list("end", flat=True).last()
        if not end:
            return None
        lot = _number(seed, self._record.external_id, name)
        others = (text for record, text in _around(rows, lot % end) if record != self._record.pk)
        found = list(islice((text for text in others if plain(text) not in own), FEW))
        return found[_number("choice", str(lot)) % len(found)] if found else None


def _around(rows: QuerySet[NamedValues], start: int) -> Iterator[tuple[int, str]]:
    """All values, from number `start` on and around."""
    begin = rows.filter(first__lte=start).latest("first")
    there = list(_pairs(begin))
    yield from there[start - begin.first :]
    yield from _values(rows, begin.first, None)
    yield from _values(rows, -1, begin.first)
    yield from there[: start - begin.first]


def _values(rows: QuerySet[NamedValues], after: int, before: int | None) -> Iterator[tuple[int, str]]:
    """Those of the rows between two, a few rows at first and more at once where these are not enough."""
    left = rows if before is None else rows.filter(first__lt=before)
    many = 1
    while page := list(left.filter(first__gt=after)[:many]):
        for row in page:
            yield from _pairs(row)
        after, many = page[-1].first, min(2 * many, PAGE)


def _pairs(row: NamedValues) -> Iterator[tuple[int, str]]:
    return zip(row.values[::2], row.values[1::2], strict=True)


def _number(*parts: str) -> int:
    digest = hashlib.sha256("\x1f".join(parts).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8])
