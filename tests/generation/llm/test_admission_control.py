"""The gate before an endpoint, on a clock that only moves when somebody sleeps."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.engine.lane_coordination import fair_shares
from generation.llm.admission_control import (
    BAD_AFTER,
    BREAK_AFTER,
    BURST,
    MAX_OPENINGS,
    PAUSE,
    PAUSE_CAP,
    REFUSE_AFTER,
    AdmissionControl,
    Bucket,
)
from generation.llm.errors import (
    AuthFailed,
    Away,
    BadRequest,
    BrokenReply,
    ContentFiltered,
    EndpointDown,
    LaneOver,
    LLMError,
    NoCredit,
    NotThere,
    RateLimited,
    ServerError,
)


class Time:
    """A clock that jumps to the shortest sleeper once nobody has anything else to do."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, future))
        await future

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.ensure_future(work)
        idle = 0
        while not task.done():
            await asyncio.sleep(0)
            self._sleepers = [(at, future) for at, future in self._sleepers if not future.done()]
            idle = idle + 1
            if idle > 20 and self._sleepers:
                idle = 0
                at, future = min(self._sleepers, key=lambda sleeper: sleeper[0])
                self.now = max(self.now, at)
                future.set_result(None)
            assert idle < 10_000, "everybody waits for ever"
        return task.result()


def played(work: Any) -> Any:
    time = Time()

    async def main() -> Any:
        return await time.run(work(time))

    return asyncio.run(main())


def gate_of(time: Time, concurrency: int = 4, **options: Any) -> AdmissionControl:
    return AdmissionControl(concurrency, clock=time.clock, sleep=time.sleep, **options)


async def one(gate: AdmissionControl, error: LLMError | None = None, tokens: int = 0) -> bool:
    ticket = await gate.enter(tokens)
    return gate.leave(ticket, error, tokens=tokens)


# ------------------------------------------------------------------------------------------------------------ concurrency


def test_no_more_at_once_than_the_ceiling_and_in_order() -> None:
    async def work(time: Time) -> None:
        gate, order, peak = gate_of(time, 3), [], 0

        async def call(number: int) -> None:
            nonlocal peak
            ticket = await gate.enter(0)
            order.append(number)
            peak = max(peak, gate.in_flight)
            await time.sleep(1)
            gate.leave(ticket)

        await asyncio.gather(*(call(number) for number in range(10)))
        assert peak == 3
        assert order == list(range(10))
        assert gate.in_flight == gate.waiting == 0
        assert time.now == 1_004

    played(work)


def test_a_429_halves_it_once_for_those_in_flight_together_and_successes_bring_it_back() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 8)
        together = [await gate.enter(0) for _ in range(8)]
        time.now += 1
        for ticket in together:
            gate.leave(ticket, RateLimited())
        assert gate.limit == 4
        time.now += 1
        await one(gate, RateLimited())
        assert gate.limit == 2
        for _ in range(200):
            time.now += 1
            await one(gate)
        assert gate.limit == 8, "never above its ceiling"
        for _ in range(9):
            time.now += 1
            await one(gate, RateLimited())
        assert gate.limit == 1, "never below one"

    played(work)


def test_a_share_takes_effect_at_once() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 1)
        held = await gate.enter(0)
        waiting = [asyncio.ensure_future(gate.enter(0)) for _ in range(3)]
        await time.sleep(1)
        assert not any(task.done() for task in waiting)
        gate.set_share(3, rpm=None, tpm=None)
        await time.sleep(1)
        assert [task.done() for task in waiting] == [True, True, False]
        gate.set_share(0, rpm=None, tpm=None)
        gate.leave(held)
        await time.sleep(1)
        assert not waiting[2].done()
        gate.set_share(3, rpm=None, tpm=None)
        await waiting[2]

    played(work)


def test_who_comes_first_where_there_is_no_share_is_news() -> None:
    async def work(time: Time) -> None:
        told: list[float] = []
        gate = gate_of(time, 0, on_news=lambda: told.append(time.now))
        waiting = [asyncio.ensure_future(one(gate)) for _ in range(3)]
        await time.sleep(1)
        assert told == [1_000], "once, however many come after"
        gate.set_share(1, rpm=None, tpm=None)
        await asyncio.gather(*waiting)
        await one(gate)
        assert len(told) == 1, "who waits for a turn waits for no share"

    played(work)


def test_what_an_endpoint_bears_is_remembered_while_shares_change() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 64)
        for _ in range(3):
            time.now += 1
            await one(gate, RateLimited())
        assert gate.limit == 8
        gate.set_share(0, rpm=None, tpm=None)
        gate.set_share(32, rpm=None, tpm=None)
        assert gate.limit == 4, "half of it"
        gate.set_share(1, rpm=None, tpm=None)
        assert gate.limit == 1
        gate.set_share(64, rpm=None, tpm=None)
        assert gate.limit == 8
        untroubled = gate_of(time, 1)
        untroubled.set_share(64, rpm=None, tpm=None)
        assert untroubled.limit == 64

    played(work)


