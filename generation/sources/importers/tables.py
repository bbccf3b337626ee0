"""Readers of CSV and Parquet, shared by the importers: one record at a time, with its position."""

import csv
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, BinaryIO, Self

from generation.sources.importers import columnar
from generation.sources.importers.base import MAX_RECORD, PARQUET, Exhausting, Malformed, WrongFormat, numbered_lines
from review.rules import json_nesting

MEMORY = 2**30  # bytes; limit for reading a Parquet file
SECONDS = 30  # limit for the next `columnar.BATCH` rows of it

_ROOT = Path(__file__).resolve().parents[3]


class _Lines:
    """The lines of a file for csv.reader, with a limit on the size of a record.

    The reader asks for as many lines as a record needs, and a quote that is never closed must not
    take in the whole file. `number`: the line last returned.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._lines = numbered_lines(file)
        self.number = 0
        self.size = 0  # bytes returned since the caller last set this to 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        self.size += MAX_RECORD + 1 if line is None else len(line)
        if line is None or self.size > MAX_RECORD:
            raise csv.Error(f"record longer than {MAX_RECORD:,} bytes")
        return line.decode("utf-8", "surrogateescape")  # check_storable refuses them, if used


def csv_header(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat."""
    with path.open("rb") as file:
        return _header(csv.reader(_Lines(file), strict=True))


def _header(reader: Iterator[list[str]]) -> list[str]:
    # The limit is global to the process: only raise it, as others may read CSV, too. _Lines bounds
    # a record.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD))
    try:
        return next((cells for cells in reader if cells), [])
    except csv.Error as error:
        raise WrongFormat(f"It is not CSV: {error}.") from None


def csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(position, cells by column, or the error) of each record below the header.

    Raises WrongFormat.
    """
    with path.open("rb") as file:
        lines = _Lines(file)
        # strict: a misplaced quote is an error of its record. Otherwise two records would silently
        # become one.
        reader = csv.reader(lines, strict=True)
        header = _header(reader)
        while True:
            where = f"line {lines.number + 1}"
            lines.size = 0
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield where, Malformed(f"This is not CSV: {error}.")
                continue
            if not cells:
                continue
            if len(cells) != len(header):
                yield where, Malformed(f"The header has {len(header)} columns, this record has {len(cells)}.")
                continue
            yield where, dict(zip(header, cells, strict=True))


def is_parquet(path: Path) -> bool:
    """Whether a file begins like Parquet."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat, Exhausting."""
    status = path.stat()
    return list(_columns_of(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=64)
def _columns_of(path: Path, *_state: int) -> list[str]:
    # Cached: an import asks several times in a row, to sniff, to match and to read the file.
    with _reader(path) as reader:
        return _columns(reader)


def parquet_records(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(position, cells of the columns `wanted`, or the error) of each row, as Python values.

    If the rest of the file cannot be read, the last entry says so. Raises WrongFormat, Exhausting.
    """
    place = 0
    with _reader(path) as reader:
        columns = [name for name in _columns(reader) if wanted(name)]
        with suppress(BrokenPipeError):  # the process died: `_next_message` raises the reason
            reader.stdin.write(json.dumps(columns).encode() + b"\n")  # type: ignore[union-attr]  # it is a pipe
            reader.stdin.flush()  # type: ignore[union-attr]
        while True:
            word, value = _next_message(reader, place)
            match word:
                case "end":
                    return
                case "damaged":
                    yield f"row {place + 1}", Malformed("The file is damaged here; what follows cannot be read.")
                    return
            place += 1
            yield f"row {place}", value if word == "row" else Malformed(value)


@contextmanager
def _reader(path: Path) -> Iterator[Popen[bytes]]:
    """Run the process that reads the file (`columnar`); it ends with this context."""
    path.open("rb").close()  # raises the usual OSError for a missing file
    # No secrets, and single-threaded: each thread of a library reserves memory, which counts to the
    # limit.
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    single_threaded = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    with Popen(  # noqa: S603 - our own program
        _command(path), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd=_ROOT, env=environment | single_threaded
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def _command(path: Path) -> list[str]:
    return [sys.executable, "-m", columnar.__name__, str(path.resolve()), str(MEMORY), str(SECONDS)]


def _columns(reader: Popen[bytes]) -> list[str]:
    word, names = _next_message(reader, 0)
    if word != "columns":
        raise WrongFormat("It is not a Parquet file that can be read: it is damaged or not complete.")
    return [str(name) for name in names]


def _next_message(reader: Popen[bytes], place: int) -> tuple[str, Any]:
    """The next message of the process. Raises Exhausting if it ended before the file did."""
    line = reader.stdout.readline()  # type: ignore[union-attr]  # it is a pipe
    try:
        word, value = json_nesting.loads(line.decode("utf-8", "surrogatepass")) if line else ("", None)
    except json_nesting.TooDeep as error:
        return "bad", f"The row cannot be read: {error}."
    if word not in ("", "memory"):
        return word, value
    if not word and reader.wait() == -signal.SIGALRM:
        raise Exhausting(f"The {columnar.BATCH} rows after row {place} take longer than {SECONDS} seconds.")
    raise Exhausting(
        f"The {columnar.BATCH} rows after row {place} need more than {MEMORY // 2**20:,} MB of memory, or are damaged."
    )
