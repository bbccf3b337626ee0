"""Django's admin: nothing is changed there past the services, and every change has its event."""

from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, reverse
from knox.models import AuthToken

from generation.models import TaxonomyTerm
from review.audit import verification
from review.models import PersonEvent, User
from review.rules.permissions import UserRole
from tests.review.factories import PASSWORD, account
from tests.site.test_second_factor import enrol

pytestmark = pytest.mark.django_db
Kind = PersonEvent.Kind


@pytest.fixture
def keeper() -> User:
    return account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)


@pytest.fixture
def inside(keeper: User) -> Client:
    client = Client()
    client.force_login(keeper)
    return client


def events(person: User, after: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """What was noted about an account since it was made."""
    return [(e.kind, e.data) for e in PersonEvent.objects.filter(person=person).order_by("sequence")][after:]


def wrong() -> list[str]:
    return [str(fault) for fault in verification.check(verification.CheckProgress())]


def test_nothing_else_can_be_changed_there(keeper: User, rf: RequestFactory) -> None:
    """Whatever an app of today or tomorrow registers: only an account's doors, and second factors that go."""
    request = rf.get("/")
    request.user = keeper
    open_to = {
        (model._meta.label, verb)
        for model, page in admin.site._registry.items()
        for verb in ("add", "change", "delete")
        if getattr(page, f"has_{verb}_permission")(request)
    }
    terms = {("generation.TaxonomyTerm", "add"), ("generation.TaxonomyTerm", "change")}
    assert open_to == {("review.User", "change"), ("mfa.Authenticator", "delete"), *terms}
    assert AuthToken not in admin.site._registry

    for model in (AuthToken, Group):
        admin.site.register(model, admin.ModelAdmin)
        assert model not in admin.site._registry


def test_a_taxonomy_term_is_added_and_changed_with_its_event(inside: Client, keeper: User) -> None:
    term = {"benchmark": "mhb", "code": "E2", "parent": "E", "label": "Withdrawn drug", "definition": "No longer sold."}
    assert inside.post(reverse("admin:generation_taxonomyterm_add"), term).status_code == 302
    added = TaxonomyTerm.objects.get(code="E2")
    page = reverse("admin:generation_taxonomyterm_change", args=[added.pk])
    assert inside.post(page, {**term, "label": "Recalled drug"}).status_code == 302
    assert events(keeper) == [(Kind.TERM, term), (Kind.TERM, {**term, "label": "Recalled drug"})]
    assert (
        inside.post(reverse("admin:generation_taxonomyterm_delete", args=[added.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert wrong() == []


def test_no_token_is_made_there_for_anybody(inside: Client, ana: User) -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:knox_authtoken_add")
    assert inside.post("/admin/knox/authtoken/add/", {"user": ana.pk}).status_code == 404
    assert inside.post("/admin/auth/group/add/", {"name": "g"}).status_code == 404
    assert not AuthToken.objects.exists()


def test_role_doors_and_flags_go_by_the_services(inside: Client, keeper: User, ana: User) -> None:
    address = reverse("admin:review_user_change", args=[ana.pk])
    _stored, token = AuthToken.objects.create(ana)
    session = Client()
    session.force_login(ana)

    def post(**said: str) -> Any:
        return inside.post(address, {"role": "physician", **said})

    posted = {"is_active": "on", "username": "zed", "password": "x", "is_superuser": ""}
    assert post(**posted).status_code == 302
    assert events(ana) == [], "nothing was another value, and a name and a password are not taken"
    assert post(role="admin", is_active="on").status_code == 302
    assert events(ana) == [(Kind.ROLE, {"before": "physician", "role": "admin", "tokens": 1})]
    assert session.get(reverse("home"))["Location"].startswith(reverse("account_login"))
    bearer = {"Authorization": f"Bearer {token}"}
    assert Client().get(reverse("api:me"), headers=bearer).status_code == 401
    assert post(role="admin", is_active="on", is_staff="on", is_superuser="on").status_code == 302
    assert post(role="admin", is_staff="on", is_superuser="on").status_code == 302
    assert [kind for kind, _data in events(ana)] == [Kind.ROLE, Kind.KEEPER, Kind.CLOSED]
    assert set(PersonEvent.objects.exclude(actor=None).values_list("actor", flat=True)) == {keeper.pk}
    ana.refresh_from_db()
    assert (ana.username, ana.role, ana.is_active, ana.is_superuser) == ("ana", "admin", False, True)
    assert ana.check_password(PASSWORD)
    assert wrong() == []


def test_a_keeper_does_not_change_the_own_doors(inside: Client, keeper: User) -> None:
    address = reverse("admin:review_user_change", args=[keeper.pk])
    for said in ({"role": "physician"}, {"role": "admin"}, {"role": "admin", "is_active": "on", "is_staff": "on"}):
        assert inside.post(address, said).status_code == 403
    assert events(keeper) == []


def test_who_is_staff_and_no_superuser_changes_nothing(adela: User, ana: User) -> None:
    User.objects.filter(pk=adela.pk).update(is_staff=True)
    client = Client()
    client.force_login(adela)
    assert client.post(reverse("admin:review_user_change", args=[ana.pk]), {"role": "admin"}).status_code == 403


def test_passwords_are_changed_on_the_sites_own_pages(inside: Client, keeper: User, ana: User) -> None:
    new = {"old_password": PASSWORD, "new_password1": "quite-another-one", "new_password2": "quite-another-one"}
    assert inside.post(reverse("admin:password_change"), new)["Location"] == reverse("account_change_password")
    assert inside.post(f"/admin/review/user/{ana.pk}/password/", new).status_code in (302, 404)
    for user in (keeper, ana):
        user.refresh_from_db()
        assert user.check_password(PASSWORD)


def test_a_second_factor_can_only_be_taken_away(inside: Client, keeper: User, ana: User) -> None:
    enrol(ana)
    row = Authenticator.objects.get()
    page = inside.get(reverse("admin:mfa_authenticator_change", args=[row.pk]))
    assert row.data["secret"] not in page.content.decode()
    assert inside.post(reverse("admin:mfa_authenticator_change", args=[row.pk]), {"user": keeper.pk}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert inside.post(reverse("admin:mfa_authenticator_changelist"), chosen).status_code == 302
    assert not Authenticator.objects.exists()
    assert events(ana) == [(Kind.SECOND_FACTOR, {})]
    assert wrong() == []
    enrol(keeper)
    own = reverse("admin:mfa_authenticator_delete", args=[Authenticator.objects.get().pk])
    assert inside.post(own, {"post": "yes"}).status_code == 403
    assert Authenticator.objects.exists()
