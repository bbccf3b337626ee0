"""Text typed after the session has ended."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.test_keyboard import Typist, desk, stored_copies
from tests.processes import Site

pytestmark = [pytest.mark.browser, pytest.mark.processes]

__all__ = ["desk"]  # the fixture


def test_text_typed_after_the_session_has_ended_stays_in_the_browser(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "ivo")
    typist.go("n")
    typist.answer_first_look()
    typist.page.context.clear_cookies(name=re.compile("^mhb_session"))
    typist.press("p", "2", "1")
    typist.type("typed too late")
    expect(typist.page.locator("[data-ended-note]")).to_contain_text("Your session has ended")
    assert stored_copies(typist.page) == 1
    typist.page.locator("[data-ended-note]").get_by_role("link").click()
    typist.page.wait_for_url("**/accounts/login/**")
    assert stored_copies(typist.page) == 1
    expect(typist.page.get_by_label("Username")).to_be_visible()
