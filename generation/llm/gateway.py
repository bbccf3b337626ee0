"""The gateway: asks models, owns all retries, keeps to the limits of gates, and tells the ledger about every HTTP attempt."""

import asyncio
import hashlib
import json
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import IntEnum
from functools import cache
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from generation.llm.access import PLAIN, Access, Forbidden
from generation.llm.errors import (
    MAX_DETAIL,
    AuthFailed,
    BadRequest,
    BrokenReply,
    ConnectionCut,
    ContentFiltered,
    ContextTooLong,
    CutShort,
    LaneOver,
    LLMError,
    NoCredit,
    NotAllowed,
    NotReached,
    NotThere,
    RateLimited,
    ServerError,
    TimedOut,
    UnexpectedError,
)
from generation.llm.gates import REFUSALS, Gate
from generation.llm.parsing import (
    extract_json,
    split_reasoning,
    storable,
    vectors_of,
    vectors_text,
)
from generation.llm.types import (
    SIMULATOR_FINGERPRINT,
    Attempt,
    Message,
    ModelSettings,
    Reply,
    Request,
    Text,
    Texts,
    Usage,
)

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

NO_KEY = "none"  # sent where an endpoint wants no key: the client insists on one
BACKOFF_BASE = 1.0  # seconds
BACKOFF_CAP = 60.0
CONNECT = 15.0  # seconds to make a connection: who has not answered by then will not, and nothing was sent
RECONNECT_CAP = 10.0  # seconds of back-off until the next try to make one, which costs nobody anything
REPLIES = 2  # of a structured call: the first, and one that has been shown its own error
CHARS_PER_TOKEN = 4  # an estimate of what is sent, before the endpoint has counted
TOKENS_BACK = 500  # an estimate of what comes back, where nobody set a limit
IMAGE_TOKENS = 1_000  # an estimate for an image
MAX_REPLY = 2**20  # bytes of a completion, unpacked, unless the site sets another limit
FLOOR = 2**18  # bytes that a completion may have however few tokens were asked for
TOKEN_BYTES = 64  # that each further token may have, escaped and all
MAX_VECTORS = 32 * 2**20  # bytes of an answer with vectors
VECTOR_BYTES = 400_000  # that the vector of one text may have: its numbers in decimals
EXCERPT = 4_000  # characters of a refused reply that are put back to the model
TAIL = 1_000  # of them, from its end
LONGEST_REST = 86_400.0  # seconds that an endpoint is left alone at its word
NO_REST = 7 * LONGEST_REST  # from here on it is no time to wait but a mistake: the seconds since 1970, milliseconds
SECRET = 12  # characters; a shorter key ("none", "EMPTY") is no secret, and taking it out would change what was said
MAX_TOKENS = 2**31 - 1  # what a database integer holds

OnAttempt = Callable[[Attempt], Awaitable[None]]
Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Paid:
    """A reply that the ledger has already, under the number of its line."""

    line: int
    reply: Reply


async def _allow() -> None:
    pass


async def _none(_identity: str) -> Sequence[Paid]:
    return ()


async def _no_failures(_identity: str) -> int:
    return 0


class Format(IntEnum):
    """How firmly a schema is asked for. An endpoint that refuses one gets the next."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    TEXT = 2


async def _firmest(_prompt: str) -> Format:
    return Format.JSON_SCHEMA


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where attempts are written, and what is asked of it.

    `write` is awaited with every attempt, good or bad, before anything is made of it. `check` is awaited before each
    attempt and may refuse it (BudgetSpent, LaneOver); every attempt that it let through is written. `find` knows the
    replies, newest first, that were paid for under an identity; `failures` how many attempts at it have failed before now,
    where it was cut short; `form` the format in which the endpoint last answered a prompt's requests for a schema.
    """

    write: OnAttempt
    check: Callable[[], Awaitable[None]] = _allow
    find: Callable[[str], Awaitable[Sequence[Paid]]] = _none
    failures: Callable[[str], Awaitable[int]] = _no_failures
    form: Callable[[str], Awaitable[Format]] = _firmest


