"""Limits of failed sign-ins, counted by name, by address and by both, also behind proxies."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from allauth.core.internal import ratelimit
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, reverse
from django.utils import timezone

from mhb_site.env import read_proxies
from mhb_site.sign_in import limits, sso
from mhb_site.sign_in.providers import IdentityProvider
from mhb_site.sign_in.session_store import SessionStore
from review.models import User
from tests.review.factories import PASSWORD, account
from tests.site.test_second_factor import code, enrol

HER_ADDRESS, OTHER_ADDRESS = "198.51.100.7", "203.0.113.9"


def try_sign_in(name: str, password: str = "wrong", address: str = OTHER_ADDRESS, **headers: str) -> int:
    """Return the status of a sign-in through the API, which counts together with the page's."""
    body = {"username": name, "password": password}
    response = Client().post(
        reverse("api:token"), body, content_type="application/json", REMOTE_ADDR=address, headers=headers
    )
    return response.status_code


@pytest.mark.django_db
def test_spellings_in_another_case_or_width_count_as_the_same_name() -> None:
    account("sec1")
    names = ["sec1", "SEC1", "Sec1", "ｓｅｃ１", "ſec1"]
    assert [try_sign_in(name) for name in [*names, *names]] == [401] * 9 + [429]
    assert {try_sign_in(name, PASSWORD) for name in names} == {429}, "even the right password is refused"
    page = {"login": "ＳＥＣ１", "password": PASSWORD}
    assert Client().post(reverse("account_login"), page, REMOTE_ADDR=OTHER_ADDRESS).status_code == 429
    assert try_sign_in("SEC1", PASSWORD, HER_ADDRESS) == 201, "she can sign in from another address"


@pytest.mark.django_db
def test_one_address_that_guesses_at_many_names_is_stopped() -> None:
    for number in range(60):
        account(f"sec{number}")
    statuses = [try_sign_in(f"sec{number}") for number in range(60)]
    assert statuses == [401] * (limits.BY_ADDRESS - 1) + [429] * (60 - limits.BY_ADDRESS + 1)
    assert try_sign_in("sec59", PASSWORD) == 429
    assert try_sign_in("sec59", PASSWORD, HER_ADDRESS) == 201


@pytest.mark.django_db
def test_many_addresses_that_guess_at_one_name_are_stopped_but_its_owner_is_not(ana: User) -> None:
    AccessLog.objects.create(username="ana", ip_address=HER_ADDRESS, attempt_time=timezone.now())
    statuses = [try_sign_in("ANA", address=f"203.0.113.{number}") for number in range(limits.BY_NAME)]
    assert statuses == [401] * (limits.BY_NAME - 1) + [429]
    assert try_sign_in("ana", PASSWORD, "203.0.113.200") == 429
    assert try_sign_in("ana", PASSWORD, HER_ADDRESS) == 201, "she has signed in from this address before"
    AccessLog.objects.update(attempt_time=timezone.now() - limits.KNOWN_FOR * 1.1)
    assert try_sign_in("ana", PASSWORD, HER_ADDRESS) == 429, "that was too long ago"


@pytest.mark.django_db
def test_attempts_during_a_lock_do_not_prolong_it(ana: User) -> None:
    for _ in range(10):
        try_sign_in("ana")
    locked_at = AccessAttempt.objects.get().attempt_time
    assert {try_sign_in("ana") for _ in range(5)} == {429}
    assert AccessAttempt.objects.get().attempt_time == locked_at
    AccessAttempt.objects.update(attempt_time=locked_at - timedelta(minutes=16))
    assert try_sign_in("ana", PASSWORD) == 201


@pytest.mark.django_db
def test_wrong_codes_of_a_second_factor_count_by_address_too(ana: User) -> None:
    enrol(ana)
    for number in range(limits.BY_ADDRESS - 1):
        try_sign_in(f"nobody{number}")
    browser = Client(REMOTE_ADDR=OTHER_ADDRESS)
    browser.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    assert browser.post(reverse("mfa_authenticate"), {"code": "000000"}).status_code == 429
    assert browser.post(reverse("mfa_authenticate"), {"code": code()}).status_code == 429


