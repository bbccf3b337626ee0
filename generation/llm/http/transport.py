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
from typing import Any, Self

import aiohttp
import httpx2

from generation.llm.errors import NotAllowed
from generation.llm.http.access import DEFAULT_ACCESS, RESOLVE_INTERVAL, Access, resolve

MAX_BODY = 8 * 2**20  # bytes of a response, unless its request says otherwise: those about files and batches
KEPT_URLS = 64  # the most addresses of which what was found out is kept
PIECE = 2**16  # bytes that are decompressed at a time
MAX_CONNECTIONS = 1_000
KEEP_ALIVE = 5.0  # seconds for which an idle connection is kept

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


class BadCompression(aiohttp.ClientPayloadError):
    """The response cannot be decompressed."""


class ReplyTooLong(aiohttp.ClientPayloadError):
    """The response exceeds the limit of its request. `status`: its HTTP status, once known."""

    def __init__(self, limit: int) -> None:
        self.status = 0
        super().__init__(f"The response is longer than {limit} bytes.")


class HTTPResponse:
    """A response whose body is still to be read, up to a limit. Close it.

    The limit applies to the compressed and to the decompressed bytes.
    """

    def __init__(self, response: aiohttp.ClientResponse, limit: int) -> None:
        self.status_code, self.headers = response.status, response.headers
        self.limit = limit
        self._response = response

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code <= 299

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status_code <= 399

    async def pieces(self) -> AsyncIterator[bytes]:
        """The decompressed body. Raises ReplyTooLong, BadCompression."""
        codings = _codings(self.headers.getall("Content-Encoding", []))
        if codings not in ([], ["gzip"], ["x-gzip"], ["deflate"]):
            raise BadCompression("The response uses a compression that was not requested.")
        unpack = None
        if codings:
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
        packed_size = size = 0
        async for piece in self._response.content.iter_any():
            packed_size += len(piece)
            if packed_size > self.limit:
                raise ReplyTooLong(self.limit)
            if unpack is None:
                yield piece
                continue
            while piece and not unpack.eof:  # bytes after the end are counted and ignored
                unpacked = _unpack(unpack, piece)
                size += len(unpacked)
                if size > self.limit:
                    raise ReplyTooLong(self.limit)
                if unpacked:
                    yield unpacked
                piece = unpack.unconsumed_tail
        if unpack is not None and packed_size and not unpack.eof:
            raise BadCompression("The compressed response is incomplete.")

    async def text(self) -> str:
        """The body as text. Raises ReplyTooLong, BadCompression."""
        data = b"".join([piece async for piece in self.pieces()])
        return self.decoded(data)

    def decoded(self, data: bytes) -> str:
        """Bytes of the body as text. Raises ReplyTooLong."""
        return decode_text(data, self._response.charset, self.limit)

    def close(self) -> None:
        self._response.close()


def _codings(headers: list[str]) -> list[str]:
    """The codings of a body, without those that change nothing."""
    codings = []
    for name in ",".join(headers).split(","):
        coding = name.strip().lower()
        if coding not in ("", "identity"):
            codings.append(coding)
    return codings


class Transport:
    """Calls only what `access` allows, follows no redirects, and keeps no cookies.

    Each request and each connection is checked before it is made, whatever names resolve to.
    """

    # Not the SDK, nor the HTTP client below it: their models, headers and layers took as long as
    # all the rest of a call (python -m bench.engine).
    def __init__(self, access: Access = DEFAULT_ACCESS) -> None:
        self._access = access
        self._services: frozenset[tuple[str, int]] = frozenset()
        self._looked_up_at = -math.inf
        self._check_url = lru_cache(KEPT_URLS)(access.check_url)  # the rules never change
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def open(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        connect: float | None = None,
        limit: int = MAX_BODY,
        **request: Any,
    ) -> HTTPResponse:
        """The response to a request; `request`: data, headers and `params`, as aiohttp takes them.

        `seconds`: between two bytes; the caller limits the whole. `connect`: to connect. `limit`:
        the most bytes of the response. Raises aiohttp's errors, with NotAllowed or Forbidden among
        their causes for what is not allowed.
        """
        try:
            self._check_url(url)
        except NotAllowed as error:
            raise aiohttp.ClientConnectionError(str(error)) from error
        await self._look_up_services()
        if self._session is None:
            self._session = self._new_session()
        timeout = aiohttp.ClientTimeout(total=None, connect=seconds, sock_connect=connect or seconds, sock_read=seconds)
        response = await self._session.request(method, url, timeout=timeout, allow_redirects=False, **request)
        return HTTPResponse(response, limit)

    def _new_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=MAX_CONNECTIONS, keepalive_timeout=KEEP_ALIVE, ssl=ssl_context(), socket_factory=self._socket
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "gzip"},
            auto_decompress=False,  # done here instead, in bounded pieces
            trust_env=True,  # HTTPS_PROXY
        )

    async def _look_up_services(self) -> None:
        """Look up the site's own services, once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_up_at <= RESOLVE_INTERVAL:
            return
        self._looked_up_at = now
        services: set[tuple[str, int]] = set()
        for service in self._access.services:
            services.update(await resolve(*service))
        self._services = frozenset(services)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create the socket for a new connection. Raises Forbidden."""
        family, kind, protocol, _name, place = info
        if not self._access.hosts and family in (socket.AF_INET, socket.AF_INET6):
            self._access.check_address(ip_address(str(place[0]).partition("%")[0]), place[1], self._services)
        return socket.socket(family, kind, protocol)


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to the address of an endpoint, with its key: never show or store this."""

    transport: Transport
    url: str
    key: str = field(repr=False)

    async def open(self, method: str, place: str, *, json: bytes | None = None, **request: Any) -> HTTPResponse:
        """The response to a request, whose body is still to be read. Close it.

        `place`: the path below the address, or a whole URL. `json`: the body. Others: see
        `Transport.open`.
        """
        headers = {"Authorization": f"Bearer {self.key}"}
        if json is not None:
            headers["Content-Type"] = "application/json"
            request["data"] = json
        if place.startswith("/"):
            place = f"{self.url}{place}"
        return await self.transport.open(method, place, headers=headers, **request)

    async def fetch(self, method: str, place: str, **request: Any) -> tuple[HTTPResponse, str]:
        """The response to a request, and its text. Raises ReplyTooLong. Arguments: as `open`."""
        response = await self.open(method, place, **request)
        try:
            return response, await response.text()
        except ReplyTooLong as error:
            error.status = response.status_code
            raise
        finally:
            response.close()


def _unpack(unpack: "zlib._Decompress", piece: bytes) -> bytes:
    try:
        return unpack.decompress(piece, PIECE)
    except zlib.error as error:
        raise BadCompression(f"The response cannot be decompressed: {error}") from None


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
