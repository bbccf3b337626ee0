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

from generation.llm import admission_control
from generation.llm import gateway as llm_gateway
from generation.llm.batch_protocol import BatchClient
from generation.llm.errors import (
    MAX_DETAIL,
    AuthFailed,
    Away,
    BadRequest,
    BrokenReply,
    BudgetSpent,
    ConnectionCut,
    ContentFiltered,
    ContextTooLong,
    EndpointDown,
    KeyMissing,
    LLMError,
    RateLimited,
    ServerError,
    TimedOut,
)
from generation.llm.ledger_interface import Ledger as Book
from generation.llm.ledger_interface import PaidReply
from generation.llm.request_body import identity
from generation.llm.simulator.server import _listening, make_app, run_in_background
from generation.llm.types import Message, Request, Usage
from tests.generation.llm.helpers import (
    HELLO,
    Answer,
    Highest,
    Ledger,
    Lowest,
    Naps,
    app_of,
    ask,
    complaint,
    endpoint,
    in_gateway,
    said,
    settings_for,
)

KEY = "sk-very-secret-0123456789"


class RealTime:
    clock = staticmethod(time.monotonic)

    async def __call__(self, seconds):
        await asyncio.sleep(seconds)


@pytest.fixture(scope="module")
def simulator():
    with run_in_background(make_app([], retry_after=2)) as url:
        yield url


# What is sent and what comes back


def test_a_reply_and_its_line_in_the_ledger(simulator):
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
    with endpoint("fine") as seen:
        ask(seen.url, ledger, request, temperature=0.5, max_tokens=99)
    assert seen.bodies == [ledger[0].sent]
    assert seen.bodies == [
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
                "json_schema": {"name": "My_shape", "schema": request.schema, "strict": True},
            },
        }
    ]


def test_the_request_wins_over_the_endpoint_and_what_nobody_sets_is_not_sent():
    with endpoint("fine") as seen:
        ask(seen.url, None, replace(HELLO, temperature=0.0, max_tokens=5), temperature=0.5, max_tokens=99)
        ask(seen.url)
    assert (seen.bodies[0]["temperature"], seen.bodies[0]["max_tokens"]) == (0.0, 5)
    assert set(seen.bodies[1]) == {"model", "messages"}


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        (said("<think>\nhm\n</think>\n\nYes."), "Yes.", "hm"),
        (said("Yes.", reasoning_content="first"), "Yes.", "first"),
        (said("<think>then</think>Yes.", reasoning_content="first"), "Yes.", "first\n\nthen"),
        (said("<think>never finished"), "", "never finished"),
        (said("They say <think> means think."), "They say <think> means think.", ""),
        (said(None, refusal="I cannot."), "I cannot.", ""),
        (said(None), "", ""),
        (said("  as is \n"), "  as is \n", ""),
        (said("nul \x00 and half \ud83d"), "nul \ufffd and half \ufffd", ""),
    ],
)
def test_reasoning_is_kept_apart_and_text_can_be_stored(message, text, reasoning):
    with endpoint(message) as seen:
        reply = ask(seen.url)
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert not reply.simulated


def test_usage_in_all_its_parts_and_nonsense_counts_nothing():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    nonsense = {"prompt_tokens": -1, "completion_tokens": "many", "prompt_tokens_details": None}
    with endpoint(said("a") | {"usage": usage}, said("b") | {"usage": nonsense}, said("c") | {"usage": None}) as seen:
        assert ask(seen.url).usage == Usage(10, 20, 4, 15)
        assert ask(seen.url).usage == Usage()
        assert ask(seen.url).usage == Usage()


# What goes wrong for a moment


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ("429", RateLimited, 429),
        ("500", ServerError, 500),
        ("timeout", TimedOut, None),
        ("cut", ConnectionCut, None),
    ],
)
def test_a_lasting_fault_is_tried_as_often_as_allowed_and_each_attempt_is_in_the_ledger(simulator, fault, kind, status):
    ledger, naps = Ledger(), Naps()
    timeout = 0.2 if fault == "timeout" else 10.0
    with pytest.raises(kind) as caught:
        ask(simulator, ledger, model=f"sim-judge+{fault}", attempts=3, sleep=naps, timeout=timeout)
    assert not caught.value.permanent
    assert [(attempt.number, attempt.error) for attempt in ledger] == [(n, kind.__name__) for n in (1, 2, 3)]
    assert {attempt.http_status for attempt in ledger} == {status}
    assert all(attempt.reply is None and attempt.detail for attempt in ledger)
    assert len(naps) == 2


