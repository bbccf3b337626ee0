"""The gateway: requests and replies, retries and refusals, keys, ledger, cache and concurrency."""

import asyncio
import json
import socket
import threading
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from urllib.request import urlopen

import pytest
from aiohttp import web
from pydantic import BaseModel

from generation.llm import admission_control, errors
from generation.llm import gateway as llm_gateway
from generation.llm.batch_protocol import BatchClient
from generation.llm.errors import (
    MAX_DETAIL,
    AuthFailed,
    BadRequest,
    BrokenReply,
    BudgetSpent,
    ConnectionCut,
    ContentFiltered,
    ContextTooLong,
    EndpointDown,
    KeyMissing,
    LaneOver,
    LLMError,
    PausedTooLong,
    RateLimited,
    ServerError,
    StillWriting,
    TimedOut,
    UnknownEnding,
)
from generation.llm.ledger_interface import Ledger as LedgerHooks
from generation.llm.ledger_interface import PaidReply
from generation.llm.request_body import build_body, identity, usage_of
from generation.llm.simulator.server import _listening, make_app, run_in_background
from generation.llm.types import Attempt, Message, Request, Usage
from tests.generation.llm.helpers import (
    HELLO,
    Answer,
    Highest,
    Ledger,
    Lowest,
    Naps,
    app_of,
    ask,
    completion,
    error_body,
    fake_endpoint,
    holding_until,
    in_gateway,
    settings_for,
)

KEY = "sk-very-secret-0123456789"


class RealSleep:
    """The real clock and the real sleep, for tests of calls in parallel."""

    clock = staticmethod(time.monotonic)

    async def __call__(self, seconds):
        await asyncio.sleep(seconds)


@pytest.fixture(scope="module")
def simulator():
    with run_in_background(make_app([], retry_after=2)) as url:
        yield url


# What is sent and what comes back


def test_a_reply_has_a_line_in_the_ledger(simulator):
    ledger = Ledger()
    reply = ask(simulator, ledger)
    assert reply.text.startswith("I do not have enough information")
    assert reply.simulated
    assert reply.model == "sim-judge"
    assert reply.finish_reason == "stop"
    assert reply.usage.tokens_in == 3  # 11 characters
    assert reply.usage.tokens_out > 0
    [attempt] = ledger
    assert (attempt.reply, attempt.error, attempt.http_status, attempt.number) == (reply, "", 200, 1)
    assert attempt.request is HELLO
    assert attempt.started_at.tzinfo is UTC


def test_the_ledger_holds_the_body_exactly_as_it_was_sent():
    request = Request(
        (
            Message("system", "Be brief."),
            Message("user", "血压多少？"),
            Message("assistant", "?"),
            Message("user", "!"),
        ),
        schema={"title": "My shape", "type": "object"},
    )
    ledger = Ledger()
    with fake_endpoint("fine") as target:
        ask(target.url, ledger, request, temperature=0.5, max_tokens=99)
    assert target.bodies == [ledger[0].sent]
    assert target.bodies == [
        {
            "model": "sim-judge",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "血压多少？"},
                {"role": "assistant", "content": "?"},
                {"role": "user", "content": "!"},
            ],
            "temperature": 0.5,
            "max_tokens": 99,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "My_shape", "schema": {"type": "object"}, "strict": True},
            },
        }
    ]


def test_a_request_overrides_the_endpoint_and_unset_options_are_not_sent():
    with fake_endpoint("fine") as target:
        ask(target.url, None, replace(HELLO, temperature=0.0, max_tokens=5), temperature=0.5, max_tokens=99)
        ask(target.url)
    assert (target.bodies[0]["temperature"], target.bodies[0]["max_tokens"]) == (0.0, 5)
    assert set(target.bodies[1]) == {"model", "messages", "max_tokens"}, "no reply is without a limit"


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        (completion("<think>\nhm\n</think>\n\nYes."), "Yes.", "hm"),
        (completion("Yes.", reasoning_content="first"), "Yes.", "first"),
        (completion("<think>then</think>Yes.", reasoning_content="first"), "Yes.", "first\n\nthen"),
        (completion("<think>never finished"), "", "never finished"),
        (completion("They say <think> means think."), "They say <think> means think.", ""),
        (completion(None, refusal="I cannot."), "I cannot.", ""),
        (completion(None), "", ""),
        (completion("  as is \n"), "  as is \n", ""),
        (completion("nul \x00 and half \ud83d"), "nul \ufffd and half \ufffd", ""),
    ],
)
def test_reasoning_is_separated_and_text_can_be_stored(message, text, reasoning):
    with fake_endpoint(message) as target:
        reply = ask(target.url)
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert not reply.simulated


def test_usage_is_read_in_all_its_parts_and_nonsense_counts_as_zero():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    nonsense = {"prompt_tokens": -1, "completion_tokens": "many", "prompt_tokens_details": None}
    with fake_endpoint(
        completion("a") | {"usage": usage}, completion("b") | {"usage": nonsense}, completion("c") | {"usage": None}
    ) as target:
        assert ask(target.url).usage == Usage(10, 20, 4, 15)
        assert ask(target.url).usage == Usage()
        assert ask(target.url).usage == Usage()


