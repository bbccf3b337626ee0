"""What a provider of OpenID Connect answers while somebody signs in: it is not trusted."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from django.test import Client, override_settings
from django.urls import include, path

from mhb_site import urls
from mhb_site.sign_in import sso
from mhb_site.sign_in.provider_calls import ProviderSession
from mhb_site.sign_in.providers import IdentityProvider
from review.models import User
from review.rules.permissions import UserRole

pytestmark = pytest.mark.django_db

ISSUER = "https://id.example"
HOSPITAL = IdentityProvider(
    protocol="openid_connect",
    id="hospital",
    name="Hospital",
    client_id="mhb",
    role=UserRole.PHYSICIAN,
    settings={"server_url": ISSUER},
)
PLACE = "/accounts/sso/oidc/hospital/login/"
DISCOVERY = "/.well-known/openid-configuration"
ENDPOINTS = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "userinfo_endpoint": "/userinfo"}
CLAIMS = {"iss": ISSUER, "aud": "mhb", "sub": "7", "exp": 4_000_000_000}
TOKEN: dict[str, object] = {"access_token": "token", "token_type": "bearer", "id_token": jwt.encode(CLAIMS, "k" * 32)}
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def answers(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Path -> what the provider answers there; an empty text stands for an error of its own."""
    settings.MHB_PROVIDERS = [HOSPITAL]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [HOSPITAL.app]}}
    monkeypatch.setitem(registry.provider_map, OpenIDConnectProvider.id, OpenIDConnectProvider)
    monkeypatch.setattr(ProviderSession, "_discovered", {})
    endpoints = {name: ISSUER + place for name, place in ENDPOINTS.items()}
    said = {
        DISCOVERY: json.dumps({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", **endpoints}),
        "/token": json.dumps(TOKEN),
        "/userinfo": json.dumps({"sub": "7", "preferred_username": "nia"}),
    }

    def answer(_session: object, _method: str, url: str, **_options: object) -> requests.Response:
        answer, text = requests.Response(), said[urlsplit(url).path]
        answer.status_code = 500
        if text:
            answer.status_code, answer._content = 200, text.encode()
        answer.headers["Content-Type"] = "application/json"
        return answer

    monkeypatch.setattr(requests.Session, "request", answer)
    patterns = [path("accounts/sso/", include(sso.provider_urls())), *urls.urlpatterns]
    with override_settings(ROOT_URLCONF=tuple(patterns)):
        yield said


def sign_in(client: Client) -> int:
    """The status with which a sign-in ends."""
    begun = client.get(PLACE)
    if begun.status_code != 302:
        return begun.status_code
    state = parse_qs(urlsplit(begun["Location"]).query)["state"][0]
    return client.get(f"{PLACE}callback/", {"code": "code", "state": state}).status_code


def test_answers_of_their_form_sign_in(client: Client, answers: dict[str, str]) -> None:
    assert sign_in(client) == 302
    assert User.objects.filter(username="nia").exists()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (DISCOVERY, DEEP),
        (DISCOVERY, "[]"),
        ("/token", DEEP),
        ("/token", json.dumps({**TOKEN, "expires_in": 10**30})),
        ("/token", json.dumps({**TOKEN, "expires_in": float("inf")})),
        ("/token", json.dumps({**TOKEN, "id_token": jwt.encode({**CLAIMS, "exp": 10**300, "jti": "1"}, "k" * 32)})),
        ("/token", json.dumps({**TOKEN, "id_token": jwt.encode({**CLAIMS, "exp": 2**63, "jti": "1"}, "k" * 32)})),
        ("/userinfo", DEEP),
        ("/userinfo", '{"sub": NaN}'),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_too_deep_or_beyond_the_calendar_is_refused_in_words(
    client: Client, answers: dict[str, str], place: str, text: str
) -> None:
    answers[place] = text
    assert sign_in(client) == 403
    assert not User.objects.exists()


@pytest.mark.parametrize("sub", [None, True, 1.5])
def test_people_whom_a_directory_does_not_tell_apart_are_not_one(
    client: Client, answers: dict[str, str], sub: object
) -> None:
    answers["/token"] = json.dumps({"access_token": "token", "token_type": "bearer"})
    answers["/userinfo"] = json.dumps({"sub": sub, "preferred_username": "nia"})
    assert sign_in(client) == 403
    assert not User.objects.exists()


def test_a_provider_that_answers_with_an_error_counts_as_away(client: Client, answers: dict[str, str]) -> None:
    answers[DISCOVERY] = ""
    assert sign_in(client) == 503


def test_no_answer_of_a_provider_is_logged(
    client: Client, answers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    answers["/token"] = '{"error": "Nia Lima was dismissed"}'
    assert sign_in(client) == 403
    assert "through hospital failed" in caplog.text
    assert "Nia Lima" not in caplog.text
