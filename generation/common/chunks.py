"""Long iterables, a chunk at a time."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

CHUNK = 500  # rows per transaction of an import: one commit a row would take minutes, one for all would hold the writer


def chunked(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
