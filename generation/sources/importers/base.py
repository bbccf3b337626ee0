"""What every importer shares: its values, and readers that stay small however large or broken the file is.

An importer is a module with the attributes of `Importer`. It keeps no set of the ids it has seen, so that memory stays
flat: a record that comes twice is found by the database's unique constraint. No reason or message quotes a record,
because part of it (HealthBench's canary) must never be shown.
"""

import codecs
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import ijson

from generation.common.formats import FormatError
from generation.common.languages import detect
from review.rules import json_nesting

MAX_RECORD = 8 * 1024 * 1024  # bytes; the largest records of the known files have some hundred kilobytes
LOOK = 50  # records that `sniff` looks at: a few bad ones at the top must not hide a good file
TITLE_LENGTH = 80  # characters

PARQUET = b"PAR1"  # the first bytes of every such file

_BOM = b"\xef\xbb\xbf"
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"BZh", "a bzip2 archive: unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"),
    (b"PK\x03\x04", "a zip archive (or a spreadsheet): unpack it first"),
    (b"PK\x05\x06", "an empty zip archive"),
    (PARQUET, "a Parquet file"),
    (b"%PDF", "a PDF document"),
    (b"version https://git-lfs", "a Git LFS pointer: the data itself was not downloaded"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
    *((bytes((0x80, protocol)), "a pickle, which is never loaded: it can run code") for protocol in range(2, 6)),
)


class WrongFormat(FormatError):
    """The file is not in this format."""


class Exhausting(FormatError):
    """Reading this file needs more than a file may need."""


@dataclass(frozen=True, slots=True)
class Row:
    """One good record. `content` may be shown and sent to models, `private` is kept with the record and stays there.

    Both are JSON-able. `language`: ISO 639-1, '' (not recognised), with the detector's confidence; `where` is its place in the
    file ('line 12').
    A format whose records name a medical specialty puts it into `content` as `specialty`.

    `match`: the text by which records of other sources refer to this one (a question, a heading's name); `refers`: format ->
    such texts of the records that this one refers to. They are compared without regard to case and white space. `facets`:
    values by which an import counts what it read (difficulty). `values`: (name, text) of what it says under names that other
    records of its source have too ('symptoms/time', '2 days'), so that another's can be drawn in its place.

    `images`: those that the record is about, in order. Their digests are put into `content` as `images` when they are kept.
    `written`: content and private as JSON, where it has been written already.
    """

    external_id: str
    title: str
    language: str
    content: dict[str, Any]
    private: dict[str, Any]
    where: str
    language_confidence: float | None = field(default=None, compare=False)
    match: str = ""
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facets: Mapping[str, str] = field(default_factory=dict)
    images: "tuple[Picture, ...]" = field(default=(), compare=False)
    values: tuple[tuple[str, str], ...] = ()
    written: tuple[str, str] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One bad record: its place in the file ('line 12', 'record 3') and the reason in a sentence without its text.

    `facets`: values by which an import counts what it left out.
    """

    where: str
    reason: str
    facets: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """What the file was recognised as: 'jsonl', 'csv-v1', 'json-v2'. `file`: what it was called where it came from, as an
    uploaded one is kept under another name."""

    name: str
    file: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a row. It is read when the row is taken in, one at a time; `read` raises Malformed.

    `identity`: the same for the same image of a data set; '' where that is not known.
    """

    name: str
    read: Callable[[], bytes] = field(repr=False)
    identity: str = ""


class Importer(Protocol):
    """What a module in this package offers. `restrictions` says in words what the licence or the authors forbid; it is
    marked for translation by `gettext_noop`. A module may say `withheld = True`: they forbid to publish the text."""

    name: str
    label: str
    licence: str
    citation: str
    restrictions: str

    def sniff(self, path: Path) -> Layout:
        """Recognise the file by its content. Raises WrongFormat, Exhausting (and OSError if it cannot be read)."""
        ...

    def rows(self, path: Path, layout: Layout) -> Iterator[Row | Refusal]:
        """Every record in file order, streamed. Raises WrongFormat before the first record or never; Exhausting anywhere."""
        ...


