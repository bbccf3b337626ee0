"""The HTTP server of the simulated models: completions, embeddings, models, statistics, errors."""

import asyncio
import errno
import hashlib
import json
import logging
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal
from pydantic import ValidationError

from generation.llm.probe import ANSWER, FIRST_LINE
from generation.llm.simulator.batches import BatchStore
from generation.llm.simulator.embedding import embed_text
from generation.llm.simulator.faults import Fault, FaultKind, draw_fault, parse_fault, parse_model
from generation.llm.simulator.script import DEFAULT_ANSWER, Script, Scripts, chance
from generation.llm.simulator.wire_format import (
    CompletionRequest,
    EmbeddingRequest,
    completion_body,
    count_tokens,
    error_body,
    send_half,
)
from generation.llm.types import SIMULATOR_FINGERPRINT

MODELS = (
    "sim-generator",
    "sim-critic",
    "sim-nli",
    "sim-voter-a",
    "sim-voter-b",
    "sim-voter-c",
    "sim-careful",
    "sim-average",
    "sim-reckless",
    "sim-judge",
    "sim-adversary",
    "sim-judge-obedient",
    "sim-embedder",
    "sim-examiner",
    "sim-patient",
    "sim-extractor",
    "sim-writer",
    "sim-checker",
)
REFUSAL_REPLY = "I'm sorry, but I can't help with that."
WRONG_SHAPE_REPLY = '{"result": {"status": "ok", "items": []}}'
MAX_BODY = 128 * 2**20  # bytes

logger = logging.getLogger(__name__)


class CannotListen(Exception):
    """The simulated models cannot listen on this address."""


Work = Callable[[Any], tuple[str, web.Response]]  # on the body of a request: outcome and response


