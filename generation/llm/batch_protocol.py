"""The batch protocol (files and batches), over the gateway's transport, keys and named errors."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from generation.llm.errors import BrokenReply, LLMError, ServerError
from generation.llm.gateway import Gateway
from generation.llm.http.failures import clean, client_failures, file_refused, named_error, status_error
from generation.llm.parsing import storable
from generation.llm.reply_reading import read_completion
from generation.llm.types import ModelSettings, Reply

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

PATH: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
MARK = "mhb"  # the key in a batch's metadata that holds our own name for it
TRANSFER = 600.0  # seconds for a whole file
MAX_RESULTS = 512 * 2**20  # bytes of a file of results, unpacked
MOST_LINES = 100_000  # of it, unless more is known
MOST_LISTED = 2_000  # batches that are looked through for one of ours
SOONEST, LATEST = 1_577_836_800, 4_102_444_800  # 2020 and 2100, in seconds since 1970
LOOK_BACK = 3_600  # seconds by which the endpoint's clock may differ from ours
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
UNASKED = frozenset({"batch_expired", "batch_cancelled"})  # codes of lines that never got to a model

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A batch as its endpoint tells of it. `files`: those with its results, good ones and errors."""

    id: str
    status: str
    created_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    files: tuple[str, ...]
    detail: str = ""

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class LineResult:
    """What came of one line. `outcome` is None where the line was never put to a model: it expired or was cancelled."""

    custom_id: str
    outcome: Reply | LLMError | None
    http_status: int | None = None


class BatchClient:
    """The batch protocol of one endpoint.

    Every method raises LLMError: KeyMissing or BadRequest (no such address) before anything is sent.
    """

    def __init__(self, gateway: Gateway, settings: ModelSettings) -> None:
        self._settings = settings
        self._client, self._key = gateway.client(settings)
        self._http = gateway.http(settings)
        self._longest = gateway.max_reply

    async def upload(self, name: str, lines: bytes) -> str:
        """Upload a file of requests (JSON Lines); returns its id there."""
        file = (f"{name}.jsonl", lines, "application/jsonl")
        found = await self._do(
            lambda client: client.files.create(file=file, purpose="batch", timeout=TRANSFER), TRANSFER
        )
        return _name(found)

    async def create(self, file: str, mark: str) -> ProviderState:
        """Submit an uploaded file. `mark`: our own name, by which `look_up` finds it."""
        return await self._told(
            lambda client: client.batches.create(
                input_file_id=file,
                endpoint=PATH,
                completion_window=WINDOW,
                metadata={MARK: mark},
                timeout=self._settings.timeout,
            )
        )

    async def look_up(self, mark: str, since: datetime, file: str = "") -> ProviderState | None:
        """The batch of this name, or of this uploaded file, among those made since then, if there is one.

        By the file too, as some endpoints drop the metadata in which the name stands.
        """

        async def look(client: "AsyncOpenAI") -> ProviderState | None:
            number = 0
            async for each in client.batches.list(limit=100, timeout=self._settings.timeout):  # newest first
                number += 1
                if number > MOST_LISTED:  # not the same as 'there is none': that would have it submitted again
                    raise ServerError(f"It lists more than {MOST_LISTED} batches.")
                marked = isinstance(each.metadata, dict) and each.metadata.get(MARK) == mark
                if marked or (file and getattr(each, "input_file_id", None) == file):
                    return _state(each, self._key)
                made = _time(each.created_at)
                if made is None or made.timestamp() < since.timestamp() - LOOK_BACK:
                    return None
            return None

        return await self._do(look, TRANSFER)

    async def state(self, batch: str) -> ProviderState:
        return await self._told(lambda client: client.batches.retrieve(batch, timeout=self._settings.timeout))

    async def cancel(self, batch: str) -> ProviderState:
        """Ask for its end; what was done by then will still be among its results."""
        return await self._told(lambda client: client.batches.cancel(batch, timeout=self._settings.timeout))

    async def results(self, file: str, most: int = MOST_LINES) -> AsyncGenerator[LineResult | None]:
        """The results in a file, one by one however large it is; None for a line that makes no sense.

        A line may be as long as a completion. What is more than `most` lines or `MAX_RESULTS` bytes is not read: it ends there
        with one more None.
        """
        response = await self._do(lambda _client: self._open(file))
        pieces, lines = response.aiter_bytes(), _Lines(self._longest)
        left = TRANSFER  # seconds of reading: what is done with the results in between takes its own time
        number = 0
        try:
            while True:
                began = time.monotonic()
                try:
                    piece = await self._do(lambda _client: anext(pieces, b""), left)
                except BrokenReply:  # longer than it may be
                    yield None
                    return
                left = max(0.001, left - (time.monotonic() - began))
                for line in lines.feed(piece):
                    number += 1
                    yield None if line is None or number > most else self._result(line)
                    if number > most:
                        return
                if not piece:
                    return
        finally:
            await response.aclose()

    async def _open(self, file: str) -> "httpx2.Response":
        """A file there, about to be read."""
        from generation.llm.http.transport import LIMIT, text_of

        if not file.strip("."):
            raise ServerError("This is no answer of the batch protocol (a file without a name).")
        http = self._http
        get = http.transport.build_request(
            "GET",
            f"{http.url}/files/{quote(file, safe='')}/content",
            headers=http.headers,
            timeout=TRANSFER,
            extensions={LIMIT: MAX_RESULTS},
        )
        response = await http.transport.send(get, stream=True)
        if response.is_success:
            return response
        try:
            piece = await anext(response.aiter_bytes(), b"")
        finally:
            await response.aclose()
        raise file_refused(response, text_of(piece, response.charset_encoding, MAX_RESULTS), self._key)

    def _result(self, line: str) -> LineResult | None:
        """What a line says. Whatever stands in it, it is a result: a broken one where it can be told whose, else None."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        name = found.get("custom_id") if isinstance(found, dict) else None
        if not isinstance(name, str):
            return None
        try:
            return self._read(name, found.get("error"), found.get("response"))
        except Exception as failure:  # one line is no reason to lose the others, which are paid for
            log.exception("a result line could not be read")
            return LineResult(name, BrokenReply(f"This result cannot be read ({type(failure).__name__})."))

    def _read(self, name: str, error: object, response: object) -> LineResult:
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(error, dict) and isinstance(code, str) and code:
            if code in UNASKED:
                return LineResult(name, None)
            return LineResult(name, ServerError(clean(f"{code}: {_short(error.get('message'))}", self._key)))
        match response:
            case {"status_code": int(status), "body": body} if not code:
                if type(status) is not int or not 100 <= status <= 599:
                    return LineResult(name, ServerError("Its status is no HTTP status."))
                return LineResult(name, self._outcome(status, body), status)
        return LineResult(name, BrokenReply("This result is none of the batch protocol."))

    def _outcome(self, status: int, body: Any) -> Reply | LLMError:
        if status != 200:
            error = body.get("error") if isinstance(body, dict) else None
            code = error.get("code") if isinstance(error, dict) else None
            return status_error(status, error or body, code, self._key)
        try:
            return read_completion(body, status, self._key)
        except ValueError:
            return ServerError("No chat completion.", http_status=status)

    async def _told(self, work: "Callable[[AsyncOpenAI], Awaitable[Any]]") -> ProviderState:
        async def read(client: "AsyncOpenAI") -> ProviderState:
            return _state(await work(client), self._key)

        return await self._do(read)

    async def _do(self, work: "Callable[[AsyncOpenAI], Awaitable[T]]", seconds: float | None = None) -> T:
        """Do something there, and read what came of it. Whatever it meets is raised as an LLMError."""
        seconds = seconds or self._settings.timeout
        error: LLMError
        try:
            async with asyncio.timeout(seconds):
                return await work(self._client)
        except LLMError:
            raise
        except client_failures() as failure:
            error = named_error(failure, self._key, seconds)
        except Exception as failure:  # a body that is not of the protocol: the client takes any for one
            error = ServerError(f"This is no answer of the batch protocol ({type(failure).__name__}).")
        raise error


class _Lines:
    """The lines of a JSON Lines file, fed in pieces, without the empty ones; None for one that is longer than it may be.

    Those end at a line feed alone. `str.splitlines`, and so the client's own, ends them at U+2028 and its like as well, which
    may stand in a JSON string as they are.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[str | None]:
        """What has ended with this piece; an empty one is the last."""
        *ended, rest = piece.split(b"\n") if piece else (b"", b"")
        for end in ended:
            self._add(end)
            yield from self._end()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._longest:
            self._begun.append(part)
        else:
            self._begun = []

    def _end(self) -> Iterator[str | None]:
        from generation.llm.http.transport import TooLong, text_of

        line = b"".join(self._begun).removeprefix(b"\xef\xbb\xbf").strip()
        too_long = self._size > self._longest
        self._begun, self._size = [], 0
        try:
            if too_long:
                yield None
            elif line:
                yield text_of(line, None, self._longest)
        except TooLong:
            yield None


