"""Reads files with the importers.

`recognise` is what a request may do: it looks at the first kilobytes of plain text. `open_file`
reads the whole file, with its images, in a process with limits (`generation.common.limited`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from generation.common import limited
from generation.common.temporary import temporary_folder
from generation.images import checks
from generation.images.checks import CleanImage
from generation.sources import importers
from generation.sources.importers import table
from generation.sources.importers.base import (
    HEAD,
    REST,
    Importer,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    container_of,
    first_byte,
    json_lines,
)
from generation.sources.importers.json_files import array_items, object_items
from generation.sources.importers.table_mapping import TableMapping
from review.rules.shown_fields import Hidden
from review.rules.text_files import open_text

PREVIEW_SECONDS = 5  # of computing, until the next record
_IMAGES_KNOWN = 100_000  # of one file, whose digests are remembered


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What a table was recognised as.

    Attributes:
        columns: (name, first values).
        mapping: the given mapping, or a guess.
        records: of each of the first, {where, id, language, kind, parts: [[field, text]]}, or
            {where, reason}.
        problem: why the mapping does not fit the table; '' if it does.
    """

    layout: str
    found: str
    columns: Hidden[list[tuple[str, tuple[str, ...]]]]
    mapping: Hidden[TableMapping]
    records: list[dict[str, Any]]
    problem: str = ""


# -------------------------------------------------------------------------------- before the import


def recognise(path: Path, importer: Importer) -> Layout | None:
    """The layout of a file by its first HEAD bytes; None if they do not show it.

    They do not in a folder, in a container that the format accepts, and in a longer record. Raises
    WrongFormat; then `looks_like` may know the right format.
    """
    if path.is_dir():
        return None
    container = container_of(path)
    if container in getattr(importer, "containers", ()):
        return None
    if container:
        first_byte(path)  # says what to do
        raise WrongFormat("It is not text: save it as UTF-8.")
    with _beginning(path) as (beginning, is_whole):
        try:
            return importer.sniff(beginning)
        except WrongFormat:
            if is_whole or _has_a_record(beginning):
                raise
            return None


def recognise_whole(path: Path, format_name: str) -> Layout:
    """The layout of a file or folder, which is opened in a process of its own.

    Raises WrongFormat, LimitsExceeded, OSError.
    """
    [name] = limited.stream(sniff, str(path.resolve()), format_name, raises=[WrongFormat])
    return Layout(name)


def preview_table(path: Path, mapping: Mapping[str, Any] | None = None) -> TablePreview:
    """The columns and first records of a table, which is opened in a process of its own.

    mapping: the one of `table_mapping`; if it is not given, it is guessed from the columns.

    Raises WrongFormat, LimitsExceeded, OSError.
    """
    limits = replace(limited.configured(), seconds=PREVIEW_SECONDS)
    messages = limited.stream(table.preview, str(path.resolve()), mapping, raises=[WrongFormat], limits=limits)
    head = next(messages)
    records: list[dict[str, Any]] = []
    problem = ""
    try:
        records += messages
    except WrongFormat as error:
        problem = error.detail
    return TypeAdapter(TablePreview).validate_python({**head, "records": records, "problem": problem})


def looks_like(path: Path) -> list[str]:
    """The formats that recognise the first HEAD bytes of a file, if it is plain text."""
    if not path.is_file() or container_of(path):
        return []
    with _beginning(path) as (beginning, _is_whole):
        return importers.matching_formats(beginning)


@contextmanager
def _beginning(path: Path) -> Iterator[tuple[Path, bool]]:
    """A copy of the first lines of a file, alone in its folder, and whether that is all of it."""
    with open_text(path, HEAD) as file:
        head = file.read(HEAD + 1)
    is_whole = len(head) <= HEAD
    if not is_whole:
        head = head[: head.rfind(b"\n") + 1] or head[:HEAD]
    with temporary_folder() as folder:
        copy = folder / "file"
        copy.write_bytes(head)
        yield copy, is_whole


