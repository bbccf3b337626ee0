"""Accounts agree with their events, and the check names each that does not."""

from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from knox.models import AuthToken

from mhb_site.demo.load import ACCOUNTS, _create_accounts
from review.audit import verification
from review.audit.verification import FaultCode
from review.errors import NotAllowed
from review.models import PersonEvent, User
from review.people import accounts
from review.rules.permissions import OPERATOR, UserRole
from tests.review.factories import PASSWORD, account
from tests.site.test_second_factor import code, enrol

pytestmark = pytest.mark.django_db
NEW = "quite-another-password"


def faults() -> list[tuple[FaultCode, str]]:
    return [(fault.what, fault.name) for fault in verification.check(verification.CheckProgress())]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"role": "admin"}, FaultCode.ACCOUNT_ROLE),
        ({"is_active": False}, FaultCode.ACCOUNT_ACTIVE),
        ({"is_staff": True}, FaultCode.ACCOUNT_KEEPER),
        ({"is_superuser": True}, FaultCode.ACCOUNT_KEEPER),
    ],
)
def test_an_account_changed_in_the_database_is_named(
    ana: User, bo: User, changed: dict[str, Any], what: FaultCode
) -> None:
    assert faults() == []
    User.objects.filter(pk=ana.pk).update(**changed)
    assert faults() == [(what, "ana")]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("verify_audit", stdout=printed)
    assert f"ana (id {ana.pk}): this account's" in printed.getvalue() or "this account is" in printed.getvalue()


def test_second_factors_added_or_taken_in_the_database_are_named(ana: User, bo: User, adela: User) -> None:
    enrol(ana)
    assert faults() == [(FaultCode.ACCOUNT_SECOND_FACTOR, "ana")]
    accounts.remove_second_factor(ana.pk, actor=adela)
    assert faults() == []


def test_an_account_put_into_the_database_is_named(ana: User) -> None:
    User.objects.bulk_create([User(username="ghost", password=ana.password, role="admin")])
    assert faults() == [(FaultCode.ACCOUNT_UNRECORDED, "ghost")]
    verification.run(verification.create_check(None).pk)
    kept = verification.latest()
    assert kept is not None
    assert next(str(fault) for fault in verification.faults(kept)).startswith("ghost (id ")


def test_whatever_is_done_by_the_services_agrees(adela: User, ana: User) -> None:
    keeper = account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)
    accounts.set_role(ana.pk, UserRole.RESEARCHER, actor=adela)
    accounts.set_admin_access(ana.pk, staff=True, superuser=False, actor=keeper)
    accounts.set_active(ana.pk, False, actor=adela)
    accounts.set_active(ana.pk, True, actor=adela)
    accounts.set_password(ana.pk, NEW, actor=OPERATOR)
    accounts.add_person(User(username="new", role="researcher"), NEW, actor=adela)
    assert faults() == []


def test_admin_flags_are_given_by_those_who_have_them(adela: User, ana: User) -> None:
    with pytest.raises(NotAllowed):
        accounts.set_admin_access(ana.pk, staff=True, superuser=True, actor=adela)
    with pytest.raises(NotAllowed):
        accounts.add_person(User(username="new", is_superuser=True), NEW, actor=adela)


@pytest.mark.parametrize("doors", [{"is_staff": True}, {"is_superuser": True}])
def test_an_admin_does_not_take_over_an_account_that_can_do_more(adela: User, doors: dict[str, bool]) -> None:
    keeper = account("keeper", UserRole.ADMIN, **doors)
    enrol(keeper)
    client = Client()
    client.force_login(adela)
    page = client.get(reverse("review:person", args=[keeper.pk])).content.decode()
    for name, sent in (("person-password", {"password": NEW}), ("person-second-factor", {})):
        address = reverse(f"review:{name}", args=[keeper.pk])
        assert address not in page
        assert client.post(address, sent).status_code == 403
    for take_over in (
        lambda by: accounts.set_password(keeper.pk, NEW, actor=by),
        lambda by: accounts.remove_second_factor(keeper.pk, actor=by),
    ):
        with pytest.raises(NotAllowed):
            take_over(adela)
    keeper.refresh_from_db()
    assert keeper.check_password(PASSWORD)
    assert Authenticator.objects.filter(user=keeper).exists()
    root = account("root", UserRole.ADMIN, is_staff=True, is_superuser=True)
    for by in (root, OPERATOR):
        accounts.set_password(keeper.pk, NEW, actor=by)
        accounts.remove_second_factor(keeper.pk, actor=by)
    assert not Authenticator.objects.filter(user=keeper).exists()


