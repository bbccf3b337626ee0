"""The batch protocol (files and batches), over the gateway's transport, keys and named errors."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from generation.llm.errors import BrokenReply, LLMError, ServerError, TimedOut
from generation.llm.gateway import Gateway
from generation.llm.http.failures import clean, client_failures, file_error, named_error, status_error
from generation.llm.parsing import storable
from generation.llm.reply_reading import billed, body_of, read_completion, read_error
from generation.llm.types import ModelSettings, Reply

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

PATH: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
MARK_KEY = "mhb"  # the key in a batch's metadata that holds our own name for it
TRANSFER_SECONDS = 600.0  # seconds for a whole file
MAX_RESULTS = 512 * 2**20  # bytes of a results file, decompressed
MAX_LINES = 100_000  # of a results file, unless the caller knows better
MAX_LISTED = 2_000  # batches searched for one of ours
MIN_TIME, MAX_TIME = 1_577_836_800, 4_102_444_800  # 2020 and 2100, in seconds since 1970
CLOCK_TOLERANCE = 3_600  # seconds by which the endpoint's clock may differ from ours
ENDED_STATUSES = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
UNSENT_CODES = frozenset({"batch_expired", "batch_cancelled"})  # error codes of lines that never reached a model

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A batch as described by its endpoint. `files`: the files with its results and errors."""

    id: str
    status: str
    created_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    files: tuple[str, ...]
    detail: str = ""

    @property
    def ended(self) -> bool:
        return self.status in ENDED_STATUSES


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line.

    `outcome` is None if the line never reached a model because it expired or was cancelled.
    """

    custom_id: str
    outcome: Reply | LLMError | None
    http_status: int | None = None


class BatchClient:
    """A client for the batch protocol of one endpoint.

    Every method raises LLMError: KeyMissing or BadRequest (no such address) before anything is
    sent.
    """

    def __init__(self, gateway: Gateway, settings: ModelSettings) -> None:
        self._settings = settings
        self._client, self._key = gateway.client(settings)
        self._http = gateway.http(settings)
        self._max_line = gateway.max_reply

    async def upload(self, name: str, lines: bytes) -> str:
        """Upload a file of requests (JSON Lines); returns its id at the endpoint."""
        file = (f"{name}.jsonl", lines, "application/jsonl")
        file_object = await self._call(
            lambda client: client.files.create(file=file, purpose="batch", timeout=TRANSFER_SECONDS), TRANSFER_SECONDS
        )
        return _id_of(file_object)

    async def rehearse(self, line: Mapping[str, Any], seconds: float) -> None:
        """Upload a file of one request, look for batches and delete the file: nothing is billed."""
        entry = {"custom_id": "test", "method": "POST", "url": PATH, "body": line}
        try:
            async with asyncio.timeout(seconds):
                file = await self.upload("mhb-test", json.dumps(entry).encode())
                try:
                    await self.look_up("mhb-test", datetime.now(UTC))
                finally:
                    with suppress(LLMError):
                        await self._call(lambda client: client.files.delete(file, timeout=seconds))
        except TimeoutError:
            raise TimedOut(f"No answer within {seconds:g} s.") from None

    async def create(self, file: str, mark: str) -> ProviderState:
        """Submit an uploaded file. `mark`: our own name, by which `look_up` finds it."""
        return await self._fetch_state(
            lambda client: client.batches.create(
                input_file_id=file,
                endpoint=PATH,
                completion_window=WINDOW,
                metadata={MARK_KEY: mark},
                timeout=self._settings.timeout,
            )
        )

    async def look_up(self, mark: str, since: datetime, file: str = "") -> ProviderState | None:
        """Find the batch with this mark or uploaded file among those created since then.

        Files are compared too, as some endpoints drop the metadata that holds the mark.
        """

        async def look(client: "AsyncOpenAI") -> ProviderState | None:
            number = 0
            async for batch in client.batches.list(limit=100, timeout=self._settings.timeout):  # newest first
                number += 1
                if number > MAX_LISTED:  # an error, as None would have the batch submitted again
                    raise ServerError(f"It lists more than {MAX_LISTED} batches.")
                marked = isinstance(batch.metadata, dict) and batch.metadata.get(MARK_KEY) == mark
                if marked or (file and getattr(batch, "input_file_id", None) == file):
                    return _parse_state(batch, self._key)
                created = _parse_time(batch.created_at)
                if created is None or created.timestamp() < since.timestamp() - CLOCK_TOLERANCE:
                    return None
            return None

        return await self._call(look, TRANSFER_SECONDS)

    async def state(self, batch: str) -> ProviderState:
        return await self._fetch_state(lambda client: client.batches.retrieve(batch, timeout=self._settings.timeout))

    async def cancel(self, batch: str) -> ProviderState:
        """Request cancellation; lines answered by then are still among the results."""
        return await self._fetch_state(lambda client: client.batches.cancel(batch, timeout=self._settings.timeout))

    async def results(self, file: str, max_lines: int = MAX_LINES) -> AsyncGenerator[LineResult | None]:
        """Stream the results of a file of any size; None for a line that cannot be read.

        A line may be as long as a completion. After `max_lines` lines or `MAX_RESULTS` bytes,
        reading ends with one more None.
        """
        response = await self._call(lambda _client: self._open(file))
        pieces, lines = response.aiter_bytes(), _Lines(self._max_line)
        left = TRANSFER_SECONDS  # seconds of reading, without the time that the caller needs between results
        number = 0
        try:
            while True:
                started = time.monotonic()
                try:
                    piece = await self._call(lambda _client: anext(pieces, b""), left)
                except BrokenReply:  # the file is too long
                    yield None
                    return
                left = max(0.001, left - (time.monotonic() - started))
                for line in lines.feed(piece):
                    number += 1
                    yield None if line is None or number > max_lines else self._parse_line(line)
                    if number > max_lines:
                        return
                if not piece:
                    return
        finally:
            await response.aclose()

    async def _open(self, file: str) -> "httpx2.Response":
        """Open a file at the endpoint for reading."""
        from generation.llm.http.transport import LIMIT, decode_text

        if not file.strip("."):
            raise ServerError("This is not a reply of the batch protocol: the file has no name.")
        http = self._http
        get = http.transport.build_request(
            "GET",
            f"{http.url}/files/{quote(file, safe='')}/content",
            headers=http.headers,
            timeout=TRANSFER_SECONDS,
            extensions={LIMIT: MAX_RESULTS},
        )
        response = await http.transport.send(get, stream=True)
        if response.is_success:
            return response
        try:
            piece = await anext(response.aiter_bytes(), b"")
        finally:
            await response.aclose()
        raise file_error(response, decode_text(piece, response.charset_encoding, MAX_RESULTS), self._key)

    def _parse_line(self, line: str) -> LineResult | None:
        """Parse a line of results.

        An unreadable result becomes a BrokenReply if its request can be identified, else None.
        """
        try:
            entry = body_of(line)
        except (ValueError, RecursionError, LLMError):
            return None
        name = entry.get("custom_id") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            return None
        try:
            return self._parse_result(name, entry.get("error"), entry.get("response"))
        except Exception as failure:  # one line must not lose the others, which are paid for
            log.exception("a result line could not be read")
            return LineResult(name, BrokenReply(f"This result cannot be read ({type(failure).__name__})."))

    def _parse_result(self, name: str, error: object, response: object) -> LineResult:
        said = [value for value in error.values() if value] if isinstance(error, dict) else []
        if said or (error and isinstance(error, str)):
            was_sent = not any(value in UNSENT_CODES for value in said if isinstance(value, str))
            return LineResult(name, read_error(error, self._key) if was_sent else None)
        match response:
            case {"status_code": int(status), "body": body}:
                if type(status) is not int or not 100 <= status <= 599:
                    return LineResult(name, ServerError("Its status is not an HTTP status."))
                return LineResult(name, self._parse_outcome(status, body), status)
        return LineResult(name, BrokenReply("This is not a result of the batch protocol."))

    def _parse_outcome(self, status: int, body: Any) -> Reply | LLMError:
        if status != 200:
            error = body.get("error") if isinstance(body, dict) else None
            code = error.get("code") if isinstance(error, dict) else None
            return status_error(status, error or body, code, self._key)
        try:
            return read_completion(body, status, self._key, self._settings)
        except ValueError:
            return billed(ServerError("Not a chat completion.", http_status=status), json.dumps(body))

    async def _fetch_state(self, work: "Callable[[AsyncOpenAI], Awaitable[Any]]") -> ProviderState:
        async def read(client: "AsyncOpenAI") -> ProviderState:
            return _parse_state(await work(client), self._key)

        return await self._call(read)

    async def _call(self, work: "Callable[[AsyncOpenAI], Awaitable[T]]", seconds: float | None = None) -> T:
        """Run a request and read its response. Every failure is raised as an LLMError."""
        seconds = seconds or self._settings.timeout
        error: LLMError
        try:
            async with asyncio.timeout(seconds):
                return await work(self._client)
        except LLMError:
            raise
        except client_failures() as failure:
            error = named_error(failure, self._key, seconds)
        except Exception as failure:  # a foreign body, as the client accepts any
            error = ServerError(f"This is not a reply of the batch protocol ({type(failure).__name__}).")
        raise error


class _Lines:
    """Splits a JSON Lines file that is fed in pieces.

    Empty lines are skipped; a line that is too long becomes None. Lines end only at a line feed:
    `str.splitlines`, which the client uses, also splits at U+2028 and similar characters, which may
    occur unescaped in JSON strings.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[str | None]:
        """Yield the lines that end in this piece; an empty piece is the last."""
        *ended, rest = piece.split(b"\n") if piece else (b"", b"")
        for end in ended:
            self._add(end)
            yield from self._end()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._max_line:
            self._parts.append(part)
        else:
            self._parts = []

    def _end(self) -> Iterator[str | None]:
        from generation.llm.http.transport import ReplyTooLong, decode_text

        line = b"".join(self._parts).removeprefix(b"\xef\xbb\xbf").strip()
        too_long = self._size > self._max_line
        self._parts, self._size = [], 0
        try:
            if too_long:
                yield None
            elif line:
                yield decode_text(line, None, self._max_line)
        except ReplyTooLong:
            yield None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parse_state(batch: Any, api_key: str) -> ProviderState:
    """Parse a batch without trust: the client accepts any body, and texts may quote the key."""
    errors = getattr(getattr(batch, "errors", None), "data", None)
    messages = [getattr(error, "message", None) for error in errors[:5]] if isinstance(errors, list) else []
    ends = [_parse_time(getattr(batch, f"{end}_at", None)) for end in ("completed", "expired", "cancelled", "failed")]
    files = [getattr(batch, f"{kind}_file_id", None) for kind in ("output", "error")]
    return ProviderState(
        id=_id_of(batch),
        status=clean(_text(getattr(batch, "status", None)), api_key)[:40].lower(),
        created_at=_parse_time(getattr(batch, "created_at", None)),
        ended_at=next((at for at in ends if at is not None), None),
        expires_at=_parse_time(getattr(batch, "expires_at", None)),
        files=tuple(file for file in dict.fromkeys(filter(None, map(_text, files))) if _is_id(file)),
        detail=clean("; ".join(filter(None, map(_text, messages))), api_key),
    )


def _id_of(value: object) -> str:
    """The id of an object of the protocol."""
    identifier = getattr(value, "id", None)
    if not _is_id(identifier):
        raise ServerError("This is not a reply of the batch protocol: it has no id.")
    return str(identifier)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and storable(value) == value


def _parse_time(value: object) -> datetime | None:
    """Parse a plausible time of a batch, which can be shown in any time zone; else None."""
    return datetime.fromtimestamp(value, UTC) if type(value) is int and MIN_TIME < value < MAX_TIME else None
