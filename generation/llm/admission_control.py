"""Admission to an endpoint: concurrency, rate limits and the circuit breaker.

Plain Python for one event loop. The state that several processes share is passed in from outside
(`set_share`, `block`, `reset`); admission control itself only counts its own calls.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from generation.llm.errors import (
    STOPPING_ERRORS,
    AuthFailed,
    BadRequest,
    ConnectionCut,
    EndpointDown,
    LLMError,
    NobodyListens,
    NoCredit,
    NotFound,
    NotReached,
    PausedTooLong,
    Postponed,
    RateLimited,
    ServerError,
    TimedOut,
    UnexpectedError,
    in_words,
)

BREAK_AFTER = 10  # failures in a row that open the circuit breaker
REFUSE_AFTER = 3  # account errors in a row that open it: fewer than the attempts of a row
BAD_AFTER = 20  # bad requests in a row, without any success, that open it
MAX_OPENINGS = 8  # pauses in a row after which the endpoint counts as down
PAUSE = 5.0  # seconds of the first pause; each further one is twice as long
PAUSE_CAP = 100.0  # less than MAX_WAIT, so that callers wait for the end of a pause
MAX_WAIT = 120.0  # seconds; for a longer wait the row is requeued
BURST = 1.0  # seconds' worth of a rate limit that may be used at once

ACCOUNT_ERRORS = (AuthFailed, NoCredit, NotFound)  # of the account or the address: waiting does not help
# Faults of the endpoint, whatever was asked.
ENDPOINT_ERRORS = (
    RateLimited,
    ServerError,
    TimedOut,
    ConnectionCut,
    NotReached,
    UnexpectedError,  # caused by whatever it sent
    *ACCOUNT_ERRORS,
)
Sleep = Callable[[float], Awaitable[None]]


class Bucket:
    """An even rate limit, in units per minute.

    It is the generic cell rate algorithm (ITU-T I.371): one number, no timer. A take of more than
    is left passes, and the next one waits for it; so no request is too large forever.
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
        """Take `units`; a negative number returns what an estimate took in excess."""
        if self.per_minute:
            self._paid_until = max(self._paid_until, now) + units * 60.0 / self.per_minute


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that was admitted."""

    entered_at: float
    tokens: int  # as estimated
    probe: bool  # the single call that decides whether a pause ends


class AdmissionControl:
    """Admits calls to one endpoint, first come, first served.

    Concurrency adapts below its ceiling: it increases additively with every success and is halved
    by a 429 (at most once for the calls that were in flight together). `BREAK_AFTER` failures in a
    row open the circuit breaker: a pause, then a single probe, then a pause twice as long; after
    `MAX_OPENINGS` of them the endpoint is down until `reset`. `REFUSE_AFTER` account errors in a
    row (the key, the account, the model's name) or `BAD_AFTER` bad requests open it too; one probe
    then decides.
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
        self.supported = 1.0  # the share of the ceiling that the endpoint was found to support; it survives `set_share`
        self.in_flight = 0
        self.waiting = 0
        self.blocked_until = -math.inf
        self.error = ""  # the error class that caused the pause
        self.detail = ""
        self.openings = 0
        self.opened = 0  # how often calls admitted here have opened the breaker
        self.down = False
        self.answered = 0  # calls that ended without a fault of the endpoint
        self.on_news = on_news
        self._requests, self._tokens = Bucket(rpm), Bucket(tpm)
        self._clock, self._sleep = clock, sleep
        self.failures = self._refused = self._bad = 0  # in a row; all by a fault of the endpoint
        self._probing = False
        self._halved_at = -math.inf
        self._queue = asyncio.Lock()
        self._next_in_line: asyncio.Future[None] | None = None  # of the first in the queue
        self._closed: Postponed | None = None
        self._closing = asyncio.Event()

    # ----------------------------------------------------------------------------- set from outside

    def set_share(self, concurrency: int, *, rpm: float | None, tpm: float | None) -> None:
        """Set the concurrency and rates that may be used. A concurrency of 0 admits nobody."""
        self.ceiling = concurrency
        self._requests.per_minute, self._tokens.per_minute = rpm, tpm
        self._wake_next()

    def block(self, seconds: float, error: str = "") -> None:
        """Block the endpoint for `seconds`, unless it is blocked for longer already."""
        until = self._clock() + seconds
        if until > self.blocked_until:
            self.blocked_until, self.error = until, error or self.error
            self._wake_next()

    def mark_down(self, error: str, detail: str = "") -> None:
        """Mark the endpoint as down: all waiting and future callers get EndpointDown."""
        if not self.down:
            self.down, self.error, self.detail = True, error, detail
            self._wake_next()

    def reset(self) -> None:
        """Forget pauses and failures."""
        self.down, self.openings, self.blocked_until = False, 0, -math.inf
        self.failures = self._refused = self._bad = 0
        self.error = self.detail = ""
        self._wake_next()

    def close(self, error: Postponed) -> None:
        """Refuse all waiting and future callers with this error. Calls in flight continue."""
        self._closed = error
        self._closing.set()
        self._wake_next()

    @property
    def limit(self) -> float:
        """How many concurrent calls the endpoint was found to support, of those allowed here."""
        return max(1.0, self.supported * self.ceiling)

    @property
    def is_away(self) -> bool:
        """Whether waiting here is useless."""
        return self.down or self.blocked_for > MAX_WAIT

    @property
    def blocked_for(self) -> float:
        """Seconds until calls are admitted; 0 if they are now."""
        return max(0.0, self.blocked_until - self._clock())

    # ------------------------------------------------------------------------------------ admission

    async def enter(self, tokens: int) -> Ticket:
        """Wait to be admitted. `tokens` is an estimate, corrected when the call leaves.

        Raises:
            EndpointDown, PausedTooLong: no call will be admitted for long.
            Postponed: the error given to `close`.
        """
        self.waiting += 1
        if self.waiting == 1 and not self.ceiling:
            self.on_news()  # the shares were computed without knowing of this demand
        try:
            async with self._queue:
                while (seconds := self._seconds_to_wait()) != 0.0:
                    await self._wait(seconds)
                now = self._clock()
                self.in_flight += 1
                self._requests.take(now, 1)
                self._tokens.take(now, tokens)
                self._probing = self._probing or self.openings > 0
                return Ticket(now, tokens, probe=self.openings > 0)
        finally:
            self.waiting -= 1

    def leave(self, ticket: Ticket, error: LLMError | None = None, *, tokens: int = 0) -> bool:
        """Record the end of a call, which used `tokens`.

        Returns whether a failure counts against the request. It does not if the call was a probe or
        did not reach the endpoint, as any request would have failed then.
        """
        self.withdraw(ticket, tokens)
        if error is None:
            self._bad = 0
        elif isinstance(error, BadRequest):
            self._bad += 1
        is_untried = not (self.answered or self.openings)  # a server that has answered may be starting again
        if isinstance(error, STOPPING_ERRORS) or (isinstance(error, NobodyListens) and is_untried):
            self.mark_down(error.kind, error.summary)
            self.on_news()
        elif not isinstance(error, ENDPOINT_ERRORS) and self._bad < BAD_AFTER:
            self.answered += 1
            self.failures = self._refused = self.openings = 0
            if not self.blocked_for:
                self.error = ""
            self._set_limit(self.limit + 1.0 / self.limit)
        elif error is not None:
            self._record_failure(ticket, error, self._clock())
        self._wake_next()
        return not ticket.probe and not isinstance(error, NotReached)

    def withdraw(self, ticket: Ticket, tokens: int = 0) -> None:
        """Record that an admitted call is over, or was not made, and shows nothing."""
        self.in_flight -= 1
        self._tokens.take(self._clock(), tokens - ticket.tokens)
        if ticket.probe:
            self._probing = False
        self._wake_next()

    async def back_off(self, seconds: float) -> None:
        """Sleep before a retry. Raises the error passed to `close`, if it is closed meanwhile."""
        await self._wait_for_first(self._sleep(seconds), self._closing.wait())
        if self._closed is not None:
            raise self._closed

    # --------------------------------------------------------------------------------------- inside

    def _seconds_to_wait(self) -> float | None:
        """Seconds until one more call may be admitted; None: until something changes."""
        if self._closed is not None:
            raise self._closed
        if self.down:
            raise EndpointDown(in_words(self.error, self.detail))
        if self.is_away:
            raise PausedTooLong(f"For {self.blocked_for:.0f} seconds.", retry_after=self.blocked_for)
        if self._probing or self.in_flight >= min(self.ceiling, int(self.limit + 1e-6)):
            return None
        now = self._clock()
        return max(self.blocked_for, self._requests.wait(now), self._tokens.wait(now))

    def _record_failure(self, ticket: Ticket, error: LLMError, now: float) -> None:
        if error.retry_after:
            self.block(error.retry_after, error.kind)
            self.on_news()
        if isinstance(error, RateLimited) and ticket.entered_at > self._halved_at:
            self._set_limit(self.limit / 2)
            self._halved_at = now
        self.failures += 1
        self._refused += isinstance(error, ACCOUNT_ERRORS)
        must_open = self._refused >= REFUSE_AFTER or self._bad >= BAD_AFTER
        is_first = self.openings == 0 and (must_open or self.failures >= BREAK_AFTER)
        if not (is_first or ticket.probe):
            return
        self.openings += 1
        self.opened += 1
        if self.openings > MAX_OPENINGS or (ticket.probe and isinstance(error, (*ACCOUNT_ERRORS, BadRequest))):
            self.mark_down(error.kind, error.summary)
        else:
            self.detail = error.summary
            self.block(min(PAUSE_CAP, PAUSE * 2.0 ** (self.openings - 1)), error.kind)
        self.on_news()

    def _set_limit(self, limit: float) -> None:
        if self.ceiling:
            self.supported = min(1.0, max(1.0, limit) / self.ceiling)

    def _wake_next(self) -> None:
        if self._next_in_line is not None and not self._next_in_line.done():
            self._next_in_line.set_result(None)

    async def _wait(self, seconds: float | None) -> None:
        self._next_in_line = asyncio.get_running_loop().create_future()
        try:
            if seconds is None:
                await self._next_in_line
            else:
                await self._wait_for_first(self._sleep(seconds), self._next_in_line)
        finally:
            self._next_in_line = None

    @staticmethod
    async def _wait_for_first(*awaitables: Awaitable[object]) -> None:
        tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
