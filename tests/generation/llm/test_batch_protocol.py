"""The batch protocol of an endpoint: requests, results, and what endpoints may get wrong."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from generation.llm import batch_protocol
from generation.llm.batch_protocol import BatchClient, LineResult
from generation.llm.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    KeyMissing,
    LLMError,
    RateLimited,
    ServerError,
    TimedOut,
)
from generation.llm.gateway import Gateway
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Reply
from tests.conftest import ACCESS
from tests.engine import simulator_stats
from tests.generation.llm.helpers import completion, error_body, settings_for

KEY = "sk-very-secret"
Work = Callable[[BatchClient], Coroutine[Any, Any, Any]]


def with_client(url: str, work: Work, **options: Any) -> Any:
    """Run `work` with a batch client of the endpoint at `url`."""

    async def main() -> Any:
        async with Gateway(access=ACCESS) as gateway:
            return await work(BatchClient(gateway, settings_for(url, **options)))

    return asyncio.run(main())


def lines(*names: str, model: str = "sim-judge") -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": "Is it safe?"}]}
    requests = [{"custom_id": n, "method": "POST", "url": "/v1/chat/completions", "body": body} for n in names]
    return "\n".join(map(json.dumps, requests)).encode()


async def results(client: BatchClient, file: str) -> list[LineResult]:
    """The results of a file, without the lines that could not be read."""
    return [result async for result in client.results(file) if result is not None]


def test_a_batch_is_created_and_its_results_are_read() -> None:
    async def work(client: BatchClient) -> tuple[Any, list[LineResult]]:
        created = await client.create(await client.upload("own", lines("a", "b")), "own")
        state = await client.state(created.id)
        return state, await results(client, state.files[0])

    with run_in_background(make_app([])) as url:
        state, line_results = with_client(url, work)
    assert (state.status, state.ended, len(state.files)) == ("completed", True, 1)
    assert state.expires_at - state.created_at == timedelta(days=1)
    assert [(result.custom_id, type(result.outcome)) for result in line_results] == [("a", Reply), ("b", Reply)]
    assert line_results[0].outcome.simulated


def test_a_batch_is_found_by_its_mark_on_any_page_of_the_list() -> None:
    async def work(client: BatchClient) -> tuple[Any, ...]:
        file = await client.upload("own", lines("a"))
        created = [await client.create(file, f"mark-{n}") for n in range(45)]
        now = datetime.now(UTC)
        found = await client.look_up("mark-3", now)
        return (
            created[3].id,
            found and found.id,
            await client.look_up("mark-x", now),
            await client.look_up("mark-3", now + timedelta(days=1)),
        )

    with run_in_background(make_app([])) as url:
        created_id, found_id, unknown, too_old = with_client(url, work)
    assert created_id == found_id
    assert unknown is too_old is None


def test_a_search_through_endless_pages_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the whole search, not of a page."""
    monkeypatch.setattr(batch_protocol, "TRANSFER_SECONDS", 0)
    with run_in_background(make_app([])) as url, pytest.raises(TimedOut):
        with_client(url, lambda client: client.look_up("own", datetime.now(UTC)))


def test_a_server_may_write_null_for_no_batches() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": None})

    app = web.Application()
    app.router.add_get("/v1/batches", answer)
    with run_in_background(app) as url:
        assert with_client(url, lambda client: client.look_up("own", datetime.now(UTC))) is None


def test_a_cancelled_batch_has_the_results_that_were_ready() -> None:
    async def work(client: BatchClient) -> list[LineResult]:
        created = await client.create(await client.upload("own", lines(*"abcd")), "own")
        assert created.status == "in_progress"
        await asyncio.sleep(0.5)
        cancelled = await client.cancel(created.id)
        assert cancelled.status == "cancelled"
        return [result for file in cancelled.files for result in await results(client, file)]

    with run_in_background(make_app([], batch_delay=1.0)) as url:
        line_results = with_client(url, work)
    assert len(line_results) == 4
    assert 0 < sum(result.outcome is None for result in line_results) < 4


def test_each_line_has_its_outcome_under_its_custom_id() -> None:
    lines_sent = [
        {"custom_id": "good", "response": {"status_code": 200, "body": completion("Yes.")}, "error": None},
        {
            "custom_id": "filtered",
            "response": {"status_code": 200, "body": completion("", finish_reason="content_filter")},
        },
        {"custom_id": "none", "response": {"status_code": 200, "body": {"choices": []}}},
        {"custom_id": "limited", "response": {"status_code": 429, "body": error_body(f"Slow down, {KEY}.")}},
        {"custom_id": "refused", "response": {"status_code": 400, "body": error_body("No.")}},
        {"custom_id": "odd", "response": {"status_code": 400, "body": "text"}},
        {"custom_id": "huge", "response": {"status_code": 99_999, "body": {}}},
        {"custom_id": "true", "response": {"status_code": True, "body": {}}},
        {"custom_id": "endless", "response": {"status_code": 10**4_000, "body": {}}},
        {"custom_id": "broken", "response": None, "error": {"code": "server_error", "message": f"Oh, {KEY}."}},
        {"custom_id": "number", "response": None, "error": {"code": 429, "message": "Slow down."}},
        {"custom_id": "words", "response": None, "error": "Content blocked by moderation."},
        {"custom_id": "empty", "response": {"status_code": 200, "body": completion("A")}, "error": {"code": None}},
        {"custom_id": "late", "response": None, "error": {"code": "batch_expired", "message": "Expired."}},
        {"custom_id": "stopped", "response": None, "error": {"code": "batch_cancelled", "message": "Cancelled."}},
        {"custom_id": 7},
        [],
    ]
    text = "\n".join(["no JSON", "[" * 100_000, *map(json.dumps, lines_sent)])

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/v1/files/f/content", answer)
    with run_in_background(app) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWN_KEY", KEY)
        line_results = with_client(url, lambda client: results(client, "f"), key_env="OWN_KEY")
    kinds = {result.custom_id: type(result.outcome) for result in line_results}
    none_type = type(None)
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
        "number": RateLimited,
        "words": ContentFiltered,
        "empty": Reply,
        "late": none_type,
        "stopped": none_type,
    }
    assert {result.http_status for result in line_results} <= {None, 200, 400, 429}, "the ledger can store these"
    errors = [result.outcome for result in line_results if isinstance(result.outcome, LLMError)]
    assert not [error for error in errors if KEY in str(error)]


