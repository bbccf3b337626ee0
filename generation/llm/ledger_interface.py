"""What the gateway needs of a ledger: a handful of callables, so that it knows no database."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from generation.llm.request_body import Format
from generation.llm.types import Attempt, Reply

OnAttempt = Callable[[Attempt], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A reply that the ledger has already, under the number of its line."""

    line: int
    reply: Reply


async def _allow() -> None:
    pass


async def none(_identity: str) -> Sequence[PaidReply]:
    return ()


async def _no_failures(_identity: str) -> int:
    return 0


async def _firmest(_prompt: str) -> Format:
    return Format.JSON_SCHEMA


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where attempts are written, and what is asked of it.

    `write` is awaited with every attempt, good or bad, before anything is made of it. `check` is awaited before each
    attempt and may refuse it (BudgetSpent, LaneOver); every attempt that it let through is written. `find` knows the
    replies, newest first, that were paid for under an identity; `failures` how many attempts at it have failed before now,
    where it was cut short; `form` the format in which the endpoint last answered a prompt's requests for a schema.
    """

    write: OnAttempt
    check: Callable[[], Awaitable[None]] = _allow
    find: Callable[[str], Awaitable[Sequence[PaidReply]]] = none
    failures: Callable[[str], Awaitable[int]] = _no_failures
    form: Callable[[str], Awaitable[Format]] = _firmest
