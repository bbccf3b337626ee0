"""Invitations: a link that sets the first password and signs in, once and before it expires."""

import logging
import re
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from mhb_site.sign_in import first_password
from review.audit import verification
from review.errors import InvitationInvalid, NotAllowed, NotInvitable
from review.models import Audit, PersonEvent, User
from review.people import accounts, invitations
from review.rules.permissions import OPERATOR
from tests.api.conftest import Api, api
from tests.api.test_problems import problem
from tests.review.factories import PASSWORD, account
from tests.review.pages import Browse

__all__ = ["api"]
pytestmark = pytest.mark.django_db
NEW = "a-quiet-reading-room-7"
PAGE = "/accounts/invitation/"


@pytest.fixture
def nia(adela: User) -> User:
    [user] = accounts.invite_new([User(username="nia", first_name="Nia", role="physician")], actor=adela)
    return user


def path_of(user: User) -> str:
    return invitations.invitation_link(user, "http://testserver").removeprefix("http://testserver")


def follow(path: str, password: str = NEW, again: str | None = None, client: Client | None = None) -> Any:
    """Open the link and post a password; returns the answer to that post."""
    client = client or Client()
    assert client.get(path).status_code == 302
    return client.post(PAGE, {"password": password, "again": password if again is None else again})


def can_sign_in(name: str, password: str) -> bool:
    return Client().post(reverse("account_login"), {"login": name, "password": password}).status_code == 302


def test_the_link_sets_the_password_and_signs_in(nia: User) -> None:
    client, path = Client(), path_of(nia)
    answer = client.get(path)
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "Welcome, Nia." in page.content.decode()
    done = client.post(PAGE, {"password": NEW, "again": NEW})
    assert done.status_code == 302
    assert client.get(reverse("review:workbench")).status_code == 200, "the link signs in"
    assert client.get(PAGE).status_code == 410, "the cookie is gone"
    assert can_sign_in("nia", NEW)
    events = PersonEvent.objects.filter(person=nia).order_by("id")
    assert [(event.kind, event.actor and event.actor.username) for event in events] == [
        ("made", "adela"),
        ("invited", "adela"),
        ("password", "nia"),
        ("signed-in", "nia"),
        ("signed-in", "nia"),
    ]
    assert list(verification.check(Audit())) == []


def test_a_link_works_once(nia: User) -> None:
    path = path_of(nia)
    assert follow(path).status_code == 302
    assert follow(path, "another-quiet-room-8").status_code == 410
    assert can_sign_in("nia", NEW)
    with pytest.raises(NotInvitable):
        accounts.invite(nia.pk, actor=OPERATOR)


def test_a_token_can_be_accepted_only_once(nia: User) -> None:
    """Of two forms that are sent at once, the service takes one."""
    token = path_of(nia).split("/")[-2]
    accounts.accept_invitation(nia.pk, token, NEW)
    with pytest.raises(InvitationInvalid):
        accounts.accept_invitation(nia.pk, token, "another-quiet-room-8")


def test_a_link_expires(nia: User, settings: Any) -> None:
    path, valid = path_of(nia), settings.PASSWORD_RESET_TIMEOUT

    def at_age(seconds: float) -> Any:
        later = datetime.now() + timedelta(seconds=seconds)  # noqa: DTZ005 -- the token generator uses naive time
        return mock.patch.object(PasswordResetTokenGenerator, "_now", return_value=later)

    with at_age(valid + 5):
        assert follow(path).status_code == 410
    with at_age(valid - 60):
        assert follow(path).status_code == 302
    User.objects.filter(pk=nia.pk).update(password="!", invited_at=timezone.now() - timedelta(seconds=valid + 5))
    nia.refresh_from_db()
    assert not invitations.is_open(nia)


def test_a_new_link_replaces_the_old_one_and_can_be_withdrawn(nia: User, adela: User) -> None:
    first = path_of(nia)
    second = path_of(accounts.invite(nia.pk, actor=adela))
    assert follow(first).status_code == 410
    for _ in range(2):
        accounts.withdraw_invitation(nia.pk, actor=adela)
    assert follow(second).status_code == 410
    assert PersonEvent.objects.filter(person=nia, kind="uninvited").count() == 1
    assert follow(path_of(accounts.invite(nia.pk, actor=adela))).status_code == 302