# Faults that pass


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ("429", RateLimited, 429),
        ("500", ServerError, 500),
        ("cut", ConnectionCut, None),
    ],
)
def test_a_lasting_fault_is_tried_as_often_as_allowed_and_each_attempt_is_in_the_ledger(simulator, fault, kind, status):
    ledger, naps = Ledger(), Naps()
    with pytest.raises(kind) as caught:
        ask(simulator, ledger, model=f"sim-judge+{fault}", attempts=3, sleep=naps)
    assert not caught.value.permanent
    assert [(attempt.number, attempt.error) for attempt in ledger] == [(n, kind.__name__) for n in (1, 2, 3)]
    assert {attempt.http_status for attempt in ledger} == {status}
    assert all(attempt.reply is None and attempt.detail for attempt in ledger)
    assert len(naps) == 2
    assert {usage_of(attempt).estimated for attempt in ledger} == {status is None}


def test_a_model_that_is_still_writing_after_two_time_outs_counts_as_cut_off(simulator):
    ledger = Ledger()
    with pytest.raises(StillWriting, match=r"cut off\. No answer within 0\.2 s"):
        ask(simulator, ledger, model="sim-judge+timeout", timeout=0.2)
    assert [attempt.error for attempt in ledger] == ["TimedOut"] * 2
    # It may have written all that time, and bills that.
    assert all(usage_of(attempt).tokens_in == 6 and usage_of(attempt).tokens_out >= 200 for attempt in ledger)


def test_a_lost_call_costs_no_more_than_its_limit_and_one_that_was_not_made_nothing():
    settings = settings_for("http://127.0.0.1:9/v1", max_tokens=50)
    lost = Attempt(settings, HELLO, build_body(settings, HELLO), 1, datetime.now(UTC), 9.0, error="TimedOut")
    assert usage_of(lost) == Usage(6, 50, estimated=True)
    assert usage_of(replace(lost, sent={"model": "m", "input": ["Rest"]})) == Usage(2, estimated=True)
    for unbilled in ({"error": "NobodyListens"}, {"http_status": 504}, {"hit_of": 1}):
        assert usage_of(replace(lost, **unbilled)) == Usage()


def test_a_passing_fault_ends_in_a_reply():
    ledger = Ledger()
    with fake_endpoint(Answer("down", 503), Answer(error_body("slow down"), 429), "fine") as target:
        assert ask(target.url, ledger).text == "fine"
    assert [attempt.error for attempt in ledger] == ["ServerError", "RateLimited", ""]


@pytest.mark.parametrize(
    "body",
    [
        "busy",
        "",
        "[1]",
        "null",
        "{}",
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": None}]},
        {"error": {"message": "busy"}},
        "[" * 100_000,
    ],
)
def test_a_200_without_a_completion_is_a_server_error_and_retried(body):
    ledger = Ledger()
    with fake_endpoint(Answer(body), "fine") as target:
        assert ask(target.url, ledger).text == "fine"
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [("ServerError", 200), ("", 200)]


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "text", "text": "par"}, {"type": "text", "text": "ts"}], "parts", ""),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm\0"}]}, {"type": "text", "text": "No."}],
            "No.",
            "Hm\ufffd",
        ),
        ([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "No."}, 7, {"type": "audio"}], "No.", "Hm"),
        ([{"type": "refusal", "refusal": "I will not."}], "I will not.", ""),
        ([{"type": "thinking", "thinking": 7}, {"text": None}], "", ""),
    ],
)
def test_a_reply_in_parts_is_read(content, text, reasoning):
    ledger = Ledger()
    with fake_endpoint(completion(content)) as target:
        reply = ask(target.url, ledger)
    assert (reply.text, reply.reasoning, len(ledger)) == (text, reasoning, 1)


@pytest.mark.parametrize("broken", [completion({"text": "no list"}), {**completion(""), "choices": []}])
def test_a_billed_completion_that_cannot_be_read_is_requested_once_more(broken):
    ledger = Ledger()
    with fake_endpoint(broken) as target, pytest.raises(BrokenReply):
        ask(target.url, ledger)
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [("BrokenReply", 200)] * 2
    assert [attempt.reply and attempt.reply.usage for attempt in ledger] == [Usage(7, 3)] * 2
    with fake_endpoint(broken, "fine") as target:
        assert ask(target.url).text == "fine"


def test_back_off_doubles_up_to_its_cap_with_full_jitter():
    with fake_endpoint(Answer("down", 500)) as target:
        for random_numbers, expected in ((Highest(), [1, 2, 4, 8, 16, 32, 60, 60]), (Lowest(), [])):
            naps = Naps()
            with pytest.raises(ServerError):
                ask(target.url, attempts=9, sleep=naps, random=random_numbers)
            assert naps == expected


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_in_seconds_is_obeyed(status):
    naps = Naps()
    with fake_endpoint(Answer("later", status, {"Retry-After": "17"}), "fine") as target:
        ask(target.url, sleep=naps, random=Lowest())
    assert naps == [17.0]


