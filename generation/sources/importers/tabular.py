"""Formats whose records have named columns: JSON Lines, a JSON array, CSV or Parquet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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


def sniff(path: Path, columns: Sequence[str], label: str, *, layouts: Sequence[str] = (JSONL, CSV, PARQUET)) -> Layout:
    """Recognise a file with these columns. Raises WrongFormat naming the missing ones."""
    if PARQUET in layouts and is_parquet(path):
        if missing := _missing(columns, parquet_columns(path)):
            raise WrongFormat(f"It has no column {missing}.")
        return Layout(PARQUET)
    match first_byte(path):
        case b"[":
            raise WrongFormat(f"It is a JSON array; {label} has one JSON object on each line.")
        case b"{":
            return _sniff_lines(path, columns)
    if CSV not in layouts:
        raise WrongFormat(f"It is not JSON Lines, as {label} is.")
    check_csv(path, lambda header: _missing(columns, header))
    return Layout(CSV)


def _sniff_lines(path: Path, columns: Sequence[str]) -> Layout:
    problem = ""
    for number, value in json_lines(path, SNIFF_LIMIT):
        if isinstance(value, Malformed):
            problem = problem or f"Line {number}: {value}"
        elif not isinstance(value, dict):
            problem = problem or f"Line {number} is not a JSON object."
        elif missing := _missing(columns, value):
            problem = problem or f"Its records lack {missing}."
        else:
            return Layout(JSONL)
    raise WrongFormat(problem)


def _missing(columns: Sequence[str], present: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"'{column}'" for column in columns if column not in present)


def rows(
    path: Path, layout: Layout, columns: Sequence[str], read: Callable[[dict[str, Any], str], Row]
) -> Iterator[Row | Refusal]:
    """The row that `read` makes of each record and its position, or a Refusal for Malformed.

    Only `columns` are read from a Parquet file.
    """
    return (read_or_refused(record, where, read) for where, record in records(path, layout, columns))


def read_or_refused(record: Any, where: str, read: Callable[[dict[str, Any], str], Row]) -> Row | Refusal:
    """The row that `read` makes of one record.

    A Refusal if `read` raises Malformed or the row cannot be stored.
    """
    try:
        if isinstance(record, Malformed):
            raise record
        if not isinstance(record, dict):
            raise Malformed(f"The {where.split()[0]} is not a JSON object.")
        row = read(record, where)
        storable_json([row.external_id, row.title])
        # Nothing else refers to the frozen row yet, and for some records a copy would add half the
        # time.
        object.__setattr__(row, "encoded", (storable_json(row.content), storable_json(row.private)))
        return row
    except Malformed as error:
        return Refusal(where, str(error))


def records(path: Path, layout: Layout, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """(position, record or Malformed) of each record.

    Of Parquet only these columns are read, those in an object by the name of the whole.
    """
    match layout.name:
        case "json":
            return array_items(path)
        case "jsonl":
            return ((f"line {number}", value) for number, value in json_lines(path))
        case "csv":
            return csv_records(path)
        case "parquet":
            roots = None if columns is None else {*columns, *(column.partition(".")[0] for column in columns)}
            return parquet_records(path, lambda column: roots is None or column in roots)
    raise WrongFormat(f"There is no layout {layout.name!r} of this format.")


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
