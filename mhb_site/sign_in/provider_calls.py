"""Calls to providers of identities, bounded: one that hangs must not hold the site's threads."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from mhb_site.sign_in.providers import is_protected
from review.errors import ProviderAway, ProviderRefused

FRESH = 300.0  # seconds in which a discovery document is not asked for again
SECONDS = (2.0, 2.0)  # to connect, and of silence while a provider answers
ANSWER_SECONDS = 10.0  # from a connection to the end of its answer, however slowly that drips
MAX_ANSWER = 2**20  # bytes, unpacked
REDIRECTS = 2
WAIT = 1.0  # seconds for the call that is under way to end
REST = 5.0  # seconds in which a provider that did not answer is not asked
DISCOVERY = "/.well-known/openid-configuration"
NEEDED = ("authorization_endpoint", "token_endpoint")  # of a discovery document
ADDRESSES = (*NEEDED, "userinfo_endpoint", "jwks_uri")


def read_metadata(url: str, *, entity_id: str, **_options: object) -> dict[str, Any]:
    """What a provider of SAML says of itself; in the place of python3-saml's own, unbounded reader.

    Raises ProviderAway; ProviderRefused for a document with which nobody could sign in: allauth
    would keep it for hours.
    """
    from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser  # type: ignore[import-untyped]  # an extra

    with ProviderSession() as session:
        answer = session.get(url)
    if not answer.ok:
        raise ProviderAway
    said: dict[str, Any] = OneLogin_Saml2_IdPMetadataParser.parse(answer.content, entity_id=entity_id)
    idp = said.get("idp", {})
    if "singleSignOnService" not in idp or not idp.keys() & {"x509cert", "x509certMulti"}:
        raise ProviderRefused
    return said


def _check_document(answer: requests.Response) -> None:
    """Raises ProviderRefused for a discovery document with which nobody could sign in safely."""
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        raise ProviderRefused from None
    if not isinstance(document, dict) or not isinstance(document.get("issuer"), str):
        raise ProviderRefused
    for name in ADDRESSES:
        is_used = name in NEEDED or name in document
        if is_used and not is_protected(document.get(name)):
            raise ProviderRefused


@cache
def _bounded(connection: type[Any]) -> type[Any]:
    """The class of connections, of urllib3, whose socket is shut after `ANSWER_SECONDS`."""

    class BoundedConnection(connection):  # type: ignore[misc]
        _timer: threading.Timer | None = None

        def connect(self) -> None:
            super().connect()
            self._timer = threading.Timer(ANSWER_SECONDS, _shut, [self.sock])
            self._timer.daemon = True
            self._timer.start()

        def close(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().close()

    return BoundedConnection


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # closed already
        # Not the method of a TLS socket, which takes its state from the thread that is reading.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class BoundedAdapter(HTTPAdapter):
    """Reads answers of at most `MAX_ANSWER` bytes, within `ANSWER_SECONDS`.

    Raises requests.ConnectionError, also for an address to which a document or a redirect led and
    at which others could answer.
    """

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool = super().get_connection_with_tls_context(*args, **options)
        pool.ConnectionCls = _bounded(pool.ConnectionCls)
        return pool

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        if not is_protected(request.url):
            raise requests.ConnectionError
        over = time.monotonic() + ANSWER_SECONDS
        answer = super().send(request, *args, **options)
        content = b""
        try:
            for piece in answer.iter_content(2**16):
                content += piece
                if len(content) > MAX_ANSWER:
                    raise requests.ConnectionError
        finally:
            answer.close()
        if time.monotonic() > over:  # what was cut off may look complete
            raise requests.ConnectionError
        answer._content = content
        return answer


class ProviderSession(requests.Session):
    """A session that keeps discovery documents and makes one call at a time in this process.

    `request` raises ProviderAway if the provider does not answer, has not just before, or is being
    asked by another thread for more than `WAIT`; ProviderRefused for an unusable document.
    """

    _calling = threading.Lock()
    _discovered: dict[str, tuple[float, requests.Response]] = {}  # of all sessions
    _away_until: dict[str, float] = {}  # host -> moment
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = REDIRECTS
        for scheme in ("http://", "https://"):
            self.mount(scheme, BoundedAdapter())

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        address = str(url)
        kept_at, kept = self._discovered.get(address, (0.0, None))
        if kept is not None and self.clock() - kept_at < FRESH:
            return kept
        options["timeout"] = SECONDS
        try:
            answer = self._call(address, partial(super().request, method, url, *args, **options))
            is_document = urlsplit(address).path.endswith(DISCOVERY) and answer.ok
            if is_document:
                _check_document(answer)
        except (ProviderAway, ProviderRefused):
            if kept is not None:  # its addresses and keys seldom change
                return kept
            raise
        if is_document:
            self._discovered[address] = self.clock(), answer
        return answer

    def _call(self, address: str, send: Callable[[], requests.Response]) -> requests.Response:
        host = urlsplit(address).netloc
        if not self._calling.acquire(timeout=WAIT):
            raise ProviderAway
        try:
            if self.clock() < self._away_until.get(host, 0.0):
                raise ProviderAway
            return send()
        except requests.RequestException as error:
            self._away_until[host] = self.clock() + REST
            raise ProviderAway from error
        finally:
            self._calling.release()
