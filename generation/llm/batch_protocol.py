"""The batch protocol (files and batches), over the gateway's transport, keys and named errors."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from generation.llm.errors import BrokenReply, LLMError, ServerError, TimedOut
from generation.llm.gateway import Gateway
from generation.llm.http.failures import body_error, clean, client_failures, file_error, named_error
from generation.llm.parsing import storable
from generation.llm.reply_reading import billed, body_of, read_completion, read_error
from generation.llm.types import ModelSettings, Reply

if TYPE_CHECKING:
    import httpx2

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
        self._client = gateway.client(settings)
        self._max_line = gateway.max_reply

    async def upload(self, name: str, lines: bytes) -> str:
        """Upload a file of requests (JSON Lines); returns its id at the endpoint."""
        file = {"file": (f"{name}.jsonl", lines, "application/jsonl")}
        return _id_of(await self._ask("POST", "/files", TRANSFER_SECONDS, data={"purpose": "batch"}, files=file))

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
                        await self._ask("DELETE", f"/files/{quote(file, safe='')}", seconds)
        except TimeoutError:
            raise TimedOut(f"No answer within {seconds:g} s.") from None

    async def create(self, file: str, mark: str) -> ProviderState:
        """Submit an uploaded file. `mark`: our own name, by which `look_up` finds it."""
        batch = {
            "input_file_id": file,
            "endpoint": PATH,
            "completion_window": WINDOW,
            "metadata": {MARK_KEY: mark},
        }
        return _parse_state(await self._ask("POST", "/batches", content=json.dumps(batch).encode()), self._client.key)

    async def look_up(self, mark: str, since: datetime, file: str = "") -> ProviderState | None:
        """Find the batch with this mark or uploaded file among those created since then.

        Files are compared too, as some endpoints drop the metadata that holds the mark.
        """
        return await self._call(self._found(mark, since, file), TRANSFER_SECONDS)

    async def _found(self, mark: str, since: datetime, file: str) -> ProviderState | None:
        number, after = 0, dict[str, str]()
        while True:
            page = await self._ask("GET", "/batches", params={"limit": 100, **after})
            listed = page.get("data", "")
            if listed is None:  # as some servers write an empty list
                return None
            if not isinstance(listed, list) or not all(isinstance(batch, dict) for batch in listed):
                raise ServerError("This is not a reply of the batch protocol: it lists no batches.")
            for batch in listed:  # newest first
                number += 1
                if number > MAX_LISTED:  # an error, as None would have the batch submitted again
                    raise ServerError(f"It lists more than {MAX_LISTED} batches.")
                metadata = batch.get("metadata")
                marked = isinstance(metadata, dict) and metadata.get(MARK_KEY) == mark
                if marked or (file and batch.get("input_file_id") == file):
                    return _parse_state(batch, self._client.key)
                created = _parse_time(batch.get("created_at"))
                if created is None or created.timestamp() < since.timestamp() - CLOCK_TOLERANCE:
                    return None
            if not listed or page.get("has_more") is False:
                return None
            after = {"after": _id_of(listed[-1])}

    async def state(self, batch: str) -> ProviderState:
        return _parse_state(await self._ask("GET", f"/batches/{quote(batch, safe='')}"), self._client.key)

    async def cancel(self, batch: str) -> ProviderState:
        """Request cancellation; lines answered by then are still among the results."""
        return _parse_state(await self._ask("POST", f"/batches/{quote(batch, safe='')}/cancel"), self._client.key)

    async def results(self, file: str, max_lines: int = MAX_LINES) -> AsyncGenerator[LineResult | None]:
        """Stream the results of a file of any size; None for a line that cannot be read.

        A line may be as long as a completion. After `max_lines` lines or `MAX_RESULTS` bytes,
        reading ends with one more None.
        """
        response = await self._call(self._open(file), self._settings.timeout)
        pieces, lines = response.aiter_bytes(), _Lines(self._max_line)
        left = TRANSFER_SECONDS  # seconds of reading, without the time that the caller needs between results
        number = 0
        try:
            while True:
                started = time.monotonic()
                try:
                    piece = await self._call(anext(pieces, b""), left)
                except BrokenReply:  # the file is too long
                    yield None
                    return
                left = max(0.001, left - (time.monotonic() - started))
                for line in lines.feed(piece):
                    number += 1
                    if number > max_lines:
                        yield None
                        return
                    if line is None:
                        yield None
                    else:
                        yield self._parse_line(line)
                if not piece:
                    return
        finally:
            await response.aclose()

    async def _open(self, file: str) -> "httpx2.Response":
        """Open a file at the endpoint for reading."""
        from generation.llm.http.transport import decode_text

        if not file.strip("."):
            raise ServerError("This is not a reply of the batch protocol: the file has no name.")
        place = f"/files/{quote(file, safe='')}/content"
        response = await self._client.open("GET", place, limit=MAX_RESULTS, timeout=TRANSFER_SECONDS)
        if response.is_success:
            return response
        try:
            piece = await anext(response.aiter_bytes(), b"")
        finally:
            await response.aclose()
        raise file_error(response, decode_text(piece, response.charset_encoding, MAX_RESULTS), self._client.key)

    def _parse_line(self, line: str) -> LineResult | None:
        """Parse a line of results.

        An unreadable result becomes a BrokenReply if its request can be identified, else None.
        """
        try:
            entry = body_of(line)
        except (ValueError, RecursionError, LLMError):
            return None
        name = None
        if isinstance(entry, dict):
            name = entry.get("custom_id")
        if not isinstance(name, str):
            return None
        try:
            return self._parse_result(name, entry.get("error"), entry.get("response"))
        except Exception as failure:  # one line must not lose the others, which are paid for
            log.exception("a result line could not be read")
            return LineResult(name, BrokenReply(f"This result cannot be read ({type(failure).__name__})."))

    def _parse_result(self, name: str, error: object, response: object) -> LineResult:
        values = []
        if isinstance(error, dict):
            values = [value for value in error.values() if value]
        if values or (error and isinstance(error, str)):
            if any(isinstance(value, str) and value in UNSENT_CODES for value in values):
                return LineResult(name, None)
            return LineResult(name, read_error(error, self._client.key))
        match response:
            case {"status_code": int(status), "body": body}:
                if type(status) is not int or not 100 <= status <= 599:
                    return LineResult(name, ServerError("Its status is not an HTTP status."))
                return LineResult(name, self._parse_outcome(status, body), status)
        return LineResult(name, BrokenReply("This is not a result of the batch protocol."))

    def _parse_outcome(self, status: int, body: Any) -> Reply | LLMError:
        if status != 200:
            return body_error(status, body, self._client.key, {})
        try:
            return read_completion(body, status, self._client.key, self._settings)
        except ValueError:
            return billed(ServerError("Not a chat completion.", http_status=status), json.dumps(body))

    async def _ask(self, method: str, place: str, seconds: float | None = None, **request: Any) -> dict[str, Any]:
        """The JSON object that answers a request."""
        seconds = seconds or self._settings.timeout

        async def answer() -> dict[str, Any]:
            response, text = await self._client.fetch(method, place, timeout=seconds, **request)
            if not response.is_success:
                raise file_error(response, text, self._client.key)
            body = json.loads(text)
            if not isinstance(body, dict):
                raise ServerError("This is not a reply of the batch protocol: it is no JSON object.")
            return body

        return await self._call(answer(), seconds)

    async def _call(self, work: Awaitable[T], seconds: float) -> T:
        """Wait for a response. Every failure is raised as an LLMError."""
        error: LLMError
        try:
            async with asyncio.timeout(seconds):
                return await work
        except LLMError:
            raise
        except client_failures() as failure:
            error = named_error(failure, self._client.key, seconds)
        except Exception as failure:  # a foreign body
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
        *ended, rest = piece.split(b"\n")
        if not piece:
            ended = [b""]
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
    if isinstance(value, str):
        return value
    return ""


def _parse_state(batch: Mapping[str, Any], api_key: str) -> ProviderState:
    """Parse a batch without trust: its texts may quote the key."""
    errors = batch.get("errors")
    listed = None
    if isinstance(errors, dict):
        listed = errors.get("data")
    messages = []
    if isinstance(listed, list):
        messages = [error.get("message") for error in listed[:5] if isinstance(error, dict)]
    ended_at = None
    for end in ("completed", "expired", "cancelled", "failed"):
        ended_at = ended_at or _parse_time(batch.get(f"{end}_at"))
    files = []
    for kind in ("output", "error"):
        file = _text(batch.get(f"{kind}_file_id"))
        if file and _is_id(file) and file not in files:
            files.append(file)
    return ProviderState(
        id=_id_of(batch),
        status=clean(_text(batch.get("status")), api_key)[:40].lower(),
        created_at=_parse_time(batch.get("created_at")),
        ended_at=ended_at,
        expires_at=_parse_time(batch.get("expires_at")),
        files=tuple(files),
        detail=clean("; ".join(filter(None, map(_text, messages))), api_key),
    )


def _id_of(value: Mapping[str, Any]) -> str:
    """The id of an object of the protocol."""
    identifier = value.get("id")
    if not _is_id(identifier):
        raise ServerError("This is not a reply of the batch protocol: it has no id.")
    return str(identifier)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and storable(value) == value


def _parse_time(value: object) -> datetime | None:
    """Parse a plausible time of a batch, which can be shown in any time zone; else None."""
    if type(value) is int and MIN_TIME < value < MAX_TIME:
        return datetime.fromtimestamp(value, UTC)
    return None