LATER = datetime.now(UTC) + timedelta(hours=20)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": format_datetime(LATER, usegmt=True)}, "later", None),
        ({"Retry-After": f"{LATER.timestamp():.0f}"}, "later", None),
        ({"retry-after-ms": "2500", "Retry-After": "3"}, "later", 2.5),
        ({"x-ratelimit-reset-requests": "6m0.5s", "x-ratelimit-remaining-requests": "0"}, "later", 360.5),
        # The rate of which something remains is not the one at fault.
        (
            {
                "x-ratelimit-reset-requests": "8h",
                "x-ratelimit-remaining-requests": "99",
                "x-ratelimit-reset-tokens": "820ms",
                "x-ratelimit-remaining-tokens": "0",
            },
            "later",
            0.82,
        ),
        (
            {"anthropic-ratelimit-tokens-reset": LATER.isoformat(), "anthropic-ratelimit-tokens-remaining": "0"},
            "later",
            None,
        ),
        (
            {},
            error_body(
                "Too many",
                code=429,
                metadata={
                    "headers": {
                        "X-RateLimit-Remaining": "0",
                        "X-RateLimit-Reset": f"{1_000 * LATER.timestamp():.0f}",
                    }
                },
            ),
            None,
        ),
        ({}, error_body("Rate limit reached. Please try again in 7m12s. Visit x."), 432),
        ({}, error_body("Please retry after 26 seconds."), 26),
        ({}, error_body("Spent", details=[{"@type": "google.rpc.RetryInfo", "retryDelay": "34s"}]), 34),
        ({"Retry-After": "5"}, error_body("Please try again in 7m12s."), 5),
        ({}, error_body("Try again in 5 or 6 calls."), 0),
    ],
)
def test_the_wait_that_an_endpoint_asks_for_is_read_wherever_it_says_it(headers, body, seconds):
    with fake_endpoint(Answer(body, 429, headers)) as target, pytest.raises(LLMError) as caught:
        in_gateway(lambda gateway: gateway.ask(settings_for(target.url), HELLO), ledger := Ledger(), attempts=1)
    assert ledger[0].error == "RateLimited"
    asked = caught.value.retry_after or 0
    assert 36_000 < asked <= 72_000 if seconds is None else asked == pytest.approx(seconds)


@pytest.mark.parametrize(
    "header",
    ["soon", "nan", "inf", "-5", "", "1e300", "1763740800", "1763740800000", "Fri, 31 Dec 9999 23:59:59 -2359"],
)
def test_an_unusable_retry_after_leaves_the_back_off(header):
    naps = Naps()
    with fake_endpoint(Answer("later", 429, {"Retry-After": header}), "fine") as target:
        ask(target.url, sleep=naps, random=Highest())
    assert naps == [1.0]


def test_a_very_long_retry_after_goes_back_to_the_caller():
    naps = Naps()
    with (
        fake_endpoint(Answer("tomorrow", 429, {"Retry-After": "86400"})) as target,
        pytest.raises(PausedTooLong) as caught,
    ):
        ask(target.url, sleep=naps)
    assert caught.value.retry_after == 86400
    assert len(target.bodies) == 1
    assert naps == []


@pytest.mark.parametrize(
    "header", ["100000", format_datetime(datetime.now(UTC) + timedelta(days=3))], ids=["s", "date"]
)
def test_a_retry_after_is_capped_at_a_day(header):
    with fake_endpoint(Answer("later", 429, {"Retry-After": header})) as target, pytest.raises(PausedTooLong) as caught:
        ask(target.url)
    assert caught.value.retry_after == 86_400


def test_an_endpoint_that_drips_for_ever_times_out():
    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    with run_in_background(app_of(drip)) as url, pytest.raises(TimedOut):
        ask(url, attempts=1, timeout=0.3)


def test_an_endpoint_that_nobody_listens_at_stops_its_model_at_once_and_in_words():
    ledger = Ledger()
    with run_in_background(make_app([])) as url:
        pass
    with pytest.raises(EndpointDown, match=r"127\.0\.0\.1:\d+ refuses connections\."):
        ask(url, ledger, attempts=2)
    assert [(attempt.error, attempt.http_status, attempt.reply) for attempt in ledger] == [
        ("NobodyListens", None, None)
    ]


def test_an_endpoint_that_has_answered_is_waited_for_without_failing_the_row():
    """Its server may be starting again."""

    async def twice(gateway):
        with run_in_background(make_app([])) as url:
            await gateway.ask(settings_for(url), HELLO)
        await gateway.ask(settings_for(url), replace(HELLO, repeat=1))

    ledger, naps = Ledger(), Naps()
    with pytest.raises(EndpointDown, match="Nothing listens"):
        in_gateway(twice, ledger, attempts=2, sleep=naps, random=Highest())
    assert [attempt.error for attempt in ledger[:2]] == ["", "ConnectionCut"], "it was kept open"
    assert {attempt.error for attempt in ledger[2:]} == {"NobodyListens"}
    assert len(ledger) == 1 + admission_control.BREAK_AFTER + admission_control.MAX_OPENINGS
    assert naps[:9] == [1, 1, 2, 4, 8, 10, 10, 10, 10], "retries do not spin"
    assert sum(naps) > sum(
        min(admission_control.PAUSE_CAP, admission_control.PAUSE * 2**n) for n in range(admission_control.MAX_OPENINGS)
    )


