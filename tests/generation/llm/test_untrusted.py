"""Harmful answers of endpoints: endless, compressed, oddly encoded, or malformed batch results."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from generation.llm import batch_protocol, gateway
from generation.llm.batch_protocol import BatchClient, LineResult
from generation.llm.errors import BadRequest, BrokenReply, ConnectionCut, LLMError, ServerError
from generation.llm.fencing import as_data, read_data
from generation.llm.gateway import Gateway
from generation.llm.request_body import usage_of
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply
from tests.generation.llm.helpers import (
    HELLO,
    Answer,
    Ledger,
    app_of,
    ask,
    completion,
    fake_endpoint,
    in_gateway,
    settings_for,
)
from tests.generation.llm.test_batch_protocol import with_client
from tests.profile import by_profile

MB = 2**20


def raw_endpoint(body: bytes, **headers: str) -> web.Application:
    """An endpoint that answers every request with these bytes."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


JSON = {"Content_Type": "application/json"}
NON_TEXT_CODECS = (
    "hex",
    "zlib",
    "bz2",
    "base64",
    "uu",
    "quopri",
    "rot13",
    "idna",
    "punycode",
    "undefined",
    "unicode_escape",
)


def test_a_charset_that_is_not_for_text_is_read_as_utf_8() -> None:
    charsets = [*NON_TEXT_CODECS, "unknown", "none", "x" * 5_000, '""', "utf-8; charset=hex"]
    count = len(charsets)

    async def answer(_request: web.Request) -> web.Response:
        body = json.dumps(completion("Ja, größer."), ensure_ascii=False).encode()
        return web.Response(body=body, headers={"Content-Type": f"application/json; charset={charsets.pop()}"})

    async def work(gateway: Gateway) -> list[str]:
        return [(await gateway.ask(settings_for(url), HELLO)).text for _ in range(count)]

    ledger = Ledger()
    with run_in_background(app_of(answer)) as url:
        assert in_gateway(work, ledger) == ["Ja, größer."] * count
    assert [(attempt.error, attempt.reply and attempt.reply.usage.tokens_in) for attempt in ledger] == [("", 7)] * count


@pytest.mark.parametrize(
    ("text", "written", "named"),
    [
        ("größer", "latin-1", "ISO-8859-1"),
        ("größer", "latin-1", "latin1"),
        ("größer", "utf-8", "ISO-8859-1"),
        ("größer", "utf-16le", "utf-16le"),
        ("größer + 1", "utf-7", "UTF-7"),
        ("安静にする", "iso-2022-jp", "ISO-2022-JP"),
        ("安静にする", "utf-8", "ISO-2022-JP"),
        ("안정", "iso-2022-kr", "iso-2022-kr"),
        ("多喝水", "hz", "HZ-GB-2312"),
    ],
)
def test_a_text_charset_is_obeyed_unless_the_text_is_utf_8(text: str, written: str, named: str) -> None:
    answer = json.dumps(completion(text), ensure_ascii=False).encode(written)
    with run_in_background(raw_endpoint(answer, Content_Type=f"application/json; charset={named}")) as url:
        assert ask(url).text == text


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    criteria_met: bool
    explanation: str


class _UnforeseenError(Exception):
    pass


@pytest.mark.parametrize(
    "odd_value", [_UnforeseenError("sk-very-secret-0123456789"), MemoryError(), KeyError("x"), AssertionError()]
)
def test_any_exception_in_an_attempt_is_in_the_ledger(
    odd_value: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-very-secret-0123456789")

    def fail(*_: Any) -> None:
        raise odd_value

    monkeypatch.setattr(gateway, "read_completion", fail)
    ledger = Ledger()
    with fake_endpoint("Yes.") as target, pytest.raises(LLMError) as caught:
        ask(target.url, ledger, key_env="OWN_KEY")
    assert caught.value.kind == "UnexpectedError"
    assert [attempt.error for attempt in ledger] == ["UnexpectedError"] * len(target.bodies)
    assert len(ledger) == 5
    assert type(odd_value).__name__ in ledger[0].detail
    assert "0123456789" not in ledger[0].detail + caplog.text
    assert "in fail" in caplog.text, "the log names the function that failed"


# How much is read


def bomb(size: int) -> bytes:
    whole = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(whole.compress(b" " * MB) for _ in range(size // MB)), whole.flush()])


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b" " * (MB + 1), JSON),
        (bomb(64 * MB), {**JSON, "Content_Encoding": "gzip"}),
        (gzip.compress(b"{}", mtime=0) + b"\0" * 2 * MB, {**JSON, "Content_Encoding": "gzip"}),
        (json.dumps(completion("é" * 400_000), ensure_ascii=False).encode("latin-1") + b"\xff" * 400_000,
         {"Content_Type": "application/json; charset=latin-1"}),
    ],
    ids=["plain", "bomb", "behind the end", "longer in UTF-8"],
)  # fmt: skip
def test_the_size_of_a_completion_is_limited(body: bytes, headers: dict[str, str]) -> None:
    ledger = Ledger()
    with (
        run_in_background(raw_endpoint(body, **headers)) as url,
        pytest.raises(BrokenReply, match=f"longer than {MB} bytes"),
    ):
        ask(url, ledger)
    assert [(attempt.error, attempt.http_status) for attempt in ledger] == [("BrokenReply", 200)] * 2
    assert {(usage_of(attempt).tokens_out, usage_of(attempt).estimated) for attempt in ledger} == {(16_384, True)}


