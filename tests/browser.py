"""What tests in a browser wait for."""

from playwright.sync_api import Page, expect


def arrive(page: Page) -> None:
    """Wait until the page has given something the focus. Before, no letter acts on a case: a browser gives it with the first
    frame, and has loaded the page earlier where it is busy.
    """
    expect(page.locator(":focus")).to_have_count(1)