@dataclass(frozen=True, slots=True)
class _Client:
    """How an address is asked under a key. `headers` hold the key: they are neither shown nor kept."""

    sdk: "AsyncOpenAI"
    transport: "httpx2.AsyncClient"
    url: str
    headers: Mapping[str, str] = field(repr=False)


class Gateway:
    """The door to models. One per event loop: ``async with Gateway(ledger) as gateway``.

    `ask` and `ask_structured` take another ledger for one call, to tie its attempts to a row. `max_reply`: the bytes that a
    completion may have at most. `access`: which keys and addresses are allowed. `clock` and `sleep` are for tests that do not
    wait; `on_news` is called when an endpoint asks to be left alone.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        *,
        attempts: int = 5,
        max_reply: int = MAX_REPLY,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
        on_news: Callable[[], None] = lambda: None,
        access: Access = PLAIN,
    ) -> None:
        self._ledger = ledger
        self._access = access
        self._attempts = attempts
        self.max_reply = max_reply
        self._clock, self._sleep = clock, sleep
        self._random = random or Random()
        self._on_news = on_news
        self._stack = AsyncExitStack()
        self._clients: dict[tuple[str, str], _Client] = {}
        self._gates: dict[tuple[str, str], Gate] = {}
        self._formats: dict[tuple[str, str], Format] = {}
        self._asking: dict[str, asyncio.Future[None]] = {}  # by identity

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def gate(self, settings: ModelSettings) -> Gate:
        """The gate before an endpoint, the same for all that ask it here."""
        gate = self._gates.get((settings.name, settings.url))
        if gate is None:
            gate = self._gates[settings.name, settings.url] = Gate(
                settings.concurrency,
                rpm=settings.rpm,
                tpm=settings.tpm,
                clock=self._clock,
                sleep=self._sleep,
                on_news=self._on_news,
            )
        return gate

    async def ask(self, settings: ModelSettings, request: Request, *, ledger: Ledger | None = None) -> Reply:
        """What the model says to this request, its text as it came (it may be empty, it may miss the schema).

        Raises:
            LLMError: what the last attempt met; KeyMissing, NotAllowed or BadRequest (no such address) before any attempt;
                Postponed where it was put off by a gate or by the ledger, CutShort where attempts had failed by then.
        """
        return await self._ask(settings, request, ledger, _not_empty)

    async def embed(
        self, settings: ModelSettings, texts: Sequence[str], *, ledger: Ledger | None = None
    ) -> tuple[tuple[float, ...], ...]:
        """One vector a text, in their order, with the precision of 32-bit floats. No text, no call.

        Raises:
            BrokenReply: the endpoint sent another number of vectors, or vectors of several lengths or not of finite numbers.
            LLMError: as `ask` does.
        """
        if not texts:
            return ()

        def read(reply: Reply) -> tuple[tuple[float, ...], ...]:
            return vectors_of(reply.text, len(texts))

        return read(await self._ask(settings, Texts(tuple(map(storable, texts))), ledger, read))

    async def _ask(
        self,
        settings: ModelSettings,
        request: Request | Texts,
        ledger: Ledger | None,
        usable: Callable[[Reply], object],
    ) -> Reply:
        """The reply to a request, paid for once: a second one waits for the first and then finds it in the ledger."""
        api_key = self._admit(settings)
        ledger = ledger or self._ledger
        if ledger is None:
            raise ValueError("a call needs a ledger")
        name = identity(settings, request)
        if ledger.find is _none:
            return await self._pay(settings, request, api_key, name, ledger)
        while name in self._asking:
            await asyncio.wait([self._asking[name]])
        done = self._asking[name] = asyncio.get_running_loop().create_future()
        try:
            for paid in await ledger.find(name):
                try:
                    usable(paid.reply)
                except BrokenReply:
                    continue
                body = _body(settings, request, self._formats.get((settings.url, settings.model), Format.JSON_SCHEMA))
                hit = Attempt(settings, request, body, 0, datetime.now(UTC), 0.0, identity=name, hit_of=paid.line)
                await ledger.write(replace(hit, reply=paid.reply))
                return paid.reply
            return await self._pay(settings, request, api_key, name, ledger)
        finally:
            del self._asking[name]
            done.set_result(None)

    async def _pay(
        self, settings: ModelSettings, request: Request | Texts, api_key: str, name: str, ledger: Ledger
    ) -> Reply:
        gate = self.gate(settings)
        endpoint = settings.url, settings.model
        if isinstance(request, Request) and request.schema is not None and endpoint not in self._formats:
            known = await ledger.form(request.prompt)
            self._formats.setdefault(endpoint, known)
        number = out_of_reach = unread = 0
        # Not all of the attempts: among those before were probes perhaps, which count against nobody.
        before = failures = min(await ledger.failures(name), self._attempts - 1)
        while True:
            number += 1
            form = self._formats.get(endpoint, Format.JSON_SCHEMA)
            sent = _body(settings, request, form)
            draft = Attempt(settings, request, sent, number, datetime.now(UTC), seconds=0.0, identity=name)
            try:
                outcome, counts = await self._attempt(gate, draft, api_key, ledger)
                if isinstance(outcome, Reply):
                    return outcome
                if _refuses_format(outcome, sent):
                    # The larger of the two: a slower request of the same time may already have been refused further.
                    self._formats[endpoint] = max(Format(form + 1), self._formats.get(endpoint, form))
                    continue
                failures += counts
                # Tried for as long as the gate lets it: the breaker opens in the end, and the row goes back unharmed.
                out_of_reach = out_of_reach + 1 if isinstance(outcome, NotReached) else 0
                # A refusal of the account soon closes the gate, and nobody fails; one of this row's own content does not.
                lasting = outcome.permanent and not isinstance(outcome, REFUSALS)
                if isinstance(outcome, BrokenReply) and not unread:  # billed: once more, not five times
                    unread, lasting = 1, False
                if lasting or failures >= self._attempts:
                    raise outcome
                backoff = self._delay(out_of_reach, RECONNECT_CAP) if out_of_reach else self._delay(failures)
                if not gate.away and (delay := gate.blocked_for + backoff):
                    await gate.nap(delay)
            except LaneOver:
                if failures > before:
                    raise CutShort from None
                raise

    async def ask_structured(
        self,
        settings: ModelSettings,
        request: Request,
        shape: type[Shape],
        *,
        check: Callable[[Shape], None] | None = None,
        tries: int = REPLIES,
        ledger: Ledger | None = None,
    ) -> tuple[Reply, Shape]:
        """The model's reply and the value of `shape` in it.

        A reply that is not JSON, not the shape (strictly: ``"true"`` is no boolean) or refused by `check` (which raises
        BrokenReply with a reason) is put back to the model with that reason, up to `tries` replies in all.

        Raises:
            BrokenReply: with the reason and the text of the last reply.
            LLMError: as `ask` does.
        """
        request = structured(request, shape)

        def read(reply: Reply) -> Shape:
            value = _read_shape(reply, shape)
            if check is not None:
                check(value)
            return value

        for left in reversed(range(tries)):
            reply = await self._ask(settings, request, ledger, read)
            try:
                return reply, read(reply)
            except BrokenReply as error:
                if not left:
                    error.reply = reply
                    raise
                refused = (
                    Message("assistant", _excerpt(reply.text) or "(empty)"),
                    Message(
                        "user",
                        f"Your last reply cannot be used. {error.detail} "
                        "Answer again with one JSON object as asked for, and nothing else.",
                    ),
                )
                request = replace(request, messages=request.messages + refused)
        raise ValueError("tries must be at least 1")

    async def _attempt(self, gate: Gate, draft: Attempt, api_key: str, ledger: Ledger) -> tuple[Reply | LLMError, bool]:
        """One HTTP attempt and its line in the ledger; and whether, if it failed, that counts against the request.

        The error is returned and raised by the caller: raised where it is met, its context would carry the HTTP
        request, and so the key, to whatever prints or collects tracebacks.
        """
        ticket = await gate.enter(_tokens(draft.request, draft.settings))
        try:
            await ledger.check()
        except BaseException:
            gate.withdraw(ticket)
            raise
        clock = time.monotonic()
        attempt = replace(draft, started_at=datetime.now(UTC))
        try:
            outcome, status = await self._send(draft, api_key)
        except asyncio.CancelledError:
            gate.withdraw(ticket)
            # The endpoint may well finish the answer and bill it.
            await ledger.write(replace(attempt, seconds=time.monotonic() - clock, error="Cancelled"))
            raise
        except Exception as failure:  # a fault of ours, but a call was made: it is counted, and ends like any other
            outcome, status = _unexpected(failure, api_key), None
        attempt = replace(attempt, seconds=time.monotonic() - clock, http_status=status)
        if isinstance(outcome, Reply):
            used = outcome.usage.tokens_in + outcome.usage.tokens_out
            counts = gate.leave(ticket, tokens=used or ticket.tokens)  # an endpoint that reports nothing: the estimate
            await ledger.write(replace(attempt, reply=outcome))
        else:
            # A format that it does not know is asked for once or twice, and tells nothing of what comes after.
            counts = gate.leave(ticket, None if _refuses_format(outcome, draft.sent) else outcome)
            await ledger.write(replace(attempt, reply=outcome.reply, error=outcome.kind, detail=outcome.detail))
        return outcome, counts

    async def _send(self, draft: Attempt, api_key: str) -> tuple[Reply | LLMError, int | None]:
        """What came of one POST, and its HTTP status where there was an answer."""
        import httpx2

        from generation.llm.transport import LIMIT, TooLong, text_of

        settings, request = draft.settings, draft.request
        vectors = len(request.texts) if isinstance(request, Texts) else 0
        client = self._client(settings, api_key)
        path = "/embeddings" if vectors else "/chat/completions"
        body = json.dumps(draft.sent).encode()
        limits = httpx2.Timeout(settings.timeout, connect=min(CONNECT, settings.timeout / 2))
        limit = longest(settings, request, self.max_reply)
        failures = client_failures()
        try:
            # The client's own timeout is between two bytes; this one is for the whole answer.
            async with asyncio.timeout(settings.timeout):
                # By the client's transport, not by `chat.completions.create`: its models take any body for a completion, and
                # putting a request together costs it more than sending it (python -m bench.engine).
                post = client.transport.build_request(
                    "POST",
                    client.url + path,
                    content=body,
                    headers=client.headers,
                    timeout=limits,
                    extensions={LIMIT: limit},
                )
                response = await client.transport.send(post, stream=True)
                try:
                    data = b"".join([chunk async for chunk in response.aiter_bytes()])
                    text = text_of(data, response.charset_encoding, limit)
                except TooLong as failure:
                    return BrokenReply(str(failure), http_status=response.status_code), response.status_code
                finally:
                    await response.aclose()
        except failures as failure:
            error = named(failure, api_key, settings.timeout)
            return error, error.http_status
        status = response.status_code
        if not response.is_success:
            return _refused(response, text, api_key), status
        try:
            answer = json.loads(text)
            return _embedded(answer, vectors, status) if vectors else said(answer, status, api_key), status
        except (ValueError, RecursionError):
            what = "No embeddings" if vectors else "No chat completion"
            return ServerError(f"{what}: {clean(text, api_key)}", http_status=status), status

    def http(self, settings: ModelSettings) -> _Client:
        """How an endpoint is asked without the SDK. Raises KeyMissing, BadRequest: as `client`."""
        _check_address(settings.url)
        return self._client(settings, self._admit(settings))

    def client(self, settings: ModelSettings) -> tuple["AsyncOpenAI", str]:
        """The client for an endpoint, and the key it uses, to be kept out of every message.

        Raises:
            KeyMissing, NotAllowed, BadRequest: as `ask` before any attempt.
        """
        api_key = self._admit(settings)
        return self._client(settings, api_key).sdk, api_key

    def _admit(self, settings: ModelSettings) -> str:
        """The key for an endpoint that may be asked."""
        _check_address(settings.url)
        self._access.check_url(settings.url)
        return self._access.key(settings.key_env, settings.url) if settings.key_env else NO_KEY

    def _client(self, settings: ModelSettings, api_key: str) -> _Client:
        client = self._clients.get((settings.url, api_key))
        if client is None:
            from openai import AsyncOpenAI

            from generation.llm.transport import Transport

            transport = Transport(self._access)
            sdk = AsyncOpenAI(base_url=settings.url, api_key=api_key, max_retries=0, http_client=transport)
            # Taken from OPENAI_ORG_ID and OPENAI_PROJECT_ID otherwise, and sent to whatever endpoint this is.
            sdk.organization = sdk.project = None
            sdk._custom_headers = {}  # of OPENAI_CUSTOM_HEADERS, an Authorization among them perhaps
            headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
            client = _Client(sdk, transport, settings.url.rstrip("/"), headers)
            self._clients[settings.url, api_key] = client
            self._stack.push_async_callback(sdk.close)
        return client

    def _delay(self, failures: int, cap: float = BACKOFF_CAP) -> float:
        """Seconds to the next attempt, beyond what the endpoint asked for: exponential back-off with full jitter."""
        backoff = min(cap, BACKOFF_BASE * 2.0 ** max(0, failures - 1))
        return self._random.uniform(0.0, backoff)


def identity(settings: ModelSettings, request: Request | Texts) -> str:
    """What is asked of whom, as SHA-256 of canonical JSON: address, model, settings, messages, schema, repeat number.

    Not how it is asked for (`response_format`), which an endpoint may refuse, and not the prompt's name. Of texts for vectors:
    address, model and texts.
    """
    if isinstance(request, Texts):
        return _digest({"url": settings.url, "model": settings.model, "input": list(request.texts)})
    asked: dict[str, Any] = {
        "url": settings.url,
        "model": settings.model,
        "temperature": settings.temperature if request.temperature is None else request.temperature,
        "max_tokens": settings.max_tokens if request.max_tokens is None else request.max_tokens,
        "messages": [asdict(message) for message in request.messages],
        "schema": None if request.schema is None else dict(request.schema),
        "repeat": request.repeat,
    }
    if request.top_p is not None:  # absent otherwise: what was paid for before there was such a setting is found again
        asked["top_p"] = request.top_p
    return _digest(asked)


def _digest(asked: Mapping[str, Any]) -> str:
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))  # ASCII: half of a surrogate pair is escaped
    return hashlib.sha256(text.encode()).hexdigest()


def structured(request: Request, shape: type[BaseModel]) -> Request:
    """The request with the schema of `shape`."""
    return replace(request, schema=_strict_schema(shape))


@cache
def _strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The client's own way to the schema that strict mode wants: all properties required, no others allowed."""
    from openai import pydantic_function_tool

    return dict(pydantic_function_tool(shape)["function"].get("parameters", {}))


