"""Admission control of an endpoint, on a clock that moves only while all calls wait."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.engine.lane_coordination import fair_shares, shares_by_rank
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
    BadRequest,
    BrokenReply,
    ContentFiltered,
    EndpointDown,
    LaneOver,
    LLMError,
    NoCredit,
    NotFound,
    PausedTooLong,
    RateLimited,
    ServerError,
)
from generation.llm.http.failures import status_error


class FakeTime:
    """A clock that jumps to the end of the shortest sleep once every task waits."""

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
            assert idle < 10_000, "all tasks wait for ever"
        return task.result()


def run_in_fake_time(work: Any) -> Any:
    """Run `work(time)` on a fake clock and return its result."""
    time = FakeTime()

    async def main() -> Any:
        return await time.run(work(time))

    return asyncio.run(main())


def gate_with(time: FakeTime, concurrency: int = 4, **options: Any) -> AdmissionControl:
    return AdmissionControl(concurrency, clock=time.clock, sleep=time.sleep, **options)


async def call_once(gate: AdmissionControl, error: LLMError | None = None, tokens: int = 0) -> bool:
    """Enter and leave the gate with this outcome; returns what `leave` returned."""
    ticket = await gate.enter(tokens)
    return gate.leave(ticket, error, tokens=tokens)


# -------------------------------------------------------------------------------------- concurrency


def test_calls_enter_in_order_and_never_exceed_the_ceiling() -> None:
    async def work(time: FakeTime) -> None:
        gate, order, peak = gate_with(time, 3), [], 0

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

    run_in_fake_time(work)


def test_a_429_halves_the_limit_once_for_all_in_flight_and_successes_restore_it() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 8)
        tickets = [await gate.enter(0) for _ in range(8)]
        time.now += 1
        for ticket in tickets:
            gate.leave(ticket, RateLimited())
        assert gate.limit == 4
        time.now += 1
        await call_once(gate, RateLimited())
        assert gate.limit == 2
        for _ in range(200):
            time.now += 1
            await call_once(gate)
        assert gate.limit == 8, "never above its ceiling"
        for _ in range(9):
            time.now += 1
            await call_once(gate, RateLimited())
        assert gate.limit == 1, "never below one"

    run_in_fake_time(work)


def test_a_share_takes_effect_at_once() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 1)
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

    run_in_fake_time(work)


def test_only_the_first_call_without_a_share_is_reported_as_news() -> None:
    async def work(time: FakeTime) -> None:
        news: list[float] = []
        gate = gate_with(time, 0, on_news=lambda: news.append(time.now))
        waiting = [asyncio.ensure_future(call_once(gate)) for _ in range(3)]
        await time.sleep(1)
        assert news == [1_000], "once, however many calls follow"
        gate.set_share(1, rpm=None, tpm=None)
        await asyncio.gather(*waiting)
        await call_once(gate)
        assert len(news) == 1, "waiting for a slot is not waiting for a share"

    run_in_fake_time(work)


def test_the_learned_limit_survives_changes_of_the_share() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 64)
        for _ in range(3):
            time.now += 1
            await call_once(gate, RateLimited())
        assert gate.limit == 8
        gate.set_share(0, rpm=None, tpm=None)
        gate.set_share(32, rpm=None, tpm=None)
        assert gate.limit == 4, "half of the learned limit"
        gate.set_share(1, rpm=None, tpm=None)
        assert gate.limit == 1
        gate.set_share(64, rpm=None, tpm=None)
        assert gate.limit == 8
        untroubled = gate_with(time, 1)
        untroubled.set_share(64, rpm=None, tpm=None)
        assert untroubled.limit == 64

    run_in_fake_time(work)


# -------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize(("limits", "tokens"), [({"rpm": 60}, 0), ({"tpm": 6_000}, 100)])
def test_a_rate_limit_holds_in_every_minute(limits: dict[str, int], tokens: int) -> None:
    async def work(time: FakeTime) -> None:
        gate, entries = gate_with(time, 50, **limits), []

        async def call() -> None:
            ticket = await gate.enter(tokens)
            entries.append(time.now)
            gate.leave(ticket, tokens=tokens)

        await asyncio.gather(*(call() for _ in range(150)))
        for start in entries:
            assert sum(start <= moment < start + 60 for moment in entries) <= 60 + BURST + 1
        assert entries[-1] - entries[0] == pytest.approx(149, abs=2)

    run_in_fake_time(work)


def test_estimated_tokens_are_corrected_by_the_reported_usage() -> None:
    def seconds_for(reported: int) -> float:
        async def work(time: FakeTime) -> float:
            gate = gate_with(time, tpm=6_000)
            for _ in range(20):
                ticket = await gate.enter(100)
                gate.leave(ticket, tokens=reported)
            return time.now - 1_000

        return float(run_in_fake_time(work))

    assert seconds_for(100) == pytest.approx(18, abs=1.1)
    assert seconds_for(200) == pytest.approx(37, abs=2.1)
    assert seconds_for(0) == 0


def test_a_request_above_the_rate_of_a_minute_is_sent_and_delays_the_next() -> None:
    bucket = Bucket(60)
    assert bucket.wait(0) == 0
    bucket.take(0, 600)
    assert bucket.wait(0) == 600 - BURST
    assert bucket.wait(599) == 0


# ------------------------------------------------------------------------------------------- pauses


def test_all_waiting_calls_obey_a_retry_after() -> None:
    async def work(time: FakeTime) -> None:
        news = []
        gate = gate_with(time, 2, on_news=lambda: news.append(time.now))
        ticket = await gate.enter(0)
        gate.leave(ticket, RateLimited(retry_after=30))
        assert news == [1_000]
        assert (gate.blocked_for, gate.error) == (30, "RateLimited")
        await asyncio.gather(*(call_once(gate) for _ in range(5)))
        assert time.now == 1_030
        assert gate.error == ""

    run_in_fake_time(work)


def test_a_pause_that_another_lane_reported_is_obeyed() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, rpm=1)
        await call_once(gate)
        await call_once(gate)
        waiting_call = asyncio.ensure_future(call_once(gate))
        await time.sleep(1)
        gate.block(100, "RateLimited")
        begun = time.now
        await waiting_call
        assert time.now == begun + 100
        gate.block(50)
        gate.block(5)
        assert gate.blocked_for == 50, "the longer pause counts"

    run_in_fake_time(work)


def test_a_call_that_would_wait_too_long_is_sent_away() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        await call_once(gate, RateLimited(retry_after=3_600))
        assert gate.is_away
        with pytest.raises(PausedTooLong) as caught:
            await gate.enter(0)
        assert caught.value.retry_after == 3_600
        assert not caught.value.permanent

    run_in_fake_time(work)


def test_closing_sends_waiting_calls_away_and_keeps_those_in_flight() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 1)
        held = await gate.enter(0)
        waiting_call, backing_off = asyncio.ensure_future(gate.enter(0)), asyncio.ensure_future(gate.back_off(60))
        await time.sleep(1)
        gate.close(LaneOver())
        for task in (waiting_call, backing_off):
            with pytest.raises(LaneOver):
                await task
        assert time.now == 1_001
        with pytest.raises(LaneOver):
            await gate.enter(0)
        assert gate.in_flight == 1
        gate.leave(held)
        assert (gate.in_flight, gate.waiting) == (0, 0)

    run_in_fake_time(work)


def test_a_call_that_stops_waiting_leaves_its_place_to_the_next() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 1)
        held = await gate.enter(0)
        first, second = asyncio.ensure_future(gate.enter(0)), asyncio.ensure_future(gate.enter(0))
        await time.sleep(1)
        first.cancel()
        await time.sleep(1)
        gate.leave(held)
        await second
        assert (gate.in_flight, gate.waiting) == (1, 0)

    run_in_fake_time(work)


# ------------------------------------------------------------------------------------------ breaker


def test_failures_in_a_row_open_the_breaker_and_a_probe_closes_it() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 20)
        for _ in range(BREAK_AFTER - 1):
            assert await call_once(gate, ServerError())
        await call_once(gate)
        for _ in range(BREAK_AFTER - 1):
            await call_once(gate, ServerError())
        assert gate.blocked_for == 0, "a success came in between"
        assert await call_once(gate, ServerError("on fire"))
        assert (gate.blocked_for, gate.error, gate.detail) == (PAUSE, "ServerError", "on fire")

        probes = []

        async def call() -> None:
            ticket = await gate.enter(0)
            probes.append((ticket.probe, gate.in_flight, time.now))
            await time.sleep(1)
            gate.leave(ticket)

        await asyncio.gather(*(call() for _ in range(4)))
        assert probes[0] == (True, 1, 1_000 + PAUSE)
        assert [probe for probe, _in_flight, _now in probes[1:]] == [False] * 3
        assert {now for _probe, _in_flight, now in probes[1:]} == {1_001 + PAUSE}, (
            "they waited for the end of the probe"
        )
        assert (gate.openings, gate.opened) == (0, 1)

    run_in_fake_time(work)


def test_pauses_grow_until_the_endpoint_is_down() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 20)
        for _ in range(BREAK_AFTER):
            await call_once(gate, ServerError("on fire"))
        pauses = []
        for _ in range(MAX_OPENINGS):
            pauses.append(gate.blocked_for)
            assert not await call_once(gate, ServerError("on fire")), "a failed probe does not count against the row"
        assert pauses == [min(PAUSE_CAP, PAUSE * 2**n) for n in range(MAX_OPENINGS)]
        assert gate.down
        assert gate.is_away
        with pytest.raises(EndpointDown, match=r"failed \(5xx\)\. on fire"):
            await gate.enter(0)
        gate.reset()
        assert await call_once(gate)

    run_in_fake_time(work)


def test_failures_of_calls_sent_before_a_pause_do_not_lengthen_it() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time, 30)
        tickets = [await gate.enter(0) for _ in range(30)]
        for ticket in tickets:
            assert gate.leave(ticket, ServerError())
        assert (gate.openings, gate.blocked_for) == (1, PAUSE)

    run_in_fake_time(work)


@pytest.mark.parametrize("kind", [AuthFailed, NoCredit, NotFound])
def test_an_endpoint_that_refuses_every_call_goes_down(kind: type[LLMError]) -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        for _ in range(REFUSE_AFTER):
            assert not gate.blocked_for
            assert await call_once(gate, kind("expired")), "the failure might be due to this row"
        assert (gate.blocked_for, gate.down) == (PAUSE, False)
        assert not await call_once(gate, kind("expired"))
        assert gate.down
        assert time.now == 1_000 + PAUSE

    run_in_fake_time(work)


@pytest.mark.parametrize(
    ("error", "times"),
    [(AuthFailed(), 1), *((error, BAD_AFTER - 1) for error in (BadRequest(), BrokenReply(), ContentFiltered()))],
)
def test_refusals_between_successes_do_not_block_the_endpoint(error: LLMError, times: int) -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        for _ in range(3 * REFUSE_AFTER):
            for _ in range(times):
                await call_once(gate, error)
            await call_once(gate)
        assert not gate.blocked_for

    run_in_fake_time(work)


def test_an_endpoint_that_rejects_every_request_goes_down() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        for _ in range(BAD_AFTER):
            assert not gate.blocked_for
            await call_once(gate, BadRequest("max_tokens is not supported"))
        assert gate.blocked_for == PAUSE
        await call_once(gate, BadRequest("max_tokens is not supported"))
        assert gate.down
        gate.reset()
        await call_once(gate, BadRequest())
        assert not gate.blocked_for

    run_in_fake_time(work)


def test_why_an_endpoint_is_down_quotes_no_request() -> None:
    """Servers that check requests send parts of them back, which not everybody may read."""
    body = {"detail": [{"msg": "Extra inputs are not permitted", "input": {"messages": ["a patient's text " * 200]}}]}
    error = status_error(400, body)

    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        for _ in range(BAD_AFTER):
            await call_once(gate, error)
        assert gate.detail == "Extra inputs are not permitted"

    run_in_fake_time(work)
    assert "a patient's text" in error.detail  # for the ledger, which knows whose request it was


def test_the_call_after_a_withdrawn_probe_is_the_probe() -> None:
    async def work(time: FakeTime) -> None:
        gate = gate_with(time)
        for _ in range(BREAK_AFTER):
            await call_once(gate, ServerError())
        ticket = await gate.enter(0)
        assert ticket.probe
        gate.withdraw(ticket)
        assert (await gate.enter(0)).probe

    run_in_fake_time(work)


# ------------------------------------------------------------------------------------------- shares


def test_examples_of_fair_shares() -> None:
    assert fair_shares(8, [100, 100]) == [4, 4]
    assert fair_shares(8, [2, 100]) == [2, 6]
    assert fair_shares(8, [0, 100]) == [0, 8]
    assert fair_shares(7, [100, 100, 100]) == [3, 2, 2]
    assert fair_shares(2, [5, 5, 5]) == [1, 1, 0]
    assert fair_shares(0, [5]) == [0]
    assert shares_by_rank(8, [100, 5, 100, 100], [1, 0, 1, 2], [1, 2, 3, 4]) == [2, 5, 1, 0]


def test_a_job_with_two_lanes_gets_no_more_slots_than_one_with_one() -> None:
    assert shares_by_rank(8, [100, 100, 100], [1, 1, 1], [7, 7, 9]) == [2, 2, 4]
    assert shares_by_rank(8, [100, 100, 1], [1, 1, 1], [7, 7, 9]) == [4, 3, 1], "what one leaves goes to the other"


@given(st.integers(0, 500), st.lists(st.integers(0, 300), max_size=12))
def test_shares_are_fair(total: int, wishes: list[int]) -> None:
    shares = fair_shares(total, wishes)
    assert all(0 <= share <= wish for share, wish in zip(shares, wishes, strict=True))
    assert sum(shares) == min(total, sum(wishes)), "no slot is left unused"
    for share, wish in zip(shares, wishes, strict=True):
        if share < wish:
            assert share >= max(shares, default=0) - 1, "a lane that wants more has no less than any other"
