"""The batch protocol of one endpoint: what is sent, what is read, and what endpoints may get wrong."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from generation.llm.batch_protocol import BatchClient, LineResult
from generation.llm.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    KeyMissing,
    LLMError,
    RateLimited,
    ServerError,
)
from generation.llm.gateway import Gateway
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Reply
from tests.engine import served
from tests.generation.llm.helpers import complaint, said, settings_for
from tests.keys import ACCESS

KEY = "sk-very-secret"
Work = Callable[[BatchClient], Coroutine[Any, Any, Any]]


def at(url: str, work: Work, **options: Any) -> Any:
    async def main() -> Any:
        async with Gateway(access=ACCESS) as gateway:
            return await work(BatchClient(gateway, settings_for(url, **options)))

    return asyncio.run(main())


def lines(*names: str, model: str = "sim-judge") -> bytes:
    asked = {"model": model, "messages": [{"role": "user", "content": "Is it safe?"}]}
    each = [{"custom_id": n, "method": "POST", "url": "/v1/chat/completions", "body": asked} for n in names]
    return "\n".join(map(json.dumps, each)).encode()


async def results(door: BatchClient, file: str) -> list[LineResult]:
    """Those that could be read."""
    return [each async for each in door.results(file) if each is not None]


def test_there_and_back() -> None:
    async def work(door: BatchClient) -> tuple[Any, list[LineResult]]:
        made = await door.create(await door.upload("own", lines("a", "b")), "own")
        found = await door.state(made.id)
        return found, await results(door, found.files[0])

    with run_in_background(make_app([])) as url:
        found, said = at(url, work)
    assert (found.status, found.ended, len(found.files)) == ("completed", True, 1)
    assert found.expires_at - found.created_at == timedelta(days=1)
    assert [(each.custom_id, type(each.outcome)) for each in said] == [("a", Reply), ("b", Reply)]
    assert said[0].outcome.simulated


def test_it_is_found_by_its_mark_on_any_page_of_the_list() -> None:
    async def work(door: BatchClient) -> tuple[Any, ...]:
        file = await door.upload("own", lines("a"))
        made = [await door.create(file, f"mark-{n}") for n in range(45)]
        now = datetime.now(UTC)
        found = await door.look_up("mark-3", now)
        return (
            made[3].id,
            found and found.id,
            await door.look_up("mark-x", now),
            await door.look_up("mark-3", now + timedelta(days=1)),
        )

    with run_in_background(make_app([])) as url:
        made, found, unknown, too_old = at(url, work)
    assert made == found
    assert unknown is too_old is None


def test_what_was_done_when_it_is_cancelled_is_among_the_results() -> None:
    async def work(door: BatchClient) -> list[LineResult]:
        made = await door.create(await door.upload("own", lines(*"abcd")), "own")
        assert made.status == "in_progress"
        await asyncio.sleep(0.5)
        cancelled = await door.cancel(made.id)
        assert cancelled.status == "cancelled"
        return [each for file in cancelled.files for each in await results(door, file)]

    with run_in_background(make_app([], batch_delay=1.0)) as url:
        said = at(url, work)
    assert len(said) == 4
    assert 0 < sum(each.outcome is None for each in said) < 4


def test_each_line_under_its_name() -> None:
    told = [
        {"custom_id": "good", "response": {"status_code": 200, "body": said("Yes.")}, "error": None},
        {"custom_id": "filtered", "response": {"status_code": 200, "body": said("", finish_reason="content_filter")}},
        {"custom_id": "none", "response": {"status_code": 200, "body": {"choices": []}}},
        {"custom_id": "limited", "response": {"status_code": 429, "body": complaint(f"Slow down, {KEY}.")}},
        {"custom_id": "refused", "response": {"status_code": 400, "body": complaint("No.")}},
        {"custom_id": "odd", "response": {"status_code": 400, "body": "text"}},
        {"custom_id": "huge", "response": {"status_code": 99_999, "body": {}}},
        {"custom_id": "true", "response": {"status_code": True, "body": {}}},
        {"custom_id": "endless", "response": {"status_code": 10**4_000, "body": {}}},
        {"custom_id": "broken", "response": None, "error": {"code": "server_error", "message": f"Oh, {KEY}."}},
        {"custom_id": "late", "response": None, "error": {"code": "batch_expired", "message": "Expired."}},
        {"custom_id": "stopped", "response": None, "error": {"code": "batch_cancelled", "message": "Cancelled."}},
        {"custom_id": 7},
        [],
    ]
    text = "\n".join(["no JSON", "[" * 100_000, *map(json.dumps, told)])

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/v1/files/f/content", answer)
    with run_in_background(app) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWN_KEY", KEY)
        found = at(url, lambda door: results(door, "f"), key_env="OWN_KEY")
    kinds = {each.custom_id: type(each.outcome) for each in found}
    nothing = type(None)
    assert kinds == {
        "good": Reply,
        "filtered": ContentFiltered,
        "none": ServerError,
        "limited": RateLimited,
        "refused": BadRequest,
        "odd": BadRequest,
        "huge": ServerError,
        "true": ServerError,
        "endless": ServerError,
        "broken": ServerError,
        "late": nothing,
        "stopped": nothing,
    }
    assert {each.http_status for each in found} <= {None, 200, 400, 429}, "what the ledger can hold"
    assert not [each for each in found if isinstance(each.outcome, LLMError) and KEY in str(each.outcome)]


def test_a_line_ends_at_a_line_feed_alone_and_what_is_none_is_counted() -> None:
    odd = "One.\u2028Two.\u2029Three.\x85Four. \U0001f9ea"
    told = [{"custom_id": name, "response": {"status_code": 200, "body": said(odd)}} for name in ("a", "b")]
    text = "\r\n".join([*(json.dumps(each, ensure_ascii=False) for each in told), "", "no JSON", ""])
    data = "\ufeff".encode() + text.encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for at_byte in range(0, len(data), 7):  # some end within a character
            await response.write(data[at_byte : at_byte + 7])
        return response

    async def work(door: BatchClient) -> list[LineResult | None]:
        return [each async for each in door.results("f")]

    app = web.Application()
    app.router.add_get("/v1/files/f/content", answer)
    with run_in_background(app) as url:
        found = at(url, work)
    assert [each and (each.custom_id, each.outcome.text) for each in found] == [("a", odd), ("b", odd), None]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthFailed), (404, BadRequest), (429, RateLimited), (500, ServerError)]
)
def test_errors_have_names_and_no_key(status: int, kind: type[LLMError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(complaint(f"Not with {KEY}."), status=status, headers={"Retry-After": "7"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    works: list[Work] = [
        lambda door: door.upload("own", b""),
        lambda door: door.create("f", "own"),
        lambda door: door.state("b"),
        lambda door: door.cancel("b"),
        lambda door: door.look_up("own", datetime.now(UTC)),
        lambda door: results(door, "f"),
    ]
    with run_in_background(app) as url:
        for work in works:
            with pytest.raises(kind) as caught:
                at(url, work, key_env="OWN_KEY")
            assert KEY not in str(caught.value)
            assert caught.value.__context__ is None
            assert caught.value.retry_after == (7.0 if status in (429, 500) else None)


def test_what_is_said_of_a_batch_can_be_stored_and_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)
    told = {
        "id": "b",
        "status": f"fail\0ed {KEY}",
        "errors": {"data": [{"message": f"No\0, not with {KEY}.", "code": "x", "line": 1, "param": None}]},
    }

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(told)

    app = web.Application()
    app.router.add_get("/v1/batches/b", answer)
    with run_in_background(app) as url:
        found = at(url, lambda door: door.state("b"), key_env="OWN_KEY")
    assert not [text for text in (found.status, found.detail) if "\0" in text or KEY in text or "***" not in text]


@pytest.mark.parametrize("body", ["[]", "null", '"x"', "{}", '{"id": 5}', '{"id": ""}', "no JSON", '{"data": 5}'])
def test_a_body_of_another_protocol_is_a_server_error(body: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    with run_in_background(app) as url:
        for work in (lambda door: door.upload("own", b""), lambda door: door.state("b")):
            with pytest.raises(ServerError):
                at(url, work)


def test_no_key_no_request() -> None:
    with pytest.raises(KeyMissing):
        at("http://models.example/v1", lambda door: door.state("b"), key_env="OWN_KEY_THAT_IS_NOT_SET")


def test_the_simulator_bills_what_it_answered() -> None:
    async def work(door: BatchClient) -> Any:
        first = await door.create(await door.upload("own", lines("a", "b", model="sim-judge+500")), "own")
        again = await door.create(await door.upload("own", lines("a", "a")), "own")
        return await door.state(first.id), await door.state(again.id), await door.upload("x", b"")

    with run_in_background(make_app([])) as url:
        started = time.time()
        failed, twice, _file = at(url, work)
        stats = served(url)
    assert failed.status == "completed"
    assert abs(failed.ended_at.timestamp() - started) < 60
    assert (twice.status, twice.detail) == ("failed", "Each line needs a custom_id of its own.")
    assert (stats["files"], stats["batches"], stats["batch_requests"], stats["batch_billed"]) == (3, 2, 2, 0)
