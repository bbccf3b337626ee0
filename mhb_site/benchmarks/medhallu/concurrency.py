"""Concurrent requests to models."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def gather_all(*requests: Awaitable[T]) -> list[T]:
    """The results of all requests, in their order.

    Waits for all of them even if one fails: a reply under way is paid for and has to reach the
    ledger.

    Raises:
        The exception of the first request, in their order, that failed.
    """
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    results = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
