"""Memory that work takes at most."""

import tracemalloc
from collections.abc import Callable


def peak_memory(work: Callable[[], object]) -> int:
    """Run `work` twice; returns the smaller of both peaks, in bytes.

    Once in a while the interpreter doubles its table of interned strings, which adds 8 MB at
    175,000 strings to whatever runs at that moment. It does not do so twice in a row.
    """
    return min(_traced_peak(work), _traced_peak(work))


def _traced_peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
