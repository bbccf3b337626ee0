"""Splitting long iterables into chunks."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

# Rows per transaction of an import: one commit per row would take minutes, a single one for all
# rows would block other writers.
CHUNK = 500


def chunked(rows: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield lists of up to `CHUNK` rows."""
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
