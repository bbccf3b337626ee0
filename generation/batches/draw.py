"""Selects the records of a batch: the first ones, or a seeded draw, of those that pass a filter.

A record's rank in a random draw is the digest of the seed and its own id. So the same seed draws
the same records on any database and in any order of import, and a smaller draw is the beginning of
a larger one. Records are streamed; only as many as are drawn are kept in memory.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform

from generation import errors
from generation.models import Import, Source, SourceRecord
from generation.recipes.trap_plan import largest_remainder

FIRST, RANDOM, STRATIFIED = "first", "random", "stratified"
UNKNOWN = "unknown"  # the value of a field that a record does not have
FIELDS = ("task", "language", "length", "specialty", "theme")
LENGTHS = ((1_000, "short"), (4_000, "medium"))  # below so many characters; else "long"
MAX_STRATA = 1_000
MAX_SEED = 2**31 - 1
STREAMED = 2_000  # records in memory at a time
MAX_OFFERED = 200  # values offered where a filter is typed
TAGGED_RECORDS = 200  # records whose tags are read to find the fields of a source

# The keys of a record's content that hold its text, for all kinds.
_TEXTS = ("turns", "text", "question", "contexts", "long_answer", "knowledge", "context", "statement")
# Primary key, id, kind, and the values of the fields that the draw needs.
_Row = tuple[int, str, str, dict[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Draw:
    """How to draw records.

    `by`: the field whose values are the strata. `where`: field -> values; a record must have one of
    the values of every field.
    """

    mode: str = FIRST
    by: str = ""
    seed: int = 0
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrawnRecords:
    """The records drawn: primary key and kind of each, in the batch's order.

    `summary` describes the draw and is stored with the batch.
    """

    records: list[tuple[int, str]]
    summary: dict[str, Any]


def parse_draw(draw: str = "", seed: int | None = None, where: Mapping[str, Iterable[str]] | None = None) -> Draw:
    """Parse a draw as commands and the API write it: 'first', 'random' or 'stratified:FIELD'.

    Raises WrongDraw.
    """
    mode, colon, name = (draw or FIRST).partition(":")
    if mode not in (FIRST, RANDOM, STRATIFIED):
        raise errors.WrongDraw(f"{draw!r}; known: {FIRST}, {RANDOM}, {STRATIFIED}:FIELD")
    if mode == STRATIFIED and not name:
        raise errors.WrongDraw(f"{draw!r} needs a field: {STRATIFIED}:FIELD")
    if mode != STRATIFIED and colon:
        raise errors.WrongDraw(f"{draw!r}: only {STRATIFIED} takes a field, as {STRATIFIED}:FIELD")
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise errors.WrongDraw(f"seed {seed}: a whole number from 0 to {MAX_SEED}")
    accepted = {name: tuple(dict.fromkeys(values)) for name, values in sorted((where or {}).items())}
    if empty := [name for name, values in accepted.items() if not values]:
        raise errors.WrongDraw(f"no value for {', '.join(empty)}")
    return Draw(mode, name, seed or 0, accepted)


def draw_fields(source: Source) -> list[str]:
    """The fields by which records of a source can be drawn.

    These are the fields of every source, the facets of its imports, and the names of its tags.
    """
    names = dict.fromkeys(FIELDS)
    for facets in Import.objects.filter(source=source).order_by("pk").values_list("facets", flat=True):
        names |= dict.fromkeys(facets)
    tags = (
        SourceRecord.objects.filter(source=source)
        .order_by("pk")
        .values_list("content__tags", flat=True)[:TAGGED_RECORDS]
    )
    for record_tags in tags:
        names |= dict.fromkeys(_parse_tags(record_tags))
    return list(names)


def draw_values(source: Source, fields: Sequence[str]) -> list[tuple[str, str]]:
    """Values of fields as (value, field): those that imports have counted, and of some records."""
    known = dict.fromkeys((label, "length") for label in (*(label for _bound, label in LENGTHS), "long"))
    for facets in Import.objects.filter(source=source).order_by("pk").values_list("facets", flat=True):
        known |= dict.fromkeys((value, name) for name, values in facets.items() for value in values)
    some = SourceRecord.objects.filter(source=source).order_by("pk")
    for *_row, found in _rows(some[:TAGGED_RECORDS], [name for name in fields if name != "length"]):
        known |= dict.fromkeys((value, name) for name, values in found.items() for value in values)
    return list(known)[:MAX_OFFERED]


def draw_records(records: QuerySet[SourceRecord], source: Source, draw: Draw, limit: int | None) -> DrawnRecords:
    """Draw up to `limit` of `records`, which are in the order of their import.

    Raises WrongDraw, NothingToDo.
    """
    _check_fields(source, draw)
    strata: dict[str, list[int]] = {}
    if draw.mode == STRATIFIED:
        available = Counter(_stratum(values, draw.by) for *_row, values in _matching(records, draw))
        if len(available) > MAX_STRATA:
            raise errors.WrongDraw(f"{draw.by} has more than {MAX_STRATA} values")
        quotas = _allocate(available, limit)
        records_drawn = _draw_by_stratum(records, draw, quotas)
        strata = {name: [available[name], quotas[name]] for name in quotas}
        available_count = sum(available.values())
    elif draw.mode == RANDOM:
        counter = _CountingRows(_matching(records, draw))
        records_drawn = _first_by_rank(
            ((_rank(draw.seed, name), name, pk, kind) for pk, name, kind, _values in counter), limit
        )
        available_count = counter.count
    elif draw.where:
        counter = _CountingRows(_matching(records, draw))
        records_drawn = []
        for pk, _name, kind, _values in counter:
            if limit is None or len(records_drawn) < limit:
                records_drawn.append((pk, kind))
        available_count = counter.count
    else:
        rows = records.values_list("pk", "content__kind")[:limit].iterator(chunk_size=STREAMED)
        # Share one string for all records of a kind: a million copies take another 60 MB.
        kinds: dict[str, str] = {}
        records_drawn = [(pk, kinds.setdefault(kind, kind)) for pk, kind in rows]
        available_count = records.count() if limit is not None else len(records_drawn)
    if not records_drawn:
        raise _no_match_error(records, draw) if draw.where else errors.NothingToDo
    summary = {
        "mode": draw.mode,
        "field": draw.by,
        "seed": draw.seed if draw.mode != FIRST else None,
        "where": {name: list(values) for name, values in draw.where.items()},
        "available": available_count,
        "drawn": len(records_drawn),
        "strata": strata,
    }
    return DrawnRecords(records_drawn, summary)


class _CountingRows:
    """Iterates over rows and counts them."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[_Row]:
        for row in self._rows:
            self.count += 1
            yield row


