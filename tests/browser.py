"""Helpers for tests in a browser."""

from playwright.sync_api import Page, expect


def wait_for_focus(page: Page) -> None:
    """Wait until an element of the page has the focus.

    Before that, a case ignores key presses. The page sets the focus with its first frame, which a
    busy machine may paint some time after the page has loaded.
    """
    expect(page.locator(":focus")).to_have_count(1)
