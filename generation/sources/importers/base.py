"""What all importers share: their value types, and readers whose memory use stays flat.

However large or broken a file is, its readers hold one record at a time. An importer is a module
with the attributes of `Importer`. It does not remember the ids it has seen: the database's unique
constraint finds repeated records. No reason or message quotes a record, because part of it
(HealthBench's canary) must never be shown.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from generation.common.formats import FormatError
from generation.common.languages import detect
from generation.common.limited import LimitsExceeded as LimitsExceeded
from review.rules import json_nesting
from review.rules.text_files import MAX_RECORD as MAX_RECORD
from review.rules.text_files import bare, open_text

HEAD = 64 * 1024  # bytes of a file that are looked at before it is queued
# What follows the position of a Malformed at which reading had to stop.
REST = " and everything after it"
# Records that `sniff` inspects: a few bad ones at the top must not hide a good file.
SNIFF_LIMIT = 50
TITLE_LENGTH = 80  # characters
NOT_UTF_8 = "A text in it contains bytes that are not UTF-8 text."
MOST_EXACT = 2**53  # a float from here on may have been another number
MAX_PARTS = 5_000  # lists and objects of a record, such as its turns and rubrics

# What is not plain text but can be imported, by its first bytes. A format names those that it
# accepts as `containers`; they are opened only in a process with limits (`limited.stream`).
ZIP_ARCHIVE, PARQUET_FILE, PICKLE = "a zip archive", "a Parquet file", "a pickle"
_CONTAINERS = {b"PK\x03\x04": ZIP_ARCHIVE, b"PK\x05\x06": ZIP_ARCHIVE, b"PAR1": PARQUET_FILE, b"\x80": PICKLE}

_MAGIC = (
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"BZh", "a bzip2 archive: unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"),
    (b"PK\x03\x04", "a zip archive (unpack it first) or a spreadsheet (save it as CSV first)"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet or document of Excel or Word: save it as CSV first"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF", "a PDF document"),
    (b"version https://git-lfs", "a Git LFS pointer: the data itself was not downloaded"),
    *((bytes((0x80, protocol)), "a pickle, which is never loaded: it can run code") for protocol in range(2, 6)),
)


class WrongFormat(FormatError):
    """The file is not in this format."""


@dataclass(frozen=True, slots=True)
class Row:
    """One good record.

    Attributes:
        content: JSON-able; may be shown and sent to models. If the records of a format name a
            medical specialty, it is here as `specialty`.
        private: JSON-able; stored with the record, never shown or sent.
        language: ISO 639-1, or '' if not recognised; `language_confidence` is the detector's.
        where: position in the file ('line 12').
        match: the text by which records of other sources refer to this one (a question, a heading's
            name). Compared without regard to case and white space, like `references`.
        references: format -> the `match` texts of the records that this one refers to.
        facets: values by which an import counts its rows (difficulty).
        values: (name, text) of values under names that other records of the source have too
            ('symptoms/time', '2 days'), so that another record's value can be drawn instead.
        images: the images that the record is about, in order. Once they are stored, their digests
            are put into `content` as `images`.
        shares: (kind, text) of each thing that other records may have in common with this one,
            which makes their samples dependent: ('document', its text), ('patient', its number).
            Its images are shared without being named here.
        size: characters of `content` and `private` as JSON.
    """

    external_id: str
    title: str
    language: str
    content: dict[str, Any]
    private: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    language_confidence: float | None = field(default=None, compare=False)
    match: str = ""
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)
    facets: Mapping[str, str] = field(default_factory=dict)
    images: "tuple[RecordImage, ...]" = field(default=(), compare=False)
    values: Sequence[Sequence[str]] = ()
    shares: Sequence[tuple[str, str]] = ()
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One bad record: its position in the file ('line 12', 'record 3') and why it was refused.

    The reason is a sentence that does not quote the record. `facets`: values by which an import
    counts the records it left out.
    """

    where: str
    reason: str
    facets: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_end(self) -> bool:
        """Whether nothing after this record could be read."""
        return self.where.endswith(REST)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout that a file was recognised as: 'jsonl', 'csv-v1', 'json-v2'.

    `file`: the file's original name; an uploaded file is stored under another one. `mapping`: of a
    table, which column is which field (`TableMapping`).
    """

    name: str
    file: str = field(default="", compare=False)
    mapping: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class RecordImage:
    """An image of a row, not yet read. `read` raises Malformed.

    Images are read one at a time, when the row is imported. `identity`: equal for the same image of
    a data set; '' if not known.
    """

    name: str
    read: Callable[[], bytes] = field(repr=False)
    identity: str = ""


class Importer(Protocol):
    """Interface of the modules in this package.

    `restrictions` says in words what the licence or the authors forbid; it is marked for
    translation by `gettext_noop`. A module sets `withheld = True` if they forbid publishing the
    text, and `containers` to those that it reads besides plain text.
    """

    name: str
    label: str
    licence: str
    citation: str
    restrictions: str

    def sniff(self, path: Path) -> Layout:
        """Recognise the file by content. Raises WrongFormat, LimitsExceeded, OSError."""
        ...

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """Stream the records. Raises WrongFormat before the first only, LimitsExceeded anywhere."""
        ...


class Malformed(Exception):
    """A record violates its format. Becomes a Refusal with this text; internal to importers."""


def gettext_noop(text: str) -> str:
    """Mark `text` for translation, like Django's; but importers do not depend on Django."""
    return text