def _check_fields(source: Source, draw: Draw) -> None:
    """Raise WrongDraw, naming the known fields, if the draw asks for a field that no record has."""
    needed = [name for name in dict.fromkeys([draw.by, *draw.where]) if name]
    known = draw_fields(source) if any(name not in FIELDS for name in needed) else FIELDS
    if unknown := [name for name in needed if name not in known]:
        raise errors.WrongDraw(f"unknown field {', '.join(map(repr, unknown))}; known: {', '.join(known)}")


def _matching(records: QuerySet[SourceRecord], draw: Draw) -> Iterator[_Row]:
    """The records that pass the filter, with the values of the fields that the draw needs."""
    for row in _rows(records, [name for name in dict.fromkeys([draw.by, *draw.where]) if name]):
        values = row[-1]
        if all(set(values[name]) & set(accepted) for name, accepted in draw.where.items()):
            yield row


def _rows(records: QuerySet[SourceRecord], names: Sequence[str]) -> Iterator[_Row]:
    keys = sorted({key for name in names for key in _content_keys(name)})
    transforms = (KeyTransform(key, "content") for key in keys)
    rows = records.values_list("pk", "external_id", "content__kind", "language", *transforms)
    for pk, external_id, kind, language, *raw_values in rows.iterator(chunk_size=STREAMED):
        content = {**dict(zip(keys, raw_values, strict=True)), "kind": kind}
        yield pk, external_id, kind, {name: _field_values(name, content, language) for name in names}


