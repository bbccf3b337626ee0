"""The addresses of SAML, to which anybody can send anything."""

import base64
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.test import Client, override_settings
from django.urls import include, path

from mhb_site import urls
from mhb_site.sign_in import sso
from mhb_site.sign_in.provider_calls import ProviderSession
from mhb_site.sign_in.providers import IdentityProvider
from review.models import User
from review.rules.permissions import UserRole

pytestmark = pytest.mark.django_db

IDP = {"entity_id": "https://id.example/metadata", "sso_url": "https://id.example/sso", "x509cert": "none"}
HOSPITAL = IdentityProvider(
    protocol="saml", id="hospital", name="Hospital", role=UserRole.PHYSICIAN, settings={"idp": IDP}
)
SIGN_OUT = """<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol"
 xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_1" Version="2.0" IssueInstant="2026-11-29T00:00:00Z">
<saml:Issuer>https://id.example/metadata</saml:Issuer><saml:NameID>ana</saml:NameID></samlp:LogoutRequest>"""
PLACE = "/accounts/sso/saml/hospital/"


@pytest.fixture(autouse=True)
def _hospital(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The site's addresses with those of a provider of SAML."""
    settings.MHB_PROVIDERS = [HOSPITAL]
    settings.SOCIALACCOUNT_PROVIDERS = {"saml": {"APPS": [HOSPITAL.app]}}
    monkeypatch.setitem(registry.provider_map, SAMLProvider.id, SAMLProvider)
    patterns = [path("accounts/sso/", include(sso.provider_urls())), *urls.urlpatterns]
    with override_settings(ROOT_URLCONF=tuple(patterns)):
        yield


def deflated(text: str) -> str:
    compressor = zlib.compressobj(wbits=-15)
    return base64.b64encode(compressor.compress(text.encode()) + compressor.flush()).decode()


@pytest.mark.parametrize("signature", [{}, {"Signature": ""}, {"Signature": "AAAA", "SigAlg": "none"}])
def test_a_link_that_no_provider_signed_neither_signs_out_nor_leads_elsewhere(
    client: Client, ana: User, signature: dict[str, str]
) -> None:
    client.force_login(ana)
    asked = {"SAMLRequest": deflated(SIGN_OUT), "RelayState": "https://evil.example/", **signature}
    answer = client.get(f"{PLACE}sls/", asked)
    assert answer.status_code in (400, 403)
    assert client.get("/review/").status_code == 200


@pytest.mark.parametrize("text", ["AAAA", "PGEvPg==", "é", "=", deflated("no XML"), ""])
def test_what_is_no_message_of_a_provider_is_refused_in_words(client: Client, text: str) -> None:
    signed = {"Signature": "AAAA", "SigAlg": "none"}
    for name in ("SAMLRequest", "SAMLResponse"):
        assert client.get(f"{PLACE}sls/", {name: text, **signed}).status_code in (400, 403)
    client.post(f"{PLACE}acs/", {"SAMLResponse": text})
    assert client.get(f"{PLACE}acs/finish/").status_code == 403


def test_metadata_of_a_provider_is_read_within_the_bounds_of_its_other_answers(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """python3-saml's own reader knows no end."""
    idp = {"entity_id": IDP["entity_id"], "metadata_url": IDP["entity_id"]}
    provider = HOSPITAL.model_copy(update={"settings": {"idp": idp}})
    settings.SOCIALACCOUNT_PROVIDERS = {"saml": {"APPS": [provider.app]}}
    asked = []

    def away(_session: object, _method: str, url: str, **_options: object) -> None:
        asked.append(url)
        raise requests.ConnectTimeout

    monkeypatch.setattr(requests.Session, "request", away)
    monkeypatch.setattr(ProviderSession, "_away_until", {})
    assert client.get(f"{PLACE}login/", headers={"host": "testserver"}).status_code == 503
    assert asked == [IDP["entity_id"]]


def test_metadata_is_read_over_https_alone() -> None:
    idp = {"entity_id": IDP["entity_id"], "metadata_url": "http://id.example/metadata"}
    with pytest.raises(ValueError, match="metadata_url must be an address with https"):
        IdentityProvider(protocol="saml", id="hospital", name="H", role=UserRole.PHYSICIAN, settings={"idp": idp})
