"""Readers of CSV and Parquet, shared by the importers: one record at a time, with its position."""

import base64
import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from generation.sources.importers.base import MAX_RECORD, REST, Malformed, WrongFormat, numbered_lines
from review.rules import json_nesting
from review.rules.text_files import (
    SPREADSHEET_ERRORS,
    CSVTable,
    Endless,
    TwiceNamed,
    is_rule,
    is_total,
    is_units,
    open_text,
)

if TYPE_CHECKING:  # it takes a while to import
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BATCH = 100  # rows of Parquet in memory at once
BUFFER = 256 * 1024  # bytes: the pages of a file are read as needed, not whole row groups


def csv_table(file: BinaryIO) -> CSVTable:
    """The table in a text that `open_text` opened. Raises WrongFormat."""

    def lines() -> Iterator[str | None]:
        for _number, line in numbered_lines(file):
            if line is None:
                yield None
            else:
                # `check_storable` refuses what is not UTF-8, if it is used.
                yield line.decode("utf-8", "surrogateescape")

    try:
        return CSVTable(lines())
    except csv.Error as error:
        raise WrongFormat(f"It is not CSV: {error}.") from None
    except TwiceNamed as error:
        raise WrongFormat(f"It has two columns '{error}'.") from None


def csv_header(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat."""
    with open_text(path) as file:
        return csv_table(file).header


def check_csv(path: Path, missing: Callable[[list[str]], str]) -> None:
    """Raise WrongFormat, with what was recognised, if columns are `missing`."""
    with open_text(path) as file:
        table = csv_table(file)
        if problem := missing(table.header):
            raise WrongFormat(f"It has no column {problem}. Recognised: {table.found}.")


def csv_records(
    path: Path, wanted: Callable[[str], bool] = lambda _column: True
) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(position, cells by column, or the error) of each record below the header.

    An error of a spreadsheet in a column that is `wanted` spoils the record. Raises WrongFormat.
    """
    with open_text(path) as file:
        table = csv_table(file)
        width = len(table.header)
        for number, cells in table.rows():
            record: dict[str, Any] | Malformed
            if isinstance(cells, csv.Error):
                record = Malformed(f"This is not CSV: {cells}.")
            elif is_total(cells):
                record = Malformed("This is a line of totals, not a record.")
            elif is_units(cells):
                record = Malformed("This is a line of units, not a record.")
            elif is_rule(cells):
                record = Malformed("This is a drawn line, not a record.")
            elif len(cells) != width:
                record = Malformed(f"The header has {width} columns, this record has {len(cells)}.")
            else:
                record = dict(zip(table.header, cells, strict=True))
                for column, cell in record.items():
                    if cell in SPREADSHEET_ERRORS and wanted(column):
                        record = Malformed(f"'{column}' is the error {cell} of a spreadsheet.")
                        break
            where = f"line {number}"
            if isinstance(cells, Endless):
                where += REST
            yield where, record


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns. Raises WrongFormat."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def parquet_records(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, Any] | Malformed]]:
    """(position, cells of the columns `wanted`, or the error) of each row, as values of JSON.

    If the rest of the file cannot be read, the last entry says so. Raises WrongFormat.
    """
    place = 0
    with open_parquet(path) as file:
        columns = [name for name in file.schema_arrow.names if wanted(name)]
        batches = parquet_batches(file, columns)
        while True:
            try:
                with _errors_of_arrow(lambda: Malformed("The file is damaged here; what follows cannot be read.")):
                    batch = next(batches, None)
            except Malformed as error:
                yield f"row {place + 1}{REST}", error
                return
            if batch is None:
                return
            for number in range(batch.num_rows):
                place += 1
                yield f"row {place}", _record(batch.slice(number, 1))


def parquet_batches(file: "ParquetFile", columns: list[str]) -> "Iterator[RecordBatch]":
    """Stream these columns, a few rows at a time."""
    yield from file.iter_batches(BATCH, columns=columns, use_threads=False)


@contextmanager
def open_parquet(path: Path) -> "Iterator[ParquetFile]":
    """Open the file so that only the requested parts of it are read."""
    from pyarrow.parquet import ParquetFile

    path.open("rb").close()  # raises the usual OSError for a missing file
    damaged = WrongFormat("It is not a Parquet file that can be read: it is damaged or not complete.")
    with _errors_of_arrow(lambda: damaged):
        file = ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)
        names = file.schema_arrow.names
    with file:
        for name, count in Counter(filter(None, names)).items():  # an index may have none
            if count > 1:
                raise WrongFormat(f"It has two columns '{name}'.")
        yield file


@contextmanager
def _errors_of_arrow(result: Callable[[], Exception]) -> Iterator[None]:
    """Turn what Arrow raises into `result()`; when memory runs out, the reading ends instead."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if "std::bad_alloc" in str(error):  # Thrift's word for it, in an OSError
            raise MemoryError from None
        raise result() from None


def _record(row: "RecordBatch") -> dict[str, Any] | Malformed:
    try:
        [record] = row.to_pylist()
    except (ValueError, OverflowError):  # text that is not UTF-8, a date out of Python's range
        return Malformed("A cell of the row cannot be read.")
    text = json.dumps(record, ensure_ascii=False, default=_as_json)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_RECORD:
        return Malformed(f"The record is longer than {MAX_RECORD:,} bytes.")
    try:
        return dict(json_nesting.loads(text))
    except json_nesting.TooDeep as error:
        return Malformed(f"The row cannot be read: {error}.")


def _as_json(value: Any) -> Any:
    """A value that JSON cannot express: decimals and dates as text, as CSV has them.

    Bytes are a text that an old writer did not mark as one, or an image. What is left becomes an
    object, which no format accepts as a text, a number or a list of them.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        if value.is_finite() and value == value.to_integral_value():
            return int(value)
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return {"type": type(value).__name__}
