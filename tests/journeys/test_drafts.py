"""What is typed after the session has ended."""

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.test_keyboard import Typist, desk, kept_in
from tests.processes import Site

pytestmark = [pytest.mark.browser, pytest.mark.processes]

__all__ = ["desk"]  # the fixture


def test_what_is_typed_after_the_session_has_ended_stays_in_the_browser(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "ivo")
    typist.goes("n")
    typist.looks()
    typist.page.context.clear_cookies(name="sessionid")
    typist.presses("p", "2", "1")
    typist.types("typed too late")
    expect(typist.page.locator("[data-ended-note]")).to_contain_text("Your session has ended")
    assert kept_in(typist.page) == 1
    typist.page.locator("[data-ended-note]").get_by_role("link").click()
    typist.page.wait_for_url("**/accounts/login/**")
    assert kept_in(typist.page) == 1
    expect(typist.page.get_by_label("Username")).to_be_visible()
