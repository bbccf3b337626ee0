"""The batch protocol (files and batches), over the gateway's transport, keys and named errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from generation.llm.errors import LLMError, ServerError
from generation.llm.gateway import Gateway, clean, client_failures, named, said, status_error
from generation.llm.parsing import storable
from generation.llm.types import ModelSettings, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PATH: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
MARK = "mhb"  # the key in a batch's metadata that holds our own name for it
TRANSFER = 600.0  # seconds for a whole file
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


class Door:
    """The batch protocol of one endpoint.

    Every method raises LLMError: KeyMissing or BadRequest (no such address) before anything is sent.
    """

    def __init__(self, gateway: Gateway, settings: ModelSettings) -> None:
        self._settings = settings
        self._client, self._key = gateway.client(settings)

    async def upload(self, name: str, lines: bytes) -> str:
        """Upload a file of requests (JSON Lines); returns its id there."""
        file = (f"{name}.jsonl", lines, "application/jsonl")
        found = await self._do(
            lambda client: client.files.create(file=file, purpose="batch", timeout=TRANSFER), TRANSFER
        )
        return _name(getattr(found, "id", None))

    async def create(self, file: str, mark: str) -> ProviderState:
        """Submit an uploaded file. `mark`: our own name, by which `look_up` finds it."""
        found = await self._do(
            lambda client: client.batches.create(
                input_file_id=file,
                endpoint=PATH,
                completion_window=WINDOW,
                metadata={MARK: mark},
                timeout=self._settings.timeout,
            )
        )
        return _state(found, self._key)

    async def look_up(self, mark: str, since: datetime, file: str = "") -> ProviderState | None:
        """The batch of this name, or of this uploaded file, among those made since then, if there is one.

        By the file too, as some endpoints drop the metadata in which the name stands.
        """

        async def look(client: "AsyncOpenAI") -> ProviderState | None:
            async for each in client.batches.list(limit=100, timeout=self._settings.timeout):  # newest first
                marked = isinstance(each.metadata, dict) and each.metadata.get(MARK) == mark
                if marked or (file and getattr(each, "input_file_id", None) == file):
                    return _state(each, self._key)
                made = _time(each.created_at)
                if made is None or made.timestamp() < since.timestamp() - LOOK_BACK:
                    return None
            return None

        return await self._do(look, TRANSFER)

    async def state(self, batch: str) -> ProviderState:
        found = await self._do(lambda client: client.batches.retrieve(batch, timeout=self._settings.timeout))
        return _state(found, self._key)

    async def cancel(self, batch: str) -> ProviderState:
        """Ask for its end; what was done by then will still be among its results."""
        found = await self._do(lambda client: client.batches.cancel(batch, timeout=self._settings.timeout))
        return _state(found, self._key)

    async def results(self, file: str) -> AsyncIterator[LineResult | None]:
        """The results in a file, one by one however large it is; None for a line that makes no sense."""
        error = None
        try:
            async with asyncio.timeout(TRANSFER):
                contents = self._client.files.with_streaming_response
                async with contents.content(file, timeout=TRANSFER) as response:
                    async for line in _lines(response.iter_bytes()):
                        yield self._result(line)
        except client_failures() as failure:
            error = named(failure, self._key, TRANSFER)
        if error is not None:  # raised here: its context would carry the HTTP request, and so the key
            raise error

    def _result(self, line: str) -> LineResult | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        match found:
            case {"custom_id": str(name), "error": {"code": code, **more}} if code:
                if code in UNASKED:
                    return LineResult(name, None)
                return LineResult(name, ServerError(clean(f"{code}: {more.get('message', '')}", self._key)))
            case {"custom_id": str(name), "response": {"status_code": int(status), "body": body}}:
                if type(status) is not int or not 100 <= status <= 599:
                    return LineResult(name, ServerError(f"{str(status)[:20]} is no HTTP status."))
                return LineResult(name, self._outcome(status, body), status)
        return None

    def _outcome(self, status: int, body: Any) -> Reply | LLMError:
        if status != 200:
            error = body.get("error") if isinstance(body, dict) else None
            code = error.get("code") if isinstance(error, dict) else None
            return status_error(status, error or body, code if isinstance(code, str) else None, self._key)
        try:
            return said(body, status, self._key)
        except ValueError:
            return ServerError("No chat completion.", http_status=status)

    async def _do(self, work: "Callable[[AsyncOpenAI], Awaitable[T]]", seconds: float | None = None) -> T:
        seconds = seconds or self._settings.timeout
        error: LLMError
        try:
            async with asyncio.timeout(seconds):
                return await work(self._client)
        except client_failures() as failure:
            error = named(failure, self._key, seconds)
        except (ValueError, AttributeError, TypeError) as failure:  # a body that is not of the protocol
            error = ServerError(f"This is no answer of the batch protocol ({type(failure).__name__}).")
        raise error


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of a JSON Lines file, without the empty ones.

    Those end at a line feed alone. `str.splitlines`, and so the client's own, ends them at U+2028 and its like as well, which
    may stand in a JSON string as they are.
    """
    begun: list[bytes] = []
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            if line := b"".join([*begun, end]).strip():
                yield line.decode("utf-8-sig", "replace")
            begun = []
        begun.append(rest)
    if line := b"".join(begun).strip():
        yield line.decode("utf-8-sig", "replace")


def _state(found: Any, api_key: str) -> ProviderState:
    """Read with suspicion: the client takes any body for a batch. Its words may quote the key."""
    errors = getattr(getattr(found, "errors", None), "data", None) or ()
    said = "; ".join(str(getattr(each, "message", each)) for each in list(errors)[:5])
    ends = [_time(getattr(found, f"{end}_at", None)) for end in ("completed", "expired", "cancelled", "failed")]
    files = [getattr(found, f"{kind}_file_id", None) for kind in ("output", "error")]
    return ProviderState(
        id=_name(getattr(found, "id", None)),
        status=clean(str(getattr(found, "status", None) or ""), api_key)[:40],
        created_at=_time(getattr(found, "created_at", None)),
        ended_at=next((at for at in ends if at is not None), None),
        expires_at=_time(getattr(found, "expires_at", None)),
        files=tuple(file for file in files if isinstance(file, str) and file),
        detail=clean(said, api_key)[:2_000],
    )


def _name(value: object) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= 200 and storable(value) == value):
        raise ServerError("This is no answer of the batch protocol (it has no id).")
    return value


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else None
    except (ValueError, OverflowError, OSError):
        return None
