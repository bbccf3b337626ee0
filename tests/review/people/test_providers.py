"""Accounts of people who sign in through a provider of identities."""

import json
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.core import context
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from knox.models import AuthToken

from mhb_site.sign_in import sso
from mhb_site.sign_in.providers import IdentityProvider, are_of_two_people, is_verified, read_providers
from review.audit import verification
from review.errors import NotInvitable, ProviderRefused, SignsInElsewhere
from review.models import Audit, PersonEvent, User
from review.people import accounts
from review.people.providers import Provided, admit
from review.people.roster import read_roster
from review.rules.permissions import UserRole
from review.rules.text import plain_name
from tests.review.factories import PASSWORD, account


def sign_in(
    role: UserRole | None, known: User | None = None, *, link: bool = False, senior: bool | None = None, **more: str
) -> User | None:
    values = {"provider": "hospital", "username": "nia", "name": "Nia Obi", "email": "nia@hospital.example", **more}
    return admit(Provided(**values, role=role, senior=senior), known, decides=True, default=None, link_by_email=link)


@pytest.mark.django_db
def test_an_account_that_an_admin_closed_stays_closed(adela: User) -> None:
    nia = sign_in(UserRole.PHYSICIAN)
    assert nia is not None
    assert sign_in(None, nia) is None
    nia.refresh_from_db()
    assert not nia.is_active
    assert sign_in(UserRole.RESEARCHER, nia) == nia  # a group returned
    accounts.set_active(nia.pk, False, actor=adela)
    nia.refresh_from_db()
    with pytest.raises(ProviderRefused):
        sign_in(UserRole.RESEARCHER, nia)
    assert list(verification.check(Audit())) == []


@pytest.mark.django_db
def test_linking_an_account_ends_its_password_and_tokens() -> None:
    nia = account("nia", email="nia@hospital.example")
    AuthToken.objects.create(nia)
    with pytest.raises(ProviderRefused):  # the address is another account's
        sign_in(UserRole.PHYSICIAN)
    assert sign_in(None, link=True) is None  # no group has access: nothing is linked, nothing ends
    nia.refresh_from_db()
    assert (nia.is_active, nia.check_password(PASSWORD), AuthToken.objects.count()) == (True, True, 1)
    assert sign_in(UserRole.RESEARCHER, link=True) == nia
    nia.refresh_from_db()
    assert (nia.role, nia.check_password(PASSWORD), AuthToken.objects.count()) == ("researcher", False, 0)
    kinds = PersonEvent.objects.filter(person=nia).order_by("sequence").values_list("kind", flat=True)
    assert list(kinds)[-2:] == ["linked", "role"]


@pytest.mark.django_db
def test_an_address_that_passed_to_another_person_does_not_give_them_the_account() -> None:
    nia = account("nia", email="nia@hospital.example")
    SocialAccount.objects.create(user=nia, provider="another", uid="1")
    assert sign_in(UserRole.PHYSICIAN, link=True) == nia
    SocialAccount.objects.create(user=nia, provider="hospital", uid="1")  # as allauth does then
    with pytest.raises(ProviderRefused):
        sign_in(UserRole.PHYSICIAN, link=True)


@pytest.mark.django_db
def test_an_address_whose_capitals_are_those_of_another_gives_nobody_an_account() -> None:
    """A database may compare by capitals, and that of a dotless i is an I."""
    nia = account("nia", email="n\u0131a@hosp\u0131tal.example")
    with pytest.raises(ProviderRefused):
        sign_in(UserRole.PHYSICIAN, link=True, email=nia.email)


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["is_staff", "is_superuser", "simulated"])
def test_no_provider_takes_over_an_account_with_more_rights(field: str) -> None:
    account("keeper", UserRole.ADMIN, email="nia@hospital.example", **{field: True})
    with pytest.raises(ProviderRefused):
        sign_in(UserRole.ADMIN, link=True)


@pytest.mark.django_db
def test_somebody_elses_username_is_not_taken_over() -> None:
    other = account("nia")
    nia = sign_in(UserRole.PHYSICIAN)
    assert nia is not None
    assert (nia.username, nia == other) == ("nia-hospital", False)


HIDDEN = "\u202eNia\u200b\tO\u0007bi\u2066\n"


