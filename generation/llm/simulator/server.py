"""The HTTP server of the simulated models: completions, embeddings, models, statistics, errors."""

import asyncio
import errno
import hashlib
import json
import logging
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from generation.llm.probe import ANSWER, FIRST_LINE
from generation.llm.simulator.batches import BatchStore
from generation.llm.simulator.embedding import embed_text
from generation.llm.simulator.faults import Fault, FaultKind, draw_fault, parse_fault, parse_model
from generation.llm.simulator.script import DEFAULT_ANSWER, Script
from generation.llm.simulator.wire_format import (
    AcceptedRequest,
    CompletionRequest,
    EmbeddingRequest,
    RequestT,
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


class _Simulator:
    def __init__(
        self,
        scripts: Sequence[Script],
        *,
        seed: int,
        faults: Sequence[Fault],
        latency: float,
        retry_after: float,
        hang: float,
    ) -> None:
        self._scripts = tuple(scripts)
        self._seed = seed
        self._faults = tuple(faults)
        self._latency = latency
        self._retry_after = retry_after
        self._hang = hang
        self._seen: Counter[str] = Counter()
        self._by_model: Counter[str] = Counter()
        self._by_status: Counter[str] = Counter()
        self._in_flight = self._peak = self._images = self._embedded = 0
        self.batches = BatchStore(self.completion)

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
                "requests": sum(self._by_model.values()),
                "by_model": dict(self._by_model),
                "by_status": dict(self._by_status),
                "peak_in_flight": self._peak,
                "images": self._images,
                "embedded": self._embedded,
                **self.batches.stats(),
            }
        )

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        return await self._serve(request, self.completion)

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/embeddings."""
        return await self._serve(request, self.embedding)

    async def _serve(self, request: web.Request, work: Callable[[Any], tuple[str, web.Response]]) -> web.StreamResponse:
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        try:
            outcome, response = await self._answer(request, work)
            self._by_status[outcome] += 1
            if outcome == FaultKind.TIMEOUT:
                await asyncio.sleep(self._hang)
            elif outcome == FaultKind.CUT:
                return await send_half(request, response)
            return response
        finally:
            self._in_flight -= 1

    async def _answer(
        self, request: web.Request, work: Callable[[Any], tuple[str, web.Response]]
    ) -> tuple[str, web.Response]:
        """The outcome under which a request is counted, and the response."""
        raw = await request.read()
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        self._by_model[str(body.get("model")).partition("+")[0] if isinstance(body, dict) else "?"] += 1
        outcome, response = work(body)
        if self._latency and outcome not in ("400", "404"):
            await asyncio.sleep(self._latency)
        return outcome, response

    def completion(self, body: Any) -> tuple[str, web.Response]:
        """Answer a single request or a line of a batch; returns its outcome and the response."""
        accepted = self._accept(body, CompletionRequest)
        if not isinstance(accepted, AcceptedRequest):
            return accepted
        question, model, fault = accepted.request, accepted.model, accepted.fault
        self._images += sum(len(message.images) for message in question.messages)
        match fault:
            case FaultKind.REFUSAL:
                text = REFUSAL_REPLY
            case FaultKind.WRONG_SCHEMA:
                text = WRONG_SHAPE_REPLY
            case _:
                text = self._script_reply(model, question)
                if fault is FaultKind.BROKEN_JSON:
                    text = text[: len(text) // 2]
        completion = completion_body(question, text, f"chatcmpl-sim-{self._seed}-{accepted.name}")
        return fault if fault is FaultKind.CUT else "200", web.json_response(completion)

    def embedding(self, body: Any) -> tuple[str, web.Response]:
        """Embed texts; returns the outcome and the response.

        The fault ``wrong-schema`` drops the last vector, ``broken-json`` cuts it in half.
        """
        accepted = self._accept(body, EmbeddingRequest)
        if not isinstance(accepted, AcceptedRequest):
            return accepted
        texts = accepted.request.texts
        self._embedded += len(texts)
        vectors = [embed_text(text) for text in texts]
        match accepted.fault:
            case FaultKind.WRONG_SCHEMA:
                vectors.pop()
            case FaultKind.BROKEN_JSON:
                vectors[-1] = vectors[-1][: len(vectors[-1]) // 2]
            case _:
                pass
        tokens = sum(map(count_tokens, texts))
        answer = {
            "object": "list",
            "model": accepted.request.model,
            "system_fingerprint": SIMULATOR_FINGERPRINT,
            "data": [
                {"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return accepted.fault if accepted.fault is FaultKind.CUT else "200", web.json_response(answer)

    def _accept(self, body: Any, kind: type[RequestT]) -> "AcceptedRequest[RequestT] | tuple[str, web.Response]":
        """Validate a request and draw its fault.

        Returns outcome and response if no model answers the request.
        """
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
        except ValueError as error:
            return "404", error_body(404, str(error), param="model", code="model_not_found")
        if model not in MODELS:
            return "404", error_body(
                404,
                f"The model '{model}' does not exist; known are {', '.join(MODELS)}.",
                param="model",
                code="model_not_found",
            )
        body_hash = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        seen = self._seen[body_hash]
        self._seen[body_hash] += 1
        fault = draw_fault(tuple(model_faults) + self._faults, seed=self._seed, body_hash=body_hash, seen=seen)
        match fault:
            case FaultKind.RATE_LIMITED:
                return "429", error_body(
                    429,
                    "Simulated: too many requests.",
                    code="rate_limit_exceeded",
                    headers={"Retry-After": f"{self._retry_after:g}"},
                )
            case FaultKind.SERVER_ERROR:
                return "500", error_body(500, "Simulated: the server failed.")
            case FaultKind.TIMEOUT:
                return fault, error_body(504, "Simulated: the model did not answer in time.")
        return AcceptedRequest(accepted, model, fault, f"{body_hash[:16]}-{seen}")

    def _script_reply(self, model: str, question: CompletionRequest) -> str:
        messages = [message.message for message in question.messages]
        if messages[0].text == FIRST_LINE:
            return ANSWER
        for script in self._scripts:
            text = script.reply(model, messages, self._seed)
            if text is not None:
                return text
        return DEFAULT_ANSWER


def make_app(
    scripts: Sequence[Script],
    *,
    seed: int = 0,
    faults: Sequence[str] = (),
    latency: float = 0.0,
    retry_after: float = 1.0,
    hang: float = 600.0,
    batch_delay: float = 0.0,
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

    Raises:
        ValueError: a fault is unknown.
    """
    simulator = _Simulator(
        scripts,
        seed=seed,
        faults=[parse_fault(fault) for fault in faults],
        latency=latency,
        retry_after=retry_after,
        hang=hang,
    )
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_protocol_errors])
    app.router.add_post("/v1/chat/completions", simulator.completions)
    app.router.add_post("/v1/embeddings", simulator.embeddings)
    app.router.add_get("/v1/models", simulator.models)
    simulator.batches.delay = batch_delay
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
    ready = threading.Event()
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    url = ""

    async def main() -> None:
        nonlocal loop, stop, url
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        async with _listening(app, "127.0.0.1", 0) as url:
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="simulated-models", daemon=True)
    thread.start()
    ready.wait()
    if not url:
        raise CannotListen("The simulated models did not start; the log says why.")
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


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
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}/v1"
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
