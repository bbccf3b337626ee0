"""The ledger as the gateway needs it: a few callables, so that the gateway knows no database."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from generation.llm.request_body import Format
from generation.llm.types import Attempt, Reply

OnAttempt = Callable[[Attempt], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A reply in the ledger that was paid for, with the key of its line."""

    line: int
    reply: Reply


async def _allow() -> None:
    pass


async def no_paid_replies(_identity: str) -> Sequence[PaidReply]:
    return ()


async def _no_failures(_identity: str) -> int:
    return 0


async def _not_refused(_identity: str) -> bool:
    return False


async def _strictest_format(_prompt: str) -> Format:
    return Format.JSON_SCHEMA


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one row's calls to an endpoint.

    `write` is awaited with every attempt, successful or not, before its outcome is used. `check` is
    awaited before each attempt and may refuse it (BudgetSpent, LaneOver); every attempt that it
    allows is written. `find` returns the replies paid for under an identity, newest first.
    `failures` returns how many attempts at an identity failed before the row was cut short,
    `refused` whether the endpoint refused the row's request under it. `last_format` returns the
    output format in which the endpoint last answered a prompt that requires a schema.
    """

    write: OnAttempt
    check: Callable[[], Awaitable[None]] = _allow
    find: Callable[[str], Awaitable[Sequence[PaidReply]]] = no_paid_replies
    failures: Callable[[str], Awaitable[int]] = _no_failures
    last_format: Callable[[str], Awaitable[Format]] = _strictest_format
    refused: Callable[[str], Awaitable[bool]] = _not_refused