@pytest.mark.django_db
def test_a_name_from_outside_holds_nothing_that_a_reader_cannot_see(adela: User) -> None:
    nia = sign_in(UserRole.PHYSICIAN, name=HIDDEN)
    [imported] = read_roster("people.csv", f'name,hospital\n"{HIDDEN}","{HIDDEN}"\n'.encode()).entries
    made = accounts.add_person(User(username="made", first_name=HIDDEN), None, actor=adela)
    edited = accounts.edit_person(made.pk, {"hospital": HIDDEN}, actor=adela)
    assert nia is not None
    assert str(nia) == str(imported.user) == "Nia Obi"
    assert imported.user.hospital == made.first_name == edited.hospital == "Nia Obi"
    assert plain_name("می\u200cخواهم") == "می\u200cخواهم", "a joiner that letters need stays"


@pytest.mark.django_db
def test_groups_mark_senior_physicians(adela: User) -> None:
    nia = sign_in(UserRole.PHYSICIAN, senior=True)
    assert nia is not None
    assert nia.senior
    for senior in (False, True, None):
        nia = sign_in(UserRole.PHYSICIAN, nia, senior=senior)
        assert nia is not None
        nia.refresh_from_db()
        assert nia.senior == (senior is not False), "where no group decides, what an admin said stays"
    assert list(verification.check(Audit())) == []


HOSPITAL = {"protocol": "openid_connect", "id": "hospital", "name": "Hospital", "client_id": "mhb"}


def provider_file(folder: Path, *entries: dict[str, object]) -> str:
    (folder / "sso.json").write_text(json.dumps(entries))
    return str(folder / "sso.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "0: needs 'roles'"),
        ({"roles": {"a": "chief"}}, "0.roles.a"),
        ({"role": "admin", "rol": "admin"}, "0.rol: Extra inputs"),
        ({"role": "admin", "client_secret": "$NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"role": "admin", "settings": {}}, "settings.server_url"),
        ({"role": "admin", "settings": {"server_url": "http://idp.example"}}, "with https"),
        ({"role": "admin", "protocol": "saml"}, "settings.idp"),
        ({"role": "admin", "protocol": "saml", "settings": {"idp": {}, "advanced": {"strict": False}}}, "strict"),
    ],
)
def test_a_wrong_file_is_refused_without_its_values(tmp_path: Path, change: dict[str, object], said: str) -> None:
    entry = {**HOSPITAL, "client_secret": "do-not-show", "settings": {"server_url": "https://idp.example"}, **change}
    with pytest.raises(ValueError) as refused:
        read_providers(provider_file(tmp_path, entry))
    assert said in str(refused.value)
    assert "do-not-show" not in str(refused.value)


def test_secrets_come_from_variables_and_roles_from_the_first_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_MHB", "quiet")
    roles = {"chiefs": "admin", "staff": "physician"}
    settings = {"server_url": "https://idp.example"}
    entry: dict[str, object] = {**HOSPITAL, "client_secret": "$SECRET_OF_MHB", "settings": settings, "roles": roles}
    [provider] = read_providers(provider_file(tmp_path, entry))
    assert provider.app["secret"] == "quiet"
    assert "quiet" not in repr(provider)
    assert provider.role_of(["staff", "chiefs"]) == UserRole.ADMIN
    assert provider.role_of(["visitors"]) is None
    assert provider.is_senior(["chiefs"]) is None
    assert provider.model_copy(update={"seniors": ["chiefs"]}).is_senior(["staff"]) is False


@pytest.mark.parametrize(
    "claims",
    [
        {"userinfo": {"groups": ["staff"]}},
        {"userinfo": {"sub": "1"}, "id_token": {"groups": "staff"}},
        {"groups": ["staff", 3]},
        {"userinfo": {"groups": {"staff": {"id": "1"}}}},
        {"userinfo": {"groups": {"staff": {}, "admins": False, "seniors": None}}},
    ],
)
def test_groups_are_read_from_what_either_protocol_sends(claims: dict[str, object]) -> None:
    provider = IdentityProvider.model_validate(
        {**HOSPITAL, "role": "physician", "settings": {"server_url": "https://idp.example"}}
    )
    assert provider.groups_in(claims) == ["staff"]


@pytest.mark.parametrize(
    "claims", [{"userinfo": {"groups": []}, "id_token": {"groups": ["staff"]}}, {"userinfo": {"groups": True}}, {}]
)
def test_who_has_left_the_last_group_has_none(claims: dict[str, object]) -> None:
    provider = IdentityProvider.model_validate(
        {**HOSPITAL, "role": "physician", "settings": {"server_url": "https://idp.example"}}
    )
    assert provider.groups_in(claims) == []


def test_what_is_told_of_another_person_than_the_token_names_is_refused() -> None:
    assert are_of_two_people({"userinfo": {"sub": "1"}, "id_token": {"sub": "2"}})
    assert not are_of_two_people({"userinfo": {"sub": "1"}, "id_token": {"sub": "1"}})
    assert not are_of_two_people({"userinfo": {"sub": "1"}})


@pytest.mark.parametrize("unless_said", [True, False])
@pytest.mark.parametrize(
    ("said", "verified"), [(False, False), ("false", False), (None, False), (True, True), ("true", True)]
)
def test_an_address_is_verified_only_if_the_provider_says_so_in_whatever_spelling(
    said: object, verified: bool, unless_said: bool
) -> None:
    claims: dict[str, object] = {"userinfo": {"email_verified": said}, "id_token": {"sub": "1"}}
    assert is_verified(claims, unless_said=unless_said) is verified
    for silent in ({"userinfo": {"sub": "1"}}, {"urn:oid:0.9.2342": ["ana@hospital.example"]}):
        assert is_verified(silent, unless_said=unless_said) is unless_said, "SAML has no word for it"


def test_an_address_that_only_another_one_stands_beside_is_not_verified() -> None:
    token = {"email": "nia@h.example", "email_verified": True}
    assert not is_verified({"userinfo": {"email": "boss@h.example"}, "id_token": token}, unless_said=True)
    assert is_verified({"userinfo": {"email": "Nia@h.example"}, "id_token": token}, unless_said=False)


@pytest.mark.django_db
def test_a_sign_in_undoes_no_role_that_an_admin_gives_meanwhile(adela: User) -> None:
    nia = sign_in(UserRole.ADMIN)
    assert nia is not None
    accounts.set_role(nia.pk, UserRole.RESEARCHER, actor=adela)
    person = Provided("hospital", nia.username, "", "", role=None)
    admitted = admit(person, nia, decides=False, default=UserRole.ADMIN, link_by_email=False)  # as it was loaded
    assert admitted is not None
    assert admitted.role == UserRole.RESEARCHER


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["\u0430dmin", "adm\u0456n", "\u0251dmin", "\u13aadmin", "a\u2060dmi\u0578"])
def test_a_name_in_letters_that_look_like_others_is_not_taken(name: str) -> None:
    user = sign_in(UserRole.PHYSICIAN, username=name)
    assert user is not None
    assert user.username.startswith("hospital-")
    assert user.username.isascii()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["adrnin", "Adm1n", "adMln", "aclmin", "Admín", "ADMIN", "admin"])
