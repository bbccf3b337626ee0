"""Verdicts made elsewhere, read from a file in a process with limits, and chunked for storing."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evaluation import errors
from evaluation.interchange import files
from evaluation.interchange.files import AboutFile, Entry, RefusedRow, VerdictRow
from generation.common import limited

# An entry by the number of its fields, as the process that reads sends only these.
_ENTRIES: dict[int, Callable[..., Entry]] = {1: AboutFile, 2: RefusedRow, len(VerdictRow._fields): VerdictRow}
CHUNK_CHARACTERS = 2**24  # of answers and explanations in memory at once


def chunked(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Chunks of at most `size` rows, and of at most `CHUNK_CHARACTERS` but for the last row."""
    chunk: list[Entry] = []
    characters = 0
    for entry in entries:
        chunk.append(entry)
        if isinstance(entry, VerdictRow):
            characters += len(entry.response) + len(entry.explanation)
        if len(chunk) == size or characters > CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def read(path: Path, *, while_silent: Callable[[], object] = lambda: None) -> Iterator[Entry]:
    """The rows of a file, streamed.

    `while_silent` is called every second while none can be read.
    Raises WrongResults if it is neither JSON Lines nor a log of inspect-ai, or too large to read.
    """
    try:
        known = [files.UnreadableResults]
        together = limited.stream(files.parse_together, str(path.resolve()), raises=known, while_silent=while_silent)
        for found in together:
            for row in found:
                yield _ENTRIES[len(row)](*row)
    except (files.UnreadableResults, limited.LimitsExceeded) as error:
        raise errors.WrongResults(error.detail) from error
