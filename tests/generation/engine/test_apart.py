"""Code on untrusted text runs in a process of its own; one that hangs ends alone, and by name."""

import asyncio
import os
import re
from typing import Any

import pytest

from generation.engine import apart
from generation.engine.apart import Apart
from generation.llm.errors import TooSlow


def _read(context: str, text: str) -> str:
    if text == "hang":
        re.match("(a+)+b", "a" * 60)
    if text == "crash":
        os._exit(1)
    if text == "bug":
        raise LookupError("no such thing")
    return f"{context}: {text}"


def _outcomes(*texts: str) -> list[Any]:
    async def run() -> list[Any]:
        reader = Apart("read")
        try:
            first = await asyncio.gather(*(reader(_read, text) for text in texts), return_exceptions=True)
            return [*first, await reader(_read, "after")]
        finally:
            reader.close()

    return asyncio.run(run())


@pytest.mark.plain
@pytest.mark.parametrize("end", ["hang", "crash"])
def test_a_call_that_ends_the_process_fails_alone(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "SECONDS", 0.5)
    before, ended, after, later = _outcomes("before", end, "behind")
    assert (before, after, later) == ("read: before", "read: behind", "read: after")
    assert isinstance(ended, TooSlow)


@pytest.mark.plain
def test_a_bug_is_raised_where_the_call_was_made() -> None:
    bug, after = _outcomes("bug")
    assert isinstance(bug, LookupError)
    assert after == "read: after"
