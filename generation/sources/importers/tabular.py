"""Formats whose records are rows with named columns, whatever the file: JSON Lines, CSV or Parquet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    LOOK,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    first_byte,
    json_lines,
    storable,
)
from generation.sources.importers.tables import csv_header, csv_records, is_parquet, parquet_columns, parquet_records

JSONL, CSV, PARQUET = "jsonl", "csv", "parquet"
_NONE = frozenset({"", "none", "null", "nan"})  # how a table writes that there is nothing


def sniff(path: Path, columns: Sequence[str], label: str, *, layouts: Sequence[str] = (JSONL, CSV, PARQUET)) -> Layout:
    """Recognise a file with these columns. Raises WrongFormat that names the missing ones."""
    if PARQUET in layouts and is_parquet(path):
        _check(columns, parquet_columns(path))
        return Layout(PARQUET)
    match first_byte(path):
        case b"[":
            raise WrongFormat(f"It is a JSON array; {label} has one JSON object on each line.")
        case b"{":
            return _sniff_lines(path, columns)
    if CSV not in layouts:
        raise WrongFormat(f"It is not JSON Lines, as {label} is.")
    _check(columns, csv_header(path))
    return Layout(CSV)


def _sniff_lines(path: Path, columns: Sequence[str]) -> Layout:
    problem = ""
    for number, value in json_lines(path, LOOK):
        if isinstance(value, Malformed):
            problem = problem or f"Line {number}: {value}"
        elif not isinstance(value, dict):
            problem = problem or f"Line {number} is not a JSON object."
        elif missing := _missing(columns, value):
            problem = problem or f"Its records lack {missing}."
        else:
            return Layout(JSONL)
    raise WrongFormat(problem)


def _missing(columns: Sequence[str], there: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"'{column}'" for column in columns if column not in there)


def _check(columns: Sequence[str], there: Sequence[str]) -> None:
    if missing := _missing(columns, there):
        raise WrongFormat(f"It has no column {missing}.")


def rows(
    path: Path, layout: Layout, columns: Sequence[str], read: Callable[[dict[str, Any], str], Row]
) -> Iterator[Row | Refusal]:
    """What `read` makes of each record and its place; where it raises Malformed, the refusal. Of a Parquet file, only
    `columns` are read."""
    return (read_or_refused(record, where, read) for where, record in _records(path, layout, columns))


def read_or_refused(record: Any, where: str, read: Callable[[dict[str, Any], str], Row]) -> Row | Refusal:
    """What `read` makes of one record; where it raises Malformed, or what it makes cannot be stored, the refusal."""
    try:
        if isinstance(record, Malformed):
            raise record
        if not isinstance(record, dict):
            raise Malformed("The line is not a JSON object.")
        row = read(record, where)
        storable([row.external_id, row.title])
        # It is nobody else's yet, and a copy would take as long as half of some records.
        object.__setattr__(row, "written", (storable(row.content), storable(row.private)))
        return row
    except Malformed as error:
        return Refusal(where, str(error))


def _records(path: Path, layout: Layout, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    match layout.name:
        case "jsonl":
            return ((f"line {number}", value) for number, value in json_lines(path))
        case "csv":
            return csv_records(path)
        case "parquet":
            return parquet_records(path, lambda column: column in columns)
    raise WrongFormat(f"There is no layout {layout.name!r} of this format.")


def optional_text(record: Mapping[str, Any], key: str) -> str:
    """The text under `key`, without space around it; '' where there is none ('None' and 'nan' in a table). Raises Malformed."""
    value = record.get(key)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is not a text.")
    value = value.strip()
    return "" if value.casefold() in _NONE else value


def yes_or_no(record: Mapping[str, Any], key: str) -> bool:
    """True or false under `key`, however a table writes it. Raises Malformed."""
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
    """The split that a file's name tells: 'train', 'dev' or 'test'; '' where it tells none, or several."""
    name = Path(layout.file).stem if layout.file else path.stem
    words = set("".join(c if c.isalpha() else " " for c in name.casefold()).split())
    found = [split for split, names in _SPLITS.items() if words & set(names)]
    return found[0] if len(found) == 1 else ""