# ----------------------------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize(("limits", "tokens"), [({"rpm": 60}, 0), ({"tpm": 6_000}, 100)])
def test_a_rate_is_kept_in_every_minute(limits: dict[str, int], tokens: int) -> None:
    async def work(time: Time) -> None:
        gate, at = gate_of(time, 50, **limits), []

        async def call() -> None:
            ticket = await gate.enter(tokens)
            at.append(time.now)
            gate.leave(ticket, tokens=tokens)

        await asyncio.gather(*(call() for _ in range(150)))
        for begin in at:
            assert sum(begin <= moment < begin + 60 for moment in at) <= 60 + BURST + 1
        assert at[-1] - at[0] == pytest.approx(149, abs=2)

    played(work)


def test_an_estimate_is_settled_when_the_endpoint_has_counted() -> None:
    def spent(counted: int) -> float:
        async def work(time: Time) -> float:
            gate = gate_of(time, tpm=6_000)
            for _ in range(20):
                ticket = await gate.enter(100)
                gate.leave(ticket, tokens=counted)
            return time.now - 1_000

        return float(played(work))

    assert spent(100) == pytest.approx(18, abs=1.1)
    assert spent(200) == pytest.approx(37, abs=2.1)
    assert spent(0) == 0


def test_a_request_larger_than_a_minute_goes_and_is_waited_for() -> None:
    bucket = Bucket(60)
    assert bucket.wait(0) == 0
    bucket.take(0, 600)
    assert bucket.wait(0) == 600 - BURST
    assert bucket.wait(599) == 0


# ---------------------------------------------------------------------------------------------------------------- pauses


def test_a_retry_after_is_obeyed_by_all_who_wait() -> None:
    async def work(time: Time) -> None:
        told = []
        gate = gate_of(time, 2, on_news=lambda: told.append(time.now))
        ticket = await gate.enter(0)
        gate.leave(ticket, RateLimited(retry_after=30))
        assert told == [1_000]
        assert (gate.blocked_for, gate.because) == (30, "RateLimited")
        await asyncio.gather(*(one(gate) for _ in range(5)))
        assert time.now == 1_030
        assert gate.because == ""

    played(work)


def test_a_block_from_elsewhere_counts_as_ones_own() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, rpm=1)
        await one(gate)
        await one(gate)
        waits = asyncio.ensure_future(one(gate))
        await time.sleep(1)
        gate.block(100, "RateLimited")
        begun = time.now
        await waits
        assert time.now == begun + 100
        gate.block(50)
        gate.block(5)
        assert gate.blocked_for == 50, "the longer one counts"

    played(work)


def test_who_would_wait_too_long_is_sent_away() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        await one(gate, RateLimited(retry_after=3_600))
        assert gate.is_away
        with pytest.raises(Away) as caught:
            await gate.enter(0)
        assert caught.value.retry_after == 3_600
        assert not caught.value.permanent

    played(work)


def test_closing_sends_everybody_away_and_keeps_what_flies() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 1)
        flying = await gate.enter(0)
        waits, naps = asyncio.ensure_future(gate.enter(0)), asyncio.ensure_future(gate.back_off(60))
        await time.sleep(1)
        gate.close(LaneOver())
        for task in (waits, naps):
            with pytest.raises(LaneOver):
                await task
        assert time.now == 1_001
        with pytest.raises(LaneOver):
            await gate.enter(0)
        assert gate.in_flight == 1
        gate.leave(flying)
        assert (gate.in_flight, gate.waiting) == (0, 0)

    played(work)


def test_who_gives_up_waiting_leaves_the_place_to_the_next() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 1)
        held = await gate.enter(0)
        first, second = asyncio.ensure_future(gate.enter(0)), asyncio.ensure_future(gate.enter(0))
        await time.sleep(1)
        first.cancel()
        await time.sleep(1)
        gate.leave(held)
        await second
        assert (gate.in_flight, gate.waiting) == (1, 0)

    played(work)


# --------------------------------------------------------------------------------------------------------------- breaker