def test_a_passing_fault_ends_in_a_reply():
    ledger = Ledger()
    with endpoint(Answer("down", 503), Answer(complaint("slow down"), 429), "fine") as seen:
        assert ask(seen.url, ledger).text == "fine"
    assert [attempt.error for attempt in ledger] == ["ServerError", "RateLimited", ""]


@pytest.mark.parametrize(
    "body",
    [
        "<html>busy</html>",
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
def test_a_200_that_is_no_completion_is_a_server_error_and_retried(body):
    ledger = Ledger()
    with endpoint(Answer(body), "fine") as seen:
        assert ask(seen.url, ledger).text == "fine"
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
    with endpoint(said(content)) as seen:
        reply = ask(seen.url, ledger)
    assert (reply.text, reply.reasoning, len(ledger)) == (text, reasoning, 1)


@pytest.mark.parametrize("broken", [said({"text": "no list"}), {**said(""), "choices": []}])
def test_a_completion_that_was_billed_and_cannot_be_read_is_asked_for_once_more(broken):
    ledger = Ledger()
    with endpoint(broken) as seen, pytest.raises(BrokenReply):
        ask(seen.url, ledger)
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [("BrokenReply", 200)] * 2
    assert [attempt.reply and attempt.reply.usage for attempt in ledger] == [Usage(7, 3)] * 2
    with endpoint(broken, "fine") as seen:
        assert ask(seen.url).text == "fine"


def test_back_off_doubles_up_to_its_cap_with_full_jitter():
    with endpoint(Answer("down", 500)) as seen:
        for dice, expected in ((Highest(), [1, 2, 4, 8, 16, 32, 60, 60]), (Lowest(), [])):
            naps = Naps()
            with pytest.raises(ServerError):
                ask(seen.url, attempts=9, sleep=naps, random=dice)
            assert naps == expected


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_in_seconds_is_obeyed(status):
    naps = Naps()
    with endpoint(Answer("later", status, {"Retry-After": "17"}), "fine") as seen:
        ask(seen.url, sleep=naps, random=Lowest())
    assert naps == [17.0]


def test_retry_after_as_a_date_is_obeyed():
    naps = Naps()
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with endpoint(Answer("later", 429, {"Retry-After": at}), "fine") as seen:
        ask(seen.url, sleep=naps, random=Lowest())
    assert 30 < naps[0] <= 90


@pytest.mark.parametrize(
    "header",
    ["soon", "nan", "inf", "-5", "", "1e300", "1763740800", "1763740800000", "Fri, 31 Dec 9999 23:59:59 -2359"],
)
def test_a_retry_after_that_says_nothing_leaves_the_back_off(header):
    naps = Naps()
    with endpoint(Answer("later", 429, {"Retry-After": header}), "fine") as seen:
        ask(seen.url, sleep=naps, random=Highest())
    assert naps == [1.0]


def test_a_very_long_retry_after_goes_back_to_the_caller():
    naps = Naps()
    with endpoint(Answer("tomorrow", 429, {"Retry-After": "86400"})) as seen, pytest.raises(Away) as caught:
        ask(seen.url, sleep=naps)
    assert caught.value.retry_after == 86400
    assert len(seen.bodies) == 1
    assert naps == []


@pytest.mark.parametrize(
    "header", ["100000", format_datetime(datetime.now(UTC) + timedelta(days=3))], ids=["s", "date"]
)
def test_no_endpoint_is_left_alone_for_more_than_a_day(header):
    with endpoint(Answer("later", 429, {"Retry-After": header})) as seen, pytest.raises(Away) as caught:
        ask(seen.url)
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


def test_where_nobody_listens_a_row_fails_never_and_the_endpoint_in_the_end():
    ledger, naps = Ledger(), Naps()
    with run_in_background(make_app([])) as url:
        pass
    with pytest.raises(EndpointDown, match="NotReached: ConnectionRefusedError"):
        ask(url, ledger, attempts=2, sleep=naps, random=Highest())
    assert {(attempt.error, attempt.http_status, attempt.reply) for attempt in ledger} == {("NotReached", None, None)}
    assert len(ledger) == admission_control.BREAK_AFTER + admission_control.MAX_OPENINGS
    assert naps[:9] == [1, 2, 4, 8, 10, 10, 10, 10, 10], "it does not spin"
    assert sum(naps) > sum(
        min(admission_control.PAUSE_CAP, admission_control.PAUSE * 2**n) for n in range(admission_control.MAX_OPENINGS)
    )


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1"])
def test_a_connection_that_was_never_made_is_named_so(host, monkeypatch):
    """No such name; nobody who answers (the queue of a socket that accepts nothing is full)."""
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
    assert [attempt.error for attempt in ledger] == ["NotReached"]


def test_a_network_that_comes_back_has_cost_a_row_nothing():
    """The endpoint begins to listen while the row waits for the seventh time."""
    ledger = Ledger()
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]

    class Mended(Naps):
        async def __call__(self, seconds):
            await super().__call__(seconds)
            if len(self) == 7:
                await stack.enter_async_context(_listening(make_app([]), "127.0.0.1", port))

    async def outage(gateway):
        async with stack:
            return await gateway.ask(settings_for(f"http://127.0.0.1:{port}/v1"), HELLO)

    stack = AsyncExitStack()
    assert in_gateway(outage, ledger, attempts=2, sleep=Mended()).simulated
    assert [attempt.error for attempt in ledger] == ["NotReached"] * 7 + [""]
    assert [attempt.number for attempt in ledger] == list(range(1, 9))


# What stays wrong


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, complaint("Your input was flagged by the moderation"), ContentFiltered),
        (400, complaint("what?"), BadRequest),
        (422, {"detail": [{"loc": ["body", "temperature"]}]}, BadRequest),
        (400, complaint("too long", code="context_length_exceeded"), ContextTooLong),
        (400, complaint("This model's maximum context length is 8192 tokens."), ContextTooLong),
        (400, complaint("flagged", code="content_filter"), ContentFiltered),
        (400, complaint("response_format is not supported"), BadRequest),  # none was sent
    ],
)
def test_a_permanent_error_is_met_once(status, body, kind):
    ledger = Ledger()
    with endpoint(Answer(body, status)) as seen, pytest.raises(LLMError) as caught:
        ask(seen.url, ledger)
    assert type(caught.value) is kind
    assert caught.value.permanent
    assert caught.value.http_status == status
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [(kind.__name__, status)]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, complaint("bad key"), "AuthFailed"),
        (402, complaint("Insufficient Balance"), "NoCredit"),
        (403, "forbidden", "AuthFailed"),
        (404, complaint("no such model", code="model_not_found"), "NotThere"),
        (410, "gone", "NotThere"),
    ],
)
def test_what_an_endpoint_refuses_whatever_is_asked_is_no_rows_fault(status, body, kind):
    ledger = Ledger()
    with endpoint(Answer(body, status)) as seen, pytest.raises(EndpointDown, match=kind):
        ask(seen.url, ledger)
    assert [attempt.error for attempt in ledger] == [kind] * (admission_control.REFUSE_AFTER + 1), (
        "the last is the probe"
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_what_is_asked_is_carried_nowhere_else(status):
    with endpoint("from elsewhere") as elsewhere:
        moved = Answer("", status, {"Location": f"{elsewhere.url}/chat/completions"})
        with endpoint(moved) as seen, pytest.raises(EndpointDown, match=elsewhere.url):
            ask(seen.url)

        async def upload(gateway):
            await BatchClient(gateway, settings_for(seen.url)).upload("own", b"{}")

        async def move(_request):
            raise web.HTTPTemporaryRedirect(f"{elsewhere.url}/chat/completions")

        app = web.Application()
        app.router.add_post("/v1/files", move)
        with run_in_background(app) as seen.url, pytest.raises(BadRequest):
            in_gateway(upload)
        assert elsewhere.bodies == []


def test_a_file_that_lies_elsewhere_is_not_fetched(monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    keys = []

    async def there(request):
        keys.append(request.headers.get("Authorization"))
        return web.Response(body=json.dumps({"custom_id": "a", "error": {"code": "batch_expired"}}).encode())

    other, own = web.Application(), web.Application()
    other.router.add_get("/v1/file", there)

    async def moved(_request):
        raise web.HTTPFound(f"{store}/file")

    own.router.add_get("/v1/files/one/content", moved)

    async def fetch(gateway):
        return [
            found and found.custom_id
            async for found in BatchClient(gateway, settings_for(url, key_env="OWN_KEY")).results("one")
        ]

    with (
        run_in_background(other) as store,
        run_in_background(own) as url,
        pytest.raises(BadRequest, match="not followed"),
    ):
        in_gateway(fetch)
    assert keys == []


def test_an_answer_without_end_is_not_read_to_its_end():
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


def test_one_row_that_is_refused_among_others_fails_in_the_end(monkeypatch):
    monkeypatch.setattr(llm_gateway, "BACKOFF_BASE", 0.001)

    async def handler(request):
        refused = "Is it safe?" in await request.text()
        return web.json_response(complaint("not this"), status=403) if refused else web.json_response(said("fine"))

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
        in_gateway(between, sleep=RealTime(), clock=time.monotonic)


@pytest.mark.parametrize("status", [409, 425])
def test_what_comes_too_early_is_tried_again(status):
    with endpoint(Answer("busy", status), "fine") as seen:
        assert ask(seen.url).text == "fine"


def test_a_filtered_reply_is_an_error_but_its_tokens_are_in_the_ledger():
    ledger = Ledger()
    with endpoint(said("half a se", finish_reason="content_filter")) as seen, pytest.raises(ContentFiltered):
        ask(seen.url, ledger)
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
def test_an_address_that_is_none_is_refused_before_any_attempt(url):
    ledger = Ledger()
    with pytest.raises(BadRequest) as caught:
        ask(url, ledger)
    assert "secret" not in str(caught.value)
    assert ledger == []


# The key


def test_the_key_reaches_the_endpoint_and_nothing_else(monkeypatch):
    monkeypatch.setenv("MHB_TEST_KEY", f" {KEY}\n")
    ledger = Ledger()
    # The second echo has the key across the place where details are cut.
    echoes = [complaint(f"bad key {KEY}"), "x" * (MAX_DETAIL - 10) + KEY]
    for status, echo in ((401, echoes[0]), (400, echoes[1]), (500, echoes[0]), (200, echoes[1])):
        with endpoint(Answer(echo, status)) as seen, pytest.raises(LLMError) as caught:
            ask(seen.url, ledger, key_env="MHB_TEST_KEY", attempts=1)
        assert seen.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY[:9] not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert len(ledger) == 4
    assert KEY[:9] not in repr(ledger)
    assert "***" in ledger[0].detail


def test_a_key_is_read_when_it_is_used(monkeypatch):
    async def twice(gateway):
        settings = settings_for(seen.url, key_env="MHB_TEST_KEY")
        for key in ("first", "second"):
            monkeypatch.setenv("MHB_TEST_KEY", key)
            await gateway.ask(settings, HELLO)

    with endpoint("fine") as seen:
        in_gateway(twice)
    assert [headers["Authorization"] for headers in seen.headers] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("value", [None, "", " \n", "schlüssel", "two\nlines"])
def test_a_missing_or_impossible_key_is_named_by_its_variable(monkeypatch, value):
    monkeypatch.delenv("MHB_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MHB_TEST_KEY", value)
    ledger = Ledger()
    with endpoint("fine") as seen, pytest.raises(KeyMissing, match="MHB_TEST_KEY") as caught:
        ask(seen.url, ledger, key_env="MHB_TEST_KEY")
    assert caught.value.permanent
    assert (ledger, seen.bodies) == ([], [])
    assert not (value and value.strip() and value in str(caught.value))


def test_the_environment_of_another_account_is_not_sent_along(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "somebody-elses")
    with endpoint("fine") as seen:
        ask(seen.url)
    assert "somebody-elses" not in str(seen.headers)


def test_no_header_of_the_environment_is_sent_with_batches(monkeypatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Corporate: somebody-elses\nAuthorization: Bearer somebody-elses")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "somebody-elses")
    monkeypatch.setenv("OWN_KEY", KEY)
    seen = []

    async def handler(request):
        seen.append(dict(request.headers))
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
    assert len(seen) == 2
    assert "somebody-elses" not in str(seen)
    assert [headers["Authorization"] for headers in seen] == [f"Bearer {KEY}"] * 2


def test_a_key_that_a_reply_repeats_is_taken_out(monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    ledger, says = Ledger(), f"You sent: Bearer {KEY}"
    body = {**said(says, reasoning_content=says, finish_reason=KEY), "model": KEY}
    with endpoint(body) as seen:
        reply = ask(seen.url, ledger, key_env="OWN_KEY")
    assert reply.text == "You sent: Bearer ***"
    assert KEY not in str(reply)
    assert KEY not in str(ledger)
    monkeypatch.setenv("OWN_KEY", "none")
    with endpoint("There is none.") as seen:
        assert ask(seen.url, key_env="OWN_KEY").text == "There is none.", "that is no secret"


# The ledger


def test_the_ledger_can_stop_a_call_before_its_reply_is_used():
    asked = []

    async def full(attempt):
        asked.append(attempt)
        raise OSError

    with endpoint(Answer("down", 500)) as seen, pytest.raises(OSError):
        in_gateway(lambda gateway: gateway.ask(settings_for(seen.url), HELLO, ledger=Book(full)))
    assert len(asked) == len(seen.bodies) == 1


def test_the_ledger_is_asked_before_each_attempt():
    allowed, lines = [True, True, False], Ledger()

    async def check():
        if not allowed.pop(0):
            raise BudgetSpent

    with endpoint(Answer("down", 500)) as seen, pytest.raises(BudgetSpent):
        in_gateway(lambda gateway: gateway.ask(settings_for(seen.url), HELLO, ledger=Book(lines, check)))
    assert len(lines) == len(seen.bodies) == 2


def test_one_call_can_have_a_ledger_of_its_own():
    common, own = Ledger(), Ledger()

    async def two(gateway):
        await gateway.ask(settings_for(seen.url), HELLO)
        await gateway.ask(settings_for(seen.url), HELLO, ledger=Book(own))

    with endpoint("fine") as seen:
        in_gateway(two, common)
    assert (len(common), len(own)) == (1, 1)


# The cache


class Known:
    """A ledger that finds again what was written to it."""

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
    def book(self):
        return Book(self.write, find=self.find)


def test_the_same_request_is_paid_for_once_and_a_hit_says_so():
    known = Known()

    async def twice(gateway):
        return [await gateway.ask(settings_for(seen.url), HELLO, ledger=known.book) for _ in range(2)]

    with endpoint("fine", "other") as seen:
        replies = in_gateway(twice)
    assert [reply.text for reply in replies] == ["fine", "fine"]
    assert len(seen.bodies) == 1
    assert [(line.number, line.hit_of, line.error) for line in known.lines] == [(1, None, ""), (0, 0, "")]
    assert known.lines[0].identity == known.lines[1].identity != ""


def test_two_that_ask_the_same_at_once_pay_once():
    known = Known()

    async def together(gateway):
        asked = [gateway.ask(settings_for(seen.url), HELLO, ledger=known.book) for _ in range(5)]
        return await asyncio.gather(*asked)

    with endpoint("fine", "other") as seen:
        replies = in_gateway(together)
    assert {reply.text for reply in replies} == {"fine"}
    assert len(seen.bodies) == 1
    assert [line.hit_of for line in known.lines] == [None, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Answer(said("")), "fine"),
        (Answer(complaint("what?"), 400), "fine"),
        (said("half a se", finish_reason="content_filter"), "fine"),
    ],
    ids=["empty", "refused", "filtered"],
)
def test_what_nobody_can_use_is_no_hit(first, second):
    known = Known()

    async def twice(gateway):
        with suppress(LLMError):
            await gateway.ask(settings_for(seen.url), HELLO, ledger=known.book)
        return await gateway.ask(settings_for(seen.url), HELLO, ledger=known.book)

    with endpoint(first, second) as seen:
        assert in_gateway(twice).text == "fine"
    assert len(seen.bodies) == 2
    assert all(line.hit_of is None for line in known.lines)


def test_a_reply_that_the_check_refuses_is_no_hit_and_comes_with_the_error():
    known = Known()

    def check(text):
        if text != "YES":
            raise BrokenReply("Neither YES nor NO.")

    async def thrice(gateway):
        with pytest.raises(BrokenReply, match="Neither") as found:
            await gateway.ask(settings_for(seen.url), HELLO, ledger=known.book, check=check)
        again = [await gateway.ask(settings_for(seen.url), HELLO, ledger=known.book, check=check) for _ in range(2)]
        return [found.value.reply, *again]

    with endpoint("Yes, but", "YES", "NO") as seen:
        assert [reply.text for reply in in_gateway(thrice)] == ["Yes, but", "YES", "YES"]
    assert len(seen.bodies) == 2
    assert [line.hit_of for line in known.lines] == [None, None, 1]


def test_an_identity_is_all_that_can_change_the_answer():
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
    found = [identity(other, HELLO) for other in other_settings]
    found += [identity(settings, other) for other in other_requests]
    assert len({identity(settings, HELLO), *found}) == 10
    same = replace(settings, name="other", concurrency=1, timeout=5.0, price_in=Decimal(3), key_env="KEY", rpm=5)
    assert identity(same, replace(HELLO, prompt="other@2")) == identity(settings, HELLO)
    assert identity(replace(settings, temperature=0.2), HELLO) == identity(settings, replace(HELLO, temperature=0.2))


# The gate


def test_no_more_at_once_than_the_endpoint_allows():
    app = make_app([], latency=0.02)

    async def many(gateway):
        requests = [Request((Message("user", str(number)),)) for number in range(12)]
        await asyncio.gather(*(gateway.ask(settings_for(url, concurrency=3), request) for request in requests))

    with run_in_background(app) as url:
        in_gateway(many, sleep=RealTime())
        with urlopen(url.removesuffix("/v1") + "/stats") as answer:
            assert json.load(answer)["peak_in_flight"] == 3


def test_a_429_stops_everybody_for_as_long_as_it_says():
    naps, ledger = Naps(), Ledger()

    async def two(gateway):
        await gateway.ask(settings_for(seen.url, concurrency=1), HELLO)
        await gateway.ask(settings_for(seen.url, concurrency=1), replace(HELLO, repeat=1))

    with endpoint(Answer("later", 429, {"Retry-After": "30"}), "fine") as seen:
        in_gateway(two, ledger, sleep=naps, random=Lowest())
    assert naps == [30.0]
    assert [line.error for line in ledger] == ["RateLimited", "", ""]


def test_an_endpoint_that_only_fails_is_left_alone():
    naps, ledger = Naps(), Ledger()

    async def until_down(gateway):
        errors = []
        for number in range(40):
            try:
                await gateway.ask(settings_for(seen.url), replace(HELLO, repeat=number))
            except LLMError as error:
                errors.append(error.kind)
        return errors

    with endpoint(Answer("down", 500)) as seen:
        errors = in_gateway(until_down, ledger, sleep=naps, random=Lowest())
    assert errors[:2] == ["ServerError"] * 2
    assert set(errors[2:]) == {"EndpointDown"}
    assert len(seen.bodies) == len(ledger) == admission_control.BREAK_AFTER + admission_control.MAX_OPENINGS
    assert naps == [5, 10, 20, 40, 80, 100, 100, 100], "each pause ends in one probe"


def test_a_pause_ends_with_the_first_success_and_the_probe_is_not_held_against_the_row():
    naps = Naps()

    async def both(gateway):
        with pytest.raises(ServerError):
            await gateway.ask(settings_for(seen.url), HELLO)
        return await gateway.ask(settings_for(seen.url), replace(HELLO, repeat=1))

    with endpoint(*[Answer("down", 500)] * 16, "fine") as seen:
        reply = in_gateway(both, sleep=naps, random=Lowest(), attempts=6)
    assert reply.text == "fine", "ten failures, of which only four are its own"
    assert naps == [5, 10, 20, 40, 80, 100, 100]


def test_an_attempt_that_was_cancelled_is_in_the_ledger():
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


def test_as_many_at_a_time_as_the_endpoint_allows():
    in_flight = peak = 0
    together = asyncio.Barrier(3)

    async def in_threes(request):
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await together.wait()  # nobody passes before three are here
        await asyncio.sleep(0.02)  # a fourth would be seen now
        in_flight -= 1
        return web.json_response(said("fine"))

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
        return web.json_response(said("fine"))

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
        assert (await gateway.ask(settings_for(seen.url, "plain"), request)).text == "fine"
        await gateway.ask(settings_for(seen.url, "plain"), request)
        await gateway.ask(settings_for(seen.url, "another"), request)

    with ExitStack() as stack:
        seen = stack.enter_context(
            endpoint(
                Answer(complaint("'response_format' of type 'json_schema' is not supported"), 400),
                Answer({"detail": [{"loc": ["body", "response_format"], "msg": "extra"}]}, 422),
                "fine",
            )
        )
        naps = Naps()
        in_gateway(three, ledger, attempts=1, sleep=naps)
    formats = [body.get("response_format", {}).get("type") for body in seen.bodies]
    assert formats == ["json_schema", "json_object", None, None, "json_schema"]
    assert [attempt.error for attempt in ledger] == ["BadRequest", "BadRequest", "", "", ""]
    assert [attempt.number for attempt in ledger] == [1, 2, 3, 1, 1]
    assert naps == []