def test_a_name_that_looks_like_an_accounts_is_told_apart(name: str) -> None:
    account("admin", UserRole.ADMIN)
    user = sign_in(UserRole.PHYSICIAN, username=name)
    assert user is not None
    assert user.username.endswith("-hospital")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "known"), [("b0bo", "bobo"), ("vvill", "will"), ("kim.li", "kim.1i"), ("c1ara", "clara"), ("clan", "cian")]
)
def test_digits_and_pairs_of_letters_look_like_others(name: str, known: str) -> None:
    account(known)
    user = sign_in(UserRole.PHYSICIAN, username=name)
    assert user is not None
    assert user.username == f"{name}-hospital"


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "taken"), [("José.Nuñez", "jose.nunez"), ("张伟", "张伟"), ("ａｎａ", "ana")])
def test_names_with_accents_and_in_chinese_are_taken(name: str, taken: str) -> None:
    user = sign_in(UserRole.PHYSICIAN, username=name)
    assert user is not None
    assert user.username == taken


CLAIMS = {"sub": "7", "preferred_username": "nia", "email": "nia@hospital.example", "email_verified": True}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong",
    [
        {"sub": None}, {"sub": ""}, {"sub": "  "}, {"sub": "s" * 400}, {"sub": "a\0b"}, {"sub": "\ud800"},
        {"email": "a" * 400 + "@x.example"}, {"email": "a\0@x.example"}, {"email": ["a@x.example"]}, {"email": {}},
        {"preferred_username": "\0"}, {"preferred_username": ["nia"]}, {"given_name": "n" * 400}, {"name": "\0"},
        {"groups": 7}, None,
    ],
    ids=repr,
)  # fmt: skip
def test_malformed_claims_are_refused_in_words(wrong: dict[str, object] | None, settings: Any) -> None:
    declared = {"protocol": "openid_connect", "id": "hospital", "name": "Hospital", "client_id": "mhb"}
    provider = IdentityProvider(**declared, settings={"server_url": "https://id.example"}, role=UserRole.PHYSICIAN)
    settings.MHB_PROVIDERS = [provider]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [provider.app]}}
    told = [] if wrong is None else {name: value for name, value in {**CLAIMS, **wrong}.items() if value is not None}

    def callback(request: HttpRequest) -> HttpResponseBase:
        login = (
            get_adapter(request)
            .get_provider(request, "hospital")
            .sociallogin_from_response(request, {"userinfo": told})
        )
        login.state = {"process": "login"}
        response: HttpResponseBase = complete_social_login(request, login)
        return response

    request = RequestFactory().get("/")
    request.session, request.user = SessionStore(), AnonymousUser()
    setattr(request, "_messages", FallbackStorage(request))  # noqa: B010 -- Django's own name
    with context.request_context(request):
        response = sso.refusing_malformed(callback)(request)
    known = {"sub", "email", "preferred_username"} if wrong is None else set(wrong)
    if known & {"sub", "preferred_username"} or "\0" in str(wrong) or wrong is None:
        assert response.status_code == 403
    assert response.status_code in (302, 403)
    assert "\0" not in "".join(User.objects.values_list("username", flat=True))


