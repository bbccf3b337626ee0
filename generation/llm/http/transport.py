"""The HTTP client below the gateway. What endpoints send is not trusted: it is unpacked piece by piece, up to a limit."""

import ssl
import zlib
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import aiohttp
import httpx2
from openai import DefaultAioHttpClient

from generation.llm.errors import NotAllowed
from generation.llm.http.access import PLAIN, Access, Guard

LIMIT = "mhb_limit"  # the extension of a request that says how many bytes may come back
MAX_BODY = 8 * 2**20  # bytes, where a request does not say: what is told of files and batches
PIECE = 2**16  # bytes that are unpacked at a time

# By the names that a header may give. Others (hex, zlib, idna, punycode, ...) are transformations, or take very long.
CHARSETS = frozenset(
    ["utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be", "utf-32", "koi8-r"]
    + ["gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr"]
    + [f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))]
    + [f"windows-125{part}" for part in range(9)]
)


@cache
def ssl_context() -> ssl.SSLContext:
    """Trusts the certificate authorities of this machine (`SSL_CERT_FILE`). Reading them takes 20 ms: once per process."""
    return httpx2.create_ssl_context()


class TooLong(httpx2.DecodingError):
    """What came back is longer than the limit of its request."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"The answer is longer than {limit} bytes.")


class _Guarded(httpx2.AsyncBaseTransport):
    """Looks at each request and each connection before it is made."""

    def __init__(self, inner: Any, access: Access) -> None:
        self._inner, self._guard = inner, Guard(access)
        inner.client = self._session

    def _session(self) -> aiohttp.ClientSession:
        limits = self._inner.limits
        connector = aiohttp.TCPConnector(
            limit=limits.max_connections or 0,
            keepalive_timeout=limits.keepalive_expiry,
            ssl=self._inner.ssl_context,
            socket_factory=self._guard.socket,
        )
        return aiohttp.ClientSession(connector=connector)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            await self._guard.check(str(request.url))
        except NotAllowed as error:
            raise httpx2.ConnectError(str(error)) from error
        response: httpx2.Response = await self._inner.handle_async_request(request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class Transport(DefaultAioHttpClient):
    """Asks only what `access` allows, follows no redirect, and reads no more of an answer than its request allows.

    The limit holds for what comes packed and for what is unpacked from it.
    """

    def __init__(self, access: Access = PLAIN) -> None:
        self._access = access
        super().__init__(headers={"Accept-Encoding": "gzip"}, verify=ssl_context())

    def _init_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        return _Guarded(super()._init_transport(*args, **options), self._access)

    def _init_proxy_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        return _Guarded(super()._init_proxy_transport(*args, **options), self._access)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = await super().send(request, **{**options, "stream": True, "follow_redirects": False})
        try:
            codings = [name.lower() for name in response.headers.get_list("content-encoding", split_commas=True)]
            codings = [name for name in codings if name not in ("", "identity")]
            response.headers.pop("content-encoding", None)  # undone here, in bounded pieces
            limit = request.extensions.get(LIMIT, MAX_BODY)
            response.stream = _Unpacked(response.stream, codings, limit)  # type: ignore[arg-type]  # an asynchronous one
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


class _Unpacked(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.AsyncByteStream, codings: list[str], limit: int) -> None:
        self._packed, self._codings, self._limit = packed, codings, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._codings not in ([], ["gzip"], ["x-gzip"], ["deflate"]):
            raise httpx2.DecodingError("The answer is packed in a way that was not asked for.")
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if self._codings else None
        came = size = 0
        async for piece in self._packed:
            came += len(piece)
            if came > self._limit:
                raise TooLong(self._limit)
            if unpack is None:
                yield piece
                continue
            while piece and not unpack.eof:  # what follows the end is counted and let go
                unpacked = _unpack(unpack, piece)
                size += len(unpacked)
                if size > self._limit:
                    raise TooLong(self._limit)
                if unpacked:
                    yield unpacked
                piece = unpack.unconsumed_tail
        if unpack is not None and came and not unpack.eof:
            raise httpx2.DecodingError("The packed answer has no end.")

    async def aclose(self) -> None:
        await self._packed.aclose()


def _unpack(unpack: "zlib._Decompress", piece: bytes) -> bytes:
    try:
        return unpack.decompress(piece, PIECE)
    except zlib.error as error:
        raise httpx2.DecodingError(f"The answer cannot be unpacked: {error}") from None


def text_of(data: bytes, charset: str | None, limit: int) -> str:
    """The text in these bytes, as UTF-8 unless the charset is another one of text. TooLong where it is longer in UTF-8."""
    name = (charset or "").lower()
    text = data.decode(name if name in CHARSETS else "utf-8", errors="replace")
    if not text.isascii() and len(text.encode(errors="replace")) > limit:
        raise TooLong(limit)
    return text