@pytest.mark.parametrize(("host", "error"), [("no-such-host.invalid", "HostNotFound"), ("127.0.0.1", "NotReached")])
def test_a_connection_that_was_never_made_is_reported_as_not_reached(host, error, monkeypatch):
    """A name that does not exist; a socket whose queue is full and that accepts nothing."""
    monkeypatch.setattr(llm_gateway, "CONNECT_TIMEOUT", 0.2)
    monkeypatch.setattr(admission_control, "BREAK_AFTER", 1)
    monkeypatch.setattr(admission_control, "MAX_OPENINGS", 0)
    ledger = Ledger()
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(full.getsockname())
        with pytest.raises(EndpointDown):
            ask(f"http://{host}:{full.getsockname()[1]}/v1", ledger, attempts=2)
    assert [attempt.error for attempt in ledger] == [error]


def test_a_host_that_does_not_exist_stops_its_model_at_once_and_in_words():
    ledger = Ledger()
    with pytest.raises(EndpointDown, match=r"The host name no-such-host\.invalid cannot be resolved"):
        ask("http://no-such-host.invalid/v1", ledger)
    assert [attempt.error for attempt in ledger] == ["HostNotFound"]


def test_a_server_without_tls_at_an_https_address_stops_its_model_at_once():
    ledger = Ledger()
    with run_in_background(make_app([])) as url, pytest.raises(EndpointDown, match="No secure connection"):
        ask(url.replace("http://", "https://"), ledger)
    assert [attempt.error for attempt in ledger] == ["TLSFailed"]


def test_a_network_outage_uses_up_none_of_a_rows_attempts():
    """The endpoint has answered, and listens again while the row waits for the seventh time."""
    ledger = Ledger()
    with socket.create_server(("127.0.0.1", 0)) as free_port:
        port = free_port.getsockname()[1]

    class ListenAfterSevenNaps(Naps):
        async def __call__(self, seconds):
            await super().__call__(seconds)
            if len(self) == 7:
                await stack.enter_async_context(_listening(make_app([]), "127.0.0.1", port))

    async def outage(gateway):
        settings = settings_for(f"http://127.0.0.1:{port}/v1")
        async with _listening(make_app([]), "127.0.0.1", port):
            await gateway.ask(settings, HELLO)
        async with stack:
            return await gateway.ask(settings, replace(HELLO, repeat=1))

    stack = AsyncExitStack()
    assert in_gateway(outage, ledger, attempts=2, sleep=ListenAfterSevenNaps()).simulated
    assert [attempt.error for attempt in ledger] == ["", "ConnectionCut", *["NobodyListens"] * 6, ""]
    assert [attempt.number for attempt in ledger] == [1, *range(1, 9)]


