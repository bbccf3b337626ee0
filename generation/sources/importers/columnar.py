"""Reads a Parquet file in a process of its own, which may be broken by the file without harm to anybody else.

A file of some kilobytes can unfold to gigabytes in one cell, and its reader is native code. So the process has a limit on its
memory and, for every few rows, on its time; it knows none of the site's secrets; and what it says is JSON, a line a row.

Run as `python -m generation.sources.importers.columnar FILE BYTES SECONDS`. It writes the names of the columns, reads the
names of those that are wanted, and writes the rows. `tables` is the other side.
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

BATCH = 100  # rows that are in memory at once
BUFFER = 256 * 1024  # bytes: pages of a file are read as they are needed, not its whole row groups


def main(path: str, memory: int, seconds: int) -> None:
    """Write what the file holds, and "end" where nothing went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(seconds)
    try:
        import pyarrow as pa  # within the limit, like all that follows

        broken = (pa.ArrowException, OSError, ValueError)
        try:
            file = opened(path)
            names = list(file.schema_arrow.names)
        except MemoryError:
            raise
        except broken:
            return _say("wrong")
        _say("columns", names)
        signal.alarm(0)
        wanted = json.loads(sys.stdin.buffer.readline() or b"null")
        if wanted is None:
            return None
        signal.alarm(seconds)
        try:
            for batch in batches(file, wanted):
                said = [_line(*record) for record in _records(batch)]
                signal.alarm(0)  # the reader may take its time
                for line in said:
                    sys.stdout.buffer.write(line)
                del said
                signal.alarm(seconds)
        except MemoryError:
            raise
        except BrokenPipeError:
            return None
        except broken:
            return _say("damaged")
        _say("end")
    except MemoryError:
        _say("memory")


def opened(path: str) -> "ParquetFile":
    """The file, of which no more is read than is asked for."""
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)


def batches(file: "ParquetFile", wanted: list[str]) -> Iterator["RecordBatch"]:
    """The columns `wanted` of its rows, a few rows at a time."""
    yield from file.iter_batches(BATCH, columns=wanted, use_threads=False)


def _say(word: str, value: Any = None) -> None:
    signal.alarm(0)
    sys.stdout.buffer.write(_line(word, value))
    sys.stdout.buffer.flush()


def _line(word: str, value: Any = None) -> bytes:
    # What JSON has no name for is an object, which no format takes for a text, a number or a list of them.
    line = json.dumps([word, value], ensure_ascii=False, default=_object)
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    return data if len(data) <= MAX_RECORD else _line("bad", f"The record is longer than {MAX_RECORD:,} bytes.")


def _object(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):  # images
        return {"base64": base64.b64encode(value).decode()}
    return {"type": type(value).__name__}


def _records(batch: "RecordBatch") -> Iterator[tuple[str, Any]]:
    for row in range(batch.num_rows):
        try:
            [record] = batch.slice(row, 1).to_pylist()
        except (ValueError, OverflowError):  # a text that is no UTF-8, a date that Python does not have
            yield "bad", "A cell of the row cannot be read."
        else:
            yield "row", record


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
