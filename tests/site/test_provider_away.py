"""A provider of identities that is away or hangs holds one thread, and a page says so."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
from django.test import RequestFactory

from mhb_site.sign_in import provider_calls
from mhb_site.sign_in.provider_calls import DISCOVERY, ProviderSession
from mhb_site.sign_in.sso import ProviderAdapter
from mhb_site.web.errors import ErrorsMiddleware
from review.errors import ProviderAway, ProviderRefused

HOSPITAL = "https://hospital.example.org"
URL = HOSPITAL + DISCOVERY
DOCUMENT = {
    "issuer": HOSPITAL,
    "authorization_endpoint": f"{HOSPITAL}/auth",
    "token_endpoint": f"{HOSPITAL}/token",
    "userinfo_endpoint": f"{HOSPITAL}/userinfo",
}


class Provider:
    """What answers in the place of the network."""

    def __init__(self) -> None:
        self.asked = 0
        self.behave: Any = lambda: self.answer()
        self.document: Any = DOCUMENT

    def answer(self) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer._content = 200, json.dumps(self.document).encode()
        return answer

    def __call__(self, _session: object, _method: str, _url: str, **_options: Any) -> requests.Response:
        self.asked += 1
        answer: requests.Response = self.behave()
        return answer


@pytest.fixture
def raw_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Starts a server that sends these bytes, then others again and again; returns its address."""
    monkeypatch.setattr(ProviderSession, "_away_until", {})
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(beginning: bytes, again: bytes, pause: float) -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:  # the test has ended
                    return
                with connection, suppress(OSError):
                    connection.recv(2**16)
                    connection.sendall(beginning)
                    while again:
                        connection.sendall(again)
                        time.sleep(pause)

        def start(beginning: bytes, again: bytes = b"", pause: float = 0.0) -> str:
            threading.Thread(target=serve, args=(beginning, again, pause), daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}/token"

        yield start
        server.shutdown(socket.SHUT_RDWR)


def away() -> requests.Response:
    raise requests.ConnectTimeout


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = Provider()
    monkeypatch.setattr(requests.Session, "request", lambda *args, **options: provider(*args, **options))
    monkeypatch.setattr(ProviderSession, "_discovered", {})
    monkeypatch.setattr(ProviderSession, "_away_until", {})
    return provider


def test_the_adapter_uses_bounded_calls() -> None:
    assert isinstance(ProviderAdapter().get_requests_session(), ProviderSession)


def test_discovery_is_kept_and_used_while_the_provider_is_away(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(ProviderSession, "clock", staticmethod(lambda: now[0]))
    for _visit in range(3):
        assert ProviderSession().get(URL).json() == DOCUMENT
    assert provider.asked == 1
    provider.behave = away
    now[0] += provider_calls.FRESH
    assert ProviderSession().get(URL).json() == DOCUMENT
    assert provider.asked == 2
    with pytest.raises(ProviderAway):
        ProviderSession().post("https://hospital.example.org/token")
    assert provider.asked == 2, "it did not answer just before"


@pytest.mark.parametrize(
    "change",
    [
        {"token_endpoint": None},
        {"authorization_endpoint": ["https://hospital.example.org/auth"]},
        {"authorization_endpoint": "http://hospital.example.org/auth"},
        {"token_endpoint": "http://localhost:1@elsewhere.example/token"},
        {"userinfo_endpoint": "https://"},
        {"userinfo_endpoint": "https://[::1/userinfo"},
        {"jwks_uri": "file:///keys"},
        {"issuer": 7},
    ],
    ids=str,
)
def test_a_document_with_which_nobody_could_sign_in_is_neither_used_nor_kept(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(ProviderSession, "clock", staticmethod(lambda: now[0]))
    provider.document = {**DOCUMENT, **change}
    with pytest.raises(ProviderRefused):
        ProviderSession().get(URL)
    provider.document = DOCUMENT
    assert ProviderSession().get(URL).json() == DOCUMENT, "it is asked again at once"
    provider.document = {**DOCUMENT, **change}
    now[0] += provider_calls.FRESH
    assert ProviderSession().get(URL).json() == DOCUMENT, "a broken one does not replace a good one"


@pytest.mark.parametrize("document", [[], "text", None])
def test_a_document_of_another_type_is_refused(provider: Provider, document: object) -> None:
    provider.document = document
    with pytest.raises(ProviderRefused):
        ProviderSession().get(URL)
    assert ProviderSession._discovered == {}


def test_no_call_leaves_where_others_could_answer(raw_provider: Callable[..., str]) -> None:
    for address in ("http://hospital.example.org/token", "http://localhost:1@hospital.example.org/token"):
        with pytest.raises(ProviderAway):
            ProviderSession().get(address)
    ProviderSession._away_until.clear()
    led = raw_provider(b"HTTP/1.1 302 Found\r\nLocation: http://0.0.0.0/\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(ProviderAway):
        ProviderSession().get(led)


def test_a_provider_that_hangs_holds_one_thread(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_calls, "WAIT", 0.2)
    released = threading.Event()

    def hang() -> requests.Response:
        released.wait(10)
        return away()

    provider.behave = hang
    seconds: list[float] = []

    def visit() -> None:
        begun = time.monotonic()
        with pytest.raises(ProviderAway):
            ProviderSession().get(URL)
        seconds.append(time.monotonic() - begun)

    visitors = [threading.Thread(target=visit) for _visitor in range(20)]
    for visitor in visitors:
        visitor.start()
    while len(seconds) < 19 and any(visitor.is_alive() for visitor in visitors):
        time.sleep(0.01)
    assert provider.asked == 1
    assert len(seconds) == 19
    assert max(seconds) < 2
    released.set()
    for visitor in visitors:
        visitor.join()
    assert len(seconds) == 20


@pytest.mark.django_db
def test_a_page_says_that_local_accounts_still_work(rf: RequestFactory) -> None:
    request = rf.get("/accounts/oidc/hospital/login/")
    request.user = request.session = None  # type: ignore[assignment]
    page = ErrorsMiddleware(lambda _request: None).process_exception(request, ProviderAway())  # type: ignore[arg-type, return-value]
    assert page is not None
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert "password" in page.content.decode()


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_provider_that_drips_is_cut_off(
    beginning: bytes, raw_provider: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives in time: in a header, or in the body."""
    monkeypatch.setattr(provider_calls, "ANSWER_SECONDS", 0.3)
    address = raw_provider(beginning, b"a", pause=0.02)
    with pytest.raises(ProviderAway):
        ProviderSession().get(address)
    assert not ProviderSession._calling.locked()


@pytest.mark.parametrize("status", [b"200 OK", b"302 Found\r\nLocation: /again"])
def test_an_endless_answer_of_a_provider_is_not_read_to_its_end(
    status: bytes, raw_provider: Callable[..., str]
) -> None:
    address = raw_provider(b"HTTP/1.1 " + status + b"\r\n\r\n", b"a" * 2**16)
    with pytest.raises(ProviderAway):
        ProviderSession().get(address)


def test_an_answer_of_a_provider_is_read_as_before(raw_provider: Callable[..., str]) -> None:
    body = b'{"issuer": "hospital"}'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = ProviderSession().get(raw_provider(head.encode() + body))
    assert answer.ok
    assert answer.json() == {"issuer": "hospital"}
    assert answer.headers["Content-Type"] == "application/json"
