"""Draws another record's value under the same name, from the same source, unlike this record's own.

Values are stored several dozen a row, numbered within their name. A draw is seeded: the seed gives
the number to start at. From there it goes around all values of the name and chooses among the next
few different from this record's own, so that a value behind a run of equal ones is not drawn too
often.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import OuterRef, QuerySet, Subquery

from generation.common import chunks
from generation.common.medical_text import words
from generation.models import NamedValues, Source, SourceRecord
from generation.sources.importers.base import digest_of

CANDIDATES = 16  # values from which one is drawn
VALUES_PER_ROW = 64
MAX_ROW_LENGTH = 100_000  # characters, unless the row is a single value
MAX_PAGE = 64  # rows read at once


def store_values(source: Source, records: Iterable[tuple[int, Iterable[Sequence[str]]]]) -> None:
    """Store the values of new records (primary key, (name, text) pairs) after the existing ones.

    Must run in a transaction.
    """
    by_name: dict[str, list[Any]] = defaultdict(list)
    for record, values in records:
        for name, text in values:
            by_name[name] += (record, text)
    if not by_name:
        return
    # So that no other import numbers values at the same time.
    Source.objects.select_for_update().get(pk=source.pk)
    for named in chunks.chunked(iter(by_name.items())):
        digests = [digest_of(name) for name, _values in named]
        ends = _value_counts(source, digests)
        rows = []
        for digest, (_name, pairs) in zip(digests, named, strict=True):
            for first, part in _row_parts(pairs, ends.get(digest, 0)):
                end = first + len(part) // 2
                rows.append(NamedValues(source=source, name=digest, first=first, end=end, values=part))
        for chunk in chunks.chunked(iter(rows)):
            NamedValues.objects.bulk_create(chunk)


def _row_parts(values: list[Any], first: int) -> Iterator[tuple[int, list[Any]]]:
    """Divide values into rows: (number of the row's first value, its values)."""
    position = 0
    while position < len(values):
        part = values[position : position + 2 * VALUES_PER_ROW]
        if sum(map(len, part[1::2])) > MAX_ROW_LENGTH:
            lengths = accumulate(map(len, part[1::2]))
            part = part[: 2 * max(1, sum(length <= MAX_ROW_LENGTH for length in lengths))]
        yield first + position // 2, part
        position += len(part)


def _value_counts(source: Source, names: list[str]) -> dict[str, int]:
    """The number of stored values under each known name, with one index lookup for each."""
    rows = NamedValues.objects.filter(source=source)
    last = rows.filter(name=OuterRef("name")).order_by("-first").values("end")[:1]
    return dict(rows.filter(name__in=names, first=0).values_list("name", Subquery(last)))


class SourceValues:
    """Draws values of the other records of a record's source."""

    def __init__(self, record: SourceRecord) -> None:
        self._record = record

    async def draw(self, name: str, excluded: Collection[str], seed: str) -> str | None:
        """Draw another record's value under this name, none of `excluded`; None if there is none.

        What reads the same (`medical_text.words`) is one value. A replaced revision of a record is
        never drawn.
        """
        return await sync_to_async(self.draw_sync)(name, excluded, seed)

    def draw_sync(self, name: str, excluded: Collection[str], seed: str) -> str | None:
        """Synchronous `draw`."""
        excluded_words = [words(text) for text in excluded]
        rows = NamedValues.objects.filter(source=self._record.source_id, name=digest_of(name)).order_by("first")
        end = rows.values_list("end", flat=True).last()
        if not end:
            return None
        start = _hash_number(seed, self._record.external_id, name)
        pairs = (pair for pair in _values_from(rows, start % end) if words(pair[1]) not in excluded_words)
        candidates = list(islice(self._of_other_records(pairs), CANDIDATES))
        if candidates:
            return candidates[_hash_number("choice", str(start)) % len(candidates)]
        return None

    def _of_other_records(self, pairs: Iterator[tuple[int, str]]) -> Iterator[str]:
        """The texts of the latest revisions of other records."""
        records = SourceRecord.objects.filter(latest=True).exclude(external_id=self._record.external_id)
        while chunk := list(islice(pairs, CANDIDATES)):
            current = set(records.filter(pk__in={pk for pk, _text in chunk}).values_list("pk", flat=True))
            for pk, text in chunk:
                if pk in current:
                    yield text


def _values_from(rows: QuerySet[NamedValues], start: int) -> Iterator[tuple[int, str]]:
    """All (record, text) pairs, from number `start` to the end and around."""
    first_row = rows.filter(first__lte=start).latest("first")
    pairs = list(_pairs(first_row))
    yield from pairs[start - first_row.first :]
    yield from _values_between(rows, first_row.first, None)
    yield from _values_between(rows, -1, first_row.first)
    yield from pairs[: start - first_row.first]


def _values_between(rows: QuerySet[NamedValues], after: int, before: int | None) -> Iterator[tuple[int, str]]:
    """The (record, text) pairs of rows whose `first` is after one number and before another.

    The pages of rows that are read grow, as the first few rows are usually enough.
    """
    if before is None:
        remaining = rows
    else:
        remaining = rows.filter(first__lt=before)
    page_size = 1
    while page := list(remaining.filter(first__gt=after)[:page_size]):
        for row in page:
            yield from _pairs(row)
        after, page_size = page[-1].first, min(2 * page_size, MAX_PAGE)


def _pairs(row: NamedValues) -> Iterator[tuple[int, str]]:
    return zip(row.values[::2], row.values[1::2], strict=True)


def _hash_number(*parts: str) -> int:
    digest = hashlib.sha256("\x1f".join(parts).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8])