def test_the_size_limit_follows_max_tokens_and_the_sites_setting() -> None:
    long = "x" * 600_000
    with fake_endpoint(long) as target:
        assert ask(target.url).text == long
        with pytest.raises(BrokenReply, match="longer than"):
            ask(target.url, max_tokens=500)
        with pytest.raises(BrokenReply, match="longer than 500000 bytes"):
            ask(target.url, max_reply=500_000)
        assert ask(target.url, max_reply=2 * MB, max_tokens=100_000).text == long


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP", "identity", "x-gzip"])
def test_a_compressed_answer_is_read(coding: str) -> None:
    body = json.dumps(completion("Packed.")).encode()
    encoders: dict[str, Callable[[bytes], bytes]] = {"deflate": zlib.compress, "identity": bytes}
    packed = encoders.get(coding, gzip.compress)(body)
    with run_in_background(raw_endpoint(packed, **JSON, Content_Encoding=coding)) as url:
        assert ask(url).text == "Packed."


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "gzip, gzip"),
        (b"no gzip", "gzip"),
        (gzip.compress(json.dumps(completion("Yes.")).encode(), mtime=0)[:-9], "gzip"),
        (b"{}", "br"),
    ],
)
def test_an_unsupported_or_broken_encoding_is_a_cut_connection(body: bytes, coding: str) -> None:
    with run_in_background(raw_endpoint(body, **JSON, Content_Encoding=coding)) as url, pytest.raises(ConnectionCut):
        ask(url)


def test_a_repair_quotes_an_excerpt() -> None:
    wrong = json.dumps({"criteria_met": "yes", "explanation": "y" * 100_000, "x" * 50_000: "end" * 1_000})

    async def work(gateway: Gateway) -> Any:
        return await gateway.ask_structured(settings_for(target.url), HELLO, Strict)

    with fake_endpoint(wrong) as target, pytest.raises(BrokenReply) as caught:
        in_gateway(work)
    first, second = target.bodies
    assert len(json.dumps(second)) - len(json.dumps(first)) < 10_000
    assert second["messages"][-2]["content"].startswith(wrong[:1_000])
    assert second["messages"][-2]["content"].endswith(wrong[-500:])
    assert "criteria_met" in second["messages"][-1]["content"]
    assert len(str(caught.value)) < 5_000


# Untrusted text in a prompt


@given(st.lists(st.sampled_from(["<", "<<", ">", ">>", "\\", "u003c", "\n", "\u2028", "\x85", '"', "A"])).map("".join))
def test_no_fence_mark_survives_in_data(text: str) -> None:
    line = as_data({"a": text, text: [text]})
    assert not [mark for mark in ("<<<", ">>>") if mark in line]
    assert len(f"{line}.".splitlines()) == 1
    assert json.loads(line) == {"a": text, text: [text]}
    assert read_data(f"<<<CASE\n{line}\nCASE>>>") == {"CASE": json.loads(line)}


def test_the_escaping_of_data_in_prompts_has_not_changed() -> None:
    assert as_data("a <<< b >>> c << d") == '"a <\\u003c< b >\\u003e> c << d"'
    assert as_data("<<<<<") == '"<\\u003c<\\u003c<"'


# Provider batches


async def read(client: BatchClient, limit: int = 1_000) -> list[LineResult | None]:
    return [result async for result in client.results("f", limit)]


GOOD = {"custom_id": "good", "response": {"status_code": 200, "body": completion("Yes.")}, "error": None}
ODD_VALUES: list[Any] = [
    None,
    0,
    1,
    -1,
    1.5,
    True,
    "",
    "x",
    "\ud800",
    [],
    [1],
    {},
    {"code": [1]},
    {"code": {"a": 1}},
    {"message": 5},
]


