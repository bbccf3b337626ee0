"""Selects the records of a batch: the first ones, or a seeded draw, of those that pass a filter.

A record's rank in a random draw is the digest of the seed and its own id. So the same seed draws
the same records on any database and in any order of import, and a smaller draw is the beginning of
a larger one. Records are streamed; only as many as are drawn are kept in memory.
"""

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform

from generation import errors
from generation.models import Import, Source, SourceRecord
from generation.recipes.trap_plan import largest_remainder

FIRST, RANDOM, STRATIFIED = "first", "random", "stratified"
UNKNOWN = "unknown"  # the value of a field that a record does not have
FIELDS = ("task", "language", "length", "specialty", "theme")
LENGTHS = ((1_000, "short"), (4_000, "medium"))  # below so many characters
LONG = "long"
MAX_STRATA = 1_000
MAX_SEED = 2**31 - 1
STREAMED = 2_000  # records in memory at a time
MAX_OFFERED = 200  # values offered where a filter is typed
TAGGED_RECORDS = 200  # records whose tags are read to find the fields of a source

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

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

    mode: str
    by: str
    seed: int
    where: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DrawnRecords:
    """The records drawn: primary key and kind of each, in the batch's order.

    `summary` describes the draw and is stored with the batch.
    """

    records: list[tuple[int, str]]
    summary: dict[str, Any]


def parse_draw(draw: str, seed: int, where: Mapping[str, Iterable[str]]) -> Draw:
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
    accepted = {}
    empty = []
    for field, values in sorted(where.items()):
        accepted[field] = tuple(dict.fromkeys(values))
        if not accepted[field]:
            empty.append(field)
    if empty:
        raise errors.WrongDraw(f"no value for {', '.join(empty)}")
    return Draw(mode, name, seed, accepted)


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
    offered: dict[tuple[str, str], None] = {}  # in the order in which they are found

    def offer(field: str, values: Iterable[str]) -> None:
        for value in values:
            offered[value, field] = None

    offer("length", [label for _bound, label in LENGTHS])
    offer("length", [LONG])
    for facets in Import.objects.filter(source=source).order_by("pk").values_list("facets", flat=True):
        for field, values in facets.items():
            offer(field, values)
    some = SourceRecord.objects.filter(source=source).order_by("pk")
    for *_row, found in _rows(some[:TAGGED_RECORDS], [name for name in fields if name != "length"]):
        for field, values in found.items():
            offer(field, values)
    return list(offered)[:MAX_OFFERED]


def draw_records(records: QuerySet[SourceRecord], source: Source, draw: Draw, limit: int | None) -> DrawnRecords:
    """Draw up to `limit` of `records`, which are in the order of their import.

    Raises WrongDraw, NothingToDo.
    """
    _check_fields(source, draw)
    strata: dict[str, list[int]] = {}
    if draw.mode == FIRST and not draw.where:
        records_drawn = _first_records(records, limit)
        available_count = len(records_drawn)
        if limit is not None:
            available_count = records.count()
    else:
        available = _count_strata(records, draw)
        quotas = _allocate(available, limit)
        # A record that was imported after the count may have a stratum without a quota.
        drawn = first_by_rank(_ranked(records, draw), lambda stratum: quotas.get(stratum, 0))
        records_drawn = [(pk, kind) for _external_id, pk, kind in drawn]
        if draw.by:
            strata = {name: [available[name], quota] for name, quota in quotas.items()}
        available_count = available.total()
    if not records_drawn:
        if draw.where:
            raise _no_match_error(records, draw)
        raise errors.NothingToDo
    seed = None
    if draw.mode != FIRST:
        seed = draw.seed
    summary = {
        "mode": draw.mode,
        "field": draw.by,
        "seed": seed,
        "where": {name: list(values) for name, values in draw.where.items()},
        "available": available_count,
        "drawn": len(records_drawn),
        "strata": strata,
    }
    return DrawnRecords(records_drawn, summary)


def _first_records(records: QuerySet[SourceRecord], limit: int | None) -> list[tuple[int, str]]:
    # Share one string for all records of a kind: a million copies take another 60 MB.
    kinds: dict[str, str] = {}
    first = []
    for pk, kind in records.values_list("pk", "content__kind")[:limit].iterator(chunk_size=STREAMED):
        first.append((pk, kinds.setdefault(kind, kind)))
    return first


def _count_strata(records: QuerySet[SourceRecord], draw: Draw) -> Counter[str]:
    """The number of records in each stratum, of those that pass the filter. Raises WrongDraw."""
    counts: Counter[str] = Counter()
    for *_row, values in _matching(records, draw):
        counts[_stratum(values, draw.by)] += 1
    if len(counts) > MAX_STRATA:
        raise errors.WrongDraw(f"{draw.by} has more than {MAX_STRATA} values")
    return counts