def body(settings: ModelSettings, request: Request, form: Format = Format.JSON_SCHEMA) -> dict[str, Any]:
    """The JSON body of a request to an endpoint; `form`: what it was found to take."""
    return _body(settings, request, form)


def form_of(sent: Mapping[str, Any]) -> Format:
    """The format that a body asks for."""
    asked = sent.get("response_format") or {}
    forms = {"json_schema": Format.JSON_SCHEMA, "json_object": Format.JSON_OBJECT}
    return forms.get(asked.get("type", ""), Format.TEXT)


def _not_empty(reply: Reply) -> None:
    if not reply.text.strip():
        raise BrokenReply("The reply is empty.")


def estimate(settings: ModelSettings, request: Request | Texts) -> Usage:
    """An estimate of what a request will use."""
    if isinstance(request, Texts):
        return Usage(sum(map(len, request.texts)) // CHARS_PER_TOKEN)
    limit = settings.max_tokens if request.max_tokens is None else request.max_tokens
    sent = sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN
    images = sum(len(message.images) for message in request.messages)
    return Usage(sent + images * IMAGE_TOKENS, min(limit or TOKENS_BACK, TOKENS_BACK))


def _tokens(request: Request | Texts, settings: ModelSettings) -> int:
    usage = estimate(settings, request)
    return usage.tokens_in + usage.tokens_out


def _check_address(url: str) -> None:
    """Refuse what the HTTP client would fail on with errors of its own. Not quoted: an address may hold a secret."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not (usable and parts.scheme in ("http", "https") and url.isascii() and url.isprintable()):
        raise BadRequest("The endpoint's address is not of the form http(s)://host[:port]/path.")


def _body(settings: ModelSettings, request: Request | Texts, form: Format) -> dict[str, Any]:
    if isinstance(request, Texts):
        return {"model": settings.model, "input": list(request.texts), "encoding_format": "float"}
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [{"role": message.role, "content": _content(message)} for message in request.messages],
    }
    temperature = settings.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    max_tokens = settings.max_tokens if request.max_tokens is None else request.max_tokens
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if request.schema is not None and form is Format.JSON_SCHEMA:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(request.schema.get("title", "reply")))[:64]
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": dict(request.schema), "strict": True},
        }
    elif request.schema is not None and form is Format.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    return body


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.url}}
        for part in message.content
    ]


_ABOUT_CONTEXT = re.compile(r"context_length_exceeded|maximum context length|context (window|size)", re.IGNORECASE)
_ABOUT_FILTER = re.compile(r"moderation|flagged|content[ _-](filter|policy)", re.IGNORECASE)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object|json mode|structured output", re.IGNORECASE)


def client_failures() -> tuple[type[Exception], ...]:
    """What the client and its transport raise."""
    import aiohttp
    import httpx2
    from openai import APIConnectionError, APIStatusError

    return TimeoutError, APIStatusError, APIConnectionError, httpx2.HTTPError, aiohttp.ClientError, OSError


def named(failure: Exception, api_key: str, timeout: float) -> LLMError:
    """The named error for what the client raised (one of `client_failures`). To be raised where the failure is out of sight."""
    import httpx2
    from openai import APIConnectionError, APIStatusError

    if isinstance(failure, APIStatusError):
        if failure.response.is_redirect:
            return BadRequest(_elsewhere(failure.response, api_key), http_status=failure.status_code)
        retry_after = _retry_after(failure.response.headers.get("retry-after"))
        return status_error(failure.status_code, failure.body, failure.code, api_key, retry_after)
    if isinstance(failure, (APIConnectionError, httpx2.HTTPError)):
        return _connection_error(failure, api_key)
    if isinstance(failure, TimeoutError):
        return TimedOut(f"No answer within {timeout:g} s.")
    return ConnectionCut(clean(f"{type(failure).__name__}: {failure}", api_key))  # what the transport leaves unmapped


def said(body: Any, status: int, api_key: str = NO_KEY) -> Reply | LLMError:
    """What a chat completion says: its reply, ContentFiltered, or BrokenReply where it was billed and cannot be read.

    Without the key, which an endpoint may repeat. Raises ValueError where it is no completion at all.
    """
    try:
        reply = _without_key(_reply(body), api_key)
    except ValueError as failure:
        usage = _usage(body)
        if not (usage.tokens_in or usage.tokens_out):
            raise
        unread = BrokenReply(f"This completion cannot be read: {failure}.", http_status=status)
        unread.reply = Reply("", usage=usage)
        return unread
    if reply.finish_reason != "content_filter":
        return reply
    filtered = ContentFiltered(http_status=status)
    filtered.reply = reply  # its tokens are billed
    return filtered


def longest(settings: ModelSettings, request: Request | Texts, most: int) -> int:
    """The bytes that the answer to a request may have: near what was asked for, and a completion not more than `most`."""
    if isinstance(request, Texts):
        return min(MAX_VECTORS, FLOOR + VECTOR_BYTES * len(request.texts))
    tokens = settings.max_tokens if request.max_tokens is None else request.max_tokens
    return most if tokens is None else min(most, FLOOR + TOKEN_BYTES * tokens)


def _excerpt(text: str) -> str:
    """The text, or where it is long its beginning and its end."""
    if len(text) <= EXCERPT:
        return text
    return f"{text[: EXCERPT - TAIL]}\n[{len(text) - EXCERPT} characters left out]\n{text[-TAIL:]}"


def _unexpected(failure: Exception, api_key: str) -> LLMError:
    """What is written where an attempt met something that has no name here; where it was met goes into the log."""
    trace = "".join(traceback.format_exception(failure))
    log.error(
        "an attempt met an error without a name\n%s", trace if api_key == NO_KEY else trace.replace(api_key, "***")
    )
    return UnexpectedError(clean(f"{type(failure).__name__}: {failure}", api_key))


def _elsewhere(response: "httpx2.Response", api_key: str) -> str:
    at = clean(response.headers.get("location", ""), api_key)
    return f"It sends us elsewhere, which is not followed: {at}"


def file_refused(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for an answer about a file or a batch that is none of success."""
    if response.is_redirect:
        return BadRequest(_elsewhere(response, api_key), http_status=response.status_code)
    about, code = _complaint(text)
    retry_after = _retry_after(response.headers.get("retry-after"))
    return status_error(response.status_code, about, code, api_key, retry_after)


def _complaint(text: str) -> tuple[object, object]:
    """What is complained of in a body, and the code of it. As the SDK reads it: under `error`, if anywhere."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    about = body.get("error", body) if isinstance(body, dict) else body
    return about, about.get("code") if isinstance(about, dict) else None


def _refused(response: "httpx2.Response", text: str, api_key: str) -> LLMError:
    """The named error for an answer that is none of success."""
    if response.is_redirect:
        return NotThere(_elsewhere(response, api_key), http_status=response.status_code)
    error = file_refused(response, text, api_key)
    if response.status_code in (
        404,
        410,
    ):  # the path of completions; elsewhere it may be a file or a batch that is missed
        return NotThere(error.detail, http_status=response.status_code)
    return error


def _embedded(body: Any, count: int, status: int) -> Reply | LLMError:
    """The vectors in an embeddings body, or BrokenReply. Raises ValueError where it is none."""
    match body:
        case {"data": [*entries]} if all(isinstance(entry, dict) for entry in entries):
            pass
        case _:
            raise ValueError("no data")
    reply = Reply(
        text="",
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        usage=Usage(tokens_in=_count(body, "usage", "prompt_tokens")),
    )
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    try:
        if set(places) != set(range(count)) or len(places) != count:
            raise BrokenReply(
                f"{len(places)} vectors came for {count} texts, or their numbers are not those of the texts."
            )
        by_place = dict(zip(places, entries, strict=True))
        return replace(reply, text=vectors_text([by_place[place].get("embedding") for place in range(count)]))
    except TypeError:  # an index that is no number
        raise ValueError("no index") from None
    except BrokenReply as error:
        broken = BrokenReply(error.detail, http_status=status)
        broken.reply = reply  # its tokens are billed
        return broken


def status_error(status: int, body: object, code: object, api_key: str, retry_after: float | None = None) -> LLMError:
    """The named error for an HTTP status and what was said with it."""
    try:
        said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    except (ValueError, RecursionError):  # nested as deeply as it could be read, and no deeper
        said = "(nested too deeply)"
    detail = clean(said, api_key)
    if status == 403 and _ABOUT_FILTER.search(said):
        return ContentFiltered(detail, http_status=status)
    if status in (401, 403):
        return AuthFailed(detail, http_status=status)
    if status == 402:
        return NoCredit(detail, http_status=status)
    if status in (409, 425, 429) or status >= 500:
        kind = RateLimited if status == 429 else ServerError
        return kind(detail, http_status=status, retry_after=retry_after)
    if status == 408:
        return TimedOut(detail, http_status=status)
    if code == "content_filter":
        return ContentFiltered(detail, http_status=status)
    if status in (400, 413, 422) and (code == "context_length_exceeded" or _ABOUT_CONTEXT.search(said)):
        return ContextTooLong(detail, http_status=status)
    return BadRequest(detail, http_status=status)


def _refuses_format(error: LLMError, sent: Mapping[str, Any]) -> bool:
    return (
        isinstance(error, BadRequest)
        and error.http_status in (400, 422)
        and "response_format" in sent
        and _ABOUT_FORMAT.search(error.detail) is not None
    )


def _connection_error(failure: Any, api_key: str) -> LLMError:
    """The transport calls every lost connection a timeout; what really happened is further down the chain of causes."""
    from aiohttp import ClientConnectorError, ConnectionTimeoutError

    from generation.llm.transport import TooLong

    causes: list[BaseException] = []
    cause: BaseException | None = failure.__cause__
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    for refusal in causes:
        if isinstance(refusal, NotAllowed):
            return NotAllowed(refusal.detail)
        if isinstance(refusal, Forbidden):  # the request is known: it was about to be sent
            return NotAllowed(f"Host: {failure.request.url.host}. {refusal} Only MHB_ENDPOINT_HOSTS can allow it.")
    detail = clean(f"{type(causes[-1]).__name__}: {causes[-1]}" if causes else str(failure), api_key)
    if any(isinstance(cause, TooLong) for cause in (failure, *causes)):
        return BrokenReply(detail)
    if any(isinstance(cause, (ClientConnectorError, ConnectionTimeoutError)) for cause in causes):
        return NotReached(detail)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TimedOut(detail)
    return ConnectionCut(detail)


def _retry_after(header: str | None) -> float | None:
    """Seconds from a Retry-After header (RFC 9110: seconds or a date), a day at most; None where it says nothing usable."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_REST) if seconds < NO_REST else None  # nor for nan


def clean(text: str, api_key: str) -> str:
    """Error text fit for the ledger: without the key (cut only after it is gone), storable, not too long."""
    if api_key != NO_KEY:
        text = text.replace(api_key, "***")
    return storable(text)[:MAX_DETAIL]


def _without_key(reply: Reply, api_key: str) -> Reply:
    if len(api_key) < SECRET:
        return reply
    names = ("text", "reasoning", "finish_reason", "model")
    return replace(reply, **{name: getattr(reply, name).replace(api_key, "***") for name in names})


def _reply(body: Any) -> Reply:
    """The reply in a chat completion; ValueError where the body is none."""
    match body:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            pass
        case _:
            raise ValueError("no choices")
    content = message.get("content")
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, list):
        content, pondered = _parts(content)
    else:
        pondered = ""
    if not isinstance(content, str):
        raise ValueError("the content is no text")
    text, thought = split_reasoning(storable(content))
    said = message.get("reasoning_content") or message.get("reasoning")
    spoken = storable(said) if isinstance(said, str) else ""
    return Reply(
        text=text,
        reasoning="\n\n".join(part for part in (spoken, storable(pondered), thought) if part),
        finish_reason=_text(choice.get("finish_reason")),
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        usage=_usage(body),
    )