class Malformed(Exception):
    """A record is not as the format says; the text is the reason of its Refusal. Stays inside the importers."""


def gettext_noop(text: str) -> str:
    """Mark `text` to be translated where it is shown. Django has the same, but importers are plain Python."""
    return text


def first_byte(path: Path, *, xml: bool = False) -> bytes:
    """The first byte that is neither white space nor a byte order mark.

    Raises WrongFormat for what is often given by mistake: a folder, an empty file, an archive, a pickle, a web page (unless
    `xml` is what is looked for).
    """
    if path.is_dir():
        raise WrongFormat("It is a folder.")
    with path.open("rb") as file:
        head = file.read(64)
        for magic, what in _MAGIC:
            if head.startswith(magic):
                raise WrongFormat(f"It is {what}.")
        if b"\x00" in head[:4]:
            raise WrongFormat("It is UTF-16 or UTF-32 text, or no text at all: save it as UTF-8.")
        head = head.removeprefix(_BOM).lstrip()
        while not head and (chunk := file.read(MAX_RECORD)):
            head = chunk.lstrip()
    if not head:
        raise WrongFormat("It is empty.")
    if head.startswith(b"<") and not xml:
        raise WrongFormat("It is a web page or XML.")
    return head[:1]


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """(number from 1, line with its line end) of a binary file; None in place of a line longer than MAX_RECORD."""
    number = 0
    while line := file.readline(MAX_RECORD):
        number += 1
        if number == 1:
            line = line.removeprefix(_BOM)
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
        return json_nesting.loads(line.decode(), parse_constant=_not_json)
    except UnicodeDecodeError as error:
        raise Malformed(f"The line is not UTF-8 (byte {error.start + 1}).") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"The line is not JSON: {error.msg} (character {error.pos + 1}).") from None
    except json_nesting.TooDeep as error:
        raise Malformed(f"The line cannot be read: {error}.") from None
    except ValueError:  # NaN, a number of thousands of digits
        raise Malformed("The line is not JSON that can be read: a number is out of range.") from None


def json_lines(path: Path, limit: int | None = None) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value or Malformed) of the first `limit` lines that are not blank."""
    with path.open("rb") as file:
        for number, line in numbered_lines(file):
            if line is not None and not line.strip():
                continue
            if limit == 0:
                return
            limit = None if limit is None else limit - 1
            try:
                yield number, parsed_line(line)
            except Malformed as error:
                yield number, error


def _not_json(constant: str) -> None:
    raise ValueError(constant)


# A code point that Unicode reserves for use inside one program stands for bytes that are not text, so that one broken
# string spoils its own record and not the parser's course through the rest of an array.
_MARK = "\ufdd0"
_NOT_TEXT = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f]")


class _Repaired:
    """A binary file for ijson: no byte order mark, valid UTF-8, nested no deeper than JSON may be here, and never more than
    MAX_RECORD bytes for one record."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._start = True
        self._nesting = json_nesting.Nesting()
        self._is_too_deep = False  # from where the last piece ended
        self.size = 0  # bytes read since the caller last set this to 0

    def read(self, size: int = -1) -> bytes:
        if size == 0:
            return b""
        if self._is_too_deep:
            raise json_nesting.TooDeep
        while chunk := self._file.read(size):
            self.size += len(chunk)
            if self.size > MAX_RECORD:
                raise Malformed(f"The record is longer than {MAX_RECORD:,} bytes")
            text = self._decoder.decode(chunk)
            if self._start:
                text = text.removeprefix("\ufeff")
                self._start = False
            if text:  # a chunk may be half a character or only the mark, and b"" would mean the end of the file
                whole = _NOT_TEXT.sub(_MARK, text).encode()
                shallow = self._nesting.shallow(whole)
                self._is_too_deep = len(shallow) < len(whole)
                if shallow:
                    return shallow  # so that the records before the one that is too deep are still read
                raise json_nesting.TooDeep
        return b""


