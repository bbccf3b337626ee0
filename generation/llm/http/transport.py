"""The HTTP client below the gateway.

Responses are untrusted: they are decompressed piece by piece, up to a limit.
"""

import asyncio
import math
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import Any

import aiohttp
import httpx2
from openai import DefaultAioHttpClient

from generation.llm.errors import NotAllowed
from generation.llm.http.access import DEFAULT_ACCESS, RESOLVE_INTERVAL, Access, resolve

LIMIT = "mhb_limit"  # the request extension with the maximum bytes of the response
MAX_BODY = 8 * 2**20  # bytes, for requests without that extension: those about files and batches
KEPT_URLS = 64  # the most addresses of which what was found out is kept: parsing one takes a tenth of a call
PIECE = 2**16  # bytes that are decompressed at a time

# Accepted names of charsets. Others (hex, zlib, idna, punycode, ...) are transformations or very
# slow.
_CODE_PAGES = (*range(1, 12), *range(13, 17))  # of ISO 8859
CHARSETS = frozenset(
    (
        *("utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be", "utf-32", "koi8-r", "utf-7"),
        *("gb2312", "gbk", "gb18030", "big5", "hz-gb-2312", "cp936", "cp949", "euc-kr", "iso-2022-kr"),
        *("shift_jis", "sjis", "cp932", "windows-31j", "euc-jp", "iso-2022-jp", "latin-1", "latin1", "cp1252"),
        *(f"iso-8859-{page}" for page in _CODE_PAGES),
        *map("windows-125{}".format, range(9)),
    )
)
# Tried before UTF-8, as which their bytes can be read too.
NOT_ASCII = ("utf-16", "utf-32", "utf-7", "iso-2022-", "hz-")


@cache
def ssl_context() -> ssl.SSLContext:
    """A context with the certificate authorities of this machine (`SSL_CERT_FILE`).

    Reading them takes 20 ms, so it is done once per process.
    """
    return httpx2.create_ssl_context()


@lru_cache(KEPT_URLS)
def parsed_url(url: str) -> httpx2.URL:
    return httpx2.URL(url)


