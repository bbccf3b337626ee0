"""Reads text as real tools write it: any usual encoding, mark, line end and separator of a table.

Whatever a file is, readers get UTF-8 with LF or CRLF from `open_text`, and rows of cells from
`CSVTable`. Bytes that are no text in the encoding of the file become bytes that are not UTF-8, so
that they spoil only the record in which they are.
"""

import codecs
import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

MAX_RECORD = 8 * 1024 * 1024  # bytes; the largest records in the known files have a few hundred KB
MAX_AGAIN = 4 * MAX_RECORD  # characters of a file that are read again after rows that were none
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

_MARKS = (  # that of UTF-32 LE begins with that of UTF-16 LE
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Which bytes of the first characters are zero, without a mark.
_ZEROS = {"utf-32-le": (0, 1, 1, 1), "utf-32-be": (1, 1, 1, 0), "utf-16-le": (0, 1), "utf-16-be": (1, 0)}
_CHUNK = 64 * 1024  # bytes
# White space, and marks that nobody sees, as spreadsheets write them for other directions.
_INVISIBLE = (
    "".join(filter(str.isspace, map(chr, range(0x3001))))
    + "\ufeff"
    + "".join(map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A))))
)
# Of text in an old encoding, what is looked at to find out which.
_RUN = re.compile(rb"[\x80-\xff]+")
# Windows-1252: a letter beside an ASCII letter, a word of one letter, a sign (° ± ² µ ½ …) that is
# not within a word, a typographic quote or dash. Without the letters that mostly mean another
# encoding (Š, Ž, Ð, Þ): what is not recognised is refused, and what is recognised wrongly is not.
_LETTER = rb"[\x8c\x9c\xc0-\xcf\xd1-\xd6\xd8-\xdd\xdf-\xef\xf1-\xf6\xf8-\xfd]"
_WESTERN = re.compile(
    rb"(?:(?<=[A-Za-z])" + _LETTER + rb"|" + _LETTER + rb"(?=[A-Za-z])"
    rb"|(?<![A-Za-z\x80-\xff])[\xc0\xc8\xe0\xe8\xf2](?![A-Za-z\x80-\xff])"
    rb"|[\x80\x85\x91-\x97\x99\xa0\xb7\xd7\xf7]|(?<![A-Za-z])[\xa1-\xbf]|[\xa1-\xbf](?![A-Za-z]))"
)
# Text in a Japanese, Korean, Thai or traditional Chinese encoding can be decoded as GB 18030, too.
# That of a Chinese text has these characters.
_FREQUENT = frozenset(
    "的一是不了在有人我他这中大来上个国说们为和你地出道也时年得就那要下以生会自着去之过家学对可里后小么"
    "心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长"
    "患者病男女性岁月周热痛咳血压体查史诊断治疗药院室科号例部右左肺胸腹肝胃肾炎症检肿伴予示高低常服片次"
)
_LEAST_FREQUENT = 0.1  # share of the Chinese characters


def _broken(error: UnicodeError) -> tuple[str, int]:
    """What is no text becomes half a surrogate pair, and with that a byte that is not UTF-8."""
    return "\udcff", cast(UnicodeDecodeError, error).end


codecs.register_error("mhb-broken", _broken)


# ---------------------------------------------------------------------------------------- encodings


def open_text(path: Path, limit: int | None = None) -> BinaryIO:
    """The text of a file as UTF-8 without a mark, whose lines end with LF or CRLF.

    limit: bytes that may be looked at to recognise the encoding; None for the whole file.
    """
    file = path.open("rb")
    try:
        encoding, mark = _recognise(file, limit)
        file.seek(mark)
        head = file.read(_CHUNK)
        file.seek(mark)
        is_mac = b"\r" in head and b"\n" not in head
        if encoding == "utf-8" and not is_mac:
            return file
        return io.BufferedReader(_AsUTF8(file, encoding, is_mac=is_mac), _CHUNK)
    except BaseException:
        file.close()
        raise


def decoded(data: bytes) -> str:
    """The text of bytes, without a mark, whose lines end with LF. Raises UnicodeDecodeError."""
    encoding, mark = _recognise(io.BytesIO(data), None)
    return data[mark:].decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _recognise(file: BinaryIO, limit: int | None) -> tuple[str, int]:
    """Encoding, and length of the mark at the beginning."""
    head = file.read(64)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    zeros = tuple(byte == 0 for byte in head[:4])  # the first character of data is an ASCII one
    for encoding, pattern in _ZEROS.items():
        if zeros[: len(pattern)] == pattern:
            return encoding, 0
    file.seek(0)
    return _eight_bit(file, limit), 0


