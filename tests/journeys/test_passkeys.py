"""Passkeys in a browser: set up with a virtual authenticator, used instead of a password."""

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.people import PASSWORD, SAME_PASSWORD
from tests.processes import Site

pytestmark = [pytest.mark.browser, pytest.mark.processes]
KEY = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip


@pytest.mark.parametrize("site", ["embedded"], indirect=True)
def test_a_passkey_replaces_the_password(site: Site, browser: Browser) -> None:
    script = f"from review.models import User\nUser.objects.create_user('ana', role='physician')\n{SAME_PASSWORD}"
    assert site.manage("shell", "-v0", "-c", script).returncode == 0
    site.start_web_for_browsers()
    page = browser.new_context(base_url=f"http://localhost:{site.port}").new_page()
    page.set_default_timeout(30_000)
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})
    page.goto("/accounts/login/")
    page.get_by_label("Username").fill("ana")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/review/**")

    page.goto("/accounts/second-factor/webauthn/add/")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/webauthn/add/")
    page.locator("input[name=passwordless]").check()
    page.locator("#mfa_webauthn_add").click()
    page.wait_for_url("**/recovery-codes/")
    assert site.number("SELECT count(*) FROM mfa_authenticator WHERE type = 'webauthn'") == 1
    assert site.manage("verify_audit").returncode == 0

    page.context.clear_cookies()
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/review/**")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
