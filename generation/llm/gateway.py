"""The gateway: calls models when admitted, owns all retries, reports attempts to the ledger."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from generation.llm.admission_control import ACCOUNT_ERRORS, AdmissionControl
from generation.llm.errors import (
    STOPPING_ERRORS,
    BadRequest,
    BrokenReply,
    ContentFiltered,
    ContextTooLong,
    CutShort,
    LaneOver,
    LLMError,
    NotReached,
    OtherService,
    ServerError,
    StillWriting,
    StreamsOnly,
    TimedOut,
    UnknownEnding,
)
from generation.llm.http.access import DEFAULT_ACCESS, Access, check_address
from generation.llm.http.failures import (
    NO_KEY,
    clean,
    client_failures,
    completion_error,
    may_be_the_format,
    named_error,
    unexpected_error,
)
from generation.llm.http.known_limits import KnownLimits
from generation.llm.ledger_interface import Ledger, PaidReply, no_paid_replies
from generation.llm.parsing import parse_vectors, storable
from generation.llm.provider_words import NO_ENDING, Ending
from generation.llm.reply_reading import (
    Check,
    billed,
    body_of,
    check_filled_in,
    check_not_empty,
    check_reply,
    classified,
    read_completion,
    read_embeddings,
    read_shape,
    sentence_error,
)
from generation.llm.request_body import (
    FORMAT_NAMES,
    MAX_REPLY,
    MOST_TOKENS,
    Format,
    build_body,
    count_tokens,
    effective,
    excerpt,
    identity,
    limit_of,
    no_stored_images,
    refers_to_stored_images,
    reply_limit,
    usage_of,
    with_image_data,
    with_schema,
)
from generation.llm.types import Attempt, Message, ModelSettings, Reply, Request, Texts, Usage

if TYPE_CHECKING:  # takes a second to import
    from generation.llm.http.transport import Client

BACKOFF_BASE = 1.0  # seconds
BACKOFF_CAP = 60.0
CONNECT_TIMEOUT = 15.0  # seconds to connect; an endpoint that takes longer will not answer, and nothing was sent
RECONNECT_CAP = 10.0  # seconds of back-off between tries to connect, which cost nothing
MAX_TIME_OUTS = 2  # of a request, after which its reply counts as cut off
MAX_STRUCTURED_REPLIES = 2  # the first one, and one after the model was shown its error
ASK_AGAIN = "Your last reply cannot be used. %s Answer again with one JSON object as asked for, and nothing else."

# Why a repair that was asked for may not come about: the reason for the repair then stands.
REPAIR_ERRORS = (BadRequest, BrokenReply, ContextTooLong, StillWriting, UnknownEnding)

Shape = TypeVar("Shape", bound=BaseModel)


def answered(reply: Reply) -> Reply:
    """The reply, if its ending counts as one. Raises UnknownEnding or ContentFiltered."""
    ending = f"The endpoint says: {reply.finish_reason or NO_ENDING}."
    if reply.ending == Ending.UNKNOWN:
        raise UnknownEnding(ending, reply=reply)
    if reply.ending == Ending.FILTERED:
        raise ContentFiltered(ending, reply=reply)
    return reply


Repair = Callable[[Reply, BrokenReply], Request | None]


def no_repair(_reply: Reply, _error: BrokenReply) -> Request | None:
    """No repair: a broken reply is asked for anew."""
    return None


def _repair(request: Request, settings: ModelSettings, reply: Reply, reason: str, most: int | None) -> Request | None:
    """The request that asks for a better reply; None if there is no room for one.

    `most`: the longest reply that the endpoint allows, if it is known.
    """
    if reply.ending != Ending.CUT_OFF:
        refused = Message("assistant", excerpt(reply.text) or "(empty)"), Message("user", ASK_AGAIN % reason)
        return replace(request, messages=request.messages + refused)
    used = effective(settings, request).max_tokens or MOST_TOKENS
    if settings.context_tokens:
        left = settings.context_tokens - reply.usage.tokens_in
    else:
        left = 2 * used
    more = min(2 * used, left, most or 2 * used)
    if more > used:
        return replace(request, max_tokens=more)
    return None


def _as_now_read(paid: PaidReply, settings: ModelSettings, request: Request | Texts) -> Reply:
    """A paid reply by what its endpoint says now of endings and of marks of reasoning."""
    if isinstance(request, Request):
        return classified(paid.reply, settings)
    return paid.reply


def _has_answer(
    replies: Sequence[PaidReply], settings: ModelSettings, request: Request, usable: Callable[[Reply], object]
) -> bool:
    """Whether the paid replies to a request answer it."""
    for paid in replies:
        found = _as_now_read(paid, settings, request)
        if found.ending in (Ending.FAILED, Ending.TOOL_CALL):
            continue
        if found.ending in (Ending.UNKNOWN, Ending.FILTERED):
            return False
        try:
            usable(found)
        except BrokenReply:
            continue
        return True
    return False


async def _leads_on(
    ledger: Ledger, settings: ModelSettings, repaired: Request | None, usable: Callable[[Reply], object]
) -> bool:
    """Whether a broken reply is worth its repair: one not asked for yet, or answered well."""
    if repaired is None:
        return False
    name = identity(settings, repaired)
    answers = await ledger.find(name)
    if answers:
        return _has_answer(answers, settings, repaired, usable)
    return not await ledger.refused(name)


@dataclass(eq=False)
class Gateway:
    """The door to models. One per event loop: ``async with Gateway(ledger) as gateway``.

    `ask` and `ask_structured` accept another ledger for a single call, to tie its attempts to a
    row. `max_reply`: the maximum bytes of a completion. `access`: the allowed keys and addresses.
    `open_image`: returns media type and bytes of a stored image or raises LookupError. `on_news`:
    called when admission control has news to share. `clock` and `sleep` are for tests.
    """

    ledger: Ledger | None = None
    _: KW_ONLY
    attempts: int = 5
    max_reply: int = MAX_REPLY
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = field(default_factory=Random)
    on_news: Callable[[], None] = lambda: None
    access: Access = DEFAULT_ACCESS
    open_image: Callable[[str], tuple[str, bytes]] = no_stored_images

    def __post_init__(self) -> None:
        self._stack = AsyncExitStack()
        self._checked_urls: set[str] = set()
        self._clients: dict[tuple[str, str], Client] = {}
        self._admissions: dict[tuple[str, str], AdmissionControl] = {}
        self._formats: dict[tuple[str, str], Format] = {}
        self._limits = KnownLimits()
        self._in_progress: dict[str, asyncio.Future[None]] = {}  # identity -> call in progress

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def admission(self, settings: ModelSettings) -> AdmissionControl:
        """The admission control of an endpoint, shared by all its callers here."""
        admission = self._admissions.get((settings.name, settings.url))
        if admission is None:
            admission = self._admissions[settings.name, settings.url] = AdmissionControl(
                settings.concurrency,
                rpm=settings.rpm,
                tpm=settings.tpm,
                clock=self.clock,
                sleep=self.sleep,
                on_news=self.on_news,
            )
        return admission

    async def ask(
        self, settings: ModelSettings, request: Request, *, check: Check | None = None, ledger: Ledger | None = None
    ) -> Reply:
        """The model's reply to this request, unchecked: it may be empty or not match the schema.

        Raises:
            BrokenReply: raised by `check` with a reason; the reply is not reused for this request.
            LLMError: the error of the last attempt; KeyMissing, NotAllowed or BadRequest (no such
                address) before any attempt; Postponed if admission control or the ledger put the
                call off, CutShort if attempts had failed by then.
        """

        def read(reply: Reply) -> None:
            check_not_empty(reply)
            check_reply(reply, check)

        return check_reply(await self._ask(settings, request, ledger, read), check)

    async def embed(
        self, settings: ModelSettings, texts: Sequence[str], *, ledger: Ledger | None = None
    ) -> tuple[tuple[float, ...], ...]:
        """Embed texts: one vector each, in their order, as 32-bit floats. No call without texts.

        Raises:
            BrokenReply: the number of vectors is wrong, lengths differ, or a value is not finite.
            LLMError: as `ask` does.
        """
        if not texts:
            return ()

        def read(reply: Reply) -> tuple[tuple[float, ...], ...]:
            return parse_vectors(reply.text, len(texts))

        return read(await self._ask(settings, Texts(tuple(map(storable, texts))), ledger, read))

    async def _ask(
        self,
        settings: ModelSettings,
        request: Request | Texts,
        ledger: Ledger | None,
        usable: Callable[[Reply], object],
        repair: Repair = no_repair,
    ) -> Reply:
        """The reply to a request, paid for once: a second call waits and finds it in the ledger.

        A paid reply that cannot be used is the reply if its `repair` was neither refused nor
        answered, or answered well: the lane was over, or its process killed, in between. Otherwise
        the model is asked anew.
        """
        try:
            client = self.client(settings)
        except STOPPING_ERRORS as error:
            self.admission(settings).mark_down(error.kind, error.detail)
            raise
        ledger = ledger or self.ledger
        if ledger is None:
            raise ValueError("a call needs a ledger")
        if isinstance(request, Request):
            request = effective(settings, request)
        name = identity(settings, request)
        if ledger.find is no_paid_replies:
            return answered(await self._pay(settings, request, client, name, ledger))
        while name in self._in_progress:
            await asyncio.wait([self._in_progress[name]])
        finished = self._in_progress[name] = asyncio.get_running_loop().create_future()
        try:
            for paid in await ledger.find(name):
                found = _as_now_read(paid, settings, request)
                if found.ending in (Ending.FAILED, Ending.TOOL_CALL):
                    continue
                try:
                    if found.ending not in (Ending.UNKNOWN, Ending.FILTERED):
                        usable(found)
                except BrokenReply as error:
                    if not await _leads_on(ledger, settings, repair(found, error), usable):
                        continue
                output_format = self._formats.get((settings.url, settings.model), Format.JSON_SCHEMA)
                body = build_body(settings, request, output_format)
                hit = Attempt(settings, request, body, 0, datetime.now(UTC), 0.0, identity=name, hit_of=paid.line)
                await ledger.write(replace(hit, reply=found))
                return answered(found)
            return answered(await self._pay(settings, request, client, name, ledger))
        finally:
            del self._in_progress[name]
            finished.set_result(None)

    async def _pay(
        self, settings: ModelSettings, request: Request | Texts, client: "Client", name: str, ledger: Ledger
    ) -> Reply:
        admission = self.admission(settings)
        endpoint = settings.url, settings.model
        pinned = FORMAT_NAMES.get(settings.output_format)
        asks_format = isinstance(request, Request) and request.schema is not None
        if asks_format and pinned is None and endpoint not in self._formats:
            known = await ledger.last_format(request.prompt)
            self._formats.setdefault(endpoint, known)
        number = out_of_reach = broken_replies = time_outs = 0
        lowered, remember, lowered_limit = Format.JSON_SCHEMA, False, False
        room = self._limits.longest_reply(settings)
        # Leave at least one attempt: earlier ones may have been probes, which count against nobody.
        failures_before = failures = min(await ledger.failures(name), self.attempts - 1)
        while True:
            number += 1
            learnt = pinned
            if learnt is None:
                learnt = self._formats.get(endpoint, Format.JSON_SCHEMA)
            output_format = max(learnt, lowered)
            sent = build_body(self._limits.applied(settings), request, output_format, room=room)
            draft = Attempt(settings, request, sent, number, datetime.now(UTC), seconds=0.0, identity=name)
            answered_before = admission.answered
            try:
                outcome, counts = await self._attempt(admission, draft, client, ledger)
                if isinstance(outcome, Reply):
                    if remember:  # without that format it succeeds, so the format was at fault
                        self._formats[endpoint] = max(output_format, self._formats.get(endpoint, output_format))
                    return outcome
                if not lowered_limit:
                    left = self._limits.learn(outcome, draft)
                    if left is not None:
                        room, lowered_limit = left, True
                        continue
                if may_be_the_format(outcome, sent, settings):
                    lowered, remember = Format(output_format + 1), True
                    continue
                failures += counts
                # An endpoint out of reach is retried until the breaker opens; then the row is
                # requeued unharmed.
                if isinstance(outcome, NotReached):
                    out_of_reach = out_of_reach + 1
                else:
                    out_of_reach = 0
                # Account errors are retried: they soon open the breaker, so that no row fails
                # because of them. Permanent errors of the row's own content are final.
                is_final = outcome.permanent and not isinstance(outcome, ACCOUNT_ERRORS)
                if isinstance(outcome, BrokenReply) and not broken_replies:  # billed, so only one retry
                    broken_replies, is_final = 1, False
                    if outcome.about_model and asks_format and pinned is None:
                        lowered = Format.TEXT  # this once, the endpoint need not check it
                if type(outcome) is TimedOut and outcome.http_status is None:
                    # Not of an endpoint that fell silent: it had answered, and now fails all alike.
                    is_silent = admission.answered == answered_before > 0 and admission.failures > time_outs + 1
                    time_outs += counts and not is_silent
                    if time_outs >= MAX_TIME_OUTS:
                        raise StillWriting(outcome.detail)
                if is_final or failures >= self.attempts:
                    raise outcome
                if out_of_reach:
                    backoff = self._delay(out_of_reach, RECONNECT_CAP)
                else:
                    backoff = self._delay(failures)
                if not admission.is_away and (delay := admission.blocked_for + backoff):
                    await admission.back_off(delay)
            except LaneOver:
                if failures > failures_before:
                    raise CutShort from None
                raise

    async def ask_structured(
        self,
        settings: ModelSettings,
        request: Request,
        shape: type[Shape],
        *,
        check: Callable[[Shape], None] | None = None,
        tries: int = MAX_STRUCTURED_REPLIES,
        ledger: Ledger | None = None,
    ) -> tuple[Reply, Shape]:
        """The model's reply and the value of type `shape` in it.

        A reply that is not JSON, does not match the shape (strictly: ``"true"`` is not a boolean)
        or is refused by `check` (which raises BrokenReply with a reason) is sent back to the model
        with that reason, up to `tries` replies in all. One that was cut off is asked for once more
        with more room, never with a longer prompt. If that fails too, the first reason stands.

        Raises:
            BrokenReply: with the reason and the last reply.
            LLMError: as `ask` does.
        """
        asked = request = with_schema(request, shape)

        def read(reply: Reply) -> Shape:
            value = read_shape(reply, shape)
            check_filled_in(asked, value)
            if check is not None:
                check(value)
            return value

        def repair(reply: Reply, error: BrokenReply) -> Request | None:
            known, longest = self._limits.applied(settings), self._limits.longest_reply(settings)
            return _repair(request, known, reply, error.detail, longest)

        first: BrokenReply | None = None  # the reason that stands if the repair cannot be made
        for left in reversed(range(tries)):
            may_repair: Repair = no_repair
            if left:
                may_repair = repair
            try:
                reply = await self._ask(settings, request, ledger, read, may_repair)
            except REPAIR_ERRORS as error:
                raise first or error from None
            try:
                return reply, read(reply)
            except BrokenReply as error:
                error.reply = reply
                if first is None or first.reply is None or first.reply.ending != Ending.CUT_OFF:
                    first = error
            repaired = may_repair(reply, first)
            if repaired is None:
                raise first
            request = repaired
        raise ValueError("tries must be at least 1")

    async def _attempt(
        self, admission: AdmissionControl, draft: Attempt, client: "Client", ledger: Ledger
    ) -> tuple[Reply | LLMError, bool]:
        """Make one HTTP attempt and write its line: the outcome, and whether a failure counts.

        An error is returned for the caller to raise: raised where it occurs, its context would
        carry the HTTP request, and so the key, to whatever prints or collects tracebacks.
        """
        ticket = await admission.enter(count_tokens(draft.request, draft.settings))
        try:
            await ledger.check()
        except BaseException:
            admission.withdraw(ticket)
            raise
        clock = time.monotonic()
        attempt = replace(draft, started_at=datetime.now(UTC))
        try:
            outcome, status = await self._send(draft, client)
        except asyncio.CancelledError:
            admission.withdraw(ticket)
            # The endpoint may well finish the answer and bill it.
            await ledger.write(replace(attempt, seconds=time.monotonic() - clock, error="Cancelled"))
            raise
        except Exception as failure:  # a bug of ours, but the call was made and is counted
            outcome, status = unexpected_error(failure, client.key), None
        if isinstance(outcome, Reply):
            reply: Reply | None = outcome
        else:
            reply = outcome.reply
        attempt = replace(attempt, seconds=time.monotonic() - clock, http_status=status, reply=reply)
        if isinstance(outcome, Reply):
            used = usage_of(attempt)
            counts = admission.leave(ticket, tokens=used.tokens_in + used.tokens_out)
            await ledger.write(attempt)
        else:
            if may_be_the_format(outcome, draft.sent, draft.settings):
                admission.withdraw(ticket)  # it says nothing about calls without that format
                counts = False
            else:
                counts = admission.leave(ticket, outcome)
            await ledger.write(replace(attempt, error=outcome.kind, detail=outcome.detail))
        return outcome, counts

    async def _send(self, draft: Attempt, client: "Client") -> tuple[Reply | LLMError, int | None]:
        """Send one POST; returns its outcome, and the HTTP status if there was a response."""
        import httpx2

        from generation.llm.http.transport import ReplyTooLong

        settings, request, body = draft.settings, draft.request, draft.sent
        place, vector_count = "/chat/completions", 0
        if isinstance(request, Texts):
            place, vector_count = "/embeddings", len(request.texts)
        if refers_to_stored_images(body):
            try:
                body = await asyncio.to_thread(with_image_data, body, self.open_image)
            except LookupError as missing:
                return BadRequest(f"The image {missing} is not stored here."), None
        timeout = httpx2.Timeout(settings.timeout, connect=min(CONNECT_TIMEOUT, settings.timeout / 2))
        limit = reply_limit(settings, request, self.max_reply)
        failures = client_failures()
        try:
            # The client's own timeout is between two bytes; this one covers the whole response.
            async with asyncio.timeout(settings.timeout):
                response, text = await client.fetch(
                    "POST",
                    place,
                    content=json.dumps(body).encode(),
                    timeout=timeout,
                    limit=limit,
                )
        except ReplyTooLong as failure:
            too_long = BrokenReply(str(failure), http_status=failure.response.status_code)
            if failure.response.is_success and not vector_count:  # billed, though nobody read what for
                too_long.reply = Reply("", usage=Usage(tokens_out=limit_of(draft.sent) or MOST_TOKENS))
            return too_long, too_long.http_status
        except failures as failure:
            error = named_error(failure, client.key, settings.timeout)
            return error, error.http_status
        status = response.status_code
        if not response.is_success:
            return self._failure(response, text, client.key, settings), status
        try:
            answer = body_of(text)
            if vector_count:
                return read_embeddings(answer, vector_count, status, client.key), status
            return read_completion(answer, status, client.key, settings), status
        except (StreamsOnly, OtherService, BrokenReply) as error:
            error.detail = clean(error.detail, client.key)
            unread: LLMError = error
        except (ValueError, RecursionError):
            what = "Not a chat completion"
            if vector_count:
                what = "No embeddings"
            unread = sentence_error(text, client.key) or ServerError(
                f"{what}: {clean(text, client.key)}", http_status=status
            )
        return billed(unread, text), status

    @staticmethod
    def _failure(response: Any, text: str, key: str, settings: ModelSettings) -> LLMError:
        """The error of a failed response, which may hold a completion that a filter stopped."""
        if '"choices"' in text:
            with suppress(LLMError, ValueError, RecursionError):
                stopped = read_completion(body_of(text), response.status_code, key, settings)
                if isinstance(stopped, ContentFiltered):
                    return stopped
        return completion_error(response, text, key)

    def client(self, settings: ModelSettings) -> "Client":
        """The client for an endpoint, with its key, which must be kept out of all messages.

        Raises KeyMissing, NotAllowed, BadRequest: as `ask` does before any attempt.
        """
        if settings.url not in self._checked_urls:
            check_address(settings.url)
            self.access.check_url(settings.url)
            self._checked_urls.add(settings.url)
        key = NO_KEY
        if settings.key_env:
            key = self.access.key(settings.key_env, settings.url)
        client = self._clients.get((settings.url, key))
        if client is None:
            from generation.llm.http.transport import Client, Transport

            client = Client(Transport(self.access), settings.url.rstrip("/"), key)
            self._clients[settings.url, key] = client
            self._stack.push_async_callback(client.transport.aclose)
        return client

    def _delay(self, failures: int, cap: float = BACKOFF_CAP) -> float:
        """Seconds to wait before a retry: exponential back-off with full jitter."""
        backoff = min(cap, BACKOFF_BASE * 2.0 ** max(0, failures - 1))
        return self.random.uniform(0.0, backoff)