# Faults that stay


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, error_body("Your input was flagged by the moderation"), ContentFiltered),
        (400, error_body("what?"), BadRequest),
        (422, {"detail": [{"loc": ["body", "temperature"]}]}, BadRequest),
        (400, error_body("too long", code="context_length_exceeded"), ContextTooLong),
        (400, error_body("This model's maximum context length is 8192 tokens."), ContextTooLong),
        (400, error_body("flagged", code="content_filter"), ContentFiltered),
        (400, error_body("response_format is not supported"), BadRequest),  # although none was sent
    ],
)
def test_a_permanent_error_is_not_retried(status, body, kind):
    ledger = Ledger()
    with fake_endpoint(Answer(body, status)) as target, pytest.raises(LLMError) as caught:
        ask(target.url, ledger)
    assert type(caught.value) is kind
    assert caught.value.permanent
    assert caught.value.http_status == status
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [(kind.__name__, status)]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error_body("bad key"), "AuthFailed"),
        (402, error_body("Insufficient Balance"), "NoCredit"),
        (403, "forbidden", "AuthFailed"),
        (404, error_body("no such model", code="model_not_found"), "NotFound"),
        (410, "gone", "NotFound"),
    ],
)
def test_an_endpoint_that_refuses_every_request_goes_down(status, body, kind):
    ledger = Ledger()
    with fake_endpoint(Answer(body, status)) as target, pytest.raises(EndpointDown) as down:
        ask(target.url, ledger)
    assert down.value.detail.startswith(str(getattr(errors, kind)()))
    assert [attempt.error for attempt in ledger] == [kind] * (admission_control.REFUSE_AFTER + 1), (
        "the last attempt is the probe"
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_request_is_not_redirected_elsewhere(status):
    with fake_endpoint("from elsewhere") as elsewhere:
        moved = Answer("", status, {"Location": f"{elsewhere.url}/chat/completions"})
        with fake_endpoint(moved) as target, pytest.raises(EndpointDown, match=elsewhere.url):
            ask(target.url)

        async def upload(gateway):
            await BatchClient(gateway, settings_for(target.url)).upload("own", b"{}")

        async def redirect(_request):
            raise web.HTTPTemporaryRedirect(f"{elsewhere.url}/chat/completions")

        app = web.Application()
        app.router.add_post("/v1/files", redirect)
        with run_in_background(app) as target.url, pytest.raises(BadRequest):
            in_gateway(upload)
        assert elsewhere.bodies == []


def test_a_result_file_at_another_address_is_not_fetched(monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    keys_received = []

    async def serve_file(request):
        keys_received.append(request.headers.get("Authorization"))
        return web.Response(body=json.dumps({"custom_id": "a", "error": {"code": "batch_expired"}}).encode())

    other_app, redirecting_app = web.Application(), web.Application()
    other_app.router.add_get("/v1/file", serve_file)

    async def redirect(_request):
        raise web.HTTPFound(f"{store}/file")

    redirecting_app.router.add_get("/v1/files/one/content", redirect)

    async def fetch(gateway):
        return [
            result and result.custom_id
            async for result in BatchClient(gateway, settings_for(url, key_env="OWN_KEY")).results("one")
        ]

    with (
        run_in_background(other_app) as store,
        run_in_background(redirecting_app) as url,
        pytest.raises(BadRequest, match="not followed"),
    ):
        in_gateway(fetch)
    assert keys_received == []


def test_an_endless_answer_is_not_read_beyond_the_limit():
    sent = []

    async def flood(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range(1_000):
                await response.write(b" " * 2**18)
                sent.append(2**18)
        return response

    ledger = Ledger()
    with run_in_background(app_of(flood)) as url, pytest.raises(BrokenReply, match="longer than"):
        ask(url, ledger)
    assert [attempt.error for attempt in ledger] == ["BrokenReply"] * 2
    assert sum(sent) < 100 * 2**20


def test_a_row_that_is_refused_while_others_succeed_fails_in_the_end(monkeypatch):
    monkeypatch.setattr(llm_gateway, "BACKOFF_BASE", 0.001)

    async def handler(request):
        refused = "Is it safe?" in await request.text()
        return (
            web.json_response(error_body("not this"), status=403) if refused else web.json_response(completion("fine"))
        )

    async def between(gateway):
        other = replace(HELLO, messages=(Message("user", "And this?"),))

        async def keep_asking():
            while True:
                await gateway.ask(settings_for(url), other)

        busy = asyncio.ensure_future(keep_asking())
        try:
            await gateway.ask(settings_for(url), HELLO)
        finally:
            busy.cancel()

    with run_in_background(app_of(handler)) as url, pytest.raises(AuthFailed):
        in_gateway(between, sleep=RealSleep(), clock=time.monotonic)


@pytest.mark.parametrize("status", [409, 425])
def test_a_request_that_came_too_early_is_retried(status):
    with fake_endpoint(Answer("busy", status), "fine") as target:
        assert ask(target.url).text == "fine"


def test_a_filtered_reply_is_an_error_but_its_tokens_are_in_the_ledger():
    ledger = Ledger()
    with (
        fake_endpoint(completion("half a se", finish_reason="content_filter")) as target,
        pytest.raises(ContentFiltered),
    ):
        ask(target.url, ledger)
    [attempt] = ledger
    assert attempt.error == "ContentFiltered"
    assert attempt.reply is not None
    assert attempt.reply.usage.tokens_in == 7


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://host/v1",
        "http://",
        "http://[::1/v1",
        "http://host:0/v1",
        "http://host:99999/v1",
        "http://user:secret@host/v1",
        "http://a\x00b/v1",
        "http://ex☃mple..com/v1",
        f"http://{'a' * 300}/v1",
    ],
)
def test_an_invalid_address_is_refused_before_any_attempt(url):
    ledger = Ledger()
    with pytest.raises(BadRequest) as caught:
        ask(url, ledger)
    assert "secret" not in str(caught.value)
    assert ledger == []


# The key


def test_the_key_reaches_the_endpoint_and_nothing_else(monkeypatch):
    monkeypatch.setenv("MHB_TEST_KEY", f" {KEY}\n")
    ledger = Ledger()
    # In the second echo the key straddles the place where details are cut.
    echoes = [error_body(f"bad key {KEY}"), "x" * (MAX_DETAIL - 10) + KEY]
    for status, echo in ((401, echoes[0]), (400, echoes[1]), (500, echoes[0]), (200, echoes[1])):
        with fake_endpoint(Answer(echo, status)) as target, pytest.raises(LLMError) as caught:
            ask(target.url, ledger, key_env="MHB_TEST_KEY", attempts=1)
        assert target.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY[:9] not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert len(ledger) == 4
    assert KEY[:9] not in repr(ledger)
    assert "***" in ledger[0].detail


def test_a_key_is_read_when_it_is_used(monkeypatch):
    async def ask_twice(gateway):
        settings = settings_for(target.url, key_env="MHB_TEST_KEY")
        for key in ("first", "second"):
            monkeypatch.setenv("MHB_TEST_KEY", key)
            await gateway.ask(settings, HELLO)

    with fake_endpoint("fine") as target:
        in_gateway(ask_twice)
    assert [headers["Authorization"] for headers in target.headers] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("value", [None, "", " \n", "schlüssel", "two\nlines"])
def test_a_missing_or_impossible_key_is_named_by_its_variable(monkeypatch, value):
    monkeypatch.delenv("MHB_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MHB_TEST_KEY", value)
    ledger = Ledger()
    with fake_endpoint("fine") as target, pytest.raises(KeyMissing, match="MHB_TEST_KEY") as caught:
        ask(target.url, ledger, key_env="MHB_TEST_KEY")
    assert caught.value.permanent
    assert (ledger, target.bodies) == ([], [])
    assert not (value and value.strip() and value in str(caught.value))


def test_no_header_from_the_environment_is_sent_with_calls_or_batches(monkeypatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Corporate: somebody-elses\nAuthorization: Bearer somebody-elses")
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "somebody-elses")
    monkeypatch.setenv("OWN_KEY", KEY)
    target = []

    async def handler(request):
        target.append(dict(request.headers))
        return web.json_response({"id": "batch-1", "status": "in_progress"})

    app = app_of(handler)
    app.router.add_get("/v1/batches/batch-1", handler)
    with run_in_background(app) as url:
        settings = settings_for(url, key_env="OWN_KEY")

        async def both(gateway):
            await BatchClient(gateway, settings).state("batch-1")
            with suppress(LLMError):
                await gateway.ask(settings, HELLO)

        in_gateway(both, attempts=1)
    assert len(target) == 2
    assert "somebody-elses" not in str(target)
    assert [headers["Authorization"] for headers in target] == [f"Bearer {KEY}"] * 2


def test_a_key_that_a_reply_repeats_is_removed(monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    ledger, text = Ledger(), f"You sent: Bearer {KEY}"
    body = {**completion(text, reasoning_content=text), "model": KEY}
    with fake_endpoint({**body, **completion(text, finish_reason=KEY)}, body) as target:
        with pytest.raises(UnknownEnding) as caught:
            ask(target.url, ledger, key_env="OWN_KEY")
        assert KEY not in str(caught.value)
        reply = ask(target.url, ledger, key_env="OWN_KEY")
    assert reply.text == "You sent: Bearer ***"
    assert KEY not in str(reply)
    assert KEY not in str(ledger)
    monkeypatch.setenv("OWN_KEY", "none")
    with fake_endpoint("There is none.") as target:
        assert ask(target.url, key_env="OWN_KEY").text == "There is none.", "'none' means that there is no key"


# The ledger


def test_the_ledger_can_stop_a_call_before_its_reply_is_used():
    attempts = []

    async def write_and_fail(attempt):
        attempts.append(attempt)
        raise OSError

    with fake_endpoint(Answer("down", 500)) as target, pytest.raises(OSError):
        in_gateway(lambda gateway: gateway.ask(settings_for(target.url), HELLO, ledger=LedgerHooks(write_and_fail)))
    assert len(attempts) == len(target.bodies) == 1


def test_the_ledger_is_asked_before_each_attempt():
    allowed, lines = [True, True, False], Ledger()

    async def check():
        if not allowed.pop(0):
            raise BudgetSpent

    with fake_endpoint(Answer("down", 500)) as target, pytest.raises(BudgetSpent):
        in_gateway(lambda gateway: gateway.ask(settings_for(target.url), HELLO, ledger=LedgerHooks(lines, check)))
    assert len(lines) == len(target.bodies) == 2


def test_one_call_can_have_a_ledger_of_its_own():
    common, separate = Ledger(), Ledger()

    async def two(gateway):
        await gateway.ask(settings_for(target.url), HELLO)
        await gateway.ask(settings_for(target.url), HELLO, ledger=LedgerHooks(separate))

    with fake_endpoint("fine") as target:
        in_gateway(two, common)
    assert (len(common), len(separate)) == (1, 1)


# The cache


class CachingLedger:
    """A ledger in memory that also finds paid replies in it."""

    def __init__(self):
        self.lines = Ledger()

    async def write(self, attempt):
        await self.lines(attempt)

    async def find(self, identity):
        return [
            PaidReply(number, line.reply)
            for number, line in reversed(list(enumerate(self.lines)))
            if line.identity == identity and line.reply and not line.error and line.hit_of is None
        ]

    @property
    def hooks(self):
        return LedgerHooks(self.write, find=self.find)


class Verdict(BaseModel):
    met: bool


@pytest.mark.parametrize("ending", ["stop", "length"])
def test_a_repair_that_the_end_of_a_lane_prevented_is_what_the_next_lane_asks_for(ending):
    """A slow model's call may outlast its lane: the next one must not pay anew each time."""
    caching_ledger, calls_allowed = CachingLedger(), 1

    async def check():
        nonlocal calls_allowed
        if not calls_allowed:
            raise LaneOver
        calls_allowed -= 1

    async def judge(gateway):
        hooks = replace(caching_ledger.hooks, check=check)
        settings = settings_for(target.url, max_tokens=50)
        return await gateway.ask_structured(settings, HELLO, Verdict, ledger=hooks)

    broken = completion("It is", finish_reason=ending)
    with fake_endpoint(broken, '{"met": true}') as target:
        with pytest.raises(LaneOver):
            in_gateway(judge)
        calls_allowed = 1
        _reply, verdict = in_gateway(judge)
    assert verdict.met
    assert [line.hit_of for line in caching_ledger.lines] == [None, 0, None]
    first, second = target.bodies
    assert (first != second, second["max_tokens"]) == (True, {"stop": 50, "length": 100}[ending])


def test_a_repair_that_answered_is_not_paid_for_again():
    """Its process may be killed before the row has the value."""
    caching_ledger = CachingLedger()

    async def judge(gateway):
        return await gateway.ask_structured(settings_for(target.url), HELLO, Verdict, ledger=caching_ledger.hooks)

    with fake_endpoint("It is", '{"met": true}', "It is not") as target:
        in_gateway(judge)
        _reply, verdict = in_gateway(judge)
    assert verdict.met
    assert [line.hit_of for line in caching_ledger.lines] == [None, None, 0, 1]


def test_a_reply_whose_repair_was_broken_too_is_asked_for_anew():
    caching_ledger = CachingLedger()

    async def judge(gateway):
        return await gateway.ask_structured(settings_for(target.url), HELLO, Verdict, ledger=caching_ledger.hooks)

    with fake_endpoint("It is", "Yes", '{"met": true}') as target:
        with pytest.raises(BrokenReply):
            in_gateway(judge)
        _reply, verdict = in_gateway(judge)
    assert verdict.met
    assert target.bodies[2] == target.bodies[0]


def test_the_same_request_is_paid_for_once_and_the_hit_is_recorded():
    caching_ledger = CachingLedger()

    async def ask_twice(gateway):
        return [await gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks) for _ in range(2)]

    with fake_endpoint("fine", "other") as target:
        replies = in_gateway(ask_twice)
    assert [reply.text for reply in replies] == ["fine", "fine"]
    assert len(target.bodies) == 1
    assert [(line.number, line.hit_of, line.error) for line in caching_ledger.lines] == [(1, None, ""), (0, 0, "")]
    assert caching_ledger.lines[0].identity == caching_ledger.lines[1].identity != ""


def test_simultaneous_identical_requests_are_paid_for_once():
    caching_ledger = CachingLedger()

    async def ask_at_once(gateway):
        calls = [gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks) for _ in range(5)]
        return await asyncio.gather(*calls)

    with fake_endpoint("fine", "other") as target:
        replies = in_gateway(ask_at_once)
    assert {reply.text for reply in replies} == {"fine"}
    assert len(target.bodies) == 1
    assert [line.hit_of for line in caching_ledger.lines] == [None, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Answer(completion("")), "fine"),
        (Answer(error_body("what?"), 400), "fine"),
        (completion("half a se", finish_reason="content_filter"), "fine"),
    ],
    ids=["empty", "refused", "filtered"],
)
def test_an_unusable_reply_is_not_reused(first, second):
    caching_ledger = CachingLedger()

    async def ask_twice(gateway):
        with suppress(LLMError):
            await gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks)
        return await gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks)

    with fake_endpoint(first, second) as target:
        assert in_gateway(ask_twice).text == "fine"
    assert len(target.bodies) == 2
    assert all(line.hit_of is None for line in caching_ledger.lines)


