"""Helpers for tests in a browser."""

from django.conf import settings
from django.test import Client
from playwright.sync_api import Page, expect

from review.models import User


def wait_for_focus(page: Page) -> None:
    """Wait until an element of the page has the focus.

    Before that, a case ignores key presses. The page sets the focus with its first frame, which a
    busy machine may paint some time after the page has loaded.
    """
    expect(page.locator(":focus")).to_have_count(1)


def sign_in(page: Page, address: str, user: User) -> None:
    """Sign a browser in without the form."""
    client = Client()
    client.force_login(user)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