@pytest.mark.django_db
def test_a_token_ends_with_what_the_provider_last_confirmed(settings: Any) -> None:
    user = sign_in(UserRole.ADMIN)
    assert user is not None
    linked = SocialAccount.objects.create(user=user, provider="hospital", uid="7")
    _token, text = AuthToken.objects.create(user)
    client = Client(headers={"Authorization": f"Bearer {text}"})
    client.force_login(user)
    assert client.get("/api/v1/me/").status_code == 200
    longer_ago = timezone.now() - timedelta(hours=settings.MHB_SSO_TOKEN_HOURS, minutes=1)
    User.objects.filter(pk=user.pk).update(last_login=longer_ago)
    linked.save()  # as allauth does at each sign-in there, before any is refused
    assert client.get("/api/v1/me/").status_code == 401
    assert client.post("/api/v1/auth/logoutall/").status_code == 401
    client.force_login(user)
    assert client.get("/api/v1/me/").status_code == 200


@pytest.mark.django_db
def test_neither_password_nor_passkey_goes_around_the_provider(client: Client, adela: User, settings: Any) -> None:
    user = sign_in(UserRole.PHYSICIAN)
    assert user is not None
    SocialAccount.objects.create(user=user, provider="hospital", uid="7")
    at = {"server_url": "https://id.example"}
    provider = IdentityProvider(**HOSPITAL, settings=at, role=UserRole.PHYSICIAN)
    settings.MHB_PROVIDERS = [provider]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [provider.app]}}
    with pytest.raises(NotInvitable):
        accounts.invite(user.pk, actor=adela)
    accounts.set_password(user.pk, PASSWORD, actor=adela)
    typed = {"login": user.username, "password": PASSWORD}
    assert client.post(reverse("account_login"), typed).status_code == 403
    assert client.get(reverse("home")).status_code == 302
    asked = {"username": user.username, "password": PASSWORD}
    assert client.post(reverse("api:token"), asked, content_type="application/json").status_code == 403
    request = RequestFactory().get("/")
    request.session = SessionStore()
    with context.request_context(request), pytest.raises(SignsInElsewhere):  # as with a passkey
        perform_login(request, Login(user=user))
    settings.MHB_PROVIDERS = []  # it is no longer declared: people need a way in
    assert client.post(reverse("account_login"), typed).status_code == 302


@pytest.mark.django_db
def test_making_a_token_asks_the_provider_anew(client: Client, settings: Any) -> None:
    declared = {"protocol": "openid_connect", "id": "hospital", "name": "Hospital", "client_id": "mhb"}
    settings.MHB_PROVIDERS = []
    assert IdentityProvider(**declared, settings={"server_url": "https://id.example"}, role=UserRole.PHYSICIAN)
    user = sign_in(UserRole.PHYSICIAN)
    assert user is not None
    SocialAccount.objects.create(user=user, provider="hospital", uid="7")
    client.force_login(user)
    for ago, asked in ((None, True), (3600, True), (10, False)):
        session = client.session
        records = [] if ago is None else [{"method": "socialaccount", "at": time.time() - ago}]
        session["account_authentication_methods"] = records
        session["account_authentication_methods_user"] = str(user.pk)
        session.save()
        for method in (client.get, client.post):
            page = method(reverse("tokens"), {"days": "1"})
            assert (page.status_code == 302) is asked, (ago, page)
        assert AuthToken.objects.filter(user=user).exists() is not asked


@pytest.mark.parametrize(
    ("content", "cause"),
    [(b"\xff\xfe", "cannot be read (it is not text)"), (b"[" * 100_000, "nested too deeply"), (b"[", "not JSON")],
    ids=["bytes", "deep", "cut"],
)
def test_a_file_that_is_not_json_is_named(tmp_path: Path, content: bytes, cause: str) -> None:
    path = tmp_path / "sso.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}.*{re.escape(cause)}"):
        read_providers(str(path))
