"""Formats by declaration: a model of their records, in which kinds of files, and how it is read.

A `RecordFormat` finds the records of JSON Lines, a JSON array, CSV or Parquet, and turns each into
a row; a record that cannot be read becomes a refusal with its place and the reason.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from generation.sources.importers.base import (
    PARQUET_FILE,
    PICKLE,
    SNIFF_LIMIT,
    TITLE_LENGTH,
    HasConstant,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    checked_id,
    container_of,
    first_byte,
    json_lines,
    storable_json,
)
from generation.sources.importers.json_files import array_items
from generation.sources.importers.pickles import pickled_records
from generation.sources.importers.records import FileRecord
from generation.sources.importers.tables import check_csv, csv_records, parquet_columns, parquet_records
from review.rules.text import one_line

JSONL, ARRAY, CSV, PARQUET, PICKLED = "jsonl", "json", "csv", "parquet", "pickle"
_KINDS = {
    JSONL: "one JSON object on each line",
    ARRAY: "one JSON array",
    CSV: "CSV",
    PARQUET: "Parquet",
    PICKLED: "a pickle",
}
R = TypeVar("R", bound=FileRecord)


@dataclass(frozen=True, slots=True)
class File:
    """What is known of records by their file.

    `stem`: its name without the ending. `split`: the one that the name says: 'train', 'dev' or
    'test'; '' if it names none or several.
    """

    stem: str
    layout: str
    split: str


def identity(*kinds: str) -> dict[str, str]:
    """Layouts that are named as their kind of file is."""
    return dict(zip(kinds, kinds, strict=True))


@dataclass(frozen=True, slots=True)
class RecordFormat(Generic[R]):
    """A format whose records have named columns.

    Attributes:
        row: makes the row of a record, without its place. Raises Malformed.
        layouts: name of a layout -> its kind of file.
        other: what a record is instead of one of this format, in a sentence; '' if it may be one.
    """

    label: str
    model: type[R]
    row: Callable[[R, File], Row]
    layouts: Mapping[str, str] = field(default_factory=lambda: identity(JSONL))
    other: Callable[[dict[str, Any]], str] = lambda _record: ""

    def sniff(self, path: Path) -> Layout:
        """Raises WrongFormat naming the missing columns, or what the file is instead."""
        names = {kind: name for name, kind in self.layouts.items()}
        return Layout(names[recognised_kind(path, self.label, self.model, names, self.other)])

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """The row of each record, or a refusal. Raises WrongFormat."""
        kind = self.layouts[layout.name]
        if kind == CSV:
            check_csv(path, self.model.missing)
        file = file_of(path, layout)
        return read_all(records(path, kind, self.model.wants), partial(self._row, file=file))

    def _row(self, record: dict[str, Any], file: File) -> Row:
        if other := self.other(record):
            raise Malformed(f"This is a row of {other}")
        return self.row(self.model.read(record), file)


def recognised_kind(
    path: Path,
    label: str,
    model: type[FileRecord],
    kinds: Collection[str],
    other: Callable[[dict[str, Any]], str] = lambda _record: "",
) -> str:
    """The kind of a file with records of a model.

    Raises WrongFormat naming the missing columns, or what the file is instead.
    """
    container = container_of(path)
    if PARQUET in kinds and container == PARQUET_FILE:
        if missing := model.missing(parquet_columns(path)):
            raise WrongFormat(f"It has no column {missing}.")
        return PARQUET
    # Old pickles are known by the name only, and an upload by its first byte only.
    is_pickle = PICKLED in kinds and (container == PICKLE or path.suffix.lower() == ".pkl")
    if is_pickle:
        kind = PICKLED
    else:
        kind = {b"[": ARRAY, b"{": JSONL}.get(first_byte(path), CSV)
    if kind not in kinds:
        what = "not JSON"
        if kind == ARRAY:
            what = "a JSON array"
        elif kind != CSV:
            what = "JSON Lines or one JSON object"
        published = " or ".join(_KINDS[known] for known in kinds)
        raise WrongFormat(f"It is {what}; {label} is {published}.")
    if kind == CSV:
        check_csv(path, model.missing)
        return CSV
    problem = ""
    for where, record in islice(records(path, kind, model.wants), SNIFF_LIMIT):
        if isinstance(record, Malformed):
            problem = problem or f"{where.capitalize()}: {record}"
        elif not isinstance(record, dict):
            whole = ""
            if kind == ARRAY:
                whole = " of the array"
            problem = problem or f"{where.capitalize()}{whole} is not a JSON object."
        elif instead := other(record):
            problem = f"It is {instead}"
        elif missing := model.missing(record):
            problem = problem or f"Its records lack {missing}."
        else:
            return kind
    raise WrongFormat(problem or "It is an array without records.")


def read_all(found: Iterable[tuple[str, Any]], read: Callable[[dict[str, Any]], Row]) -> Iterator[Row | Refusal]:
    """The row of each record that was found, or why there is none."""
    for where, record in found:
        yield read_or_refused(record, where, read)


def read_or_refused(record: Any, where: str, read: Callable[[dict[str, Any]], Row]) -> Row | Refusal:
    """The row that `read` makes of one record.

    A Refusal if `read` raises Malformed or the row cannot be stored.
    """
    try:
        if isinstance(record, Malformed):
            raise record
        if not isinstance(record, dict):
            raise Malformed(f"The {where.split()[0]} is not a JSON object.")
        row = read(record)
        # Nothing else refers to the frozen row yet, and for some records a copy would add half the
        # time.
        object.__setattr__(row, "external_id", checked_id(row.external_id))
        object.__setattr__(row, "title", one_line(row.title, TITLE_LENGTH))
        object.__setattr__(row, "where", where)
        storable_json([row.external_id, row.title])
        object.__setattr__(row, "size", len(storable_json(row.content)) + len(storable_json(row.private)))
        return row
    except Malformed as error:
        return Refusal(where, str(error))


def records(path: Path, kind: str, wanted: Callable[[str], bool] = lambda _column: True) -> Iterator[tuple[str, Any]]:
    """(position, record or Malformed) of each record; of Parquet, only the columns `wanted`.

    NaN in a column that nobody wants, as pandas writes it for missing numbers, spoils no record.
    """
    match kind:
        case "csv":
            return csv_records(path, wanted)
        case "parquet":
            return parquet_records(path, wanted)
        case "pickle":
            return pickled_records(path)
        case "json":
            found = array_items(path)
        case _:
            found = _lines(path)
    return wanted_parts(found, wanted)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, value in json_lines(path):
        yield f"line {number}", value


def wanted_parts(found: Iterator[tuple[str, Any]], wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """Records without what is NaN, which are spoiled only if it is `wanted`."""
    for where, value in found:
        if isinstance(value, HasConstant):
            value = value.without(wanted)
        yield where, value


_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation"),
    "test": ("test",),
}


def file_of(path: Path, layout: Layout) -> File:
    """What is known of a file; of an uploaded one, by its original name."""
    if layout.file:
        stem = Path(layout.file).stem
    else:
        stem = path.stem
    words = set(re.findall(r"[^\W\d_]+", stem.casefold()))
    splits = [split for split, names in _SPLITS.items() if words & set(names)]
    split = ""
    if len(splits) == 1:
        split = splits[0]
    return File(stem, layout.name, split)


# ---------------------------------------------------- contents that records of several formats have


def choice_content(dataset: str, question: str, options: Mapping[str, str], answer: str, **more: str) -> dict[str, Any]:
    """The content of a question with options.

    {kind: 'mcq', dataset, question, options: {letter: text}, answer: letter, explanation, subject,
    topic, step, split} and `more`; '' for what is not given.
    """
    texts = dict.fromkeys(("explanation", "subject", "topic", "step", "split"), "")
    fields = {"dataset": dataset, "question": question, "options": options, "answer": answer}
    return {"kind": "mcq", **fields, **texts, **more}


def statement_content(statement: str, context: str, *, factual: bool, task: str, **more: Any) -> dict[str, Any]:
    """The content of a statement.

    {kind: 'statement', statement, context, label: 'factual' | 'non-factual', explanation, task,
    source, pair: '', inner_id, split, synthetic: bool} and `more`.
    """
    label = "non-factual"
    if factual:
        label = "factual"
    fields = {"statement": statement, "context": context, "label": label, "task": task, "source": task}
    rest = {"explanation": "", "pair": "", "inner_id": "", "split": "test", "synthetic": False}
    return {"kind": "statement", **fields, **rest, **more}