def test_a_reply_that_the_check_refuses_is_not_reused_and_comes_with_the_error():
    caching_ledger = CachingLedger()

    def check(text):
        if text != "YES":
            raise BrokenReply("Neither YES nor NO.")

    async def ask_three_times(gateway):
        with pytest.raises(BrokenReply, match="Neither") as caught:
            await gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks, check=check)
        replies = [
            await gateway.ask(settings_for(target.url), HELLO, ledger=caching_ledger.hooks, check=check)
            for _ in range(2)
        ]
        return [caught.value.reply, *replies]

    with fake_endpoint("Yes, but", "YES", "NO") as target:
        assert [reply.text for reply in in_gateway(ask_three_times)] == ["Yes, but", "YES", "YES"]
    assert len(target.bodies) == 2
    assert [line.hit_of for line in caching_ledger.lines] == [None, None, 1]


def test_the_identity_holds_all_that_can_change_the_answer():
    settings = settings_for("http://host/v1")
    other_settings = [
        replace(settings, url="http://other/v1"),
        replace(settings, model="m-2"),
        replace(settings, temperature=0.1),
        replace(settings, max_tokens=7),
    ]
    other_requests = [
        replace(HELLO, messages=(Message("user", "Is it safe? "),)),
        replace(HELLO, messages=(Message("system", "Is it safe?"),)),
        replace(HELLO, schema={"type": "object"}),
        replace(HELLO, temperature=0.2),
        replace(HELLO, repeat=1),
    ]
    identities = [identity(other, HELLO) for other in other_settings]
    identities += [identity(settings, other) for other in other_requests]
    assert len({identity(settings, HELLO), *identities}) == 10
    same = replace(settings, name="other", concurrency=1, timeout=5.0, price_in=Decimal(3), key_env="KEY", rpm=5)
    assert identity(same, replace(HELLO, prompt="other@2")) == identity(settings, HELLO)
    assert identity(replace(settings, temperature=0.2), HELLO) == identity(settings, replace(HELLO, temperature=0.2))


