"""The pages in the account menu: notifications with their badge, API tokens, reauthentication."""

import re
from typing import Any

from django.test import Client
from django.urls import reverse
from knox.models import AuthToken

from review.discussion import remarks
from review.models import User
from tests.review.factories import PASSWORD, claim, open_case


def sign_in_and_confirm(client: Client, user: User) -> Client:
    """Sign in and give the password once more, as pages that change the account require."""
    client.force_login(user)
    assert client.post(reverse("account_reauthenticate"), {"password": PASSWORD}).status_code == 302
    return client


def test_the_sign_in_page_focuses_the_name(client: Client, db: None) -> None:
    page = client.get(reverse("account_login")).content.decode()
    [name] = re.findall(r'<input[^>]*name="login"[^>]*>', page)
    assert "autofocus" in name
    assert page.count("autofocus") == 1


def test_the_reauthentication_page_focuses_the_password_and_has_no_dead_links(client: Client, ana: User) -> None:
    client.force_login(ana)
    page = client.get(reverse("account_reauthenticate")).content.decode()
    [password] = re.findall(r'<input[^>]*name="password"[^>]*>', page)
    assert "autofocus" in password
    for address in set(re.findall(r'href="(/accounts/[^"]*)"', page)):
        assert client.get(address, follow=True).status_code == 200, address


def test_the_badge_counts_what_is_unread_on_every_page(client: Client, ana: User, adela: User) -> None:
    case = open_case()
    claim(ana)
    client.force_login(ana)
    pages = [reverse(f"review:{name}") for name in ("workbench", "mine", "guidelines", "notices", "tour")]
    assert not any("badge--count" in client.get(page).content.decode() for page in pages)
    remarks.remark(adela, case.pk, "@ana: is this the dose?")
    for page in pages:
        menu = re.search(r'<details class="menu">.*?</details>', client.get(page).content.decode(), re.S)
        assert menu is not None
        assert len(re.findall(r"badge--count[^<]*>(?:<span[^>]*>[^<]*</span>)?\s*1", menu[0])) == 2, page
    assert "is this the dose" not in client.get(reverse("review:tour")).content.decode()


def test_a_token_is_created_shown_once_used_and_revoked(client: Client, ana: User) -> None:
    sign_in_and_confirm(client, ana)
    page: Any = client.post(reverse("tokens"), {"days": "7", "name": "Nightly export"})
    issued = page.context["issued"]
    bearer = {"Authorization": f"Bearer {issued}"}
    assert Client().get("/api/v1/me/", headers=bearer).json()["username"] == ana.username
    listed = client.get(reverse("tokens")).content.decode()
    assert issued not in listed
    assert "Nightly export" in listed
    [token] = AuthToken.objects.all()
    assert token.token_key in listed
    assert client.post(reverse("token-revoke"), {"token": token.token_key}).status_code == 302
    assert Client().get("/api/v1/me/", headers=bearer).status_code == 401


def test_a_user_cannot_revoke_another_users_token(client: Client, ana: User, bo: User) -> None:
    AuthToken.objects.create(bo)
    [token] = AuthToken.objects.all()
    sign_in_and_confirm(client, ana)
    assert token.token_key not in client.get(reverse("tokens")).content.decode()
    client.post(reverse("token-revoke"), {"token": token.token_key})
    client.post(reverse("token-revoke"), {"all": "1"})
    assert AuthToken.objects.filter(user=bo).exists()


def test_the_token_page_asks_for_the_password_first(client: Client, ana: User) -> None:
    client.force_login(ana)
    for response in (client.get(reverse("tokens")), client.post(reverse("tokens"), {"days": "7"})):
        assert response["Location"].startswith(reverse("account_reauthenticate"))
    assert not AuthToken.objects.exists()