def _content_keys(name: str) -> tuple[str, ...]:
    """The keys of a record's content from which a field is read."""
    match name:
        case "task" | "language":
            return ()
        case "length":
            return _TEXTS
        case _:
            return (name, "tags")


def _field_values(name: str, content: Mapping[str, Any], language: str) -> tuple[str, ...]:
    match name:
        case "task":
            return (content["kind"],)
        case "language":
            return (language or UNKNOWN,)
        case "length":
            size = sum(_text_length(content[key]) for key in _TEXTS)
            return (next((label for bound, label in LENGTHS if size < bound), "long"),)
    value = content[name]
    if isinstance(value, str | int) and str(value).strip():
        return (str(value).strip(),)
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str) and item) or (UNKNOWN,)
    return tuple(_parse_tags(content["tags"]).get(name, ())) or (UNKNOWN,)


def _parse_tags(tags: Any) -> dict[str, list[str]]:
    """Parse tags of the form NAME:VALUE into name -> values."""
    values: dict[str, list[str]] = {}
    for tag in tags if isinstance(tags, list) else ():
        name, colon, value = tag.partition(":")
        if name.strip() and colon and value.strip():
            values.setdefault(name.strip(), []).append(value.strip())
    return values


def _text_length(value: Any) -> int:
    """The number of characters of all texts in a value; of a turn, only its content counts."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_text_length, value))
    return _text_length(value.get("content")) if isinstance(value, dict) else 0


def _stratum(values: Mapping[str, tuple[str, ...]], name: str) -> str:
    """The stratum of a record. Several values of the field together make one stratum."""
    return " + ".join(sorted(values[name]))


def _rank(seed: int, external_id: str) -> bytes:
    """A record's rank in a random draw: records are drawn in the order of these digests."""
    return hashlib.sha256(f"{seed}\x1f{external_id}".encode(errors="surrogatepass")).digest()


def _first_by_rank(rows: Iterable[tuple[bytes, str, int, str]], limit: int | None) -> list[tuple[int, str]]:
    """The first `limit` rows by rank; at most that many are in memory."""
    first = sorted(rows) if limit is None else heapq.nsmallest(limit, rows)
    return [(pk, kind) for _digest, _name, pk, kind in first]


def _allocate(available: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """How many records to draw from each stratum, in proportion to its size.

    By the largest remainder. Ties go to the first by name.
    """
    total = sum(available.values())
    weights = {name: Fraction(available[name]) for name in sorted(available)}
    return largest_remainder(weights, total if limit is None else min(limit, total))


def _draw_by_stratum(records: QuerySet[SourceRecord], draw: Draw, quotas: Mapping[str, int]) -> list[tuple[int, str]]:
    """The first records of each stratum by rank, all of them together in the order of rank."""
    heaps: dict[str, list[tuple[int, str, int, str]]] = {name: [] for name in quotas}
    for pk, external_id, kind, values in _matching(records, draw):
        name = _stratum(values, draw.by)
        if not quotas.get(name):  # imported after the count, or too small a stratum for a draw
            continue
        heap = heaps[name]
        # heapq keeps the smallest entry in front, but the last one by rank must go: negate ranks.
        entry = (-int.from_bytes(_rank(draw.seed, external_id)), external_id, pk, kind)
        if len(heap) < quotas[name]:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    drawn = sorted((-negated_rank, name, pk, kind) for heap in heaps.values() for negated_rank, name, pk, kind in heap)
    return [(pk, kind) for _digest, _name, pk, kind in drawn]


def _no_match_error(records: QuerySet[SourceRecord], draw: Draw) -> Exception:
    """The error to raise if no record passes the filter; it lists the values that exist."""
    seen: dict[str, Counter[str]] = {name: Counter() for name in draw.where}
    for *_row, values in _rows(records, list(draw.where)):
        for name in draw.where:
            seen[name].update(values[name])
    if not any(seen.values()):
        return errors.NothingToDo()
    existing = "; ".join(
        f"{name}: {', '.join(value for value, _n in counts.most_common(20))}" for name, counts in seen.items()
    )
    return errors.WrongDraw(f"no matching record is left; existing values: {existing}")