# Admission control


def test_no_more_calls_run_at_once_than_the_endpoint_allows():
    app = make_app([], latency=0.02)
    app.middlewares.append(holding_until(3))

    async def many(gateway):
        requests = [Request((Message("user", str(number)),)) for number in range(12)]
        await asyncio.gather(*(gateway.ask(settings_for(url, concurrency=3), request) for request in requests))

    with run_in_background(app) as url:
        in_gateway(many, sleep=RealSleep())
        with urlopen(url.removesuffix("/v1") + "/stats") as answer:
            assert json.load(answer)["peak_in_flight"] == 3


def test_a_429_stops_all_calls_for_as_long_as_it_says():
    naps, ledger = Naps(), Ledger()

    async def two(gateway):
        await gateway.ask(settings_for(target.url, concurrency=1), HELLO)
        await gateway.ask(settings_for(target.url, concurrency=1), replace(HELLO, repeat=1))

    with fake_endpoint(Answer("later", 429, {"Retry-After": "30"}), "fine") as target:
        in_gateway(two, ledger, sleep=naps, random=Lowest())
    assert naps == [30.0]
    assert [line.error for line in ledger] == ["RateLimited", "", ""]


def test_an_endpoint_that_only_fails_goes_down():
    naps, ledger = Naps(), Ledger()

    async def until_down(gateway):
        errors = []
        for number in range(40):
            try:
                await gateway.ask(settings_for(target.url), replace(HELLO, repeat=number))
            except LLMError as error:
                errors.append(error.kind)
        return errors

    with fake_endpoint(Answer("down", 500)) as target:
        errors = in_gateway(until_down, ledger, sleep=naps, random=Lowest())
    assert errors[:2] == ["ServerError"] * 2
    assert set(errors[2:]) == {"EndpointDown"}
    assert len(target.bodies) == len(ledger) == admission_control.BREAK_AFTER + admission_control.MAX_OPENINGS
    assert naps == [5, 10, 20, 40, 80, 100, 100, 100], "each pause ends in one probe"


