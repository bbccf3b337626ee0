"""What an endpoint may send to do harm: endless and packed answers, odd charsets, nonsense of the batch protocol."""

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
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply
from tests.generation.llm.helpers import HELLO, Ledger, app_of, ask, completion, fake_endpoint, in_gateway, settings_for
from tests.generation.llm.test_batch_protocol import at
from tests.profile import by_profile

MB = 2**20


def raw(body: bytes, **headers: str) -> web.Application:
    """An endpoint that sends these bytes whatever is asked."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


JSON = {"Content_Type": "application/json"}
UNTEXT = ("hex", "zlib", "bz2", "base64", "uu", "quopri", "rot13", "idna", "punycode", "undefined", "unicode_escape")


def test_a_charset_that_is_not_for_text_is_read_as_utf_8() -> None:
    left = [*UNTEXT, "unknown", "none", "x" * 5_000, '""', "utf-8; charset=hex"]
    count = len(left)

    async def answer(_request: web.Request) -> web.Response:
        body = json.dumps(completion("Ja, größer."), ensure_ascii=False).encode()
        return web.Response(body=body, headers={"Content-Type": f"application/json; charset={left.pop()}"})

    async def work(gate: Gateway) -> list[str]:
        return [(await gate.ask(settings_for(url), HELLO)).text for _ in range(count)]

    ledger = Ledger()
    with run_in_background(app_of(answer)) as url:
        assert in_gateway(work, ledger) == ["Ja, größer."] * count
    assert [(attempt.error, attempt.reply and attempt.reply.usage.tokens_in) for attempt in ledger] == [("", 7)] * count


def test_a_text_charset_is_obeyed() -> None:
    answer = json.dumps(completion("größer"), ensure_ascii=False).encode("latin-1")
    with run_in_background(raw(answer, Content_Type="application/json; charset=ISO-8859-1")) as url:
        assert ask(url).text == "größer"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    criteria_met: bool
    explanation: str


class _Odd(Exception):
    pass


@pytest.mark.parametrize("odd", [_Odd("sk-very-secret-0123456789"), MemoryError(), KeyError("x"), AssertionError()])
def test_any_exception_in_an_attempt_is_in_the_ledger(
    odd: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-very-secret-0123456789")

    def fail(*_: Any) -> None:
        raise odd

    monkeypatch.setattr(gateway, "read_completion", fail)
    ledger = Ledger()
    with fake_endpoint("Yes.") as seen, pytest.raises(LLMError) as caught:
        ask(seen.url, ledger, key_env="OWN_KEY")
    assert caught.value.kind == "UnexpectedError"
    assert [attempt.error for attempt in ledger] == ["UnexpectedError"] * len(seen.bodies)
    assert len(ledger) == 5
    assert type(odd).__name__ in ledger[0].detail
    assert "0123456789" not in ledger[0].detail + caplog.text
    assert "in fail" in caplog.text, "one must know where to mend it"


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
    with run_in_background(raw(body, **headers)) as url, pytest.raises(BrokenReply, match=f"longer than {MB} bytes"):
        ask(url, ledger)
    assert [(attempt.error, attempt.http_status, attempt.reply) for attempt in ledger] == [
        ("BrokenReply", 200, None)
    ] * 2


def test_the_size_limit_follows_max_tokens_and_the_sites_setting() -> None:
    long = "x" * 600_000
    with fake_endpoint(long) as seen:
        assert ask(seen.url).text == long
        with pytest.raises(BrokenReply, match="longer than"):
            ask(seen.url, max_tokens=500)
        with pytest.raises(BrokenReply, match="longer than 500000 bytes"):
            ask(seen.url, max_reply=500_000)
        assert ask(seen.url, max_reply=2 * MB, max_tokens=100_000).text == long


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP", "identity", "x-gzip"])
def test_a_compressed_answer_is_read(coding: str) -> None:
    body = json.dumps(completion("Packed.")).encode()
    ways: dict[str, Callable[[bytes], bytes]] = {"deflate": zlib.compress, "identity": bytes}
    packed = ways.get(coding, gzip.compress)(body)
    with run_in_background(raw(packed, **JSON, Content_Encoding=coding)) as url:
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
    with run_in_background(raw(body, **JSON, Content_Encoding=coding)) as url, pytest.raises(ConnectionCut):
        ask(url)


def test_a_repair_quotes_an_excerpt() -> None:
    wrong = json.dumps({"criteria_met": "yes", "explanation": "y" * 100_000, "x" * 50_000: "end" * 1_000})

    async def work(gateway: Gateway) -> Any:
        return await gateway.ask_structured(settings_for(seen.url), HELLO, Strict)

    with fake_endpoint(wrong) as seen, pytest.raises(BrokenReply) as caught:
        in_gateway(work)
    first, second = seen.bodies
    assert len(json.dumps(second)) - len(json.dumps(first)) < 10_000
    assert second["messages"][-2]["content"].startswith(wrong[:1_000])
    assert second["messages"][-2]["content"].endswith(wrong[-500:])
    assert "criteria_met" in second["messages"][-1]["content"]
    assert len(str(caught.value)) < 5_000


# Text of others in a prompt


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


async def read(door: BatchClient, most: int = 1_000) -> list[LineResult | None]:
    return [each async for each in door.results("f", most)]


GOOD = {"custom_id": "good", "response": {"status_code": 200, "body": completion("Yes.")}, "error": None}
ODD: list[Any] = [
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


def siblings() -> list[dict[str, Any]]:
    """A good result with something odd in each place in turn."""
    usage = {"prompt_tokens": 10**30, "completion_tokens": []}
    found: list[dict[str, Any]] = []
    for odd in ODD:
        body = completion("Yes.")
        found += [
            {**GOOD, "error": odd},
            {**GOOD, "response": odd},
            {**GOOD, "error": {"code": odd, "message": odd}},
            {**GOOD, "response": {"status_code": odd, "body": body}},
            *({**GOOD, "response": {"status_code": status, "body": odd}} for status in (200, 400, 500)),
            {**GOOD, "response": {"status_code": 400, "body": {"error": odd}}},
            {**GOOD, "response": {"status_code": 403, "body": {"error": {"code": odd, "message": odd}}}},
            *({**GOOD, "response": {"status_code": 200, "body": {**body, name: odd}}} for name in body),
            {**GOOD, "response": {"status_code": 200, "body": {**body, "choices": [odd], "usage": usage}}},
            {
                **GOOD,
                "response": {
                    "status_code": 200,
                    "body": completion(odd, finish_reason=odd, refusal=odd, reasoning=odd),
                },
            },
        ]
    return found


def test_a_malformed_line_affects_only_its_own_result() -> None:
    told = siblings()
    lines = [
        *map(json.dumps, told),
        "[" * 90_000,
        json.dumps({"custom_id": [1]}),
        json.dumps({**GOOD, "custom_id": "last"}),
    ]
    with run_in_background(raw("\n".join(lines).encode())) as url:
        found = at(url, read)
    assert len(found) == len(told) + 3
    assert [each.custom_id for each in found[: len(told)]] == ["good"] * len(told)
    assert found[len(told) : -1] == [None, None]
    assert isinstance(found[-1].outcome, Reply)
    for each in found[: len(told)]:
        if isinstance(each.outcome, Reply):
            usage = each.outcome.usage
            assert all(isinstance(count, int) and 0 <= count < 2**31 for count in (usage.tokens_in, usage.tokens_out))


def test_an_error_whose_code_is_a_list_is_a_broken_result() -> None:
    with run_in_background(raw(json.dumps({"custom_id": "a", "error": {"code": [1]}}).encode())) as url:
        [found] = at(url, read)
    assert isinstance(found.outcome, BrokenReply)


WORDS = """custom_id error code message response status_code body choices content usage
data id status errors output_file_id created_at completed_at metadata"""
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS.split()), inner, max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def door() -> BatchClient:
    """One through which nothing is asked."""

    async def made() -> BatchClient:
        async with Gateway() as gate:
            return BatchClient(gate, settings_for("http://127.0.0.1:9/v1"))

    return asyncio.run(made())


@given(lines=st.lists(JUNK, min_size=1, max_size=5), body=JUNK)
@settings(max_examples=by_profile(40, 100), deadline=None)
def test_nonsense_is_parsed_without_an_exception(door: BatchClient, lines: list[Any], body: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_protocol.log, "exception", pytest.fail)
        for line in lines:
            whole = {**line, "custom_id": "a"} if isinstance(line, dict) else line
            assert (door._parse_line(json.dumps(whole)) is not None) == isinstance(line, dict)
    told = type("Told", (), body)() if isinstance(body, dict) else body
    try:
        state = batch_protocol._parse_state(told, "none")
    except ServerError:
        return
    assert isinstance(state.id, str)
    assert isinstance(state.status, str)


STATE = {"id": "b", "object": "batch", "status": "completed", "created_at": 1_700_000_000, "output_file_id": "f"}


def states(*told: dict[str, Any]) -> list[Any]:
    """What is read of these states, told one after the other."""
    left = list(told)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(left.pop(0))

    async def work(door: BatchClient) -> list[Any]:
        return [await door.state("b") for _ in told]

    app = web.Application()
    app.router.add_get("/v1/batches/b", answer)
    with run_in_background(app) as url:
        return list(at(url, work))


def test_any_state_of_a_batch_can_be_stored() -> None:
    odds = [*ODD, 10**18, -(10**18), 253_402_300_799, "../../x", "x" * 300]
    places = ["status", "errors", "created_at", "completed_at", "output_file_id", "error_file_id", "metadata"]
    for found in states(*({**STATE, place: odd} for place in places for odd in odds)):
        assert [type(each) for each in (found.id, found.status, found.detail)] == [str] * 3
        assert all(isinstance(file, str) and len(file) <= 200 for file in found.files)
        assert all(each is None or 2019 < each.year < 2101 for each in (found.created_at, found.ended_at))


def test_the_errors_of_a_batch_are_read_strictly() -> None:
    odds: list[Any] = [{"data": 5}, {"data": "x"}, {"data": [5, None, "x", {"message": [1]}]}, [1]]
    assert [found.detail for found in states(*({**STATE, "errors": odd} for odd in odds))] == [""] * 4


def test_the_length_of_a_result_line_is_limited_and_the_next_one_is_read() -> None:
    lines = [b" " * 3 * MB + b"x", json.dumps(GOOD).encode(), b"{" * 2 * MB, json.dumps(GOOD).encode(), b"x" * 5 * MB]
    with run_in_background(raw(b"\n".join(lines))) as url:
        found = at(url, read)
    assert [each and each.custom_id for each in found] == [None, "good", None, "good", None]


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_the_size_of_a_result_file_is_limited(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_protocol, "MAX_RESULTS", 2 * MB)
    begun = json.dumps(GOOD).encode() + b"\n"
    body = bomb(64 * MB) if coding else begun + b" " * 8 * MB
    with run_in_background(raw(body, **({"Content_Encoding": coding} if coding else {}))) as url:
        found = at(url, read)
    assert [each and each.custom_id for each in found] == ([None] if coding else ["good", None])


def test_no_more_results_are_read_than_were_asked_for() -> None:
    with run_in_background(raw((json.dumps(GOOD).encode() + b"\n") * 50_000)) as url:
        found = at(url, lambda door: read(door, 3))
    assert [each and each.custom_id for each in found] == ["good"] * 3 + [None]


def test_the_size_of_a_batch_state_is_limited() -> None:
    body = bomb(64 * MB)
    with run_in_background(raw(body, **JSON, Content_Encoding="gzip")) as url:
        for work in (lambda door: door.state("b"), lambda door: door.upload("own", b"")):
            with pytest.raises(BrokenReply, match="longer than"):
                at(url, work)


def test_the_list_of_batches_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_protocol, "MAX_LISTED", 500)
    each = {**STATE, "created_at": 4_000_000_000}
    page = {"object": "list", "data": [{**each, "id": f"b{n}"} for n in range(100)], "has_more": True}
    with (
        run_in_background(raw(json.dumps(page).encode(), **JSON)) as url,
        pytest.raises(ServerError, match="more than 500"),
    ):
        at(url, lambda door: door.look_up("own", datetime.now(UTC)))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed_with_a_key(status: int) -> None:
    asked: list[str] = []

    async def there(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=json.dumps(GOOD).encode())

    other, own = web.Application(), web.Application()
    other.router.add_route("*", "/{path:.*}", there)

    async def moved(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"{store}/elsewhere"})

    own.router.add_route("*", "/{path:.*}", moved)
    with run_in_background(other) as store, run_in_background(own) as url:
        for work in (read, lambda door: door.state("b"), lambda door: door.cancel("b")):
            with pytest.raises(BadRequest, match="not followed"):
                at(url, work)
    assert asked == []


def test_a_slow_reader_of_results_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done with the results between two of them does not count as the endpoint's time."""
    monkeypatch.setattr(batch_protocol, "TRANSFER_SECONDS", 0.2)

    async def slowly(door: BatchClient) -> int:
        count = 0
        async for _each in door.results("f"):
            await asyncio.sleep(0.15)
            count += 1
        return count

    with run_in_background(raw(b"\n".join([json.dumps(GOOD).encode()] * 4))) as url:
        assert at(url, slowly) == 4