def _parts(content: Sequence[Any]) -> tuple[str, str]:
    """(text, reasoning) of a content that comes in parts; what is neither is left out."""
    said, thought = [], []
    for part in content:
        match part:
            case {"type": "thinking" | "reasoning", **more}:
                inner = more.get("thinking") or more.get("reasoning") or more.get("text")
                thought.append(_parts(inner)[0] if isinstance(inner, list) else inner if isinstance(inner, str) else "")
            case {"text": str(text)} | {"refusal": str(text)}:
                said.append(text)
    return "".join(said), "\n\n".join(each for each in thought if each)


def _usage(body: Any) -> Usage:
    return Usage(
        tokens_in=_count(body, "usage", "prompt_tokens"),
        tokens_out=_count(body, "usage", "completion_tokens"),
        tokens_cached=_count(body, "usage", "prompt_tokens_details", "cached_tokens"),
        tokens_reasoning=_count(body, "usage", "completion_tokens_details", "reasoning_tokens"),
    )


def _text(value: Any) -> str:
    return storable(value)[:200] if isinstance(value, str) else ""


def _count(value: Any, *path: str) -> int:
    """The token count at this path; 0 where the endpoint reports none or nonsense."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def _read_shape(reply: Reply, shape: type[Shape]) -> Shape:
    try:
        value = extract_json(reply.text)
        # By way of JSON, where strict still lets a string be an enum member and a list a tuple.
        return shape.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc']) or 'the object'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        ]
        raise BrokenReply("The JSON has another shape than asked for: " + "; ".join(problems) + ".") from None
    except BrokenReply as error:
        if reply.finish_reason == "length":
            raise BrokenReply(f"{error.detail} It was cut off at the token limit: be shorter.") from None
        raise
