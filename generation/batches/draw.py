"""Which records a batch takes: the first, or a seeded draw, of those that a filter lets through.

A record's place in a random draw is the digest of the seed and its own id, so that the same seed draws the same records on any
database, in any order of import, and a smaller draw is the beginning of a larger one. Records are streamed; no more of them
are kept than are drawn.
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
LENGTHS = ((1_000, "short"), (4_000, "medium"))  # characters below which a record's text is called so; others are long
MOST_STRATA = 1_000
MAX_SEED = 2**31 - 1
STREAMED = 2_000  # records in memory at once
LOOK = 200  # records whose tags are looked at to name the fields of a source

# What of a record's content is its text, whatever its kind.
_TEXTS = ("turns", "text", "question", "contexts", "long_answer", "knowledge", "context", "statement")
_Row = tuple[
    int, str, str, dict[str, tuple[str, ...]]
]  # primary key, id, kind, values of the fields that were asked for


@dataclass(frozen=True, slots=True)
class Draw:
    """How records are drawn. `by`: the field of the strata. `where`: field -> values, of which a record must have one, for
    every field."""

    mode: str = FIRST
    by: str = ""
    seed: int = 0
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The records drawn (primary key and kind, in the batch's order), and what is kept of the draw with the batch."""

    records: list[tuple[int, str]]
    kept: dict[str, Any]


def read_draw(draw: str = "", seed: int | None = None, where: Mapping[str, Iterable[str]] | None = None) -> Draw:
    """A draw as commands and the API write it: 'first', 'random' or 'stratified:FIELD'. Raises WrongDraw."""
    mode, colon, name = (draw or FIRST).partition(":")
    if mode not in (FIRST, RANDOM, STRATIFIED):
        raise errors.WrongDraw(f"{draw!r}; known: {FIRST}, {RANDOM}, {STRATIFIED}:FIELD")
    if mode == STRATIFIED and not name:
        raise errors.WrongDraw(f"{draw!r} needs a field: {STRATIFIED}:FIELD")
    if mode != STRATIFIED and colon:
        raise errors.WrongDraw(f"{draw!r}: only {STRATIFIED} takes a field, as {STRATIFIED}:FIELD")
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise errors.WrongDraw(f"seed {seed}: a whole number from 0 to {MAX_SEED}")
    wanted = {name: tuple(dict.fromkeys(values)) for name, values in sorted((where or {}).items())}
    if empty := [name for name, values in wanted.items() if not values]:
        raise errors.WrongDraw(f"no value for {', '.join(empty)}")
    return Draw(mode, name, seed or 0, wanted)


def read_where(lines: Iterable[str]) -> dict[str, list[str]]:
    """FIELD=VALUE, any number of them; a field named twice takes either value. Raises WrongDraw."""
    found: dict[str, list[str]] = {}
    for line in lines:
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals and value):
            raise errors.WrongDraw(f"{line!r}: expected FIELD=VALUE")
        found.setdefault(name, []).append(value)
    return found


def fields_of(source: Source) -> list[str]:
    """The fields by which records of a source can be drawn: those of every source, its imports' facets, its tags' names."""
    names = dict.fromkeys(FIELDS)
    for facets in Import.objects.filter(source=source).order_by("pk").values_list("facets", flat=True):
        names |= dict.fromkeys(facets)
    tags = SourceRecord.objects.filter(source=source).order_by("pk").values_list("content__tags", flat=True)[:LOOK]
    for some in tags:
        names |= dict.fromkeys(_named(some))
    return list(names)


def draw_records(records: QuerySet[SourceRecord], source: Source, draw: Draw, limit: int | None) -> Drawn:
    """Draw up to `limit` of `records`, which are in the order of their import. Raises WrongDraw, NothingToDo."""
    _check_fields(source, draw)
    strata: dict[str, list[int]] = {}
    if draw.mode == STRATIFIED:
        available = Counter(_stratum(values, draw.by) for *_row, values in _matching(records, draw))
        if len(available) > MOST_STRATA:
            raise errors.WrongDraw(f"{draw.by} has more than {MOST_STRATA} values")
        quotas = _allocate(available, limit)
        chosen = _by_stratum(records, draw, quotas)
        strata = {name: [available[name], quotas[name]] for name in quotas}
        matching = sum(available.values())
    elif draw.mode == RANDOM:
        counted = _Counted(_matching(records, draw))
        chosen = _smallest(((_place(draw.seed, name), name, pk, kind) for pk, name, kind, _values in counted), limit)
        matching = counted.seen
    elif draw.where:
        counted = _Counted(_matching(records, draw))
        chosen = []
        for pk, _name, kind, _values in counted:
            if limit is None or len(chosen) < limit:
                chosen.append((pk, kind))
        matching = counted.seen
    else:
        rows = records.values_list("pk", "content__kind")[:limit].iterator(chunk_size=STREAMED)
        kinds: dict[str, str] = {}  # one text for all records of a kind: of a million, others would be another 60 MB
        chosen = [(pk, kinds.setdefault(kind, kind)) for pk, kind in rows]
        matching = records.count() if limit is not None else len(chosen)
    if not chosen:
        raise _nothing(records, draw) if draw.where else errors.NothingToDo
    kept = {
        "mode": draw.mode,
        "field": draw.by,
        "seed": draw.seed if draw.mode != FIRST else None,
        "where": {name: list(values) for name, values in draw.where.items()},
        "available": matching,
        "drawn": len(chosen),
        "strata": strata,
    }
    return Drawn(chosen, kept)