def array_items(file: BinaryIO) -> Iterator[Any]:
    """The elements of a file that is one JSON array, streamed. Raises Malformed where the array breaks off."""
    return _streamed(file, "array", lambda source: ijson.items(source, "item", use_float=True))


def object_items(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """(key, value) of a file that is one JSON object, streamed. Raises Malformed where the object breaks off."""
    return _streamed(file, "object", lambda source: ijson.kvitems(source, "", use_float=True))


def _streamed(file: BinaryIO, what: str, parse: Callable[[_Repaired], Iterator[Any]]) -> Iterator[Any]:
    source = _Repaired(file)
    try:
        for item in parse(source):
            yield item
            source.size = 0
    except (Malformed, json_nesting.TooDeep) as error:
        raise Malformed(f"The {what} cannot be read from here on: {error}.") from None
    except (ijson.JSONError, ValueError, RecursionError) as error:
        # The parser's own words are not passed on: they quote the file.
        ended = "premature EOF" in str(error) or "Incomplete" in str(error)
        why = "the file ends before it does" if ended else "what follows is not JSON"
        raise Malformed(f"The {what} breaks off here: {why}.") from None


_SUSPECT = re.compile(
    r"\\u(?:0000|fdd0|d[89a-f])"
)  # in JSON of ASCII: what is refused, and characters that are two there


_written = json.JSONEncoder(allow_nan=False).encode


def storable(value: Any) -> str:
    """A value as JSON. Raises Malformed as `check_storable` does, much faster for the many values that are good."""
    try:
        written = _written(value)
    except ValueError:
        written = ""
    if not written or _SUSPECT.search(written):
        check_storable(value)
    return written


def check_storable(value: Any) -> None:
    """Raise Malformed if a string or number in a JSON-able value cannot be kept by every database or written as UTF-8."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += one.keys()
            todo += one.values()
        elif isinstance(one, list):
            todo += one
        elif isinstance(one, str):
            if "\x00" in one:
                raise Malformed("A text in it holds a NUL character.")
            if _MARK in one or not _is_unicode(one):
                raise Malformed("A text in it holds bytes that are not UTF-8 text.")
        elif isinstance(one, float) and not math.isfinite(one):
            raise Malformed("A number in it is out of range.")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(record: Mapping[str, Any], key: str) -> str:
    """The text under `key`. Raises Malformed if it is missing, no string or blank."""
    value = record.get(key)
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is not a text." if key in record else f"'{key}' is missing.")
    if not value.strip():
        raise Malformed(f"'{key}' is blank.")
    return value


def texts_of(record: Mapping[str, Any], key: str) -> list[str]:
    """The list of texts under `key`; [] where there is none. Raises Malformed if it is anything else."""
    value = record.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Malformed(f"'{key}' is not a list of texts.")
    return value


def plain(text: str) -> str:
    """A text without regard to case and white space, as texts of several records are compared."""
    return " ".join(text.casefold().split())


def digest_of(text: str) -> str:
    """What a text is found by where records of several sources are joined: SHA-256, in hexadecimal, of the plain text."""
    return hashlib.sha256(plain(text).encode(errors="surrogatepass")).hexdigest()


def checked_id(value: str) -> str:
    """`value` as an external id: printable, without white space, at most 200 characters. Raises Malformed."""
    if len(value) > 200 or not value.isprintable() or any(c.isspace() for c in value):
        raise Malformed("Its id is longer than 200 characters or holds a space or control character.")
    return value


def one_line(text: str, length: int = TITLE_LENGTH) -> str:
    """The beginning of `text` on one line of at most `length` characters, cut between words where there are any."""
    line = " ".join(text[: length * 10].split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    words = cut[: cut.rfind(" ")] if " " in cut[length // 2 :] else cut
    return words.rstrip() + "…"


def spoken(text: str) -> dict[str, Any]:
    """The language of a row with this text, and how sure that is."""
    found = detect(text)
    return {"language": found.language, "language_confidence": found.confidence}
