"""The second factor: users set it up themselves, and every sign-in asks for it from then on."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse

from mhb_site.sign_in.adapters import SecondFactorAdapter
from review.answers import signatures
from review.models import PersonEvent, User
from review.people import accounts
from review.rules.permissions import UserRole
from tests.review.factories import PASSWORD

pytestmark = pytest.mark.django_db

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def codes(secret: str = SECRET) -> list[str]:
    """Return the codes that the app showed last, shows now, and shows next."""
    return [str(auth.format_hotp_value(auth.hotp_value(secret, at))) for at in auth.yield_hotp_counters_from_time()]


def code(secret: str = SECRET) -> str:
    """Return the code that the app shows now."""
    return codes(secret)[1]


def enrol(user: User) -> None:
    auth.TOTP.activate(user, SECRET)


def sign_in(client: Client) -> Any:
    return client.post(reverse("account_login"), {"login": "ana", "password": PASSWORD})


def is_signed_in(client: Client) -> bool:
    return client.get(reverse("review:workbench")).status_code == 200


def test_setting_it_up_takes_a_code_and_gives_recovery_codes(ana: User, client: Client) -> None:
    sign_in(client)
    assert "No authenticator app is set up." in client.get(reverse("mfa_index")).content.decode()
    assert client.get(reverse("mfa_activate_totp"))["Location"].startswith(reverse("account_reauthenticate"))
    assert "Confirm your identity" in client.get(reverse("account_reauthenticate")).content.decode()
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    page = client.get(reverse("mfa_activate_totp"))
    secret = page.context["form"].secret
    assert secret in page.content.decode()
    assert 'src="data:image/svg+xml;base64,' in page.content.decode()
    assert client.post(reverse("mfa_activate_totp"), {"code": "000000"}).status_code == 200
    assert not Authenticator.objects.exists()
    assert client.post(reverse("mfa_activate_totp"), {"code": code(secret)}).status_code == 302
    recovery = client.get(reverse("mfa_view_recovery_codes"))
    assert len(recovery.context["unused_codes"]) == 10
    assert recovery.context["unused_codes"][0] in recovery.content.decode()
    assert "An authenticator app is set up." in client.get(reverse("mfa_index")).content.decode()

    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored, "it is stored encrypted"
    assert client.post(reverse("mfa_deactivate_totp")).status_code == 302
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("name", ["mfa_authenticate", "mfa_reauthenticate", "mfa_activate_totp"])
def test_the_code_field_has_the_focus_and_a_wrong_code_is_cleared(ana: User, client: Client, name: str) -> None:
    if name == "mfa_activate_totp":
        sign_in(client)
        client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    else:
        enrol(ana)
        sign_in(client)
    if name == "mfa_reauthenticate":
        client.post(reverse("mfa_authenticate"), {"code": code()})
    for page in (client.get(reverse(name)), client.post(reverse(name), {"code": "000000"})):
        [field] = re.findall(r'<input[^>]*name="code"[^>]*>', page.content.decode())
        assert "autofocus" in field
        assert "one-time-code" in field
        assert "000000" not in field
    assert "Incorrect code." in page.content.decode()
    chinese = client.get(reverse(name), headers={"Accept-Language": "zh-hans"}).content.decode()
    assert re.search(r"<label[^>]*>\s*验证码", chinese)


def test_a_sign_in_asks_for_the_code(ana: User, client: Client) -> None:
    enrol(ana)
    assert sign_in(client)["Location"] == reverse("mfa_authenticate")
    assert not is_signed_in(client)
    assert "authenticator app" in client.get(reverse("mfa_authenticate")).content.decode()
    assert client.post(reverse("mfa_authenticate"), {"code": "000000"}).status_code == 200
    assert not is_signed_in(client)
    now = code()
    assert client.post(reverse("mfa_authenticate"), {"code": now}).status_code == 302
    assert is_signed_in(client)
    other = Client()
    sign_in(other)
    other.post(reverse("mfa_authenticate"), {"code": now})
    assert not is_signed_in(other), "each code is valid once"


@pytest.mark.parametrize(
    "end",
    [
        lambda ana, adela: accounts.set_password(ana.pk, "another-quite-long-one", actor=adela),
        lambda ana, adela: accounts.set_active(ana.pk, False, actor=adela),
        lambda ana, adela: accounts.set_role(ana.pk, UserRole.RESEARCHER, actor=adela),
    ],
    ids=["password", "closed", "role"],
)
def test_a_sign_in_that_waits_for_its_code_ends_with_all_access(
    ana: User, adela: User, client: Client, end: Callable[[User, User], object]
) -> None:
    enrol(ana)
    sign_in(client)
    end(ana, adela)
    assert client.post(reverse("mfa_authenticate"), {"code": code()}).status_code == 403
    assert client.get(reverse("sessions")).status_code == 302


OTHER_PROCESS = """
import sys
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from review.answers import signatures
from review.models import User
print(signatures.use_code(User.objects.get(username="ana"), sys.argv[2]))
"""


@pytest.mark.django_db(transaction=True)
def test_a_used_code_is_refused_in_another_process(ana: User) -> None:
    enrol(ana)

    def use_in_other_process(code: str) -> str:
        command = [sys.executable, "-c", OTHER_PROCESS, str(connection.settings_dict["NAME"]), code]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    _before, now, ahead = codes()
    assert signatures.use_code(ana, now)
    assert use_in_other_process(now) == "False"
    assert use_in_other_process(ahead) == "True", "an unused code"


def test_a_used_code_is_refused_for_as_long_as_it_would_be_valid(
    ana: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next code is valid for up to three periods; allauth remembers its use for one."""
    enrol(ana)
    ahead = codes()[2]
    assert signatures.use_code(ana, ahead)
    then = time.time() + 45
    monkeypatch.setattr("time.time", lambda: then)
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime.fromtimestamp(then, UTC))
    assert auth.validate_totp_code(SECRET, ahead), "still valid"
    assert not signatures.use_code(ana, f"{ahead[:3]} {ahead[3:]}")
    sign_in(client)
    client.post(reverse("mfa_authenticate"), {"code": ahead})
    assert not is_signed_in(client)


