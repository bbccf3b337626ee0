"""Readers of tables, shared by the importers: CSV and Parquet, a record at a time, each with its place in the file."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from generation.importers.base import MAX_RECORD, PARQUET, Malformed, WrongFormat, numbered_lines

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BATCH = 100  # rows of a Parquet file that are in memory at once
BUFFER = 256 * 1024  # bytes: pages of a Parquet file are read as they are needed, not its whole row groups


class _Lines:
    """The lines of a file for csv.reader, which asks for as many as a record needs: a quote that is never closed must
    not take in the whole file. `number` is the line last given."""

    def __init__(self, file: BinaryIO) -> None:
        self._lines = numbered_lines(file)
        self.number = 0
        self.size = 0  # bytes given since the caller last set this to 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        self.size += MAX_RECORD + 1 if line is None else len(line)
        if line is None or self.size > MAX_RECORD:
            raise csv.Error(f"record longer than {MAX_RECORD:,} bytes")
        return line.decode("utf-8", "surrogateescape")  # check_storable finds them in the columns that are used


def csv_header(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat."""
    with path.open("rb") as file:
        return _header(csv.reader(_Lines(file), strict=True))


def _header(reader: Iterator[list[str]]) -> list[str]:
    # The limit belongs to the process: raised, never lowered, for whoever else reads CSV in it. _Lines bounds a record.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD))
    try:
        return next((cells for cells in reader if cells), [])
    except csv.Error as error:
        raise WrongFormat(f"It is not CSV: {error}.") from None


def csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(place, cells by column or what is wrong with them) of each record below the header. Raises WrongFormat."""
    with path.open("rb") as file:
        lines = _Lines(file)
        # strict: a quote out of place is an error of its own record; otherwise two records would quietly become one.
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
    """Whether a file says that it is Parquet."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat."""
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def parquet_records(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(place, the cells of the columns `wanted` or what is wrong with them) of each row; lists and structs are Python's.

    Where the file cannot be read on, the last entry says so. Raises WrongFormat.
    """
    import pyarrow as pa  # two hundred milliseconds, which only who reads such a file has to pay

    place = 0
    with _parquet(path) as file:
        columns = [name for name in file.schema_arrow.names if wanted(name)]
        try:
            for batch in file.iter_batches(BATCH, columns=columns):
                for record in _records(batch):
                    place += 1
                    yield f"row {place}", record
        except (pa.ArrowException, OSError, ValueError):
            yield f"row {place + 1}", Malformed("The file is damaged here; what follows cannot be read.")


def _parquet(path: Path) -> "ParquetFile":
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    path.open("rb").close()  # a missing file is an error of its own
    try:
        return ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)
    except (pa.ArrowException, OSError, ValueError):
        raise WrongFormat("It is not a Parquet file that can be read: it is damaged or not complete.") from None


def _records(batch: "RecordBatch") -> Iterator[dict[str, Any] | Malformed]:
    for row in range(batch.num_rows):
        try:
            [record] = batch.slice(row, 1).to_pylist()
        except (ValueError, OverflowError):  # a text that is no UTF-8, a date that Python does not have
            yield Malformed("A cell of the row cannot be read.")
        else:
            yield record
