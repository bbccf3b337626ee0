"""Calls that share a beginning: one warms it, the others follow, and nothing waits for ever."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from generation.engine import prefix_groups
from generation.engine.prefix_groups import KEPT, PATIENCE, PrefixGroups


class Calls:
    """Calls that begin and end when a test says so; `begun` in order."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.groups = PrefixGroups(lambda: self.seconds)
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.failing: set[str] = set()

    async def call(self, name: str, *path: str) -> None:
        self.ends[name] = asyncio.Event()
        await self.groups.wait(path)
        with suppress(RuntimeError), self.groups.warming(path):
            self.begun.append(name)
            await self.ends[name].wait()
            if name in self.failing:
                raise RuntimeError

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


async def start(calls: Calls, *named: tuple[str, ...]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.ensure_future(calls.call(*each)) for each in named]
    await calls.settle()
    return tasks


def test_the_first_call_of_a_group_warms_it_and_groups_nest() -> None:
    async def story() -> None:
        calls = Calls()
        await start(calls, ("s1a1", "s1", "a1"), ("s1a1'", "s1", "a1"), ("s1a2", "s1", "a2"), ("s2a3", "s2", "a3"))
        assert calls.begun == ["s1a1", "s2a3"], "other groups fill the lane"
        await calls.end("s1a1")
        assert calls.begun[2:] == ["s1a1'", "s1a2"], "the sample is warm; the other answer begins its own group"
        await start(calls, ("s1a2'", "s1", "a2"))
        assert len(calls.begun) == 4
        await calls.end("s1a2")
        assert calls.begun[4:] == ["s1a2'"]
        await calls.end("s1a1'", "s2a3", "s1a2'")

    play(story())


def test_a_group_of_one_and_a_call_without_groups_wait_for_nothing() -> None:
    async def story() -> None:
        calls = Calls()
        await start(calls, ("alone", "s"), ("free",))
        assert calls.begun == ["alone", "free"]

    play(story())


@pytest.mark.parametrize("dies", ["fails", "is cancelled"])
def test_if_the_warming_call_dies_the_next_one_warms(dies: str) -> None:
    async def story() -> None:
        calls = Calls()
        first, *_ = await start(calls, ("first", "s"), ("second", "s"), ("third", "s"))
        if dies == "fails":
            calls.failing.add("first")
            await calls.end("first")
        else:
            first.cancel()
            await calls.settle()
        assert calls.begun == ["first", "second"]
        await calls.end("second")
        assert calls.begun == ["first", "second", "third"]

    play(story())


def test_a_beginning_that_is_not_used_for_minutes_is_cold_again() -> None:
    async def story() -> None:
        calls = Calls()
        await start(calls, ("first", "s"))
        await calls.end("first")
        calls.seconds += KEPT + 1
        await start(calls, ("second", "s"), ("third", "s"))
        assert calls.begun == ["first", "second"]

    play(story())


def test_a_warming_call_that_hangs_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_groups, "PATIENCE", 0.05)

    async def story() -> None:
        groups = PrefixGroups(asyncio.get_running_loop().time)
        with groups.warming(["s"]):
            await groups.wait(["s"])
            with groups.warming(["s"]):
                assert groups.must_wait(["s"])

    assert PATIENCE > 0.05
    play(story())


def test_nobody_waits_once_the_lane_is_over() -> None:
    async def story() -> None:
        calls = Calls()
        await start(calls, ("first", "s"), ("second", "s"), ("third", "s"))
        assert calls.begun == ["first"]
        calls.groups.close()
        await calls.settle()
        assert calls.begun == ["first", "second", "third"]

    play(story())


def test_names_that_are_cold_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_groups, "MOST_NAMES", 2)

    async def story() -> None:
        calls = Calls()
        for number in range(5):
            calls.seconds += KEPT
            with calls.groups.warming([f"s{number}"]):
                pass
        assert len(calls.groups._warm_until) <= 2

    play(story())
