"""The API documentation page in a real browser: it needs no exception from the site's CSP."""

import os
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.models import User
from tests.browser import sign_in

pytestmark = [pytest.mark.browser]


def test_the_page_renders_without_violating_the_csp(
    page: Page, live_server: Any, transactional_db: None, rui: User
) -> None:
    sign_in(page, live_server.url, rui)
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if live_server.url not in request.url else None)

    answer = page.goto(live_server.url + reverse("api-docs"))
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    page.locator("#operations-tag-releases").click()
    operation = page.locator("#operations-releases-releases_list")
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table")).to_contain_text('"results": []')
    if shot := os.environ.get("MHB_SHOT"):
        page.screenshot(path=shot, full_page=True)
    assert complaints == []

    tag = page.locator("#operations-tag-releases")
    expect(tag).not_to_have_css("transition-duration", "0s")
    page.emulate_media(reduced_motion="reduce")
    expect(tag).to_have_css("transition-duration", "0s")
