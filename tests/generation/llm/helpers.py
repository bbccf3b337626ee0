"""An endpoint with scripted answers, and the collaborators that a gateway needs."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiohttp import web

from generation.llm import ledger_interface
from generation.llm.gateway import Gateway
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Attempt, Message, ModelSettings, Request
from tests.conftest import ACCESS

HELLO = Request((Message("user", "Is it safe?"),), prompt="test/hello@1")


class Ledger(list[Attempt]):
    """A ledger that keeps attempts in memory."""

    async def __call__(self, attempt: Attempt) -> None:
        self.append(attempt)


class Naps(list[float]):
    """Replaces asyncio.sleep: records the seconds and does not wait; `clock` adds them up."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self) -> float:
        return 1_000.0 + sum(self)


def holding_until(count: int, *, ahead: int = 0) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Middleware of a simulator: calls wait until `count` are in flight, a minute at most.

    So a test sees that many at once, however slowly a busy machine sends them.
    `ahead`: the first calls, which do not wait.
    """
    arrived = 0
    all_there = asyncio.Event()

    @web.middleware
    async def hold(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        nonlocal arrived
        if request.method == "POST":
            arrived += 1
            if arrived == ahead + count:
                all_there.set()
            if arrived > ahead:
                with suppress(TimeoutError):
                    await asyncio.wait_for(all_there.wait(), 60)
        return await handler(request)

    return hold


class Highest(Random):
    """Random numbers that are always the highest: back-off without jitter."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Lowest(Random):
    def uniform(self, a: float, b: float) -> float:
        return a


@dataclass
class Answer:
    """One HTTP answer; a body other than a string is sent as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class FakeEndpoint:
    """The address of a scripted endpoint, and the requests that it received."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


def completion(text: object, *, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with this text."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": usage}


def error_body(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}}


def app_of(handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]) -> web.Application:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    return app


@contextmanager
def fake_endpoint(*answers: Any) -> Iterator[FakeEndpoint]:
    """Run an endpoint that gives these answers in turn and then repeats the last one.

    A bare string is the text of a completion.
    """
    remaining = [
        answer if isinstance(answer, Answer) else Answer(completion(answer) if isinstance(answer, str) else answer)
        for answer in answers
    ]
    received = FakeEndpoint()

    async def answer_next(request: web.Request) -> web.Response:
        received.bodies.append(await request.json())
        received.headers.append(dict(request.headers))
        answer = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        return web.Response(text=text, status=answer.status, headers=answer.headers, content_type="application/json")

    with run_in_background(app_of(answer_next)) as received.url:
        yield received


def settings_for(url: str, model: str = "sim-judge", **fields: Any) -> ModelSettings:
    return ModelSettings(**{"name": "test", "url": url, "model": model, "timeout": 10.0, **fields})


def in_gateway(
    work: Callable[[Gateway], Coroutine[Any, Any, Any]], ledger: Ledger | None = None, **options: Any
) -> Any:
    """Run `work` with a new gateway that does not sleep."""

    async def main() -> Any:
        sleep = options.pop("sleep", Naps())
        lines = ledger_interface.Ledger(Ledger() if ledger is None else ledger)
        async with Gateway(lines, **{"sleep": sleep, "clock": sleep.clock, "access": ACCESS, **options}) as gateway:
            return await work(gateway)

    return asyncio.run(main())


def ask(
    url: str, ledger: Ledger | None = None, request: Request = HELLO, model: str = "sim-judge", **options: Any
) -> Any:
    """One `ask` in a new gateway, which takes the options that are no model settings."""
    setting_values = {name: options.pop(name) for name in ModelSettings.__slots__ if name in options}
    return in_gateway(
        lambda gateway: gateway.ask(settings_for(url, model, **setting_values), request), ledger, **options
    )