@dataclass
class _Simulator:
    scripts: Sequence[Script]
    seed: int
    faults: Sequence[Fault]
    latency: float
    retry_after: float
    hang: float
    batch_delay: float
    vary: float
    seen: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    by_model: Counter[str] = field(default_factory=Counter)
    by_status: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    peak: int = 0
    images: int = 0
    embedded: int = 0

    def __post_init__(self) -> None:
        self.batches = BatchStore(self.completion, self.batch_delay)

    async def models(self, _: web.Request) -> web.Response:
        """GET /v1/models."""
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": SIMULATOR_FINGERPRINT} for name in MODELS]
        return web.json_response({"object": "list", "data": listed})

    async def stats(self, _: web.Request) -> web.Response:
        """GET /stats: requests by model and by outcome, images and texts.

        An outcome is a status, ``cut`` or ``timeout``. Batches are counted separately.
        """
        return web.json_response(
            {
                "requests": sum(self.by_model.values()),
                "by_model": dict(self.by_model),
                "by_status": dict(self.by_status),
                "peak_in_flight": self.peak,
                "images": self.images,
                "embedded": self.embedded,
                **self.batches.stats(),
            }
        )

    async def serve(self, work: Work, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions or /v1/embeddings."""
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            try:
                body = json.loads(await request.read())
            except (ValueError, RecursionError):
                body = None
            model = "?"
            if isinstance(body, dict):
                model = str(body.get("model")).partition("+")[0]
            self.by_model[model] += 1
            outcome, response = work(body)
            if self.latency and outcome not in ("400", "404"):
                await asyncio.sleep(self.latency)
            self.by_status[outcome] += 1
            if outcome == FaultKind.TIMEOUT:
                await asyncio.sleep(self.hang)
            elif outcome == FaultKind.CUT:
                return await send_half(request, response)
            return response
        finally:
            self.in_flight -= 1

    def completion(self, body: Any) -> tuple[str, web.Response]:
        """Answer a single request or a line of a batch; returns its outcome and the response."""
        return self._answer(body, CompletionRequest, self._complete)

    def embedding(self, body: Any) -> tuple[str, web.Response]:
        """Embed texts; returns the outcome and the response.

        The fault ``wrong-schema`` drops the last vector, ``broken-json`` cuts it in half.
        """
        return self._answer(body, EmbeddingRequest, self._embed)

    def _answer(self, body: Any, kind: Any, answer: Callable[..., dict[str, Any]]) -> tuple[str, web.Response]:
        """Validate a request of a kind, draw its fault, and answer it if neither forbids that."""
        if not isinstance(body, dict):
            return "400", error_body(400, "The body must be a JSON object.")
        try:
            accepted = kind.model_validate(body, strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            param = ".".join(str(part) for part in problem["loc"])
            return "400", error_body(400, f"{param}: {problem['msg']}", param=param)
        try:
            model, model_faults = parse_model(accepted.model)
            if model not in MODELS:
                raise ValueError(f"The model '{model}' does not exist; known are {', '.join(MODELS)}.")
        except ValueError as error:
            return "404", error_body(404, str(error), param="model", code="model_not_found")
        body_hash = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        seen = self.seen[body_hash]
        self.seen[body_hash] += 1
        fault = draw_fault((*model_faults, *self.faults), seed=self.seed, body_hash=body_hash, seen=seen)
        match fault:
            case FaultKind.RATE_LIMITED:
                wait = {"Retry-After": f"{self.retry_after:g}"}
                message = "Simulated: too many requests."
                return "429", error_body(429, message, code="rate_limit_exceeded", headers=wait)
            case FaultKind.SERVER_ERROR:
                return "500", error_body(500, "Simulated: the server failed.")
            case FaultKind.TIMEOUT:
                return fault, error_body(504, "Simulated: the model did not answer in time.")
        seed = self._seed_of_answer(body_hash)
        response = web.json_response(answer(accepted, model, fault, f"{body_hash[:16]}-{seen}", seed))
        if fault is FaultKind.CUT:
            return fault, response
        return "200", response

    def _seed_of_answer(self, body_hash: str) -> int:
        """The seed of all first answers; with the chance `vary`, another one for each later one."""
        number = self.answered[body_hash]
        self.answered[body_hash] += 1
        if number and chance(self.seed, "vary", body_hash, str(number)) < self.vary:
            return self.seed + number
        return self.seed

    def _complete(
        self, asked: CompletionRequest, model: str, fault: FaultKind | None, name: str, seed: int
    ) -> dict[str, Any]:
        messages = [message.message for message in asked.messages]
        self.images += sum(len(message.images) for message in messages)
        match fault:
            case FaultKind.REFUSAL:
                text: str | None = REFUSAL_REPLY
            case FaultKind.WRONG_SCHEMA:
                text = WRONG_SHAPE_REPLY
            case _ if messages[0].text == FIRST_LINE:
                text = ANSWER
            case _:
                text = Scripts(self.scripts).reply(model, messages, seed)
        if text is None:
            text = DEFAULT_ANSWER
        if fault is FaultKind.BROKEN_JSON:
            text = text[: len(text) // 2]
        tokens_in = sum(count_tokens(message.text) for message in messages)
        return completion_body(asked, text, tokens_in, f"chatcmpl-sim-{self.seed}-{name}")

    def _embed(
        self, asked: EmbeddingRequest, _model: str, fault: FaultKind | None, _name: str, _seed: int
    ) -> dict[str, Any]:
        self.embedded += len(asked.texts)
        vectors = [embed_text(text) for text in asked.texts]
        if fault is FaultKind.WRONG_SCHEMA:
            vectors.pop()
        elif fault is FaultKind.BROKEN_JSON:
            vectors[-1] = vectors[-1][: len(vectors[-1]) // 2]
        tokens = sum(map(count_tokens, asked.texts))
        data = []
        for place, vector in enumerate(vectors):
            data.append({"object": "embedding", "index": place, "embedding": vector})
        return {
            "object": "list",
            "model": asked.model,
            "system_fingerprint": SIMULATOR_FINGERPRINT,
            "data": data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }


def make_app(
    scripts: Sequence[Script],
    *,
    seed: int = 0,
    faults: Sequence[str] = (),
    latency: float = 0.0,
    retry_after: float = 1.0,
    hang: float = 600.0,
    batch_delay: float = 0.0,
    vary: float = 0.0,
) -> web.Application:
    """Create the server as an application, which can run once.

    Args:
        scripts: asked in turn; the first that recognises the request answers it.
        seed: the same seed and requests give the same answers and faults.
        faults: for all models, as ``kind@share`` (see `faults.FaultKind`), in addition to those
            in a model's name.
        latency: seconds before every response.
        retry_after: seconds that a 429 asks its client to wait.
        hang: seconds after which a simulated time-out is answered with 504.
        batch_delay: seconds until a batch ends; see `batches.BatchStore`.
        vary: the chance (0 to 1) that a request which was answered before is answered anew, by
            another seed, as models do that sample.

    Raises:
        ValueError: a fault is unknown.
    """
    simulator = _Simulator(
        tuple(scripts), seed, [parse_fault(fault) for fault in faults], latency, retry_after, hang, batch_delay, vary
    )
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_protocol_errors])
    app.router.add_post("/v1/chat/completions", partial(simulator.serve, simulator.completion))
    app.router.add_post("/v1/embeddings", partial(simulator.serve, simulator.embedding))
    app.router.add_get("/v1/models", simulator.models)
    simulator.batches.add_routes(app)
    app.router.add_get("/stats", simulator.stats)
    return app


def serve(app: web.Application, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Run in the main thread until SIGINT or SIGTERM; `on_ready` gets the base URL once it listens.

    Raises:
        CannotListen: with one sentence, if the port is taken or the address is not ours.
    """

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with _listening(app, host, port) as url:
            on_ready(url)
            await stop.wait()

    asyncio.run(main())


@contextmanager
def run_in_background(app: web.Application) -> Iterator[str]:
    """Run on a free loopback port in a background thread.

    Yields the base URL (``http://127.0.0.1:PORT/v1``).
    """
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_listening(app, "127.0.0.1", 0)) as url:
        yield url


@asynccontextmanager
async def _listening(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    # Cancel handlers whose client disconnects: a simulated time-out would otherwise go on sleeping.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise CannotListen(f"Port {port} on {host} is already in use; choose another port.") from None
            raise CannotListen(f"Cannot listen on {host}, port {port}: {error.strerror or error}.") from None
        bound = runner.addresses[0][1]
        shown_host = host
        if ":" in host:
            shown_host = f"[{host}]"
        yield f"http://{shown_host}:{bound}/v1"
    finally:
        await runner.cleanup()


@web.middleware
async def _protocol_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Report errors of the server itself (unknown path, failing script) in the protocol's shape."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return error_body(error.status, error.reason)
    except Exception as error:  # a failing script must reach the client as 500 and the log as a traceback
        logger.exception("A simulated model failed")
        return error_body(500, f"The script of the simulated model failed ({type(error).__name__}).")
