"""Tokens are hashed, expire, are limited in number, and end at sign-out."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from mhb_site.models import TokenName
from review.models import PersonEvent, User
from tests.api.conftest import Api, Client
from tests.review.factories import PASSWORD


def sign_in(username: str, **options: Any) -> Any:
    return Client().post(reverse("api:token"), {"username": username, "password": PASSWORD, **options})


def with_token(token: str) -> Client:
    client = Client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_a_token_gives_access_and_only_its_hash_is_stored(ana: User) -> None:
    answer = sign_in("ana")
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    token = answer.json()["token"]
    me = with_token(token).get(reverse("api:me")).json()
    assert me == {
        "username": "ana",
        "name": "Ana Alves",
        "role": "physician",
        "can": ["review"],
        "institution": "",
        "hospital": "",
        "specialty": "Cardiology",
        "languages": [],
    }
    stored = AuthToken.objects.get()
    assert token.startswith("mhb_")
    assert all(token not in str(getattr(stored, field.attname)) for field in AuthToken._meta.concrete_fields)
    assert len(stored.digest) == 128


@pytest.mark.parametrize(("options", "days"), [({}, 90), ({"days": 7}, 7)])
def test_a_token_expires(ana: User, clock: Any, options: dict[str, int], days: int) -> None:
    answer = sign_in("ana", **options)
    client = with_token(answer.json()["token"])
    assert AuthToken.objects.get().expiry == timezone.now() + timedelta(days=days)
    clock.advance(days=days, seconds=-1)
    assert client.get(reverse("api:me")).status_code == 200
    clock.advance(seconds=2)
    assert client.get(reverse("api:me")).status_code == 401


def test_tokens_and_sessions_outlast_jumps_of_the_clock(ana: User, clock: Any) -> None:
    client = with_token(sign_in("ana").json()["token"])
    session = Client()
    session.force_login(ana)
    for hours in (1, -2, 1):
        clock.advance(hours=hours)
        assert client.get(reverse("api:me")).status_code == 200
        assert session.get(reverse("api:me")).status_code == 200


@pytest.mark.parametrize("days", [0, 91, 10**30])
def test_no_token_lasts_longer_than_the_default(ana: User, days: int) -> None:
    assert sign_in("ana", days=days).status_code == 400


def test_a_person_has_a_limited_number_of_tokens(ana: User, clock: Any) -> None:
    """The oldest of 20 tokens is replaced by the next: nobody could sign out 20 lost tokens."""
    clients = []
    for _ in range(20):
        clients.append(with_token(sign_in("ana", days=1).json()["token"]))
        clock.advance(seconds=1)
    last = sign_in("ana")
    assert last.status_code == 201
    assert AuthToken.objects.count() == 20
    assert [client.get(reverse("api:me")).status_code for client in clients[:2]] == [401, 200]
    clock.advance(days=2)
    assert sign_in("ana").status_code == 201
    assert AuthToken.objects.count() == 2, "expired tokens do not count and are deleted first"


def test_sign_out_ends_one_token_or_all(ana: User) -> None:
    first, second, third = (
        with_token(sign_in("ana", name=name).json()["token"]) for name in ("", "Export", "Notebook")
    )
    assert first.post(reverse("api:logout")).status_code == 204
    assert first.get(reverse("api:me")).status_code == 401
    assert second.post(reverse("api:logoutall")).status_code == 204
    assert third.get(reverse("api:me")).status_code == 401
    told = PersonEvent.objects.filter(person=ana, kind=PersonEvent.Kind.TOKEN).order_by("sequence")
    assert [(data["what"], data.get("tokens")) for data in told.values_list("data", flat=True)][3:] == [
        ("revoked", 1),
        ("revoked", 2),
    ]


def test_the_name_of_a_token_turns_nothing_behind_it(ana: User) -> None:
    for name in ("\u202enotebook \x1b", "\u202e"):
        assert sign_in("ana", name=name).status_code == 201
    assert list(TokenName.objects.values_list("name", flat=True)) == ["notebook"]


def test_signing_in_is_recorded_and_starts_no_session(api: Api, ana: User) -> None:
    answer = sign_in("ana")
    ana.refresh_from_db()
    assert ana.last_login is not None
    assert not answer.cookies


def test_a_closed_account_gets_no_token(ana: User) -> None:
    ana.is_active = False
    ana.save()
    assert sign_in("ana").status_code == 401


def test_an_address_asks_for_tokens_as_often_as_it_signs_in_on_the_page(ana: User, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"login": "2/m/ip"}
    answers = [sign_in("ana") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert PersonEvent.objects.filter(kind="token").count() == 2