@pytest.mark.django_db
def test_a_forged_header_does_not_change_the_address(ana: User, settings: Any) -> None:
    """This holds without a proxy, and behind one that appends the address it sees."""
    statuses = [try_sign_in("ana", **{"x-forwarded-for": f"192.0.2.{n}"}) for n in range(10)]
    assert statuses == [401] * 9 + [429]
    settings.MHB_TRUSTED_PROXIES = 1
    statuses = [try_sign_in("ana", **{"x-forwarded-for": f"192.0.2.{n}, {HER_ADDRESS}"}) for n in range(10)]
    assert statuses == [401] * 9 + [429]
    assert try_sign_in("ana", PASSWORD, **{"x-forwarded-for": "192.0.2.77"}) == 201, (
        "another client behind the same proxy"
    )


@pytest.mark.plain
@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote", "address"),
    [
        ("", "1.2.3.4", "10.0.0.1", "10.0.0.1"),
        ("0", "1.2.3.4", "10.0.0.1", "10.0.0.1"),
        ("1", "", "10.0.0.1", "10.0.0.1"),
        ("1", "1.2.3.4", "10.0.0.1", "1.2.3.4"),
        ("1", "6.6.6.6, 1.2.3.4", "10.0.0.1", "1.2.3.4"),
        ("2", "6.6.6.6, 1.2.3.4, 10.0.0.2", "10.0.0.1", "1.2.3.4"),
        ("2", "1.2.3.4", "10.0.0.1", "10.0.0.1"),  # bypassed one of the two proxies, so the header is not trusted
        ("1", "<script>", "10.0.0.1", "10.0.0.1"),
        ("1", "1.2.3.4:5678", "", "1.2.3.4"),
        ("1", "[2001:db8:1:2:3::4]:80", "", "2001:db8:1:2::"),
        ("1", "2001:db8:1:2:ffff::9", "", "2001:db8:1:2::"),  # a /64 network counts as one address
        ("1", "::ffff:1.2.3.4", "", "1.2.3.4"),
        ("", "", "::1", "::1"),
        ("", "", "", None),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4", "10.0.0.1", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6", "1.2.3.4", "1.2.3.4"),  # not from the proxy
        ("10.0.0.0/24, 172.16.0.9", "6.6.6.6, 1.2.3.4, 172.16.0.9", "10.0.0.77", "1.2.3.4"),
        ("10.0.0.0/24", "10.0.0.9", "10.0.0.1", "10.0.0.9"),
        ("10.0.0.0/24", "nonsense, 10.0.0.9", "10.0.0.1", "10.0.0.9"),
        ("fd00::/8", "1.2.3.4", "fd00::1", "1.2.3.4"),
    ],
)
def test_the_address_of_a_client_behind_proxies(
    settings: Any, proxies: str, forwarded: str, remote: str, address: str | None
) -> None:
    settings.MHB_TRUSTED_PROXIES = read_proxies(proxies)
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert limits.client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=remote)) == address


@pytest.mark.django_db
def test_a_closed_account_answers_like_a_wrong_password(ana: User, bo: User) -> None:
    User.objects.filter(pk=ana.pk).update(is_active=False)

    def outcome(name: str, password: str) -> Any:
        page = Client().post(reverse("account_login"), {"login": name, "password": password})
        token = Client().post(
            reverse("api:token"), {"username": name, "password": password}, content_type="application/json"
        )
        text = page.content.decode().replace(name, "NAME")
        return page.status_code, page.get("Location"), token.status_code, token.content, "are not correct" in text

    closed = outcome("ana", PASSWORD)
    assert closed == outcome("bo", "wrong") == outcome("nobody", "wrong")
    assert closed[0] == 200
    assert closed[4]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["ana", "closed", "nobody"])
