"""Accounts match their events, and the check names every account that does not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.core.management import CommandError, call_command
from django.db import OperationalError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from mhb_site.demo.load import ACCOUNTS, create_accounts
from review.assignments import claims, reassignment
from review.audit import verification
from review.audit.verification import FaultCode
from review.errors import NotAllowed, NotReserved
from review.models import Assignment, Audit, Event, PersonEvent, User
from review.people import accounts
from review.rules.permissions import OPERATOR, UserRole
from review.rules.state_machine import Policy, Role
from tests.conftest import Beside
from tests.review.approve import approval_of
from tests.review.factories import PASSWORD, account, claim, open_case, submit
from tests.site.test_second_factor import code, enrol

pytestmark = pytest.mark.django_db
NEW = "quite-another-password"


def faults() -> list[tuple[FaultCode, str]]:
    return [(fault.what, fault.name) for fault in verification.check(Audit())]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"role": "admin"}, FaultCode.ACCOUNT_ROLE),
        ({"is_active": False}, FaultCode.ACCOUNT_ACTIVE),
        ({"paused_at": datetime(2026, 1, 1, tzinfo=UTC)}, FaultCode.ACCOUNT_PAUSED),
        ({"is_staff": True}, FaultCode.ACCOUNT_KEEPER),
        ({"is_superuser": True}, FaultCode.ACCOUNT_KEEPER),
    ],
)
def test_an_account_changed_in_the_database_is_named(
    ana: User, bo: User, change: dict[str, Any], code: FaultCode
) -> None:
    assert faults() == []
    User.objects.filter(pk=ana.pk).update(**change)
    assert faults() == [(code, "ana")]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("verify_audit", stdout=printed)
    assert f"ana (id {ana.pk}): this account's" in printed.getvalue() or "this account is" in printed.getvalue()


def test_second_factors_changed_in_the_database_are_named(ana: User, bo: User, adela: User) -> None:
    enrol(ana)
    assert faults() == [(FaultCode.ACCOUNT_SECOND_FACTOR, "ana")]
    accounts.remove_second_factor(ana.pk, actor=adela)
    assert faults() == []


def test_an_account_inserted_into_the_database_is_named(ana: User) -> None:
    User.objects.bulk_create([User(username="ghost", password=ana.password, role="admin")])
    assert faults() == [(FaultCode.ACCOUNT_UNRECORDED, "ghost")]
    verification.run(verification.create_check(None).pk)
    audit = verification.latest()
    assert audit is not None
    assert next(str(fault) for fault in verification.faults(audit)).startswith("ghost (id ")


def test_accounts_changed_through_the_services_match_their_events(adela: User, ana: User) -> None:
    keeper = account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)
    accounts.set_role(ana.pk, UserRole.RESEARCHER, actor=adela)
    accounts.set_admin_access(ana.pk, staff=True, superuser=False, actor=keeper)
    accounts.set_active(ana.pk, False, actor=keeper)
    accounts.set_active(ana.pk, True, actor=keeper)
    accounts.set_password(ana.pk, NEW, actor=OPERATOR)
    accounts.add_person(User(username="new", role="researcher"), NEW, actor=adela)
    assert faults() == []


def test_an_admin_whose_role_was_taken_meanwhile_changes_no_account(adela: User, ana: User) -> None:
    """Two admins who demote each other at once would leave the site without one."""
    other = account("other", UserRole.ADMIN, is_staff=True, is_superuser=True)
    read_before = User.objects.get(pk=other.pk)
    accounts.set_role(other.pk, UserRole.RESEARCHER, actor=account("keeper", UserRole.ADMIN, is_superuser=True))
    with pytest.raises(NotAllowed):
        accounts.set_role(adela.pk, UserRole.RESEARCHER, actor=read_before)
    with pytest.raises(NotAllowed):
        accounts.set_admin_access(ana.pk, staff=True, superuser=True, actor=read_before)


def test_an_admins_own_account_does_not_change_while_they_change_another(beside: Beside) -> None:
    adela, ana = account("adela", UserRole.ADMIN), account("ana")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=adela.pk)
        assert type(beside(partial(accounts.set_paused, ana.pk, True, actor=adela))) is OperationalError


def test_only_accounts_with_admin_flags_can_grant_them(adela: User, ana: User) -> None:
    with pytest.raises(NotAllowed):
        accounts.set_admin_access(ana.pk, staff=True, superuser=True, actor=adela)
    with pytest.raises(NotAllowed):
        accounts.add_person(User(username="new", is_superuser=True), NEW, actor=adela)


@pytest.mark.parametrize("flags", [{"is_staff": True}, {"is_superuser": True}])
def test_an_admin_cannot_take_over_an_account_with_more_rights(adela: User, flags: dict[str, bool]) -> None:
    keeper = account("keeper", UserRole.ADMIN, **flags)
    enrol(keeper)
    client = Client()
    client.force_login(adela)
    page = client.get(reverse("review:person", args=[keeper.pk])).content.decode()
    for name, sent in (
        ("person-password", {"password": NEW}),
        ("person-second-factor", {}),
        ("person-active", {"active": "0"}),
        ("person-pause", {"paused": "1"}),
        ("person-edit", {"first_name": "X", "email": "taken@over.example"}),
        ("person-invitation", {}),
    ):
        address = reverse(f"review:{name}", args=[keeper.pk])
        assert address not in page
        assert client.post(address, sent).status_code == 403
    for take_over in (
        lambda actor: accounts.set_password(keeper.pk, NEW, actor=actor),
        lambda actor: accounts.remove_second_factor(keeper.pk, actor=actor),
        lambda actor: accounts.set_role(keeper.pk, UserRole.PHYSICIAN, actor=actor),
        lambda actor: accounts.set_active(keeper.pk, False, actor=actor),
        lambda actor: accounts.set_paused(keeper.pk, True, actor=actor),
        lambda actor: accounts.edit_person(keeper.pk, {"email": "taken@over.example"}, actor=actor),
        lambda actor: accounts.withdraw_invitation(keeper.pk, actor=actor),
    ):
        with pytest.raises(NotAllowed):
            take_over(adela)
    client.post(reverse("review:people"), {"action": "pause", "rows": [keeper.pk]})
    changes = {"active": {"active": False}, "pause": {"paused": True}, "password": {"password": NEW}}
    for name in ("active", "pause", "password", "second-factor", "invite", "uninvite"):
        address = reverse(f"api:person-{name}", args=[keeper.pk])
        answer = client.post(address, changes.get(name, {}), content_type="application/json")
        assert answer.status_code == 403, name
    address = reverse("api:person", args=[keeper.pk])
    assert client.patch(address, {"first_name": "X"}, content_type="application/json").status_code == 403
    keeper.refresh_from_db()
    assert (keeper.is_active, keeper.paused_at, keeper.role, keeper.first_name) == (True, None, UserRole.ADMIN, "")
    assert keeper.check_password(PASSWORD)
    assert Authenticator.objects.filter(user=keeper).exists()
    root = account("root", UserRole.ADMIN, is_staff=True, is_superuser=True)
    for actor in (root, OPERATOR):
        accounts.set_password(keeper.pk, NEW, actor=actor)
        accounts.remove_second_factor(keeper.pk, actor=actor)
    assert not Authenticator.objects.filter(user=keeper).exists()


def test_accounts_created_by_the_operator_and_the_demo_leave_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", NEW)
    call_command("createsuperuser", "--noinput", username="Root", email="", stdout=StringIO())
    [event] = PersonEvent.objects.all()
    assert event.person is not None
    assert (event.person.username, event.kind, event.actor) == ("root", "made", None)
    assert event.data == {
        "role": "admin",
        "active": True,
        "staff": True,
        "superuser": True,
        "senior": False,
        "factors": [],
    }
    create_accounts()
    assert PersonEvent.objects.count() == 1 + len(ACCOUNTS)
    assert faults() == []


def test_a_password_from_the_command_line_leaves_an_event(ana: User, monkeypatch: pytest.MonkeyPatch) -> None:
    AuthToken.objects.create(ana)
    monkeypatch.setattr("review.people.actions.getpass", lambda _prompt: NEW)
    call_command("changepassword", "ANA", stdout=StringIO())
    ana.refresh_from_db()
    assert ana.check_password(NEW)
    assert PersonEvent.objects.order_by("-sequence")[0].data == {"tokens": 1}
    monkeypatch.setattr("review.people.actions.getpass", lambda _prompt: "short")
    with pytest.raises(CommandError, match="too short"):
        call_command("changepassword", "ana")
    with pytest.raises(CommandError, match="no account"):
        call_command("changepassword", "nobody")
    monkeypatch.setattr("sys.stdin", StringIO())
    monkeypatch.setattr("review.people.actions.getpass", lambda _prompt: input())
    with pytest.raises(CommandError, match="The input ended"):
        call_command("changepassword", "ana")


def test_the_operator_can_remove_a_lost_second_factor(adela: User) -> None:
    enrol(adela)
    call_command("take_second_factor", "adela", stdout=StringIO())
    assert not Authenticator.objects.exists()
    assert faults() == []


def test_changes_of_ones_own_second_factor_leave_events(ana: User) -> None:
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
    factors = [event.data["factors"] for event in PersonEvent.objects.filter(kind="own-factor").order_by("sequence")]
    assert factors == [["recovery_codes", "totp"], ["recovery_codes", "totp"], []]
    assert faults() == []
    RecoveryCodes.activate(ana)
    assert faults() == [(FaultCode.ACCOUNT_SECOND_FACTOR, "ana")]


def statuses(token: str, session: Client) -> tuple[int, int]:
    """The statuses of a request with the token and of one in the session."""
    me = Client().get(reverse("api:me"), headers={"Authorization": f"Bearer {token}"})
    return me.status_code, session.get(reverse("review:workbench")).status_code


def test_changing_ones_own_password_ends_tokens_and_other_sessions(ana: User) -> None:
    _stored, token = AuthToken.objects.create(ana)
    current, other = Client(), Client()
    for client in (current, other):
        client.force_login(ana)
    passwords = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert current.post(reverse("account_change_password"), passwords).status_code == 302
    assert statuses(token, current) == (401, 200)
    assert statuses(token, other) == (401, 302)
    event = PersonEvent.objects.order_by("-sequence")[0]
    assert (event.kind, event.actor, event.data) == ("password", ana, {"tokens": 1})


def test_a_new_second_factor_ends_tokens_and_other_sessions(ana: User) -> None:
    """They were begun without it. New recovery codes end nothing."""
    _stored, token = AuthToken.objects.create(ana)
    current, other = Client(), Client()
    for client in (current, other):
        client.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    current.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    secret = current.get(reverse("mfa_activate_totp")).context["form"].secret
    assert statuses(token, other) == (200, 200)
    current.post(reverse("mfa_activate_totp"), {"code": code(secret)})
    assert statuses(token, current) == (401, 200)
    assert statuses(token, other) == (401, 302)
    event = PersonEvent.objects.order_by("-sequence")[0]
    assert event.data == {"factors": ["recovery_codes", "totp"], "tokens": 1}
    _stored, token = AuthToken.objects.create(ana)
    assert current.post(reverse("mfa_generate_recovery_codes")).status_code == 302
    assert statuses(token, current) == (200, 200)


def test_tokens_and_sessions_of_a_closed_account_stay_invalid_when_it_reopens(ana: User, adela: User) -> None:
    _stored, token = AuthToken.objects.create(ana)
    session = Client()
    session.force_login(ana)
    assert statuses(token, session) == (200, 200)
    accounts.set_active(ana.pk, False, actor=adela)
    assert statuses(token, session) == (401, 302)
    accounts.set_active(ana.pk, True, actor=adela)
    assert statuses(token, session) == (401, 302)


@pytest.mark.parametrize("is_held", [False, True], ids=["waiting", "held"])
@pytest.mark.parametrize(
    ("change", "left_held"),
    [
        (lambda pk, actor: accounts.set_role(pk, UserRole.RESEARCHER, actor=actor), 0),
        (lambda pk, actor: accounts.set_active(pk, False, actor=actor), 1),
        (lambda pk, actor: accounts.set_paused(pk, True, actor=actor), 1),
        (lambda pk, actor: accounts.edit_person(pk, {"senior": False}, actor=actor), 1),
    ],
    ids=["role", "closed", "paused", "no longer senior"],
)
def test_cases_reserved_for_somebody_who_cannot_take_them_are_free(
    change: Callable[[int, User], object], left_held: int, is_held: bool, adela: User, ana: User, bo: User
) -> None:
    User.objects.filter(pk=ana.pk).update(senior=True)
    case = open_case()
    reassignment.reserve(case.pk, to=ana, actor=adela)
    if is_held:
        claim(ana)
    change(ana.pk, adela)
    assert not Assignment.objects.filter(reserved_for=ana).exists()
    if is_held:
        Assignment.objects.filter(physician=ana).update(lease_until=timezone.now() - timedelta(minutes=1))
        assert claims.expire_leases() == left_held
    assert claim(bo).case_id == case.pk


@pytest.mark.parametrize(
    "fields",
    [{"is_active": False}, {"paused_at": timezone.now()}, {"role": "researcher"}],
    ids=["closed", "paused", "role"],
)
@pytest.mark.parametrize("is_held", [False, True], ids=["waiting", "held"])
def test_no_case_is_reserved_for_somebody_who_cannot_take_it(
    fields: dict[str, object], is_held: bool, adela: User, ana: User
) -> None:
    case = open_case()
    if is_held:
        claim(ana)
    User.objects.filter(pk=ana.pk).update(**fields)
    with pytest.raises(NotReserved):
        reassignment.reassign(case.pk, Role.PRIMARY, to=ana, actor=adela)  # as a page loaded it before


@pytest.mark.parametrize("also", [{}, {"senior": False}], ids=["alone", "no longer senior"])
@pytest.mark.parametrize(("moving", "hospital"), [("bo", "north"), ("ana", "south")])
def test_a_case_that_a_new_hospital_closes_to_somebody_is_free(
    moving: str, hospital: str, also: dict[str, bool], adela: User, ana: User, bo: User, chen: User
) -> None:
    for person, former in ((ana, "North"), (bo, "South"), (chen, "West")):
        person.hospital, person.senior = former, True
        person.save()
    case = open_case(policy=Policy(other_hospital=True))
    submit(claim(ana), approval_of(case.frozen.form))
    reassignment.reserve(case.pk, to=bo, actor=adela)
    before = Event.objects.count()
    accounts.edit_person(User.objects.get(username=moving).pk, {"hospital": hospital, **also}, actor=adela)
    assert Event.objects.count() == before + 1, "it was freed once"
    assert claim(chen).case_id == case.pk
