"""Django's admin: every change goes through the services and has its event."""

from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, reverse
from knox.models import AuthToken

from generation.models import TaxonomyTerm
from review.admin import CaseTextAdmin
from review.audit import verification
from review.models import Audit, Event, PersonEvent, User
from review.rules.permissions import UserRole
from tests.review.factories import PASSWORD, account, case_in_secondary
from tests.site.test_second_factor import enrol

pytestmark = pytest.mark.django_db
Kind = PersonEvent.Kind


@pytest.fixture
def keeper() -> User:
    return account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)


@pytest.fixture
def admin_client(keeper: User) -> Client:
    """A client that the superuser has signed in with."""
    client = Client()
    client.force_login(keeper)
    return client


def events(person: User, after: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of an account, by default without that of its creation."""
    return [(e.kind, e.data) for e in PersonEvent.objects.filter(person=person).order_by("sequence")][after:]


def audit_faults() -> list[str]:
    return [str(fault) for fault in verification.check(Audit())]


def test_only_accounts_terms_and_second_factors_can_be_changed(keeper: User, rf: RequestFactory) -> None:
    """This holds whichever models the apps register, now or later."""
    admin.autodiscover()
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


def test_a_taxonomy_term_is_added_and_changed_with_its_event(admin_client: Client, keeper: User) -> None:
    term = {"benchmark": "mhb", "code": "E2", "parent": "E", "label": "Withdrawn drug", "definition": "No longer sold."}
    assert admin_client.post(reverse("admin:generation_taxonomyterm_add"), term).status_code == 302
    added = TaxonomyTerm.objects.get(code="E2")
    page = reverse("admin:generation_taxonomyterm_change", args=[added.pk])
    assert admin_client.post(page, {**term, "label": "Recalled drug"}).status_code == 302
    assert events(keeper) == [(Kind.TERM, term), (Kind.TERM, {**term, "label": "Recalled drug"})]
    assert (
        admin_client.post(reverse("admin:generation_taxonomyterm_delete", args=[added.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert audit_faults() == []


@pytest.mark.parametrize("model", ["case", "review", "event"])
def test_opening_a_case_or_what_was_written_about_it_is_recorded(
    admin_client: Client, keeper: User, ana: User, model: str
) -> None:
    case = case_in_secondary(ana)
    rows = {"case": case, "review": case.reviews.get(), "event": case.events.order_by("pk")[0]}
    reads = PersonEvent.objects.filter(kind=Kind.READ, actor=keeper)
    assert admin_client.get(reverse(f"admin:review_{model}_changelist")).status_code == 200
    assert not reads.exists()
    assert admin_client.get(reverse(f"admin:review_{model}_change", args=[rows[model].pk])).status_code == 200
    assert [read.data["case"] for read in reads] == [case.pk]


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        ("review_review", "verdict__exact=approve"),
        ("review_review", "verdict__exact=reject"),
        ("review_review", "inadequate__exact=1"),
        ("review_review", "answers__icontains=fever"),
        ("review_review", "case__spec__icontains=fever"),
        ("review_case", "spec__icontains=fever"),
        ("review_case", "reviews__verdict=reject"),
        ("review_event", "data__icontains=reject"),
        ("review_assignment", "token__isnull=0"),
        ("review_user", "password__startswith=argon2"),
        ("mfa_authenticator", "data__secret__startswith=A"),
    ],
)
def test_no_list_is_filtered_by_what_its_rows_hide(admin_client: Client, ana: User, model: str, lookup: str) -> None:
    """No verdict, word or secret can be learned without the record of a read."""
    case_in_secondary(ana)
    assert admin_client.get(f"{reverse(f'admin:{model}_changelist')}?{lookup}").status_code == 400


def test_lists_are_filtered_by_what_they_offer(admin_client: Client, ana: User) -> None:
    case = case_in_secondary(ana)
    for lookups in ("role__exact=primary", f"id__exact={case.reviews.get().pk}", "role__exact=primary&o=-5.1&q=reject"):
        page = admin_client.get(f"{reverse('admin:review_review_changelist')}?{lookups}")
        assert (page.status_code, page.context["cl"].result_count) == (200, 1), lookups


def test_no_list_is_searched_in_what_its_rows_hide() -> None:
    for model, page in admin.site._registry.items():
        if isinstance(page, CaseTextAdmin):
            assert {*page.search_fields} <= {*page.list_display, "lineage"}, model


def test_tokens_cannot_be_created(admin_client: Client, ana: User) -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:knox_authtoken_add")
    assert admin_client.post("/admin/knox/authtoken/add/", {"user": ana.pk}).status_code == 404
    assert admin_client.post("/admin/auth/group/add/", {"name": "g"}).status_code == 404
    assert not AuthToken.objects.exists()


def test_roles_and_flags_change_through_the_services(admin_client: Client, keeper: User, ana: User) -> None:
    address = reverse("admin:review_user_change", args=[ana.pk])
    _stored, token = AuthToken.objects.create(ana)
    session = Client()
    session.force_login(ana)

    def post(**fields: str) -> Any:
        return admin_client.post(address, {"role": "physician", **fields})

    unchanged = {"is_active": "on", "username": "zed", "password": "x", "is_superuser": ""}
    assert post(**unchanged).status_code == 302
    assert events(ana) == [], "no value differs, and names and passwords are not accepted"
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
    assert audit_faults() == []


def test_a_superuser_cannot_change_their_own_role_and_flags(admin_client: Client, keeper: User) -> None:
    address = reverse("admin:review_user_change", args=[keeper.pk])
    for fields in ({"role": "physician"}, {"role": "admin"}, {"role": "admin", "is_active": "on", "is_staff": "on"}):
        assert admin_client.post(address, fields).status_code == 403
    assert events(keeper) == []


def test_staff_who_are_not_superusers_change_nothing(adela: User, ana: User) -> None:
    User.objects.filter(pk=adela.pk).update(is_staff=True)
    client = Client()
    client.force_login(adela)
    assert client.post(reverse("admin:review_user_change", args=[ana.pk]), {"role": "admin"}).status_code == 403


def test_passwords_are_changed_on_the_sites_own_pages(admin_client: Client, keeper: User, ana: User) -> None:
    new = {"old_password": PASSWORD, "new_password1": "quite-another-one", "new_password2": "quite-another-one"}
    assert admin_client.post(reverse("admin:password_change"), new)["Location"] == reverse("account_change_password")
    assert admin_client.post(f"/admin/review/user/{ana.pk}/password/", new).status_code in (302, 404)
    for user in (keeper, ana):
        user.refresh_from_db()
        assert user.check_password(PASSWORD)


def test_a_second_factor_can_only_be_removed(admin_client: Client, keeper: User, ana: User) -> None:
    enrol(ana)
    row = Authenticator.objects.get()
    page = admin_client.get(reverse("admin:mfa_authenticator_change", args=[row.pk]))
    assert row.data["secret"] not in page.content.decode()
    assert (
        admin_client.post(reverse("admin:mfa_authenticator_change", args=[row.pk]), {"user": keeper.pk}).status_code
        == 403
    )
    delete = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert admin_client.post(reverse("admin:mfa_authenticator_changelist"), delete).status_code == 302
    assert not Authenticator.objects.exists()
    assert events(ana) == [(Kind.SECOND_FACTOR, {})]
    assert audit_faults() == []
    enrol(keeper)
    own_factor = reverse("admin:mfa_authenticator_delete", args=[Authenticator.objects.get().pk])
    assert admin_client.post(own_factor, {"post": "yes"}).status_code == 403
    assert Authenticator.objects.exists()


@pytest.mark.parametrize("value", ["99999", "0", "-1", "0001-01-01", "9999-12-31", "9" * 30])
def test_absurd_values_of_filters_are_refused_in_words(admin_client: Client, value: str) -> None:
    for model in (User, PersonEvent, Event):
        if model not in admin.site._registry:
            continue
        address = reverse(f"admin:review_{model._meta.model_name}_changelist")
        field = "last_login" if model is User else "at"
        for lookup in (f"{field}__year", f"{field}__gte", f"{field}__date__lt", "id"):
            answer = admin_client.get(address, {lookup: value}, follow=True)
            assert answer.status_code < 500, lookup
    for name in ("review:audit", "review:audit-site", "api:audit-events", "api:audit-acts"):
        for side in ("since", "until"):
            assert admin_client.get(reverse(name), {side: value}).status_code < 500