class _Counted:
    """Rows that are counted as they pass."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        self._rows = rows
        self.seen = 0

    def __iter__(self) -> Iterator[_Row]:
        for row in self._rows:
            self.seen += 1
            yield row


def _check_fields(source: Source, draw: Draw) -> None:
    """Raises WrongDraw with the known fields, where one is asked for that no record has."""
    asked = [name for name in dict.fromkeys([draw.by, *draw.where]) if name]
    known = fields_of(source) if any(name not in FIELDS for name in asked) else FIELDS
    if unknown := [name for name in asked if name not in known]:
        raise errors.WrongDraw(f"unknown field {', '.join(map(repr, unknown))}; known: {', '.join(known)}")


def _matching(records: QuerySet[SourceRecord], draw: Draw) -> Iterator[_Row]:
    """The records that the filter lets through, with the values of the fields that the draw asks for."""
    for row in _rows(records, [name for name in dict.fromkeys([draw.by, *draw.where]) if name]):
        values = row[-1]
        if all(set(values[name]) & set(wanted) for name, wanted in draw.where.items()):
            yield row


def _rows(records: QuerySet[SourceRecord], names: Sequence[str]) -> Iterator[_Row]:
    keys = sorted({key for name in names for key in _keys(name)})
    read = (KeyTransform(key, "content") for key in keys)
    rows = records.values_list("pk", "external_id", "content__kind", "language", *read)
    for pk, external_id, kind, language, *found in rows.iterator(chunk_size=STREAMED):
        content = {**dict(zip(keys, found, strict=True)), "kind": kind}
        yield pk, external_id, kind, {name: _values(name, content, language) for name in names}


def _keys(name: str) -> tuple[str, ...]:
    """The keys of a record's content that a field is read from."""
    match name:
        case "task" | "language":
            return ()
        case "length":
            return _TEXTS
        case _:
            return (name, "tags")


def _values(name: str, content: Mapping[str, Any], language: str) -> tuple[str, ...]:
    match name:
        case "task":
            return (content["kind"],)
        case "language":
            return (language or UNKNOWN,)
        case "length":
            size = sum(_size(content[key]) for key in _TEXTS)
            return (next((label for bound, label in LENGTHS if size < bound), "long"),)
    own = content[name]
    if isinstance(own, str | int) and str(own).strip():
        return (str(own).strip(),)
    if isinstance(own, list):
        return tuple(one for one in own if isinstance(one, str) and one) or (UNKNOWN,)
    return tuple(_named(content["tags"]).get(name, ())) or (UNKNOWN,)


def _named(tags: Any) -> dict[str, list[str]]:
    """The tags of the form NAME:VALUE."""
    found: dict[str, list[str]] = {}
    for tag in tags if isinstance(tags, list) else ():
        name, colon, value = tag.partition(":")
        if name.strip() and colon and value.strip():
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def _size(value: Any) -> int:
    """The characters of every text in a value; of a turn, those of what was said."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_size, value))
    return _size(value.get("content")) if isinstance(value, dict) else 0


def _stratum(values: Mapping[str, tuple[str, ...]], name: str) -> str:
    """The one stratum of a record; where it has several values of the field, they are one together."""
    return " + ".join(sorted(values[name]))


def _place(seed: int, external_id: str) -> bytes:
    return hashlib.sha256(f"{seed}\x1f{external_id}".encode(errors="surrogatepass")).digest()


def _smallest(rows: Iterable[tuple[bytes, str, int, str]], limit: int | None) -> list[tuple[int, str]]:
    """The first `limit` in the order of their places: at most so many are in memory."""
    found = sorted(rows) if limit is None else heapq.nsmallest(limit, rows)
    return [(pk, kind) for _place, _name, pk, kind in found]


def _allocate(available: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """How many of each stratum: in proportion to its size, by the largest remainder; ties go to the first by name."""
    whole = sum(available.values())
    weights = {name: Fraction(available[name]) for name in sorted(available)}
    return largest_remainder(weights, whole if limit is None else min(limit, whole))


def _by_stratum(records: QuerySet[SourceRecord], draw: Draw, quotas: Mapping[str, int]) -> list[tuple[int, str]]:
    """The first of each stratum in the order of their places, all in that order together."""
    heaps: dict[str, list[tuple[int, str, int, str]]] = {name: [] for name in quotas}
    for pk, external_id, kind, values in _matching(records, draw):
        name = _stratum(values, draw.by)
        if not quotas.get(name):  # imported since they were counted, or too few to be drawn
            continue
        heap = heaps[name]
        # heapq keeps the smallest in front, and the one to go is the last by place: so the places are negated.
        entry = (-int.from_bytes(_place(draw.seed, external_id)), external_id, pk, kind)
        if len(heap) < quotas[name]:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    drawn = sorted((-place, name, pk, kind) for heap in heaps.values() for place, name, pk, kind in heap)
    return [(pk, kind) for _place, _name, pk, kind in drawn]


def _nothing(records: QuerySet[SourceRecord], draw: Draw) -> Exception:
    """What to say where the filter lets nothing through: the values that there are."""
    seen: dict[str, Counter[str]] = {name: Counter() for name in draw.where}
    for *_row, values in _rows(records, list(draw.where)):
        for name in draw.where:
            seen[name].update(values[name])
    if not any(seen.values()):
        return errors.NothingToDo()
    there = "; ".join(
        f"{name}: {', '.join(value for value, _n in counts.most_common(20))}" for name, counts in seen.items()
    )
    return errors.WrongDraw(f"no record is left that matches; values there are: {there}")