def container_of(path: Path) -> str | None:
    """Which of the containers a file is, by its first bytes; None for another one and a folder."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(4)
    for magic, name in _CONTAINERS.items():
        if start.startswith(magic):
            return name
    return None


def first_byte(path: Path, *, xml: bool = False) -> bytes:
    """The first byte that is neither white space nor part of a byte order mark.

    Raises WrongFormat for files often chosen by mistake: a folder, an empty file, an archive, a
    pickle, a web page (unless `xml` is expected).
    """
    if path.is_dir():
        raise WrongFormat("It is a folder.")
    with path.open("rb") as file:
        head = file.read(64)
        for magic, description in _MAGIC:
            if head.startswith(magic):
                raise WrongFormat(f"It is {description}.")
    with open_text(path, HEAD) as file:
        head = file.read(64)
        if b"\x00" in head[:4]:
            raise WrongFormat("It is not text: save it as UTF-8.")
        head = head.lstrip()
        while not head and (chunk := file.read(MAX_RECORD)):
            head = chunk.lstrip()
    if not head:
        raise WrongFormat("It is empty.")
    if head.startswith(b"<") and not xml:
        raise WrongFormat("It is a web page or XML.")
    return head[:1]


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """(number from 1, line with its line ending), or None for a line longer than MAX_RECORD."""
    number = 0
    while line := file.readline(MAX_RECORD):
        number += 1
        if len(line) < MAX_RECORD or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := file.readline(MAX_RECORD)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def parsed_line(line: bytes | None) -> Any:
    """The JSON value on one line of a JSONL file. Raises Malformed."""
    if line is None:
        raise Malformed(f"The line is longer than {MAX_RECORD:,} bytes.")
    try:
        text = line.decode().removeprefix("\ufeff")  # of a file that was joined from several
        return without_constants(json_nesting.loads(text, parse_constant=Constant), text)
    except UnicodeDecodeError as error:
        raise Malformed(f"The line is not UTF-8 (byte {error.start + 1}).") from None
    except json.JSONDecodeError as error:
        if text.strip() == "{":
            raise Malformed(
                "A JSON object goes on over several lines: write each on one, or all in an array."
            ) from None
        raise Malformed(f"The line is not JSON: {error.msg} (character {error.pos + 1}).") from None
    except json_nesting.TooDeep as error:
        raise Malformed(f"The line cannot be read: {error}.") from None
    except ValueError:  # a number of thousands of digits
        raise Malformed("The line is not JSON that can be read: a number is out of range.") from None


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value or Malformed) for each line that is not blank."""
    with open_text(path) as file:
        for number, line in numbered_lines(file):
            if line is not None and not line.strip():
                continue
            try:
                yield number, parsed_line(line)
            except Malformed as error:
                yield number, error


class Constant(float):
    """NaN, Infinity or -Infinity: no JSON, but written for missing numbers by many tools."""