def _eight_bit(file: BinaryIO, limit: int | None) -> str:
    """UTF-8, unless no byte beyond ASCII is UTF-8 and all make sense in another encoding."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    left = limit
    while chunk := file.read(_CHUNK if left is None else min(_CHUNK, left)):
        if left is not None:
            left -= len(chunk)
        try:
            if not decoder.decode(chunk).isascii():
                return "utf-8"
        except UnicodeDecodeError:
            break
    else:
        return "utf-8"
    # Both begin with ASCII, and need no state from before it.
    high = _RUN.findall(chunk)
    if sum(_decodes(run, "utf-8") for run in high) * 2 >= len(high):
        return "utf-8"  # with some damage
    if _decodes(chunk, "gb18030") and _is_chinese(chunk.decode("gb18030", "ignore")):
        return "gb18030"
    if not _RUN.search(_WESTERN.sub(b"", chunk)):
        return "cp1252"
    return "utf-8"


def _is_chinese(text: str) -> bool:
    characters = [character for character in text if not character.isascii() and character.isalpha()]
    return sum(character in _FREQUENT for character in characters) > _LEAST_FREQUENT * len(characters)


def _decodes(text: bytes, encoding: str) -> bool:
    try:  # the last character may be cut off
        codecs.getincrementaldecoder(encoding)().decode(text, final=encoding == "utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _AsUTF8(io.RawIOBase):
    """A file in another encoding, or with CR at the end of lines, as UTF-8 with LF."""

    def __init__(self, file: BinaryIO, encoding: str, *, is_mac: bool) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("mhb-broken")
        self._is_mac = is_mac
        self._waiting = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        while not self._waiting and not self._ended:
            chunk = self._file.read(_CHUNK)
            self._ended = not chunk
            text = self._decoder.decode(chunk, self._ended)
            if self._is_mac:
                text = text.replace("\r", "\n")
            self._waiting = text.encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass")
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


# ------------------------------------------------------------------------------------------- tables


class CSVTable:
    """A CSV file: its header, and its rows of cells, each with the number of its first line.

    The separator is what a line `sep=…` or else the header says. Empty columns at the end, rows
    without a cell, and rows that are the header again are left out.

    Raises csv.Error and TwiceNamed if there is no header that can be read.
    """

    def __init__(self, lines: Iterable[str | None]) -> None:
        # The limit is global to the process: only raise it, as others may read CSV, too. _Lines
        # bounds a record.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD))
        self._lines = _Lines(lines)
        self._again = 0  # characters that were read again
        self.separator = self._separator()
        # strict: a misplaced quote is an error of its record. Otherwise two records would silently
        # become one.
        self._reader = csv.reader(self._lines, delimiter=self.separator, strict=True)
        self.header = next((_trimmed(cells) for _number, cells in self._records()), [])
        named = [name for name in self.header if name]
        self._names = frozenset(named)
        if twice := next((name for name, count in Counter(named).items() if count > 1), ""):
            raise TwiceNamed(twice)

    @property
    def found(self) -> str:
        """What was recognised: 'semicolons; columns found: id, text'."""
        return f"{SEPARATORS.get(self.separator, repr(self.separator))}; columns found: {', '.join(self.header)[:300]}"

    def _separator(self) -> str:
        line = next((line for line in self._lines if line.strip()), "")
        if stated := re.fullmatch(r"""\s*"?sep=(.)"?\s*""", line, re.IGNORECASE):
            return stated[1]
        if line:
            self._lines.give_back(0)
        outside = re.sub(r'"[^"]*"?', "", line)
        return max(SEPARATORS, key=outside.count)

    def rows(self) -> Iterator[tuple[int, list[str] | csv.Error]]:
        """(line, as many cells as the header has, or more, or fewer; or the error of the row)."""
        while True:
            try:
                for number, cells in self._records():
                    named = _trimmed(cells)
                    if named == self.header:  # again, as where pages were joined
                        continue
                    if self._is_header(named):
                        yield number, Endless("another header begins here; what follows is not read")
                        return
                    while len(cells) > len(self.header) and not cells[-1].strip():
                        cells.pop()
                    yield number, cells
                return
            except csv.Error as error:
                number = self._lines.first
                # What a quote that is never closed has taken in are rows of their own. Where every
                # line opens one, this would not end.
                self._again += self._lines.size
                if self._again > MAX_AGAIN:
                    yield number, Endless(f"{error}; what follows is not read")
                    return
                self._lines.give_back(1)
                yield number, error

    def _is_header(self, named: list[str]) -> bool:
        """Whether a row names columns in another order, or others, as where tables were joined."""
        if not named or named[0] not in self._names:
            return False
        known = sum(name in self._names for name in named)
        return known > 1 and known * 2 > len(named)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not empty."""
        while True:
            self._lines.start()
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            if any(map(str.strip, cells)):
                yield self._lines.first, cells