def test_accounts_of_the_operator_and_of_the_demo_leave_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", NEW)
    call_command("createsuperuser", "--noinput", username="Root", email="", stdout=StringIO())
    [event] = PersonEvent.objects.all()
    assert (event.person.username, event.kind, event.actor) == ("root", "made", None)
    assert event.data == {"role": "admin", "active": True, "staff": True, "superuser": True, "factors": []}
    _create_accounts()
    assert PersonEvent.objects.count() == 1 + len(ACCOUNTS)
    assert faults() == []


def test_a_password_from_the_command_line_leaves_an_event(ana: User, monkeypatch: pytest.MonkeyPatch) -> None:
    AuthToken.objects.create(ana)
    monkeypatch.setattr("review.management.commands.changepassword.getpass", lambda _prompt: NEW)
    call_command("changepassword", "ANA", stdout=StringIO())
    ana.refresh_from_db()
    assert ana.check_password(NEW)
    assert PersonEvent.objects.order_by("-sequence")[0].data == {"tokens": 1}
    monkeypatch.setattr("review.management.commands.changepassword.getpass", lambda _prompt: "short")
    with pytest.raises(CommandError, match="too short"):
        call_command("changepassword", "ana")
    with pytest.raises(CommandError, match="no account"):
        call_command("changepassword", "nobody")


def test_a_lost_second_factor_of_the_only_admin(adela: User) -> None:
    enrol(adela)
    call_command("take_second_factor", "adela", stdout=StringIO())
    assert not Authenticator.objects.exists()
    assert faults() == []


def test_the_own_second_factor_leaves_events(ana: User) -> None:
    client = Client()
    client.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": "000000"})
    assert client.post(reverse("mfa_activate_totp"), {"code": code(secret)}).status_code == 302
    assert faults() == []
    assert client.post(reverse("mfa_generate_recovery_codes")).status_code == 302
    assert faults() == []
    assert client.post(reverse("mfa_deactivate_totp")).status_code == 302
    said = [event.data["factors"] for event in PersonEvent.objects.filter(kind="own-factor").order_by("sequence")]
    assert said == [["recovery_codes", "totp"], ["recovery_codes", "totp"], []]
    assert faults() == []
    RecoveryCodes.activate(ana)
    assert faults() == [(FaultCode.ACCOUNT_SECOND_FACTOR, "ana")]


def has_access(token: str, session: Client) -> tuple[int, int]:
    me = Client().get(reverse("api:me"), headers={"Authorization": f"Bearer {token}"})
    return me.status_code, session.get(reverse("review:workbench")).status_code


def test_the_own_new_password_ends_tokens_and_the_other_sessions(ana: User) -> None:
    _stored, token = AuthToken.objects.create(ana)
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.force_login(ana)
    said = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert here.post(reverse("account_change_password"), said).status_code == 302
    assert has_access(token, here) == (401, 200)
    assert has_access(token, elsewhere) == (401, 302)
    event = PersonEvent.objects.order_by("-sequence")[0]
    assert (event.kind, event.actor, event.data) == ("password", ana, {"tokens": 1})


def test_what_a_closed_account_had_does_not_revive(ana: User, adela: User) -> None:
    _stored, token = AuthToken.objects.create(ana)
    session = Client()
    session.force_login(ana)
    assert has_access(token, session) == (200, 200)
    accounts.set_active(ana.pk, False, actor=adela)
    assert has_access(token, session) == (401, 302)
    accounts.set_active(ana.pk, True, actor=adela)
    assert has_access(token, session) == (401, 302)
