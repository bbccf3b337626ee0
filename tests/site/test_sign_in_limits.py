"""How often somebody may fail to sign in: by name and address, by address, by name, and through proxies."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from mhb_site.env import read_proxies
from mhb_site.sign_in import limits
from review.models import User
from tests.review.factories import PASSWORD, account
from tests.site.test_second_factor import code, enrol

HERS, OTHER = "198.51.100.7", "203.0.113.9"


def try_to(name: str, password: str = "wrong", address: str = OTHER, **headers: str) -> int:
    """What the API's sign-in answers; the page's goes by the same count."""
    body = {"username": name, "password": password}
    answer = Client().post(
        reverse("api:token"), body, content_type="application/json", REMOTE_ADDR=address, headers=headers
    )
    return answer.status_code


@pytest.mark.django_db
def test_letters_of_another_case_or_width_are_counted_with_the_name() -> None:
    account("sec1")
    names = ["sec1", "SEC1", "Sec1", "ｓｅｃ１", "ſec1"]
    assert [try_to(name) for name in [*names, *names]] == [401] * 9 + [429]
    assert {try_to(name, PASSWORD) for name in names} == {429}, "not even the right password"
    page = {"login": "ＳＥＣ１", "password": PASSWORD}
    assert Client().post(reverse("account_login"), page, REMOTE_ADDR=OTHER).status_code == 429
    assert try_to("SEC1", PASSWORD, HERS) == 201, "from elsewhere she can"


@pytest.mark.django_db
def test_one_address_that_guesses_over_many_names_is_stopped() -> None:
    for number in range(60):
        account(f"sec{number}")
    said = [try_to(f"sec{number}") for number in range(60)]
    assert said == [401] * (limits.BY_ADDRESS - 1) + [429] * (60 - limits.BY_ADDRESS + 1)
    assert try_to("sec59", PASSWORD) == 429
    assert try_to("sec59", PASSWORD, HERS) == 201


@pytest.mark.django_db
def test_many_addresses_that_guess_at_one_name_are_stopped_and_she_is_not(ana: User) -> None:
    AccessLog.objects.create(username="ana", ip_address=HERS, attempt_time=timezone.now())
    said = [try_to("ANA", address=f"203.0.113.{number}") for number in range(limits.BY_NAME)]
    assert said == [401] * (limits.BY_NAME - 1) + [429]
    assert try_to("ana", PASSWORD, "203.0.113.200") == 429
    assert try_to("ana", PASSWORD, HERS) == 201, "where she has signed in before"
    AccessLog.objects.update(attempt_time=timezone.now() - limits.KNOWN_FOR * 1.1)
    assert try_to("ana", PASSWORD, HERS) == 429, "that was long ago"


@pytest.mark.django_db
def test_a_lock_ends_however_often_it_is_knocked_at(ana: User) -> None:
    for _ in range(10):
        try_to("ana")
    began = AccessAttempt.objects.get().attempt_time
    assert {try_to("ana") for _ in range(5)} == {429}
    assert AccessAttempt.objects.get().attempt_time == began
    AccessAttempt.objects.update(attempt_time=began - timedelta(minutes=16))
    assert try_to("ana", PASSWORD) == 201


@pytest.mark.django_db
def test_codes_of_a_second_factor_count_by_address_too(ana: User) -> None:
    enrol(ana)
    for number in range(limits.BY_ADDRESS - 1):
        try_to(f"nobody{number}")
    browser = Client(REMOTE_ADDR=OTHER)
    browser.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})
    assert browser.post(reverse("mfa_authenticate"), {"code": "000000"}).status_code == 429
    assert browser.post(reverse("mfa_authenticate"), {"code": code()}).status_code == 429


@pytest.mark.django_db
def test_a_forged_header_is_nobodys_address(ana: User, settings: Any) -> None:
    """Without a proxy, and behind one that adds the address it sees."""
    said = [try_to("ana", **{"x-forwarded-for": f"192.0.2.{n}"}) for n in range(10)]
    assert said == [401] * 9 + [429]
    settings.MHB_TRUSTED_PROXIES = 1
    said = [try_to("ana", **{"x-forwarded-for": f"192.0.2.{n}, {HERS}"}) for n in range(10)]
    assert said == [401] * 9 + [429]
    assert try_to("ana", PASSWORD, **{"x-forwarded-for": "192.0.2.77"}) == 201, "another one behind the same proxy"


@pytest.mark.plain
@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote", "found"),
    [
        ("", "1.2.3.4", "10.0.0.1", "10.0.0.1"),
        ("0", "1.2.3.4", "10.0.0.1", "10.0.0.1"),
        ("1", "", "10.0.0.1", "10.0.0.1"),
        ("1", "1.2.3.4", "10.0.0.1", "1.2.3.4"),
        ("1", "6.6.6.6, 1.2.3.4", "10.0.0.1", "1.2.3.4"),
        ("2", "6.6.6.6, 1.2.3.4, 10.0.0.2", "10.0.0.1", "1.2.3.4"),
        ("2", "1.2.3.4", "10.0.0.1", "10.0.0.1"),  # came past one of the two: nothing in it is a proxy's word
        ("1", "<script>", "10.0.0.1", "10.0.0.1"),
        ("1", "1.2.3.4:5678", "", "1.2.3.4"),
        ("1", "[2001:db8:1:2:3::4]:80", "", "2001:db8:1:2::"),
        ("1", "2001:db8:1:2:ffff::9", "", "2001:db8:1:2::"),  # the rest of the network is one address
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
def test_the_address_behind_proxies(
    settings: Any, proxies: str, forwarded: str, remote: str, found: str | None
) -> None:
    settings.MHB_TRUSTED_PROXIES = read_proxies(proxies)
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert limits.client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=remote)) == found


@pytest.mark.django_db
def test_a_closed_account_answers_as_a_wrong_password_does(ana: User, bo: User) -> None:
    User.objects.filter(pk=ana.pk).update(is_active=False)

    def answers(name: str, password: str) -> Any:
        page = Client().post(reverse("account_login"), {"login": name, "password": password})
        token = Client().post(
            reverse("api:token"), {"username": name, "password": password}, content_type="application/json"
        )
        said = page.content.decode().replace(name, "NAME")
        return page.status_code, page.get("Location"), token.status_code, token.content, "are not correct" in said

    closed = answers("ana", PASSWORD)
    assert closed == answers("bo", "wrong") == answers("nobody", "wrong")
    assert closed[0] == 200
    assert closed[4]


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["ana", "closed", "nobody"])
def test_every_refusal_hashes_once(ana: User, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes its time is done once for each refusal, so that the time tells nothing either."""
    account("closed", is_active=False)
    hashed: list[str] = []
    plain = MD5PasswordHasher.encode

    def encode(self: MD5PasswordHasher, password: str, salt: str) -> str:
        hashed.append(password)
        return plain(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", encode)
    password = PASSWORD if who == "closed" else "wrong"
    assert try_to(who, password) == 401
    assert hashed == [password]
