"""A provider of identities that is away or hangs holds one thread, and a page says so."""

import threading
import time
from typing import Any

import pytest
import requests
from django.test import RequestFactory

from mhb_site.sign_in import provider_calls
from mhb_site.sign_in.provider_calls import DISCOVERY, ProviderSession
from mhb_site.sign_in.sso import ProviderAdapter
from mhb_site.web.errors import ErrorsMiddleware
from review.errors import ProviderAway

URL = "https://hospital.example.org" + DISCOVERY


class Provider:
    """What answers in the place of the network."""

    def __init__(self) -> None:
        self.asked = 0
        self.behave: Any = lambda: self.answer()

    def answer(self) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer._content = 200, b'{"issuer": "hospital"}'
        return answer

    def __call__(self, _session: object, _method: str, _url: str, **_options: Any) -> requests.Response:
        self.asked += 1
        answer: requests.Response = self.behave()
        return answer


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
        assert ProviderSession().get(URL).json() == {"issuer": "hospital"}
    assert provider.asked == 1
    provider.behave = away
    now[0] += provider_calls.FRESH
    assert ProviderSession().get(URL).json() == {"issuer": "hospital"}
    assert provider.asked == 2
    with pytest.raises(ProviderAway):
        ProviderSession().post("https://hospital.example.org/token")
    assert provider.asked == 2, "it did not answer just before"


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