def malformed_results() -> list[dict[str, Any]]:
    """A good result with each odd value in each place in turn."""
    usage = {"prompt_tokens": 10**30, "completion_tokens": []}
    malformed: list[dict[str, Any]] = []
    for odd_value in ODD_VALUES:
        body = completion("Yes.")
        malformed += [
            {**GOOD, "error": odd_value},
            {**GOOD, "response": odd_value},
            {**GOOD, "error": {"code": odd_value, "message": odd_value}},
            {**GOOD, "response": {"status_code": odd_value, "body": body}},
            *({**GOOD, "response": {"status_code": status, "body": odd_value}} for status in (200, 400, 500)),
            {**GOOD, "response": {"status_code": 400, "body": {"error": odd_value}}},
            {**GOOD, "response": {"status_code": 403, "body": {"error": {"code": odd_value, "message": odd_value}}}},
            *({**GOOD, "response": {"status_code": 200, "body": {**body, name: odd_value}}} for name in body),
            {**GOOD, "response": {"status_code": 200, "body": {**body, "choices": [odd_value], "usage": usage}}},
            {
                **GOOD,
                "response": {
                    "status_code": 200,
                    "body": completion(odd_value, finish_reason=odd_value, refusal=odd_value, reasoning=odd_value),
                },
            },
        ]
    return malformed


def test_a_malformed_line_affects_only_its_own_result() -> None:
    malformed = malformed_results()
    lines = [
        *map(json.dumps, malformed),
        "[" * 90_000,
        json.dumps({"custom_id": [1]}),
        json.dumps({**GOOD, "custom_id": "last"}),
    ]
    with run_in_background(raw_endpoint("\n".join(lines).encode())) as url:
        results = with_client(url, read)
    count = len(malformed)
    assert len(results) == count + 3
    assert [result.custom_id for result in results[:count]] == ["good"] * count
    assert results[count:-1] == [None, None]
    assert isinstance(results[-1].outcome, Reply)
    for result in results[:count]:
        if isinstance(result.outcome, Reply):
            usage = result.outcome.usage
            assert all(
                isinstance(tokens, int) and 0 <= tokens < 2**31 for tokens in (usage.tokens_in, usage.tokens_out)
            )


def test_an_error_whose_code_is_a_list_is_an_error() -> None:
    with run_in_background(raw_endpoint(json.dumps({"custom_id": "a", "error": {"code": [1]}}).encode())) as url:
        [result] = with_client(url, read)
    assert isinstance(result.outcome, ServerError)


KEYS = """custom_id error code message response status_code body choices content usage
data id status errors output_file_id created_at completed_at metadata"""
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def client() -> BatchClient:
    """A client for its parsing methods; it sends no request."""

    async def create() -> BatchClient:
        async with Gateway() as gateway:
            return BatchClient(gateway, settings_for("http://127.0.0.1:9/v1"))

    return asyncio.run(create())


@given(lines=st.lists(NONSENSE, min_size=1, max_size=5), body=NONSENSE)
@settings(max_examples=by_profile(40, 100), deadline=None)
def test_nonsense_is_parsed_without_an_exception(client: BatchClient, lines: list[Any], body: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_protocol.log, "exception", pytest.fail)
        for line in lines:
            line_data = {**line, "custom_id": "a"} if isinstance(line, dict) else line
            assert (client._parse_line(json.dumps(line_data)) is not None) == isinstance(line, dict)
    try:
        state = batch_protocol._parse_state(body if isinstance(body, dict) else {"id": body}, "none")
    except ServerError:
        return
    assert isinstance(state.id, str)
    assert isinstance(state.status, str)


STATE = {"id": "b", "object": "batch", "status": "completed", "created_at": 1_700_000_000, "output_file_id": "f"}


def read_states(*answers: dict[str, Any]) -> list[Any]:
    """Parse these answers to requests for the state of a batch, in order."""
    remaining = list(answers)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(remaining.pop(0))

    async def work(client: BatchClient) -> list[Any]:
        return [await client.state("b") for _ in answers]

    app = web.Application()
    app.router.add_get("/v1/batches/b", answer)
    with run_in_background(app) as url:
        return list(with_client(url, work))


def test_any_state_of_a_batch_can_be_stored() -> None:
    odd_values = [*ODD_VALUES, 10**18, -(10**18), 253_402_300_799, "../../x", "x" * 300]
    places = ["status", "errors", "created_at", "completed_at", "output_file_id", "error_file_id", "metadata"]
    for state in read_states(*({**STATE, place: odd_value} for place in places for odd_value in odd_values)):
        assert [type(text) for text in (state.id, state.status, state.detail)] == [str] * 3
        assert all(isinstance(file, str) and len(file) <= 200 for file in state.files)
        assert all(moment is None or 2019 < moment.year < 2101 for moment in (state.created_at, state.ended_at))


