"""The addresses of SAML, to which anybody can send anything."""

import base64
import errno
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import include, path

from mhb_site import urls
from mhb_site.sign_in import sso
from mhb_site.sign_in.provider_calls import ProviderSession
from mhb_site.sign_in.providers import IdentityProvider
from review.errors import ProviderAway
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


def test_no_message_of_a_provider_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    answer = SIGN_OUT.replace("LogoutRequest", "Response").replace(IDP["entity_id"], "Nia Lima was dismissed")
    host = {"host": "testserver"}
    client.post(f"{PLACE}acs/", {"SAMLResponse": base64.b64encode(answer.encode()).decode()}, headers=host)
    assert client.get(f"{PLACE}acs/finish/", headers=host).status_code == 403
    assert "through hospital failed" in caplog.text
    assert "Nia Lima" not in caplog.text
    assert "Error processing" not in caplog.text


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


METADATA = f"""<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="{IDP["entity_id"]}"><IDPSSODescriptor>
<KeyDescriptor><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>AAAA</X509Certificate></X509Data></KeyInfo>
</KeyDescriptor><SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{IDP["sso_url"]}"/>
</IDPSSODescriptor></EntityDescriptor>"""


@pytest.mark.parametrize("lost", ["SingleSignOnService", "X509Certificate", "IDPSSODescriptor", IDP["entity_id"]])
def test_metadata_with_which_nobody_could_sign_in_is_neither_used_nor_kept(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A page of a provider in maintenance may be XML, too."""
    idp = {"entity_id": IDP["entity_id"], "metadata_url": f"{IDP['entity_id']}?{lost}"}
    provider = HOSPITAL.model_copy(update={"settings": {"idp": idp}})
    settings.SOCIALACCOUNT_PROVIDERS = {"saml": {"APPS": [provider.app]}}
    documents = [METADATA.replace(lost, "Away"), METADATA]

    def answer(_session: object, _method: str, _url: str, **_options: object) -> requests.Response:
        response = requests.Response()
        response.status_code, response._content = 200, documents.pop(0).encode()
        return response

    monkeypatch.setattr(requests.Session, "request", answer)
    visits = [client.get(f"{PLACE}login/", headers={"host": "testserver"}) for _visit in range(3)]
    assert [visit.status_code for visit in visits] == [403, 302, 302]


@pytest.mark.parametrize("host", ["hospital", "hospital:8443", "localhost", "mhb.example"])
def test_a_site_whose_name_has_no_dot_has_saml(client: Client, settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["hospital", "localhost", "mhb.example"]
    for address, status in (("login/", 302), ("metadata/", 200)):
        assert client.get(PLACE + address, headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "error", [Exception("No hostname"), AssertionError(), RuntimeError(), ValueError(), StopIteration()]
)
def test_whatever_a_library_raises_is_refused_in_words(rf: RequestFactory, error: Exception) -> None:
    def view(_request: HttpRequest) -> HttpResponse:
        raise error

    request = rf.get("/")
    request.user = AnonymousUser()
    assert sso.refusing_malformed(view)(request).status_code == 403


@pytest.mark.parametrize(
    "error",
    [
        Http404(),
        PermissionDenied(),
        SuspiciousOperation(),
        OperationalError(),
        ProgrammingError(),
        ProviderAway(),
        OSError(errno.ENOSPC, "full"),
    ],
)
def test_what_the_site_answers_itself_is_left_to_it(rf: RequestFactory, error: Exception) -> None:
    def view(_request: HttpRequest) -> HttpResponse:
        raise error

    with pytest.raises(type(error)):
        sso.refusing_malformed(view)(rf.get("/"))


def test_metadata_is_read_over_https_alone() -> None:
    idp = {"entity_id": IDP["entity_id"], "metadata_url": "http://id.example/metadata"}
    with pytest.raises(ValueError, match="metadata_url must be an address with https"):
        IdentityProvider(protocol="saml", id="hospital", name="H", role=UserRole.PHYSICIAN, settings={"idp": idp})