def test_a_link_that_was_sent_to_another_address_is_void(nia: User, adela: User) -> None:
    accounts.edit_person(nia.pk, {"email": "nia@hospital.exmaple"}, actor=adela)
    path = path_of(nia)
    nia.refresh_from_db()
    assert invitations.is_open(nia), "it was shown before there was an address"
    accounts.edit_person(nia.pk, {"email": "nia@hospital.example"}, actor=adela)
    assert follow(path).status_code == 410
    assert PersonEvent.objects.filter(person=nia, kind=PersonEvent.Kind.UNINVITED).count() == 1


def test_a_link_does_not_open_a_closed_account(nia: User, adela: User) -> None:
    path = path_of(nia)
    accounts.set_active(nia.pk, False, actor=adela)
    assert follow(path).status_code == 410
    with pytest.raises(NotInvitable):
        accounts.invite(nia.pk, actor=adela)
    accounts.set_active(nia.pk, True, actor=adela)
    assert follow(path).status_code == 410, "closing the account ended the invitation"


def test_a_password_set_by_an_admin_ends_the_invitation(nia: User, adela: User) -> None:
    path = path_of(nia)
    accounts.set_password(nia.pk, NEW, actor=adela)
    assert follow(path, "another-quiet-room-8").status_code == 410
    assert can_sign_in("nia", NEW)


def test_a_link_opens_no_other_account(nia: User, adela: User) -> None:
    [other] = accounts.invite_new([User(username="oli")], actor=adela)
    token = path_of(nia).split("/")[-2]
    assert follow(reverse("invitation", args=[other.pk, token])).status_code == 410
    assert follow(reverse("invitation", args=[adela.pk, token])).status_code == 410
    with pytest.raises(InvitationInvalid):
        accounts.accept_invitation(10**6, token, NEW)


@pytest.mark.parametrize(
    ("password", "again"), [("short", "short"), ("1234567890", "1234567890"), (NEW, NEW + "x"), ("", "")]
)
def test_the_password_rules_apply(nia: User, password: str, again: str) -> None:
    path = path_of(nia)
    assert follow(path, password, again).status_code == 422
    assert follow(path).status_code == 302, "a refused password does not use up the link"


def test_wrong_links_do_not_tell_whose_number_an_account_has(nia: User, bo: User) -> None:
    """A name that is locked after wrong links to a number would be that number's."""
    client = Client()
    client.get(reverse("invitation", args=[bo.pk, "wrong"]))
    assert [client.get(PAGE).status_code for _ in range(11)] == [410] * 9 + [429] * 2
    assert can_sign_in("bo", PASSWORD)


def test_wrong_links_are_counted_like_wrong_passwords(nia: User) -> None:
    client = Client()
    client.get(reverse("invitation", args=[nia.pk, "no-token"]))
    assert [client.get(PAGE).status_code for _ in range(11)] == [410] * 9 + [429] * 2
    assert follow(path_of(nia)).status_code == 429, "even the right link is locked out"
    assert follow(path_of(nia), client=Client(REMOTE_ADDR="203.0.113.9")).status_code == 302
    guesser = Client(REMOTE_ADDR="203.0.113.10")
    guesser.get(reverse("invitation", args=[10**6, "no-token"]))
    assert [guesser.get(PAGE).status_code for _ in range(10)] == [410] * 9 + [429]


def test_opening_a_link_does_not_use_it_up(nia: User) -> None:
    path = path_of(nia)
    for _ in range(3):
        assert Client().get(path).status_code == 302
    assert Client().head(path).status_code in (302, 405)
    assert Client().get(PAGE).status_code == 410, "the page needs the cookie"
    assert not AccessAttempt.objects.exists(), "a missing cookie does not count as a failed attempt"
    assert follow(path).status_code == 302