def test_only_a_line_feed_ends_a_line_and_unreadable_lines_are_counted() -> None:
    text_sent = "One.\u2028Two.\u2029Three.\x85Four. \U0001f9ea"
    lines_sent = [
        {"custom_id": name, "response": {"status_code": 200, "body": completion(text_sent)}} for name in ("a", "b")
    ]
    text = "\r\n".join([*(json.dumps(line, ensure_ascii=False) for line in lines_sent), "", "no JSON", ""])
    data = "\ufeff".encode() + text.encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(data), 7):  # some chunks end within a character
            await response.write(data[start : start + 7])
        return response

    async def work(client: BatchClient) -> list[LineResult | None]:
        return [result async for result in client.results("f")]

    app = web.Application()
    app.router.add_get("/v1/files/f/content", answer)
    with run_in_background(app) as url:
        line_results = with_client(url, work)
    expected = [("a", text_sent), ("b", text_sent), None]
    assert [result and (result.custom_id, result.outcome.text) for result in line_results] == expected


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthFailed), (404, BadRequest), (429, RateLimited), (500, ServerError)]
)
def test_errors_are_classified_and_hide_the_key(
    status: int, kind: type[LLMError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(error_body(f"Not with {KEY}."), status=status, headers={"Retry-After": "7"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    works: list[Work] = [
        lambda client: client.upload("own", b""),
        lambda client: client.create("f", "own"),
        lambda client: client.state("b"),
        lambda client: client.cancel("b"),
        lambda client: client.look_up("own", datetime.now(UTC)),
        lambda client: results(client, "f"),
    ]
    with run_in_background(app) as url:
        for work in works:
            with pytest.raises(kind) as caught:
                with_client(url, work, key_env="OWN_KEY")
            assert KEY not in str(caught.value)
            assert caught.value.__context__ is None
            assert caught.value.retry_after == (7.0 if status in (429, 500) else None)


def test_the_state_of_a_batch_can_be_stored_and_hides_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)
    body = {
        "id": "b",
        "status": f"fail\0ed {KEY}",
        "errors": {"data": [{"message": f"No\0, not with {KEY}.", "code": "x", "line": 1, "param": None}]},
    }

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body)

    app = web.Application()
    app.router.add_get("/v1/batches/b", answer)
    with run_in_background(app) as url:
        state = with_client(url, lambda client: client.state("b"), key_env="OWN_KEY")
    assert not [text for text in (state.status, state.detail) if "\0" in text or KEY in text or "***" not in text]


@pytest.mark.parametrize("status", ["COMPLETED", "Expired", "canceled"])
def test_a_batch_that_ended_is_seen_to_have_ended_in_any_spelling(status: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"id": "b", "status": status})

    app = web.Application()
    app.router.add_get("/v1/batches/b", answer)
    with run_in_background(app) as url:
        assert with_client(url, lambda client: client.state("b")).ended


@pytest.mark.parametrize("body", ["[]", "null", '"x"', "{}", '{"id": 5}', '{"id": ""}', "no JSON", '{"data": 5}'])
def test_a_body_of_another_protocol_is_a_server_error(body: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    with run_in_background(app) as url:
        for work in (lambda client: client.upload("own", b""), lambda client: client.state("b")):
            with pytest.raises(ServerError):
                with_client(url, work)


def test_without_a_key_no_request_is_sent() -> None:
    with pytest.raises(KeyMissing):
        with_client("http://models.example/v1", lambda client: client.state("b"), key_env="OWN_KEY_THAT_IS_NOT_SET")


def test_the_simulator_bills_only_what_it_answered() -> None:
    async def work(client: BatchClient) -> Any:
        first = await client.create(await client.upload("own", lines("a", "b", model="sim-judge+500")), "own")
        again = await client.create(await client.upload("own", lines("a", "a")), "own")
        return await client.state(first.id), await client.state(again.id), await client.upload("x", b"")

    with run_in_background(make_app([])) as url:
        started = time.time()
        failed, twice, _file = with_client(url, work)
        stats = simulator_stats(url)
    assert failed.status == "completed"
    assert abs(failed.ended_at.timestamp() - started) < 60
    assert (twice.status, twice.detail) == ("failed", "Each line needs a custom_id of its own.")
    assert (stats["files"], stats["batches"], stats["batch_requests"], stats["batch_billed"]) == (3, 2, 2, 0)
