"""Groups of calls that share the beginning of their prompt: the first warms it, the others follow.

Providers and servers charge a beginning at a fraction, or skip its work, once a request that began
so has *ended*. Calls of one group that are sent side by side are all charged in full.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

KEPT = 300.0  # seconds for which a beginning stays in a cache after its last use; most say five minutes or more
PATIENCE = 60.0  # seconds that a call waits for the one that warms its beginning
MOST_NAMES = 20_000  # above which names that are cold again are forgotten


class PrefixGroups:
    """Which beginnings are warm, and which are being warmed.

    A path names the groups of a call, each within the one before: what it shares with most calls
    first. State is of one event loop and is not stored: after a kill, beginnings count as cold.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._warm_until: dict[str, float] = {}
        self._warming: dict[str, asyncio.Future[None]] = {}
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Let nobody wait any more: the lane is over, and its admission refuses their calls."""
        if not self._closed.done():
            self._closed.set_result(None)

    def must_wait(self, path: Sequence[str]) -> bool:
        """Whether another call warms a beginning of this one now."""
        return self._warmer(path) is not None

    async def wait(self, path: Sequence[str]) -> None:
        """Wait until no other call warms a beginning of this one, at most `PATIENCE` seconds."""
        deadline = self._clock() + PATIENCE
        while (warmer := self._warmer(path)) is not None and not self._closed.done():
            seconds = deadline - self._clock()
            if seconds <= 0:
                return
            await asyncio.wait([warmer, self._closed], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def warming(self, path: Sequence[str]) -> Iterator[None]:
        """Make the call meanwhile. Its cold beginnings are warm when it has succeeded."""
        opened = [name for name in path if not self._is_warm(name) and name not in self._warming]
        for name in opened:
            self._warming[name] = asyncio.get_running_loop().create_future()
        try:
            yield
            self._warm_until.update(dict.fromkeys(path, self._clock() + KEPT))
        finally:
            for name in opened:
                self._warming.pop(name).set_result(None)
        if len(self._warm_until) > MOST_NAMES:
            self._warm_until = {name: until for name, until in self._warm_until.items() if until > self._clock()}

    def _warmer(self, path: Sequence[str]) -> asyncio.Future[None] | None:
        for name in path:
            if name in self._warming and not self._is_warm(name):
                return self._warming[name]
        return None

    def _is_warm(self, name: str) -> bool:
        return self._warm_until.get(name, 0.0) > self._clock()