def test_the_token_is_neither_stored_nor_logged(nia: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = path_of(nia)
    token = path.split("/")[-2]
    client = Client()
    client.get(path)
    client.get(PAGE)
    client.get(path[:-2] + "x/")
    client.get(PAGE)
    assert follow(path, client=client).status_code == 302
    assert token not in caplog.text
    rows = [
        *(str(vars(row)) for model in (User, PersonEvent, AccessAttempt, AccessLog) for row in model.objects.all()),
        *(str(session.get_decoded()) for session in Session.objects.all()),
    ]
    assert not [row for row in rows if token in row]
    cookie = Client().get(path).cookies[first_password.COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", PAGE)


def test_a_forged_cookie_is_refused(nia: User) -> None:
    client = Client()
    for forged in ("", "x", f"[{nia.pk}, 1]", "a:b:c"):
        client.cookies[first_password.COOKIE] = forged
        assert client.get(PAGE).status_code == 410


def test_accepting_an_invitation_ends_the_session_of_another_user(nia: User, adela: User, browse: Browse) -> None:
    client = browse(adela)
    assert follow(path_of(nia), client=client).status_code == 302
    assert client.get(reverse("review:people")).status_code == 403


def test_admins_invite_and_withdraw_on_the_pages(browse: Browse, adela: User) -> None:
    client = browse(adela)
    fields = {"username": "oli", "role": "physician", "languages": "", "specialty": "Cardiology; Nephrology"}
    fields["email"] = "oli@example.org"
    created = client.post(reverse("review:person-new"), fields)
    oli = User.objects.get(username="oli")
    assert oli.specialty == "Cardiology, Nephrology"
    page = created.content.decode()
    [link] = set(re.findall(r"http://testserver(/accounts/invitation/[^<\s]+)", page))
    assert (
        "data:text/csv;charset=utf-8,name%2Cusername%2Cemail%2Clink%0D%0Aoli%2Coli%2Coli%40example.org%2Chttp" in page
    )
    assert 'href="mailto:oli@example.org?subject=Your%20MHB%20account&amp;body=Dear%20oli' in page
    page = client.get(reverse("review:person", args=[oli.pk])).content.decode()
    assert "The link is valid until" in page
    assert link not in page, "the link is shown only once"
    assert "oli" in client.get(reverse("review:people") + "?status=invited").content.decode()
    client.post(reverse("review:person-invitation", args=[oli.pk]), {"withdraw": "1"})
    assert "No invitation is open." in client.get(reverse("review:person", args=[oli.pk])).content.decode()
    again = client.post(reverse("review:person-invitation", args=[oli.pk])).content.decode()
    [link] = set(re.findall(r"http://testserver(/accounts/invitation/[^<\s]+)", again))
    assert follow(link).status_code == 302
    assert client.post(reverse("review:person-invitation", args=[oli.pk])).status_code == 409
    assert "Invite" not in client.get(reverse("review:person", args=[oli.pk])).content.decode()


def test_the_api_invites_and_withdraws(api: Api, adela: User, ana: User) -> None:
    client = api(adela)
    assert client.post(reverse("api:people"), {"username": "oli", "role": "physician"}).status_code == 201
    oli = User.objects.get(username="oli")
    assert not oli.has_usable_password()
    invitation = client.post(reverse("api:person-invite", args=[oli.pk])).json()
    assert invitation["username"] == "oli"
    assert invitation["expires_at"] > timezone.now().isoformat()
    assert client.post(reverse("api:person-uninvite", args=[oli.pk])).json()["invited_at"] is None
    path = invitation["link"].removeprefix("http://testserver")
    assert follow(path).status_code == 410
    invitation = client.post(reverse("api:person-invite", args=[oli.pk])).json()
    assert follow(invitation["link"].removeprefix("http://testserver")).status_code == 302
    assert problem(client.post(reverse("api:person-invite", args=[ana.pk])), 409)["type"] == "urn:mhb:not-invitable"


def test_only_admins_can_invite_and_only_superusers_can_invite_staff(nia: User, ana: User, adela: User) -> None:
    for action in (accounts.invite, accounts.withdraw_invitation):
        with pytest.raises(NotAllowed):
            action(nia.pk, actor=ana)
    keeper = account("keeper", is_staff=True)
    for action in (accounts.invite, accounts.withdraw_invitation):
        with pytest.raises(NotAllowed):
            action(keeper.pk, actor=adela)
