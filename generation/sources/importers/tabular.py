"""Formats by declaration: which columns a record has, in which kinds of files, and how it is read.

A `RecordFormat` finds the records of JSON Lines, a JSON array, CSV or Parquet, and turns each into
a row; a record that cannot be read becomes a refusal with its place and the reason.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    first_byte,
    id_text,
    json_lines,
    storable_json,
)
from generation.sources.importers.json_files import array_items
from generation.sources.importers.tables import check_csv, csv_records, is_parquet, parquet_columns, parquet_records

JSONL, ARRAY, CSV, PARQUET = "jsonl", "json", "csv", "parquet"
_NO_VALUE = frozenset({"", "none", "null", "nan"})  # how tables write a missing value
_KINDS = {
    JSONL: "one JSON object on each line",
    ARRAY: "one JSON array",
    CSV: "CSV",
    PARQUET: "Parquet",
}


# Makes the row of a record, without its place; of the record, and the split that its file is of
# ('' if that is unknown). Raises Malformed.
Read = Callable[[dict[str, Any], str], Row]


def identity(*kinds: str) -> dict[str, str]:
    """Layouts that are named as their kind of file is."""
    return dict(zip(kinds, kinds, strict=True))


def missing_of(columns: Sequence[str]) -> Callable[[Collection[str]], str]:
    """A function that names those of `columns` which are missing, in words; '' for none."""
    return lambda present: ", ".join(f"'{column}'" for column in columns if column not in present)


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format whose records have named columns.

    Attributes:
        read: see `Read`.
        missing: names the required columns that are not among the given ones, in words.
        layouts: kind of file -> name of the layout.
        wanted: whether a column of a Parquet file is read.
        other: what a record is instead of one of this format, in a sentence; '' if it may be one.
    """

    label: str
    read: Read
    missing: Callable[[Any], str]
    layouts: Mapping[str, str] = field(default_factory=lambda: identity(JSONL))
    wanted: Callable[[str], bool] = lambda _column: True
    other: Callable[[dict[str, Any]], str] = lambda _record: ""

    def sniff(self, path: Path) -> Layout:
        """Raises WrongFormat naming the missing columns, or what the file is instead."""
        if PARQUET in self.layouts and is_parquet(path):
            if missing := self.missing(parquet_columns(path)):
                raise WrongFormat(f"It has no column {missing}.")
            return Layout(self.layouts[PARQUET])
        kind = {b"[": ARRAY, b"{": JSONL}.get(first_byte(path), CSV)
        if kind not in self.layouts:
            is_array = "a JSON array" if kind == ARRAY else "JSON Lines or one JSON object"
            published = " or ".join(_KINDS[known] for known in self.layouts)
            raise WrongFormat(f"It is {is_array if kind != CSV else 'not JSON'}; {self.label} is {published}.")
        if kind == CSV:
            check_csv(path, self.missing)
        elif problem := self._problem(path, kind):
            raise WrongFormat(problem)
        return Layout(self.layouts[kind])

    def _problem(self, path: Path, kind: str) -> str:
        """Why none of the first records is one of this format; '' if one is."""
        problem = ""
        for where, record in islice(records(path, kind), SNIFF_LIMIT):
            if isinstance(record, Malformed):
                problem = problem or f"{where.capitalize()}: {record}"
            elif not isinstance(record, dict):
                whole = " of the array" if kind == ARRAY else ""
                problem = problem or f"{where.capitalize()}{whole} is not a JSON object."
            elif other := self.other(record):
                problem = f"It is {other}"
            elif missing := self.missing(record):
                problem = problem or f"Its records lack {missing}."
            else:
                return ""
        return problem or "It is an array without records."

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """The row of each record, or a refusal. Raises WrongFormat."""
        kind = next((kind for kind, name in self.layouts.items() if name == layout.name), None)
        if kind is None:
            raise WrongFormat(f"There is no layout {layout.name!r} of {self.label}.")
        if kind == CSV:
            check_csv(path, self.missing)
        split = split_of(path, layout)
        found = records(path, kind, self.wanted)
        return (read_or_refused(record, where, split, self.read) for where, record in found)


def read_or_refused(record: Any, where: str, split: str, read: Read) -> Row | Refusal:
    """The row that `read` makes of one record.

    A Refusal if `read` raises Malformed or the row cannot be stored.
    """
    try:
        if isinstance(record, Malformed):
            raise record
        if not isinstance(record, dict):
            raise Malformed(f"The {where.split()[0]} is not a JSON object.")
        row = read(record, split)
        storable_json([row.external_id, row.title])
        # Nothing else refers to the frozen row yet, and for some records a copy would add half the
        # time.
        object.__setattr__(row, "where", where)
        object.__setattr__(row, "encoded", (storable_json(row.content), storable_json(row.private)))
        return row
    except Malformed as error:
        return Refusal(where, str(error))


def records(path: Path, kind: str, wanted: Callable[[str], bool] = lambda _column: True) -> Iterator[tuple[str, Any]]:
    """(position, record or Malformed) of each record; of Parquet, only the columns `wanted`."""
    match kind:
        case "jsonl":
            return ((f"line {number}", value) for number, value in json_lines(path))
        case "json":
            return array_items(path)
        case "csv":
            return csv_records(path)
    return parquet_records(path, wanted)


def optional_text(record: Mapping[str, Any], key: str) -> str:
    """The stripped text under `key`; '' if there is none ('None' and 'nan' in a table).

    Raises Malformed.
    """
    value = record.get(key)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if not isinstance(value, str):
        value = id_text(value)
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is not a text.")
    value = value.strip()
    return "" if value.casefold() in _NO_VALUE else value


def yes_or_no(record: Mapping[str, Any], key: str) -> bool:
    """The boolean under `key`, however a table writes it. Raises Malformed."""
    value = record.get(key)
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    match value.strip().casefold() if isinstance(value, str) else None:
        case "true" | "1" | "yes":
            return True
        case "false" | "0" | "no":
            return False
    raise Malformed(f"'{key}' is neither true nor false." if key in record else f"'{key}' is missing.")


_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation"),
    "test": ("test",),
}


def split_of(path: Path, layout: Layout) -> str:
    """The split in a file's name: 'train', 'dev' or 'test'; '' if it names none or several."""
    name = Path(layout.file).stem if layout.file else path.stem
    words = set("".join(c if c.isalpha() else " " for c in name.casefold()).split())
    splits = [split for split, names in _SPLITS.items() if words & set(names)]
    return splits[0] if len(splits) == 1 else ""