def _has_a_record(beginning: Path) -> bool:
    """Whether a text that is cut off has a whole record, so that it shows the format."""
    text = beginning.read_bytes().lstrip()
    match text[:1]:
        case b"<":
            return b"</" in text
        case b"[" | b"{" as start:
            if start == b"{" and b"\n" not in text:  # a line that is cut off, or a whole object on one line
                return False
            if start == b"{" and not isinstance(next(json_lines(beginning))[1], Malformed):
                return True
            items: Iterator[tuple[Any, ...]] = object_items(beginning)
            if start == b"[":
                items = array_items(beginning)
            first = next(items, None)
            return first is not None and not first[0].endswith(REST)
    return b"\n" in text


# --------------------------------------------------------------------------------------- the import


def open_file(
    path: Path,
    format_name: str,
    file_name: str,
    mapping: Mapping[str, Any] | None = None,
    while_silent: Callable[[], object] = lambda: None,
) -> tuple[Layout, Iterator[CleanImage | Row | Refusal]]:
    """The layout of a file, and its rows and refusals, read in a process of its own.

    The images of a row come before it, checked and without metadata, each once; the row's content
    names their digests.

    `while_silent`: see `limited.stream`.

    Raises WrongFormat, LimitsExceeded and OSError, the latter two also while the rows are read.
    """
    arguments = str(path.resolve()), format_name, file_name, mapping or {}
    messages = limited.stream(read, *arguments, raises=[WrongFormat], while_silent=while_silent)
    _word, layout = next(messages)
    return Layout(layout, file_name), map(_entry, messages)


def _entry(message: list[Any]) -> CleanImage | Row | Refusal:
    word, value = message
    match word:
        case "row":
            return Row(**value)
        case "refusal":
            return Refusal(*value)
    return checks.from_json(value)


# These run in the process of the reader.


def sniff(path: str, format_name: str) -> Iterator[str]:
    """The name of the layout."""
    yield importers.load(format_name).sniff(Path(path)).name


def read(path: str, format_name: str, file_name: str, mapping: Mapping[str, Any]) -> Iterator[list[Any]]:
    """What `open_file` returns, as JSON."""
    importer = importers.load(format_name)
    layout = replace(importer.sniff(Path(path)), file=file_name, mapping=mapping)
    yield ["layout", layout.name]
    images = _Images()
    for entry in importer.rows(Path(path), layout):
        if isinstance(entry, Row):
            yield from images.with_row(entry)
        else:
            yield _refusal(entry)


def _refusal(refusal: Refusal) -> list[Any]:
    return ["refusal", [refusal.where, refusal.reason, dict(refusal.facets)]]


class _Images:
    """Checks the images of rows, each once as long as it remembers it."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}  # digest of the file -> digest of its copy

    def with_row(self, row: Row) -> Iterator[list[Any]]:
        """The images of a row that are new, and the row; a refusal if one of them is refused."""
        digests = []
        for picture in row.images:
            try:
                data = picture.read()
                key = hashlib.sha256(data).digest()
                digest = self._known.get(key)
                if digest is None:
                    image = checks.clean(data)
                    yield ["image", checks.as_json(image)]
                    digest = image.sha256
                    if len(self._known) < _IMAGES_KNOWN:
                        self._known[key] = digest
            except (Malformed, checks.BadImage) as error:
                yield _refusal(Refusal(row.where, f"Image {picture.name}: {error}", {"left out": "image"}))
                return
            digests.append(digest)
        if digests:
            content = {**row.content, "images": digests}
        else:
            content = row.content
        yield [
            "row",
            {
                "external_id": row.external_id,
                "title": row.title,
                "language": row.language,
                "language_confidence": row.language_confidence,
                "private": row.private,
                "where": row.where,
                "match": row.match,
                "references": row.references,
                "facets": row.facets,
                "values": row.values,
                "size": row.size,
                "content": content,
            },
        ]
