"""Several questions to models at once."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def together(*asked: Awaitable[T]) -> list[T]:
    """What each comes to, in their order. All are waited for: an answer on its way is paid for, and so in the ledger.

    Raises what the first that failed did.
    """
    found = await asyncio.gather(*asked, return_exceptions=True)
    results = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results
