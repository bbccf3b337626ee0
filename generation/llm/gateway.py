"""The gateway: asks models, owns all retries, waits for admission, and reports every HTTP attempt to the ledger."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from generation.llm.admission_control import REFUSALS, AdmissionControl
from generation.llm.errors import BadRequest, BrokenReply, CutShort, LaneOver, LLMError, NotReached, ServerError
from generation.llm.http.access import PLAIN, Access, check_address
from generation.llm.http.failures import (
    NO_KEY,
    clean,
    client_failures,
    named_error,
    refusal_of,
    refuses_format,
    unexpected,
)
from generation.llm.ledger_interface import Ledger, none
from generation.llm.parsing import storable, vectors_of
from generation.llm.reply_reading import Check, accepting, checked, read_completion, read_embeddings, read_shape
from generation.llm.request_body import (
    MAX_REPLY,
    Format,
    count_tokens,
    excerpt,
    identity,
    no_image,
    reply_limit,
    request_body,
    shows_kept,
    structured,
    with_image_data,
)
from generation.llm.types import Attempt, Message, ModelSettings, Reply, Request, Texts

if TYPE_CHECKING:  # a second to import: late
    import httpx2
    from openai import AsyncOpenAI

BACKOFF_BASE = 1.0  # seconds
BACKOFF_CAP = 60.0
CONNECT = 15.0  # seconds to make a connection: who has not answered by then will not, and nothing was sent
RECONNECT_CAP = 10.0  # seconds of back-off until the next try to make one, which costs nobody anything
REPLIES = 2  # of a structured call: the first, and one that has been shown its own error
ASK_AGAIN = "Your last reply cannot be used. %s Answer again with one JSON object as asked for, and nothing else."

Shape = TypeVar("Shape", bound=BaseModel)


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
    completion may have at most. `access`: which keys and addresses are allowed. `open_image`: media type and bytes of a kept
    image, else LookupError. `clock`, `sleep` are for tests; `on_news`: called when an endpoint asks to be left alone.
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
        open_image: Callable[[str], tuple[str, bytes]] = no_image,
    ) -> None:
        self._ledger = ledger
        self._open_image = open_image
        self._access = access
        self._attempts = attempts
        self.max_reply = max_reply
        self._clock, self._sleep = clock, sleep
        self._random = random or Random()
        self._on_news = on_news
        self._stack = AsyncExitStack()
        self._clients: dict[tuple[str, str], _Client] = {}
        self._gates: dict[tuple[str, str], AdmissionControl] = {}
        self._formats: dict[tuple[str, str], Format] = {}
        self._asking: dict[str, asyncio.Future[None]] = {}  # by identity

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def gate(self, settings: ModelSettings) -> AdmissionControl:
        """The gate before an endpoint, the same for all that ask it here."""
        gate = self._gates.get((settings.name, settings.url))
        if gate is None:
            gate = self._gates[settings.name, settings.url] = AdmissionControl(
                settings.concurrency,
                rpm=settings.rpm,
                tpm=settings.tpm,
                clock=self._clock,
                sleep=self._sleep,
                on_news=self._on_news,
            )
        return gate

    async def ask(
        self, settings: ModelSettings, request: Request, *, check: Check | None = None, ledger: Ledger | None = None
    ) -> Reply:
        """What the model says to this request, its text as it came (it may be empty, it may miss the schema).

        Raises:
            BrokenReply: `check` raised it, with a reason; the reply is not used again for the same request.
            LLMError: what the last attempt met; KeyMissing, NotAllowed or BadRequest (no such address) before any attempt;
                Postponed where it was put off by a gate or by the ledger, CutShort where attempts had failed by then.
        """
        return checked(await self._ask(settings, request, ledger, accepting(check)), check)

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
        if ledger.find is none:
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
                form = self._formats.get((settings.url, settings.model), Format.JSON_SCHEMA)
                body = request_body(settings, request, form)
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
            sent = request_body(settings, request, form)
            draft = Attempt(settings, request, sent, number, datetime.now(UTC), seconds=0.0, identity=name)
            try:
                outcome, counts = await self._attempt(gate, draft, api_key, ledger)
                if isinstance(outcome, Reply):
                    return outcome
                if refuses_format(outcome, sent):
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
            value = read_shape(reply, shape)
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
                    Message("assistant", excerpt(reply.text) or "(empty)"),
                    Message("user", ASK_AGAIN % error.detail),
                )
                request = replace(request, messages=request.messages + refused)
        raise ValueError("tries must be at least 1")

    async def _attempt(
        self, gate: AdmissionControl, draft: Attempt, api_key: str, ledger: Ledger
    ) -> tuple[Reply | LLMError, bool]:
        """One HTTP attempt and its line in the ledger; and whether, if it failed, that counts against the request.

        The error is returned and raised by the caller: raised where it is met, its context would carry the HTTP
        request, and so the key, to whatever prints or collects tracebacks.
        """
        ticket = await gate.enter(count_tokens(draft.request, draft.settings))
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
            outcome, status = unexpected(failure, api_key), None
        attempt = replace(attempt, seconds=time.monotonic() - clock, http_status=status)
        if isinstance(outcome, Reply):
            used = outcome.usage.tokens_in + outcome.usage.tokens_out
            counts = gate.leave(ticket, tokens=used or ticket.tokens)  # an endpoint that reports nothing: the estimate
            await ledger.write(replace(attempt, reply=outcome))
        else:
            # A format that it does not know is asked for once or twice, and tells nothing of what comes after.
            counts = gate.leave(ticket, None if refuses_format(outcome, draft.sent) else outcome)
            await ledger.write(replace(attempt, reply=outcome.reply, error=outcome.kind, detail=outcome.detail))
        return outcome, counts

    async def _send(self, draft: Attempt, api_key: str) -> tuple[Reply | LLMError, int | None]:
        """What came of one POST, and its HTTP status where there was an answer."""
        import httpx2

        from generation.llm.http.transport import LIMIT, TooLong, text_of

        settings, request = draft.settings, draft.request
        vectors = len(request.texts) if isinstance(request, Texts) else 0
        client = self._client(settings, api_key)
        url = client.url + ("/embeddings" if vectors else "/chat/completions")
        try:
            body = await self._body(draft.sent)
        except LookupError as missing:
            return BadRequest(f"The image {missing} is not kept here."), None
        limits = httpx2.Timeout(settings.timeout, connect=min(CONNECT, settings.timeout / 2))
        limit = reply_limit(settings, request, self.max_reply)
        failures = client_failures()
        try:
            # The client's own timeout is between two bytes; this one is for the whole answer.
            async with asyncio.timeout(settings.timeout):
                # By the client's transport, not by `chat.completions.create`: its models take any body for a completion, and
                # putting a request together costs it more than sending it (python -m bench.engine).
                post = client.transport.build_request(
                    "POST", url, content=body, headers=client.headers, timeout=limits, extensions={LIMIT: limit}
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
            error = named_error(failure, api_key, settings.timeout)
            return error, error.http_status
        status = response.status_code
        if not response.is_success:
            return refusal_of(response, text, api_key), status
        try:
            answer = json.loads(text)
            read = read_embeddings(answer, vectors, status) if vectors else read_completion(answer, status, api_key)
            return read, status
        except (ValueError, RecursionError):
            what = "No embeddings" if vectors else "No chat completion"
            return ServerError(f"{what}: {clean(text, api_key)}", http_status=status), status

    async def _body(self, sent: Mapping[str, Any]) -> bytes:
        """What goes over the wire: kept images as data URLs. LookupError where one is not there."""
        whole = await asyncio.to_thread(with_image_data, sent, self._open_image) if shows_kept(sent) else sent
        return json.dumps(whole).encode()

    def http(self, settings: ModelSettings) -> _Client:
        """How an endpoint is asked without the SDK. Raises KeyMissing, BadRequest: as `client`."""
        check_address(settings.url)
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
        check_address(settings.url)
        self._access.check_url(settings.url)
        return self._access.key(settings.key_env, settings.url) if settings.key_env else NO_KEY

    def _client(self, settings: ModelSettings, api_key: str) -> _Client:
        client = self._clients.get((settings.url, api_key))
        if client is None:
            from openai import AsyncOpenAI

            from generation.llm.http.transport import Transport

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