def test_a_pause_ends_with_the_first_success_and_probes_use_up_no_attempts():
    naps = Naps()

    async def both(gateway):
        with pytest.raises(ServerError):
            await gateway.ask(settings_for(target.url), HELLO)
        return await gateway.ask(settings_for(target.url), replace(HELLO, repeat=1))

    with fake_endpoint(*[Answer("down", 500)] * 16, "fine") as target:
        reply = in_gateway(both, sleep=naps, random=Lowest(), attempts=6)
    assert reply.text == "fine", "only four of its ten failures count against it"
    assert naps == [5, 10, 20, 40, 80, 100, 100]


def test_a_cancelled_attempt_is_in_the_ledger():
    arrived, ledger = threading.Event(), Ledger()

    async def never(request):
        arrived.set()
        await asyncio.Event().wait()

    async def hang_up(gateway):
        task = asyncio.create_task(gateway.ask(settings_for(url), HELLO))
        assert await asyncio.to_thread(arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with run_in_background(app_of(never)) as url:
        in_gateway(hang_up, ledger)
    assert [(attempt.error, attempt.reply) for attempt in ledger] == [("Cancelled", None)]


# Concurrency


def test_calls_run_side_by_side_up_to_the_endpoints_limit():
    in_flight = peak = 0
    barrier = asyncio.Barrier(3)

    async def in_threes(request):
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await barrier.wait()  # no call passes before three have arrived
        await asyncio.sleep(0.02)  # a fourth call would arrive now
        in_flight -= 1
        return web.json_response(completion("fine"))

    async def twelve(gateway):
        settings = settings_for(url, concurrency=3)
        await asyncio.gather(*(gateway.ask(settings, HELLO) for _ in range(12)))

    with run_in_background(app_of(in_threes)) as url:
        in_gateway(twelve, attempts=1)
    assert peak == 3


def test_endpoints_do_not_wait_for_one_another():
    both = asyncio.Barrier(2)

    async def in_pairs(request):
        await both.wait()
        return web.json_response(completion("fine"))

    async def two(gateway):
        await asyncio.gather(
            *(gateway.ask(settings_for(url, name=name, concurrency=1), HELLO) for name in ("one", "other"))
        )

    with run_in_background(app_of(in_pairs)) as url:
        in_gateway(two, attempts=1)


# Endpoints that do not know response_format


def test_the_format_is_lowered_step_by_step_and_remembered_by_address_and_model():
    request = replace(HELLO, schema={"type": "object"})
    ledger = Ledger()

    async def three(gateway):
        assert (await gateway.ask(settings_for(target.url, "plain"), request)).text == "fine"
        await gateway.ask(settings_for(target.url, "plain"), request)
        await gateway.ask(settings_for(target.url, "another"), request)

    with ExitStack() as stack:
        target = stack.enter_context(
            fake_endpoint(
                Answer(error_body("'response_format' of type 'json_schema' is not supported"), 400),
                Answer({"detail": [{"loc": ["body", "response_format"], "msg": "extra"}]}, 422),
                "fine",
            )
        )
        naps = Naps()
        in_gateway(three, ledger, attempts=1, sleep=naps)
    formats = [body.get("response_format", {}).get("type") for body in target.bodies]
    assert formats == ["json_schema", "json_object", None, None, "json_schema"]
    assert [attempt.error for attempt in ledger] == ["BadRequest", "BadRequest", "", "", ""]
    assert [attempt.number for attempt in ledger] == [1, 2, 3, 1, 1]
    assert naps == []
