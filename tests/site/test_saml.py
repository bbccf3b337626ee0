"""The addresses of SAML, to which anybody can send anything."""

import base64
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.test import Client, override_settings
from django.urls import include, path

from mhb_site import urls
from mhb_site.sign_in import sso
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