def test_every_refusal_hashes_one_password(ana: User, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing takes most of the time, so response times do not show whether an account exists."""
    account("closed", is_active=False)
    hashed: list[str] = []
    original_encode = MD5PasswordHasher.encode

    def encode(self: MD5PasswordHasher, password: str, salt: str) -> str:
        hashed.append(password)
        return original_encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", encode)
    password = PASSWORD if name == "closed" else "wrong"
    assert try_sign_in(name, password) == 401
    assert hashed == [password]


OIDC = {"protocol": "openid_connect", "id": "hospital", "name": "Hospital", "client_id": "mhb", "role": "physician"}
SAML_SETTINGS = {"idp": {"entity_id": "https://id.example", "sso_url": "https://id.example/sso", "x509cert": "MII"}}


def views_of(patterns: list[URLPattern | URLResolver]) -> Iterator[Any]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from views_of(pattern.url_patterns)
        else:
            yield pattern.callback


@pytest.mark.both
@pytest.mark.django_db
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_one_address_begins_only_so_many_sign_ins_a_minute(
    method: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"sign_in_begun": "5/m/ip"}
    settings.MHB_TRUSTED_PROXIES = 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)

    def begin(address: str, **headers: str) -> HttpResponse:
        """As the proxy passes it on, behind which all addresses are one."""
        asked = {"x-requested-with": "XMLHttpRequest", "x-forwarded-for": f"192.0.2.1, {address}", **headers}
        return Client().generic(method, reverse("mfa_login_webauthn"), headers=asked)  # type: ignore[return-value]

    taken = [begin(HER_ADDRESS).status_code for _ in range(5)]
    assert 429 not in taken
    stored = Session.objects.count()
    assert [begin(HER_ADDRESS).status_code for _ in range(3)] == [429] * 3
    assert Session.objects.count() == stored <= 5
    assert begin(OTHER_ADDRESS).status_code != 429, "another client behind the same proxy"
    if method != "HEAD":
        for language, words in (("en", "Too many attempts"), ("zh-hans", "尝试次数过多")):
            assert words in begin(HER_ADDRESS, **{"accept-language": language}).content.decode()
    now += 61
    assert begin(HER_ADDRESS).status_code != 429


@pytest.mark.django_db
def test_every_address_of_a_provider_is_limited(settings: Any) -> None:
    """Of both protocols: where a sign-in begins, and where an answer is stored until it is read."""
    settings.ACCOUNT_RATE_LIMITS = {"sign_in_begun": "1/m/ip"}
    declared = [IdentityProvider.model_validate({**OIDC, "settings": {"server_url": "https://id.example"}})]
    saml = {**OIDC, "protocol": "saml", "id": "ward", "settings": SAML_SETTINGS}
    settings.MHB_PROVIDERS = [*declared, IdentityProvider.model_validate(saml)]
    views = list(views_of(sso.provider_urls()))
    assert len(views) >= 6
    for view in views:
        cache.clear()
        request = RequestFactory().get("/")
        request.session, request.user = SessionStore(), AnonymousUser()
        ratelimit.consume(request, app="allauth.account", action="sign_in_begun", limit_get=True)
        assert view(request).status_code == 429


@pytest.mark.django_db
def test_a_session_in_which_nobody_signed_in_ends_after_an_hour(ana: User) -> None:
    Client().get(reverse("mfa_login_webauthn"), headers={"x-requested-with": "XMLHttpRequest"})
    soon = timezone.now() + timedelta(hours=1, minutes=1)
    assert Session.objects.filter(expire_date__lt=soon).count() == 1
    Client().post(reverse("account_login"), {"login": "ana", "password": PASSWORD, "remember": "on"})
    assert Session.objects.filter(expire_date__gt=soon).count() == 1
