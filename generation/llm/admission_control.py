"""Admission to an endpoint: how many calls at once, how many a minute, and when none at all (the circuit breaker).

Plain Python for one event loop. What several processes share of an endpoint is told to its gate from outside (`share`,
`block`, `open_again`); the gate itself only ever counts its own calls.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from generation.llm.errors import (
    AuthFailed,
    Away,
    BadRequest,
    ConnectionCut,
    EndpointDown,
    LLMError,
    NoCredit,
    NotReached,
    NotThere,
    Postponed,
    RateLimited,
    ServerError,
    TimedOut,
    UnexpectedError,
)

BREAK_AFTER = 10  # failures in a row after which nothing more is sent for a while
REFUSE_AFTER = 3  # the same for refusals in a row of whatever is asked: fewer than a row has attempts
BAD_AFTER = 20  # and for requests in a row that were refused one by one, without any success
BREAKS = 8  # pauses in a row after which the endpoint is taken for down
PAUSE = 5.0  # seconds of the first pause; each further one is twice as long
PAUSE_CAP = 100.0  # less than MAX_WAIT: a pause is waited for
MAX_WAIT = 120.0  # seconds; a longer wait is not slept through: the row goes back and somebody comes again later
BURST = 1.0  # seconds' worth of a rate that may go at once

REFUSALS = (AuthFailed, NoCredit, NotThere)  # of the account or the address: no pause mends them
ITS_FAULT = (
    RateLimited,
    ServerError,
    TimedOut,
    ConnectionCut,
    NotReached,
    UnexpectedError,  # met with whatever it sent
    *REFUSALS,
)  # the endpoint's, whatever was asked
Sleep = Callable[[float], Awaitable[None]]


class Bucket:
    """So many units a minute, evenly. The generic cell rate algorithm (ITU-T I.371): one number, no timer.

    A take that is larger than what is left goes through and is waited for by the next one: no request is too large for ever.
    """

    def __init__(self, per_minute: float | None = None) -> None:
        self.per_minute = per_minute  # None: no limit
        self._paid_until = -math.inf  # seconds on the gate's clock

    def wait(self, now: float) -> float:
        """Seconds until something may be taken."""
        if self.per_minute is None:
            return 0.0
        return max(0.0, self._paid_until - BURST - now)

    def take(self, now: float, units: float) -> None:
        """Take `units`; a negative number gives back what an estimate took too much."""
        if self.per_minute:
            self._paid_until = max(self._paid_until, now) + units * 60.0 / self.per_minute


@dataclass(frozen=True, slots=True)
class Ticket:
    """One call that was let through."""

    entered_at: float
    tokens: int  # as estimated
    probe: bool  # the one call by which a pause is ended


class AdmissionControl:
    """Lets calls through to one endpoint, first come, first served.

    Concurrency adapts under its ceiling: additive up with every success, halved by a 429 (at most once for the calls
    that were in flight together). `BREAK_AFTER` failures in a row open the circuit breaker: a pause, then a single
    probe, then a pause twice as long; after `BREAKS` of them the endpoint is down until `open_again`. `REFUSE_AFTER`
    refusals in a row (the key, the account, the model's name) or `BAD_AFTER` bad requests open it too; then one probe decides.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.ceiling = concurrency
        self.bears = 1.0  # the part of the ceiling that the endpoint was found to bear: a share cuts both alike
        self.flying = 0
        self.waiting = 0
        self.blocked_until = -math.inf
        self.because = ""  # the error class that the pause is for
        self.detail = ""
        self.openings = 0
        self.opened = 0  # how often this gate has found cause for a pause itself
        self.down = False
        self.answered = 0  # how often, for better or for worse, but not by failing
        self.on_news = on_news
        self._requests, self._tokens = Bucket(rpm), Bucket(tpm)
        self._clock, self._sleep = clock, sleep
        self._failures = self._refused = self._bad = 0  # in a row
        self._probing = False
        self._halved_at = -math.inf
        self._turn = asyncio.Lock()
        self._knock: asyncio.Future[None] | None = None  # of the next in line
        self._closed: Postponed | None = None
        self._close = asyncio.Event()

    # ---------------------------------------------------------------------------------------------- told from outside

    def share(self, concurrency: int, *, rpm: float | None, tpm: float | None) -> None:
        """What this gate may use from now on. A concurrency of 0 holds everybody until the next share."""
        self.ceiling = concurrency
        self._requests.per_minute, self._tokens.per_minute = rpm, tpm
        self._stir()

    def block(self, seconds: float, because: str = "") -> None:
        """Let nobody through for so long, unless it is blocked for longer already."""
        until = self._clock() + seconds
        if until > self.blocked_until:
            self.blocked_until, self.because = until, because or self.because
            self._stir()

    def give_up(self, because: str, detail: str = "") -> None:
        """Take the endpoint for down: all who wait, and all who come, are refused with EndpointDown."""
        if not self.down:
            self.down, self.because, self.detail = True, because, detail
            self._stir()

    def open_again(self) -> None:
        """Forget pauses and failures."""
        self.down, self.openings, self.blocked_until = False, 0, -math.inf
        self._failures = self._refused = self._bad = 0
        self.because = self.detail = ""
        self._stir()

    def close(self, error: Postponed) -> None:
        """Refuse all who wait and all who come with this error. What is in flight stays in flight."""
        self._closed = error
        self._close.set()
        self._stir()

    @property
    def limit(self) -> float:
        """How many calls at once the endpoint was found to bear, of those that this gate may make."""
        return max(1.0, self.bears * self.ceiling)

    @property
    def away(self) -> bool:
        """Whether it is of no use to wait here."""
        return self.down or self.blocked_for > MAX_WAIT

    @property
    def blocked_for(self) -> float:
        """Seconds; 0 where it is open."""
        return max(0.0, self.blocked_until - self._clock())

    # ------------------------------------------------------------------------------------------------------- the way

    async def enter(self, tokens: int) -> Ticket:
        """Wait for one's turn. `tokens` is an estimate, settled when the call leaves.

        Raises:
            EndpointDown, Away: nothing will get through for long. Postponed: what the gate was closed with.
        """
        self.waiting += 1
        if self.waiting == 1 and not self.ceiling:
            self.on_news()  # the shares were made without knowing that it would be wanted
        try:
            async with self._turn:
                while (seconds := self._to_wait()) != 0.0:
                    await self._wait(seconds)
                now = self._clock()
                self.flying += 1
                self._requests.take(now, 1)
                self._tokens.take(now, tokens)
                self._probing = self._probing or self.openings > 0
                return Ticket(now, tokens, probe=self.openings > 0)
        finally:
            self.waiting -= 1

    def leave(self, ticket: Ticket, error: LLMError | None = None, *, tokens: int = 0) -> bool:
        """A call has ended, with so many tokens used. Returns whether its failure, if any, counts against the request.

        It does not where the call was a probe, or never got there: whatever had been asked would have failed.
        """
        self.flying -= 1
        now = self._clock()
        self._tokens.take(now, tokens - ticket.tokens)
        if ticket.probe:
            self._probing = False
        if error is None:
            self._bad = 0
        elif isinstance(error, BadRequest):
            self._bad += 1
        if not isinstance(error, ITS_FAULT) and self._bad < BAD_AFTER:
            self.answered += 1
            self._failures = self._refused = self.openings = 0
            self.because = self.because if self.blocked_for else ""
            self._bear(self.limit + 1.0 / self.limit)
        elif error is not None:
            self._failed(ticket, error, now)
        self._stir()
        return not ticket.probe and not isinstance(error, NotReached)

    def withdraw(self, ticket: Ticket) -> None:
        """A call that was let through was not made after all."""
        self.flying -= 1
        self._tokens.take(self._clock(), -ticket.tokens)
        if ticket.probe:
            self._probing = False
        self._stir()

    async def nap(self, seconds: float) -> None:
        """Sleep before coming again. Raises what the gate was closed with meanwhile."""
        await self._either(self._sleep(seconds), self._close.wait())
        if self._closed is not None:
            raise self._closed

    # ------------------------------------------------------------------------------------------------------- inside

    def _to_wait(self) -> float | None:
        """Seconds until one more may pass; None: until something changes."""
        if self._closed is not None:
            raise self._closed
        if self.down:
            raise EndpointDown(f"{self.because}: {self.detail}".strip(": "))
        if self.away:
            raise Away(f"For {self.blocked_for:.0f} seconds.", retry_after=self.blocked_for)
        if self._probing or self.flying >= min(self.ceiling, int(self.limit + 1e-6)):
            return None
        now = self._clock()
        return max(self.blocked_for, self._requests.wait(now), self._tokens.wait(now))

    def _failed(self, ticket: Ticket, error: LLMError, now: float) -> None:
        if error.retry_after:
            self.block(error.retry_after, error.kind)
            self.on_news()
        if isinstance(error, RateLimited) and ticket.entered_at > self._halved_at:
            self._bear(self.limit / 2)
            self._halved_at = now
        self._failures += 1
        self._refused += isinstance(error, REFUSALS)
        hopeless = self._refused >= REFUSE_AFTER or self._bad >= BAD_AFTER
        first = self.openings == 0 and (hopeless or self._failures >= BREAK_AFTER)
        if not (first or ticket.probe):
            return
        self.openings += 1
        self.opened += 1
        if self.openings > BREAKS or (ticket.probe and isinstance(error, (*REFUSALS, BadRequest))):
            self.give_up(error.kind, error.detail)
        else:
            self.detail = error.detail
            self.block(min(PAUSE_CAP, PAUSE * 2.0 ** (self.openings - 1)), error.kind)
        self.on_news()

    def _bear(self, limit: float) -> None:
        if self.ceiling:
            self.bears = min(1.0, max(1.0, limit) / self.ceiling)

    def _stir(self) -> None:
        if self._knock is not None and not self._knock.done():
            self._knock.set_result(None)

    async def _wait(self, seconds: float | None) -> None:
        self._knock = asyncio.get_running_loop().create_future()
        try:
            if seconds is None:
                await self._knock
            else:
                await self._either(self._sleep(seconds), self._knock)
        finally:
            self._knock = None

    @staticmethod
    async def _either(*ways: Awaitable[object]) -> None:
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
