"""Verdicts made elsewhere, read from a file in a process with limits, and chunked for storing."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from itertools import islice
from pathlib import Path

from evaluation import errors
from evaluation.interchange import files
from evaluation.interchange.files import Entry, RefusedRow, VerdictRow
from generation.common import limited

CHUNK_CHARACTERS = 2**24  # of answers and explanations in memory at once


class Chunks:
    """Chunks of rows. The next chunk is parsed in `reader` while the caller stores one.

    `while_silent` is called every second while the caller waits for it.
    """

    def __init__(
        self, entries: Iterator[Entry], size: int, reader: Executor, while_silent: Callable[[], object] = lambda: None
    ) -> None:
        self._entries, self._size, self._reader, self._while_silent = entries, size, reader, while_silent
        self.parse_next()

    def parse_next(self) -> None:
        """Start to parse the next chunk.

        Call once per chunk, when storing it no longer needs Python.
        """
        self._next = self._reader.submit(self._parse_chunk)

    def _parse_chunk(self) -> list[Entry]:
        chunk: list[Entry] = []
        characters = 0
        for entry in islice(self._entries, self._size):
            chunk.append(entry)
            if isinstance(entry, VerdictRow):
                characters += len(entry.response) + len(entry.explanation)
                if characters > CHUNK_CHARACTERS:
                    break
        return chunk

    def __iter__(self) -> Iterator[list[Entry]]:
        while True:
            while not wait([self._next], limited.SILENCE).done:
                self._while_silent()
            if not (chunk := self._next.result()):
                return
            yield chunk


def read(path: Path) -> Iterator[Entry]:
    """The rows of a file, streamed.

    Raises WrongResults if it is neither JSON Lines nor a log of inspect-ai, or too large to read.
    """
    try:
        for row in limited.stream(files.parse, str(path.resolve()), raises=[files.UnreadableResults]):
            yield RefusedRow(*row) if len(row) == 2 else VerdictRow(*row)
    except (files.UnreadableResults, limited.Exhausting) as error:
        raise errors.WrongResults(error.detail) from error