def test_guessing_codes_is_counted_and_stopped(ana: User, client: Client) -> None:
    enrol(ana)
    sign_in(client)
    responses = [
        client.post(reverse("mfa_authenticate"), {"code": "000000"}) for _ in range(settings.AXES_FAILURE_LIMIT)
    ]
    assert [response.status_code for response in responses] == [200] * (settings.AXES_FAILURE_LIMIT - 1) + [429]
    assert client.post(reverse("mfa_authenticate"), {"code": code()}).status_code == 429, (
        "even the right code is refused"
    )
    assert not is_signed_in(client)


def test_an_api_token_needs_the_code_too(ana: User) -> None:
    enrol(ana)

    def request_token(**code: str) -> Any:
        return Client().post(
            reverse("api:token"), {"username": "ana", "password": PASSWORD, **code}, content_type="application/json"
        )

    assert request_token().status_code == 401
    assert request_token(code="000000").status_code == 401
    assert request_token(code=code()).status_code == 201


def test_djangos_admin_has_no_sign_in_of_its_own(ana: User, client: Client) -> None:
    User.objects.filter(pk=ana.pk).update(is_staff=True, is_superuser=True)
    response = client.post(reverse("admin:login"), {"username": "ana", "password": PASSWORD})
    assert response["Location"].startswith(reverse("account_login"))
    assert client.get(reverse("admin:index")).status_code == 302


def test_under_another_site_secret_no_code_is_valid(ana: User, settings: Any) -> None:
    enrol(ana)
    stored = Authenticator.objects.get()
    assert SecondFactorAdapter().decrypt(stored.data["secret"]) == SECRET
    settings.SECRET_KEY = "another secret of the site, long enough"
    for secret in ("", SECRET):
        assert not stored.wrap().validate_code(code(secret))


def test_an_admin_removes_a_lost_second_factor_and_the_event_is_recorded(
    ana: User, adela: User, client: Client
) -> None:
    enrol(ana)
    RecoveryCodes.activate(ana)
    address, page = (reverse(f"review:person{suffix}", args=[ana.pk]) for suffix in ("-second-factor", ""))
    client.force_login(adela)
    assert address in client.get(page).content.decode()
    assert client.post(address)["Location"] == page
    assert not Authenticator.objects.exists()
    shown = client.get(page).content.decode()
    assert address not in shown, "nothing is left to remove"
    assert "Second factor removed" in shown
    client.post(address)
    assert [(event.kind, event.person, event.actor) for event in PersonEvent.objects.filter(actor=adela)] == [
        (PersonEvent.Kind.SECOND_FACTOR, ana, adela)
    ], "removing it again adds no event"
    hers = Client()
    sign_in(hers)
    assert is_signed_in(hers)


def test_removing_ones_own_second_factor_needs_reauthentication(adela: User, client: Client) -> None:
    enrol(adela)
    client.force_login(adela)
    address = reverse("review:person-second-factor", args=[adela.pk])
    assert address not in client.get(reverse("review:person", args=[adela.pk])).content.decode()
    assert client.post(address).status_code == 403
    assert Authenticator.objects.exists()
    assert client.post(reverse("mfa_deactivate_totp"))["Location"].startswith(reverse("account_reauthenticate"))


MALFORMED = {
    "no passkey": 1,
    "no parts": {},
    "without rawId": {"id": "YWJj", "response": {}},
    "a number of bytes": {"id": "YWJj", "rawId": "YWJj", "response": {"clientDataJSON": 10**30}},
    "no text": {"id": "YWJj", "rawId": "YWJj", "response": {"clientDataJSON": "é", "attestationObject": ["x"]}},
    "broken parts": {"id": "YWJj", "rawId": "YWJj", "response": {"clientDataJSON": "e30", "attestationObject": "gQ"}},
}


@pytest.mark.parametrize("credential", [*map(json.dumps, MALFORMED.values()), "[" * 60_000], ids=[*MALFORMED, "deep"])
def test_a_malformed_passkey_is_refused_in_words(client: Client, ana: User, credential: str) -> None:
    address = reverse("mfa_login_webauthn")
    client.get(address, headers={"x-requested-with": "XMLHttpRequest"})
    assert client.post(address, {"credential": credential}).headers["Location"] == reverse("account_login")
    sign_in(client)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    page = client.post(reverse("mfa_add_webauthn"), {"credential": credential})
    assert (page.status_code, Authenticator.objects.exists()) == (200, False)