def _ranked(records: QuerySet[SourceRecord], draw: Draw) -> Iterator[tuple[str, int, tuple[str, int, str]]]:
    """Each record that passes the filter, as `first_by_rank` takes it."""
    for pk, external_id, kind, values in _matching(records, draw):
        place = pk
        if draw.mode != FIRST:
            place = rank(draw.seed, external_id)
        yield _stratum(values, draw.by), place, (external_id, pk, kind)


def first_by_rank(entries: Iterable[tuple[K, int, T]], room_of: Callable[[K], int]) -> list[T]:
    """The first entries of each group by rank, as many as it has room for, in the order of rank.

    `entries`: (group, rank, entry), streamed; only as many as there is room for are in memory.
    """
    heaps: dict[K, list[tuple[int, T]]] = defaultdict(list)
    for group, rank, entry in entries:
        room, heap = room_of(group), heaps[group]
        # heapq keeps the smallest entry in front, but the last one by rank must go: negate ranks.
        if len(heap) < room:
            heapq.heappush(heap, (-rank, entry))
        elif room > 0:
            heapq.heappushpop(heap, (-rank, entry))
    ranked = []
    for heap in heaps.values():
        ranked += [(-negated, entry) for negated, entry in heap]
    return [entry for _rank, entry in sorted(ranked)]


def _check_fields(source: Source, draw: Draw) -> None:
    """Raise WrongDraw, naming the known fields, if the draw asks for a field that no record has."""
    needed = _needed_fields(draw)
    known: Sequence[str] = FIELDS
    if not set(needed) <= set(FIELDS):
        known = draw_fields(source)
    if unknown := [name for name in needed if name not in known]:
        raise errors.WrongDraw(f"unknown field {', '.join(map(repr, unknown))}; known: {', '.join(known)}")


def _needed_fields(draw: Draw) -> list[str]:
    return [name for name in dict.fromkeys([draw.by, *draw.where]) if name]


def _matching(records: QuerySet[SourceRecord], draw: Draw) -> Iterator[_Row]:
    """The records that pass the filter, with the values of the fields that the draw needs."""
    accepted_values = {name: set(values) for name, values in draw.where.items()}
    for row in _rows(records, _needed_fields(draw)):
        values = row[-1]
        if all(not accepted.isdisjoint(values[name]) for name, accepted in accepted_values.items()):
            yield row


def _rows(records: QuerySet[SourceRecord], names: Sequence[str]) -> Iterator[_Row]:
    needed: set[str] = set()
    for name in names:
        needed.update(_content_keys(name))
    keys = sorted(needed)
    transforms = [KeyTransform(key, "content") for key in keys]
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
            for bound, label in LENGTHS:
                if size < bound:
                    return (label,)
            return (LONG,)
    value = content[name]
    if isinstance(value, str | int) and str(value).strip():
        return (str(value).strip(),)
    if isinstance(value, list):
        texts = tuple(item for item in value if isinstance(item, str) and item)
        return texts or (UNKNOWN,)
    return tuple(_parse_tags(content["tags"]).get(name, ())) or (UNKNOWN,)


def _parse_tags(tags: Any) -> dict[str, list[str]]:
    """Parse tags of the form NAME:VALUE into name -> values."""
    values: dict[str, list[str]] = {}
    if not isinstance(tags, list):
        return values
    for tag in tags:
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
    if isinstance(value, dict):
        return _text_length(value.get("content"))
    return 0


def _stratum(values: Mapping[str, tuple[str, ...]], name: str) -> str:
    """The stratum of a record; "" without a field. Several values together make one stratum."""
    if name:
        return " + ".join(sorted(values[name]))
    return ""


def rank(seed: object, name: str) -> int:
    """The rank of what has this name in a random draw: the digest of both."""
    return int.from_bytes(hashlib.sha256(f"{seed}\x1f{name}".encode(errors="surrogatepass")).digest())


def _allocate(available: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """How many records to draw from each stratum, in proportion to its size.

    By the largest remainder. Ties go to the first by name.
    """
    total = sum(available.values())
    weights = {name: Fraction(available[name]) for name in sorted(available)}
    if limit is not None:
        total = min(limit, total)
    return largest_remainder(weights, total)


def _no_match_error(records: QuerySet[SourceRecord], draw: Draw) -> Exception:
    """The error to raise if no record passes the filter; it lists the values that exist."""
    seen: dict[str, Counter[str]] = {name: Counter() for name in draw.where}
    for *_row, values in _rows(records, list(draw.where)):
        for name in draw.where:
            seen[name].update(values[name])
    if not any(seen.values()):
        return errors.NothingToDo()
    lines = []
    for name, counts in seen.items():
        commonest = [value for value, _n in counts.most_common(20)]
        lines.append(f"{name}: {', '.join(commonest)}")
    existing = "; ".join(lines)
    return errors.WrongDraw(f"no matching record is left; existing values: {existing}")