def _short(value: object) -> str:
    return value if isinstance(value, str) else ""


def _state(found: Any, api_key: str) -> ProviderState:
    """Read with suspicion: the client takes any body for a batch. Its words may quote the key."""
    errors = getattr(getattr(found, "errors", None), "data", None)
    said = [getattr(each, "message", None) for each in errors[:5]] if isinstance(errors, list) else []
    ends = [_time(getattr(found, f"{end}_at", None)) for end in ("completed", "expired", "cancelled", "failed")]
    files = [getattr(found, f"{kind}_file_id", None) for kind in ("output", "error")]
    return ProviderState(
        id=_name(found),
        status=clean(_short(getattr(found, "status", None)), api_key)[:40],
        created_at=_time(getattr(found, "created_at", None)),
        ended_at=next((at for at in ends if at is not None), None),
        expires_at=_time(getattr(found, "expires_at", None)),
        files=tuple(file for file in dict.fromkeys(filter(None, map(_short, files))) if _is_name(file)),
        detail=clean("; ".join(filter(None, map(_short, said))), api_key),
    )


def _name(found: object) -> str:
    """The id of what was told of."""
    name = getattr(found, "id", None)
    if not _is_name(name):
        raise ServerError("This is no answer of the batch protocol (it has no id).")
    return str(name)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and storable(value) == value


def _time(value: object) -> datetime | None:
    """A time that can be one of a batch, and be shown anywhere in the world."""
    return datetime.fromtimestamp(value, UTC) if type(value) is int and SOONEST < value < LATEST else None