def test_the_errors_of_a_batch_are_read_strictly() -> None:
    odd_values: list[Any] = [{"data": 5}, {"data": "x"}, {"data": [5, None, "x", {"message": [1]}]}, [1]]
    assert [state.detail for state in read_states(*({**STATE, "errors": odd_value} for odd_value in odd_values))] == [
        ""
    ] * 4


def test_the_length_of_a_result_line_is_limited_and_the_next_one_is_read() -> None:
    lines = [b" " * 3 * MB + b"x", json.dumps(GOOD).encode(), b"{" * 2 * MB, json.dumps(GOOD).encode(), b"x" * 5 * MB]
    with run_in_background(raw_endpoint(b"\n".join(lines))) as url:
        results = with_client(url, read)
    assert [result and result.custom_id for result in results] == [None, "good", None, "good", None]


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_the_size_of_a_result_file_is_limited(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_protocol, "MAX_RESULTS", 2 * MB)
    first_line = json.dumps(GOOD).encode() + b"\n"
    body = bomb(64 * MB) if coding else first_line + b" " * 8 * MB
    with run_in_background(raw_endpoint(body, **({"Content_Encoding": coding} if coding else {}))) as url:
        results = with_client(url, read)
    assert [result and result.custom_id for result in results] == ([None] if coding else ["good", None])


def test_no_more_results_are_read_than_were_asked_for() -> None:
    with run_in_background(raw_endpoint((json.dumps(GOOD).encode() + b"\n") * 50_000)) as url:
        results = with_client(url, lambda client: read(client, 3))
    assert [result and result.custom_id for result in results] == ["good"] * 3 + [None]


def test_the_size_of_a_batch_state_is_limited() -> None:
    body = bomb(64 * MB)
    with run_in_background(raw_endpoint(body, **JSON, Content_Encoding="gzip")) as url:
        for work in (lambda client: client.state("b"), lambda client: client.upload("own", b"")):
            with pytest.raises(BrokenReply, match="longer than"):
                with_client(url, work)


def test_the_list_of_batches_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_protocol, "MAX_LISTED", 500)
    state = {**STATE, "created_at": 4_000_000_000}
    page = {"object": "list", "data": [{**state, "id": f"b{n}"} for n in range(100)], "has_more": True}
    with (
        run_in_background(raw_endpoint(json.dumps(page).encode(), **JSON)) as url,
        pytest.raises(ServerError, match="more than 500"),
    ):
        with_client(url, lambda client: client.look_up("own", datetime.now(UTC)))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed_with_a_key(status: int) -> None:
    requested_paths: list[str] = []

    async def answer_elsewhere(request: web.Request) -> web.Response:
        requested_paths.append(request.path)
        return web.Response(body=json.dumps(GOOD).encode())

    other_app, redirecting_app = web.Application(), web.Application()
    other_app.router.add_route("*", "/{path:.*}", answer_elsewhere)

    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"{store}/elsewhere"})

    redirecting_app.router.add_route("*", "/{path:.*}", redirect)
    with run_in_background(other_app) as store, run_in_background(redirecting_app) as url:
        for work in (read, lambda client: client.state("b"), lambda client: client.cancel("b")):
            with pytest.raises(BadRequest, match="not followed"):
                with_client(url, work)
    assert requested_paths == []


def test_a_slow_reader_of_results_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that the reader spends between two results does not count as the endpoint's."""
    monkeypatch.setattr(batch_protocol, "TRANSFER_SECONDS", 0.2)

    async def read_slowly(client: BatchClient) -> int:
        count = 0
        async for _result in client.results("f"):
            await asyncio.sleep(0.15)
            count += 1
        return count

    with run_in_background(raw_endpoint(b"\n".join([json.dumps(GOOD).encode()] * 4))) as url:
        assert with_client(url, read_slowly) == 4


def test_a_body_that_says_two_things_is_no_reply_and_is_billed() -> None:
    twice = json.dumps(completion("Yes.")).replace('"content": "Yes."', '"content": "Yes.", "content": "No."')
    ledger = Ledger()
    with fake_endpoint(Answer(twice)) as target, pytest.raises(BrokenReply, match="a key twice"):
        ask(target.url, ledger)
    assert [usage_of(attempt).estimated for attempt in ledger] == [True] * 2