class HasConstant(Malformed):
    """A field of a record is or contains a Constant; the record is kept for who needs others."""

    def __init__(self, reason: str, record: Any) -> None:
        super().__init__(reason)
        self.record = record

    def without(self, wanted: Callable[[str], bool]) -> Any:
        """The record without its Constants; this error if a `wanted` field has one."""
        if not isinstance(self.record, dict):
            return self
        kept = {}
        for key, value in self.record.items():
            if _constant_in({key: value}) is None:
                kept[key] = value
            elif wanted(key):
                return self
        return kept


def without_constants(value: Any, text: str) -> Any:
    """A value read from a text of JSON; HasConstant, which names the field, if there is one."""
    may_have = "NaN" in text or "Infinity" in text
    if may_have and (reason := _constant_in(value)):
        return HasConstant(reason, value)
    return value


def _constant_in(record: Any) -> str | None:
    """The field of a record in which there is a Constant, in a sentence."""
    if isinstance(record, dict):
        parts = [(part, key) for key, part in record.items()]
    else:
        parts = [(record, "A value of it")]
    for part, key in parts:
        if isinstance(part, Constant):
            name = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(part)]
            return f"{key[:80]!r} is or contains {name}, which is not a number."
        if isinstance(part, dict):
            parts += [(inner, key) for inner in part.values()]
        if isinstance(part, list):
            parts += [(inner, key) for inner in part]
    return None


# In ASCII JSON: escapes of characters that are refused, and of surrogate pairs, which may be valid.
_SUSPECT = re.compile(r"\\u(?:0000|d[89a-f])")
_encode = json.JSONEncoder(allow_nan=False).encode


def storable_json(value: Any) -> str:
    """Encode as JSON. Raises Malformed like `check_storable`, but faster for good values."""
    try:
        encoded = _encode(value)
    except ValueError:
        encoded = ""
    # Texts may contain brackets: only then the parts are counted.
    if not encoded or _SUSPECT.search(encoded) or encoded.count("{") + encoded.count("[") > MAX_PARTS:
        check_storable(value)
    return encoded


def check_storable(value: Any) -> None:
    """Raise Malformed if part of a value cannot be stored by every database or encoded as UTF-8."""
    pending, parts = [value], 0
    while pending:
        part = pending.pop()
        parts += isinstance(part, dict | list)
        if parts > MAX_PARTS:  # each rubric or turn becomes rows, questions and calls
            raise Malformed(f"It has more than {MAX_PARTS:,} parts.")
        if isinstance(part, dict):
            pending += part.keys()
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str):
            if "\x00" in part:
                raise Malformed("A text in it contains a NUL character.")
            try:
                part.encode()
            except UnicodeEncodeError:
                raise Malformed(NOT_UTF_8) from None
        elif isinstance(part, float) and not math.isfinite(part):
            raise Malformed("A number in it is out of range.")


def id_text(value: Any) -> Any:
    """A whole number as text, however a table wrote it (1001, 1001.0, 1e3); else the value.

    One that may have been rounded is written as such, so that `checked_id` refuses it.
    """
    if isinstance(value, float) and value.is_integer():
        if abs(value) < MOST_EXACT:
            value = int(value)
        else:
            value = f"{value:e}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return re.sub(r"^(\d+)\.0+$", r"\1", bare(value))
    return value


def normalized(text: str) -> str:
    """Fold the case and white space of a text, as is done to compare texts of different records."""
    return " ".join(text.casefold().split())


def digest_of(text: str) -> str:
    """The key that joins records of different sources: hex SHA-256 of the normalized text."""
    return hashlib.sha256(normalized(text).encode(errors="surrogatepass")).hexdigest()


def checked_id(value: str) -> str:
    """The id in NFC, without white space around it and without '.0' after a number.

    Raises Malformed unless it is printable, without white space and at most 200 characters long.
    """
    value = unicodedata.normalize("NFC", str(id_text(value)))
    if re.fullmatch(r"\d([.,]\d+)?[eE]\+\d+", value):
        raise Malformed("Its id is rounded (1.23E+05): give the column the format 'text' and export the table again.")
    if len(value) > 200 or not value.isprintable() or any(c.isspace() for c in value):
        raise Malformed("Its id is longer than 200 characters or contains a space or control character.")
    return value


def language_fields(text: str) -> dict[str, Any]:
    """The fields of a Row that hold the detected language of a text and the confidence in it."""
    detected = detect(text)
    return {"language": detected.language, "language_confidence": detected.confidence}
