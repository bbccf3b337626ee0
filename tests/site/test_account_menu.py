"""What hangs under the account menu: notifications with their badge, API tokens, the second factor."""

import re
from typing import Any

from django.test import Client
from django.urls import reverse
from knox.models import AuthToken

from review.discussion import remarks
from review.models import User
from tests.review.factories import PASSWORD, opened, take


def confirmed(client: Client, user: User) -> Client:
    """Signed in, and the password given once more: pages that change the account want it."""
    client.force_login(user)
    assert client.post(reverse("account_reauthenticate"), {"password": PASSWORD}).status_code == 302
    return client


def test_the_name_has_the_focus_at_the_sign_in(client: Client, db: None) -> None:
    page = client.get(reverse("account_login")).content.decode()
    [name] = re.findall(r'<input[^>]*name="login"[^>]*>', page)
    assert "autofocus" in name
    assert page.count("autofocus") == 1


def test_so_has_the_password_that_is_asked_for_again_and_no_link_leads_nowhere(client: Client, ana: User) -> None:
    client.force_login(ana)
    page = client.get(reverse("account_reauthenticate")).content.decode()
    [password] = re.findall(r'<input[^>]*name="password"[^>]*>', page)
    assert "autofocus" in password
    for address in set(re.findall(r'href="(/accounts/[^"]*)"', page)):
        assert client.get(address, follow=True).status_code == 200, address


def test_the_badge_counts_what_is_unread_on_every_page(client: Client, ana: User, adela: User) -> None:
    case = opened()
    take(ana)
    client.force_login(ana)
    pages = [reverse(f"review:{name}") for name in ("workbench", "mine", "guidelines", "notices", "tour")]
    assert not any("badge--count" in client.get(page).content.decode() for page in pages)
    remarks.remark(adela, case.pk, "@ana: is this the dose?")
    for page in pages:
        menu = re.search(r'<details class="menu">.*?</details>', client.get(page).content.decode(), re.S)
        assert menu is not None
        assert len(re.findall(r"badge--count[^<]*>(?:<span[^>]*>[^<]*</span>)?\s*1", menu[0])) == 2, page
    assert "is this the dose" not in client.get(reverse("review:tour")).content.decode()


def test_a_token_is_made_shown_once_used_and_revoked(client: Client, ana: User) -> None:
    confirmed(client, ana)
    page: Any = client.post(reverse("tokens"), {"days": "7"})
    issued = page.context["issued"]
    me = {"Authorization": f"Bearer {issued}"}
    assert Client().get("/api/v1/me/", headers=me).json()["username"] == ana.username
    listed = client.get(reverse("tokens")).content.decode()
    assert issued not in listed
    [token] = AuthToken.objects.all()
    assert token.token_key in listed
    assert client.post(reverse("token-revoke"), {"token": token.token_key}).status_code == 302
    assert Client().get("/api/v1/me/", headers=me).status_code == 401


def test_nobody_revokes_anothers_token(client: Client, ana: User, bo: User) -> None:
    AuthToken.objects.create(bo)
    [token] = AuthToken.objects.all()
    confirmed(client, ana)
    assert token.token_key not in client.get(reverse("tokens")).content.decode()
    client.post(reverse("token-revoke"), {"token": token.token_key})
    client.post(reverse("token-revoke"), {"all": "1"})
    assert AuthToken.objects.filter(user=bo).exists()


def test_tokens_ask_for_the_password_first(client: Client, ana: User) -> None:
    client.force_login(ana)
    for answer in (client.get(reverse("tokens")), client.post(reverse("tokens"), {"days": "7"})):
        assert answer["Location"].startswith(reverse("account_reauthenticate"))
    assert not AuthToken.objects.exists()
