"""Reads a Parquet file in a process of its own, so that a malicious file can break nothing else.

A file of a few kilobytes can unfold to gigabytes in one cell, and its reader is native code. So the
process has a memory limit and, for every few rows, a time limit; it knows none of the site's
secrets; and its output is JSON, one row a line.

Run as `python -m generation.sources.importers.columnar FILE BYTES SECONDS`. It writes the names of
the columns, reads the names of those to return, and writes the rows. `tables` is the parent's side.
"""

import base64
import contextlib
import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from generation.sources.importers.base import MAX_RECORD

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BATCH = 100  # rows in memory at once
BUFFER = 256 * 1024  # bytes: the pages of a file are read as needed, not whole row groups


def main(path: str, memory: int, seconds: int) -> None:
    """Write the columns and rows of the file, and "end" if nothing went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(seconds)
    try:
        import pyarrow as pa  # only now, so that the limits apply to it as well

        broken = (pa.ArrowException, OSError, ValueError)
        try:
            file = open_parquet(path)
            names = list(file.schema_arrow.names)
        except MemoryError:
            raise
        except broken:
            return _send("wrong")
        _send("columns", names)
        signal.alarm(0)
        columns = json.loads(sys.stdin.buffer.readline() or b"null")
        if columns is None:
            return None
        signal.alarm(seconds)
        try:
            for batch in batches(file, columns):
                lines = [_encode_line(*record) for record in _records(batch)]
                signal.alarm(0)  # the parent may read slowly
                for line in lines:
                    sys.stdout.buffer.write(line)
                del lines
                signal.alarm(seconds)
        except MemoryError:
            raise
        except BrokenPipeError:
            return None
        except broken:
            return _send("damaged")
        _send("end")
    except MemoryError:
        _send("memory")


def open_parquet(path: str) -> "ParquetFile":
    """Open the file so that only the requested parts of it are read."""
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)


def batches(file: "ParquetFile", columns: list[str]) -> Iterator["RecordBatch"]:
    """Stream these columns, a few rows at a time."""
    yield from file.iter_batches(BATCH, columns=columns, use_threads=False)


def _send(word: str, value: Any = None) -> None:
    signal.alarm(0)
    sys.stdout.buffer.write(_encode_line(word, value))
    sys.stdout.buffer.flush()


def _encode_line(word: str, value: Any = None) -> bytes:
    # A value that JSON cannot express becomes an object, which no format accepts as a text, a
    # number or a list of them.
    line = json.dumps([word, value], ensure_ascii=False, default=_as_object)
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    return data if len(data) <= MAX_RECORD else _encode_line("bad", f"The record is longer than {MAX_RECORD:,} bytes.")


def _as_object(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):  # images
        return {"base64": base64.b64encode(value).decode()}
    return {"type": type(value).__name__}


def _records(batch: "RecordBatch") -> Iterator[tuple[str, Any]]:
    for row in range(batch.num_rows):
        try:
            [record] = batch.slice(row, 1).to_pylist()
        except (ValueError, OverflowError):  # text that is not UTF-8, a date out of Python's range
            yield "bad", "A cell of the row cannot be read."
        else:
            yield "row", record


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