class Endless(csv.Error):
    """The table is not read further: another begins, or too many rows have an open quote."""


# With 1.0, as pandas writes a column in which some cells are empty, and Excel's words in German,
# French, Spanish, Italian and Portuguese: 'falso' is of three of them, so 'yes' must be, too.
_YES = (1, "true", "1", "1.0", "yes", "wahr", "vrai", "verdadero", "vero", "verdadeiro")
_NO = (0, "false", "0", "0.0", "no", "falsch", "faux", "falso")


def yes_or_no(value: Any) -> bool | None:
    """A boolean, however a table writes it; None for an empty cell."""
    word = value
    if isinstance(value, str):
        word = value.strip().casefold()
    for answer, words in ((True, _YES), (False, _NO), (None, (None, ""))):
        if word in words:
            return answer
    raise ValueError("is neither true nor false")


# What a spreadsheet writes for a formula that failed; '#N/A' is a missing value.
SPREADSHEET_ERRORS = frozenset({"#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"})

_TOTAL = re.compile(
    r"\W*(?:(?:grand|sub)[\s-]?)?(?:totals?|sum|gesamt|summe|insgesamt|somme|suma|合计|总计|小计|共计|المجموع)\b\W*"
    r"(?:\(?\s*n\s*=)?[\d\s.,%)]*(?:records?|rows?|cases?|patients?|persons?|people|physicians?|条|例|行|人)?\W*",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"[\s\d.,%()+−-]*")


def is_total(cells: Sequence[str]) -> bool:
    """Whether a row is a footer: a word for a total, and beside it nothing but figures."""
    first, *others = [cell for cell in cells if cell.strip()] or [""]
    return bool(_TOTAL.fullmatch(first)) and all(_FIGURE.fullmatch(cell) for cell in others)


_UNIT = re.compile(r"\([^()]{1,40}\)|\[[^][\"']{1,40}\]")


def is_units(cells: Sequence[str]) -> bool:
    """Whether a row is the one below a header that says (in brackets) what the columns hold."""
    given = [cell.strip() for cell in cells if cell.strip()]
    return len(given) > 1 and all(_UNIT.fullmatch(cell) for cell in given)


_RULE = re.compile(r":?-{2,}:?")


def is_rule(cells: Sequence[str]) -> bool:
    """Whether a row is the line that a table in Markdown draws below its header."""
    given = [cell.strip() for cell in cells if cell.strip()]
    return bool(given) and all(_RULE.fullmatch(cell) for cell in given)


class TwiceNamed(Exception):
    """A table has two columns of this name."""


def bare(text: str) -> str:
    """A name or an id without what surrounds it unseen."""
    return text.strip(_INVISIBLE)


def _trimmed(cells: list[str]) -> list[str]:
    names = list(map(bare, cells))
    while names and not names[-1]:
        names.pop()
    return names


class _Lines:
    """The lines of a table for csv.reader, with a limit on the size of a record.

    The reader asks for as many lines as a record needs, and a quote that is never closed must not
    take in the whole file.
    """

    def __init__(self, lines: Iterable[str | None]) -> None:
        self._lines = iter(lines)
        self._again: deque[str | None] = deque()
        self._taken: list[str | None] = []
        self.size = 0  # characters of the record that is being read
        self.first = 1  # its line

    def start(self) -> None:
        """A record begins."""
        self.first += len(self._taken)
        self._taken, self.size = [], 0

    def give_back(self, kept: int) -> None:
        """Read the lines of this record again, without the first `kept`."""
        self._again.extendleft(reversed(self._taken[kept:]))
        del self._taken[kept:]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self._again:
            line = self._again.popleft()
        else:
            line = next(self._lines)
        if line is not None:
            line = line.removeprefix("\ufeff")  # of a file that was joined from several
        self._taken.append(line)
        self.size += MAX_RECORD + 1 if line is None else len(line)
        if line is None or self.size > MAX_RECORD:
            raise csv.Error(f"record longer than {MAX_RECORD:,} bytes")
        return line