class ReplyTooLong(httpx2.DecodingError):
    """The response exceeds the limit of its request."""

    response: httpx2.Response

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"The response is longer than {limit} bytes.")


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Checks each request and each connection before it is made, whatever names resolve to."""

    def __init__(self, inner: Any, access: Access) -> None:
        self._inner, self._access = inner, access
        self._services: frozenset[tuple[str, int]] = frozenset()
        self._looked_up_at = -math.inf
        self._check_url = lru_cache(KEPT_URLS)(access.check_url)  # the rules never change
        inner.client = self._session

    def _session(self) -> aiohttp.ClientSession:
        limits = self._inner.limits
        connector = aiohttp.TCPConnector(
            limit=limits.max_connections or 0,
            keepalive_timeout=limits.keepalive_expiry,
            ssl=self._inner.ssl_context,
            socket_factory=self._socket,
        )
        return aiohttp.ClientSession(connector=connector)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create the socket for a new connection. Raises Forbidden."""
        family, kind, protocol, _name, place = info
        if not self._access.hosts and family in (socket.AF_INET, socket.AF_INET6):
            self._access.check_address(ip_address(str(place[0]).partition("%")[0]), place[1], self._services)
        return socket.socket(family, kind, protocol)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            self._check_url(str(request.url))
        except NotAllowed as error:
            raise httpx2.ConnectError(str(error)) from error
        now = asyncio.get_running_loop().time()
        if now - self._looked_up_at > RESOLVE_INTERVAL:
            self._looked_up_at = now
            services: set[tuple[str, int]] = set()
            for service in self._access.services:
                services.update(await resolve(*service))
            self._services = frozenset(services)
        response: httpx2.Response = await self._inner.handle_async_request(request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class Transport(DefaultAioHttpClient):
    """Calls only what `access` allows, follows no redirects, and limits the size of responses.

    The limit applies to the compressed and to the decompressed bytes.
    """

    def __init__(self, access: Access = DEFAULT_ACCESS) -> None:
        self._access = access
        super().__init__(headers={"Accept-Encoding": "gzip"}, verify=ssl_context())

    def _init_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        return _GuardedTransport(super()._init_transport(*args, **options), self._access)

    def _init_proxy_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        return _GuardedTransport(super()._init_proxy_transport(*args, **options), self._access)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = await super().send(request, **{**options, "stream": True, "follow_redirects": False})
        try:
            listed = response.headers.get_list("content-encoding", split_commas=True)
            codings = [name.lower() for name in listed if name.lower() not in ("", "identity")]
            response.headers.pop("content-encoding", None)  # decoded here instead, in bounded pieces
            limit = request.extensions.get(LIMIT, MAX_BODY)
            response.stream = _UnpackedStream(response.stream, codings, limit)  # type: ignore[arg-type]  # an asynchronous stream
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to the address of an endpoint, with its key: never show or store this."""

    transport: Transport
    url: str
    key: str = field(repr=False)

    async def open(self, method: str, place: str, *, limit: int = MAX_BODY, **request: Any) -> httpx2.Response:
        """The response to a request, whose body is still to be read. Close it.

        `place`: the path below the address, or a whole URL. `limit`: the most bytes of its body.
        """
        # Not the methods of the SDK: its models accept any body, and building a request with them
        # takes longer than sending it (python -m bench.engine).
        headers = {"Authorization": f"Bearer {self.key}"}
        if "content" in request:
            headers["Content-Type"] = "application/json"
        if place.startswith("/"):
            place = f"{self.url}{place}"
        url = parsed_url(place)
        built = self.transport.build_request(method, url, headers=headers, extensions={LIMIT: limit}, **request)
        return await self.transport.send(built, stream=True)

    async def fetch(
        self, method: str, place: str, *, limit: int = MAX_BODY, **request: Any
    ) -> tuple[httpx2.Response, str]:
        """The response to a request, and its text. Raises ReplyTooLong with the response."""
        response = await self.open(method, place, limit=limit, **request)
        try:
            data = b"".join([chunk async for chunk in response.aiter_raw()])  # `_UnpackedStream` has unpacked it
            return response, decode_text(data, response.charset_encoding, limit)
        except ReplyTooLong as error:
            error.response = response
            raise
        finally:
            await response.aclose()


class _UnpackedStream(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.AsyncByteStream, codings: list[str], limit: int) -> None:
        self._packed, self._codings, self._limit = packed, codings, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._codings not in ([], ["gzip"], ["x-gzip"], ["deflate"]):
            raise httpx2.DecodingError("The response uses a compression that was not requested.")
        unpack = None
        if self._codings:
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
        packed_size = size = 0
        async for piece in self._packed:
            packed_size += len(piece)
            if packed_size > self._limit:
                raise ReplyTooLong(self._limit)
            if unpack is None:
                yield piece
                continue
            while piece and not unpack.eof:  # bytes after the end are counted and ignored
                unpacked = _unpack(unpack, piece)
                size += len(unpacked)
                if size > self._limit:
                    raise ReplyTooLong(self._limit)
                if unpacked:
                    yield unpacked
                piece = unpack.unconsumed_tail
        if unpack is not None and packed_size and not unpack.eof:
            raise httpx2.DecodingError("The compressed response is incomplete.")

    async def aclose(self) -> None:
        await self._packed.aclose()


def _unpack(unpack: "zlib._Decompress", piece: bytes) -> bytes:
    try:
        return unpack.decompress(piece, PIECE)
    except zlib.error as error:
        raise httpx2.DecodingError(f"The response cannot be decompressed: {error}") from None


def decode_text(data: bytes, charset: str | None, limit: int) -> str:
    """Decode bytes as UTF-8 where they are, else by the given charset if it is accepted.

    JSON is UTF-8, whatever charset a server names by habit. Raises ReplyTooLong if the text exceeds
    the limit in UTF-8.
    """
    named = "utf-8"
    if (name := (charset or "").lower()) in CHARSETS:
        named = name
    first, second = "utf-8", named
    if named.startswith(NOT_ASCII):
        first, second = named, "utf-8"
    try:
        text = data.decode(first)
    except UnicodeDecodeError:
        text = data.decode(second, errors="replace")
    if not text.isascii() and len(text.encode(errors="replace")) > limit:
        raise ReplyTooLong(limit)
    return text