def test_failures_in_a_row_open_the_breaker_and_a_probe_closes_it() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 20)
        for _ in range(BREAK_AFTER - 1):
            assert await one(gate, ServerError())
        await one(gate)
        for _ in range(BREAK_AFTER - 1):
            await one(gate, ServerError())
        assert gate.blocked_for == 0, "a success in between"
        assert await one(gate, ServerError("on fire"))
        assert (gate.blocked_for, gate.because, gate.detail) == (PAUSE, "ServerError", "on fire")

        probes = []

        async def call() -> None:
            ticket = await gate.enter(0)
            probes.append((ticket.probe, gate.in_flight, time.now))
            await time.sleep(1)
            gate.leave(ticket)

        await asyncio.gather(*(call() for _ in range(4)))
        assert probes[0] == (True, 1, 1_000 + PAUSE)
        assert [probe for probe, _flying, _now in probes[1:]] == [False] * 3
        assert {now for _probe, _flying, now in probes[1:]} == {1_001 + PAUSE}, "they waited for its end"
        assert (gate.openings, gate.opened) == (0, 1)

    played(work)


def test_pauses_grow_until_the_endpoint_is_down() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 20)
        for _ in range(BREAK_AFTER):
            await one(gate, ServerError("on fire"))
        pauses = []
        for _ in range(MAX_OPENINGS):
            pauses.append(gate.blocked_for)
            assert not await one(gate, ServerError("on fire")), "a probe is not held against the row"
        assert pauses == [min(PAUSE_CAP, PAUSE * 2**n) for n in range(MAX_OPENINGS)]
        assert gate.down
        assert gate.is_away
        with pytest.raises(EndpointDown, match="ServerError: on fire"):
            await gate.enter(0)
        gate.reset()
        assert await one(gate)

    played(work)


def test_late_failures_of_before_the_pause_do_not_lengthen_it() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time, 30)
        tickets = [await gate.enter(0) for _ in range(30)]
        for ticket in tickets:
            assert gate.leave(ticket, ServerError())
        assert (gate.openings, gate.blocked_for) == (1, PAUSE)

    played(work)


@pytest.mark.parametrize("kind", [AuthFailed, NoCredit, NotThere])
def test_a_refusal_of_whatever_is_asked_is_not_tried_for_ever(kind: type[LLMError]) -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        for _ in range(REFUSE_AFTER):
            assert not gate.blocked_for
            assert await one(gate, kind("expired")), "it might be this row's"
        assert (gate.blocked_for, gate.down) == (PAUSE, False)
        assert not await one(gate, kind("expired"))
        assert gate.down
        assert time.now == 1_000 + PAUSE

    played(work)


def test_a_refusal_between_successes_is_the_requests() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        for _ in range(3 * REFUSE_AFTER):
            await one(gate, AuthFailed())
            await one(gate)
        assert not gate.blocked_for

    played(work)


@pytest.mark.parametrize("error", [BadRequest(), BrokenReply(), ContentFiltered()])
def test_a_request_that_was_wrong_says_nothing_about_the_endpoint(error: LLMError) -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        for _ in range(5):
            for _ in range(BAD_AFTER - 1):
                await one(gate, error)
            await one(gate)
        assert not gate.blocked_for

    played(work)


def test_an_endpoint_that_takes_no_request_at_all_is_given_up() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        for _ in range(BAD_AFTER):
            assert not gate.blocked_for
            await one(gate, BadRequest("max_tokens is not supported"))
        assert gate.blocked_for == PAUSE
        await one(gate, BadRequest("max_tokens is not supported"))
        assert gate.down
        gate.reset()
        await one(gate, BadRequest())
        assert not gate.blocked_for

    played(work)


def test_a_probe_that_was_withdrawn_leaves_the_probing_to_the_next() -> None:
    async def work(time: Time) -> None:
        gate = gate_of(time)
        for _ in range(BREAK_AFTER):
            await one(gate, ServerError())
        ticket = await gate.enter(0)
        assert ticket.probe
        gate.withdraw(ticket)
        assert (await gate.enter(0)).probe

    played(work)


# ---------------------------------------------------------------------------------------------------------------- shares


def test_shares_by_example() -> None:
    assert fair_shares(8, [100, 100]) == [4, 4]
    assert fair_shares(8, [2, 100]) == [2, 6]
    assert fair_shares(8, [0, 100]) == [0, 8]
    assert fair_shares(7, [100, 100, 100]) == [3, 2, 2]
    assert fair_shares(2, [5, 5, 5]) == [1, 1, 0]
    assert fair_shares(0, [5]) == [0]


@given(st.integers(0, 500), st.lists(st.integers(0, 300), max_size=12))
def test_shares_are_fair(total: int, wishes: list[int]) -> None:
    shares = fair_shares(total, wishes)
    assert all(0 <= share <= wish for share, wish in zip(shares, wishes, strict=True))
    assert sum(shares) == min(total, sum(wishes)), "nothing is left lying"
    for share, wish in zip(shares, wishes, strict=True):
        if share < wish:
            assert share >= max(shares, default=0) - 1, "who wants more has no less than anybody"
