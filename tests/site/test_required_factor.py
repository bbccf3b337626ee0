"""Roles that must have a second factor, and the list of one's own sessions."""

from typing import Any

import pytest
from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from mhb_site.sign_in.adapters import ClosedAdapter
from mhb_site.sign_in.providers import IdentityProvider
from review.models import PersonEvent, User
from tests.review.factories import PASSWORD, account
from tests.site.test_second_factor import code, enrol

pytestmark = pytest.mark.django_db


@pytest.fixture
def required(settings: Any) -> None:
    settings.MHB_SECOND_FACTOR_ROLES = ["admin"]


def signed_in(name: str) -> Client:
    client = Client()
    client.post(reverse("account_login"), {"login": name, "password": PASSWORD})
    return client


def test_an_admin_without_a_factor_reaches_only_its_setup(required: None, adela: User, ana: User) -> None:
    client = signed_in("adela")
    for page in ("review:overview", "generation:sources", "tokens", "own-data", "sessions"):
        response = client.get(reverse(page))
        assert (response.status_code, response["Location"]) == (302, reverse("mfa_index")), page
    assert client.post(reverse("review:cases"), {"action": "x"}).status_code == 302
    refused = client.get(reverse("api:cases"))
    assert refused.status_code == 403
    assert "second factor" in refused.json()["detail"].lower() + refused.json()["title"].lower()
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": code(secret)})
    assert client.get(reverse("review:overview")).status_code == 200
    assert signed_in("ana").get(reverse("review:workbench")).status_code == 200  # not required of physicians


def test_a_token_does_not_go_around_it(required: None, adela: User, client: Client) -> None:
    body = {"username": "adela", "password": PASSWORD}
    token = client.post(reverse("api:token"), body, content_type="application/json").json()["token"]
    headers = {"authorization": f"Bearer {token}"}
    assert Client().get(reverse("api:cases"), headers=headers).status_code == 403
    enrol(adela)
    assert Client().get(reverse("api:cases"), headers=headers).status_code == 200


def test_a_password_alone_gives_no_token_where_there_is_a_passkey(ana: User, client: Client) -> None:
    Authenticator.objects.create(user=ana, type=Authenticator.Type.WEBAUTHN, data={"name": "key", "credential": {}})
    body = {"username": "ana", "password": PASSWORD}
    assert client.post(reverse("api:token"), body, content_type="application/json").status_code == 401


def test_a_provider_that_asks_for_a_factor_is_enough(required: None, adela: User, settings: Any) -> None:
    hospital = {"protocol": "openid_connect", "id": "hospital", "name": "Hospital", "client_id": "mhb", "role": "admin"}
    hospital |= {"settings": {"server_url": "https://id.example"}, "second_factor": True}  # type: ignore[dict-item]
    settings.MHB_PROVIDERS = [IdentityProvider.model_validate(hospital)]
    client = signed_in("adela")
    assert client.get(reverse("review:overview")).status_code == 302
    session = client.session
    session["account_authentication_methods"] = [{"method": "socialaccount", "provider": "hospital", "at": 1}]
    session.save()
    assert client.get(reverse("review:overview")).status_code == 200


def test_one_ends_own_sessions_and_no_others(ana: User, bo: User) -> None:
    here, there, elsewhere, other = (signed_in(name) for name in ("ana", "ana", "ana", "bo"))
    page = here.get(reverse("sessions"))
    assert len(page.context["sessions"]) == 3
    rows = {row.session_key: row.pk for row in UserSession.objects.all()}
    here.post(reverse("sessions"), {"session": rows[other.session.session_key]})
    assert other.get(reverse("review:workbench")).status_code == 200
    here.post(reverse("sessions"), {"session": rows[there.session.session_key]})
    assert there.get(reverse("review:workbench")).status_code == 302
    assert elsewhere.get(reverse("review:workbench")).status_code == 200
    here.post(reverse("sessions"))
    assert elsewhere.get(reverse("review:workbench")).status_code == 302
    assert here.get(reverse("review:workbench")).status_code == 200
    ended = PersonEvent.objects.filter(person=ana, kind=PersonEvent.Kind.SESSION)
    assert ended.count() == 2
    own = {"session": rows[here.session.session_key]}
    shown = here.post(reverse("sessions"), own, follow=True).content.decode()
    assert "Signed out there" not in shown, "this session goes on"
    assert ended.count() == 2


def test_a_session_of_a_provider_ends_after_some_hours_however_busy(ana: User, rf: RequestFactory) -> None:
    said: dict[str, Any] = {"email_verification": "none", "email": None, "signup": False, "redirect_url": None}
    for signal in ({"sociallogin": object()}, None):
        request = rf.post("/")
        request.user, request.session = ana, SessionStore()
        MessageMiddleware(lambda request: HttpResponse()).process_request(request)
        with context.request_context(request):
            ClosedAdapter(request).post_login(request, ana, signal_kwargs=signal, **said)
        hours = (request.session.get_expiry_date() - timezone.now()).total_seconds() / 3600
        assert round(hours) == (12 if signal else 14 * 24)


def test_a_client_without_an_address_can_sign_in() -> None:
    account("nia")
    client = Client(REMOTE_ADDR="")
    assert client.post(reverse("account_login"), {"login": "nia", "password": PASSWORD}).status_code == 302
    assert client.get(reverse("review:workbench")).status_code == 200
