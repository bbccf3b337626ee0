"""The workbench in a real Chromium: a report beside its question, a session that ends, what is typed beside a review."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.blocks import Dialogue, Text, Turn
from review.models import Assignment, Declined, Draft, Event, User
from tests.review.factories import PASSWORD, opened, take

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

REPORT = Text("The report", "The lungs are clear. " * 200)
QUESTION = Text("Question", "What does the report say of the liver?", tone="question")
COPIES = "() => Object.keys(localStorage).filter((key) => key.startsWith('mhb-draft:')).length"


@pytest.fixture
def desk(page: Page, live_server: Any, ana: User) -> Page:
    client = Client()
    client.force_login(ana)
    page.context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": client.cookies["sessionid"].value, "url": live_server.url}]
    )
    page.set_default_timeout(20_000)
    return page


def goes(page: Page, url: str, name: str, held: Assignment) -> None:
    page.goto(url + reverse(f"review:{name}", args=[held.pk]))


def boxes(page: Page) -> tuple[dict[str, Any], dict[str, Any]]:
    report, question = page.locator(".block--text").bounding_box(), page.locator(".callout--question").bounding_box()
    assert report is not None
    assert question is not None
    return {**report}, {**question}


def test_a_report_has_its_question_beside_it_where_there_is_room(desk: Page, live_server: Any, ana: User) -> None:
    opened(blocks=(REPORT, QUESTION))
    held = take(ana)
    desk.set_viewport_size({"width": 1920, "height": 900})
    goes(desk, live_server.url, "case", held)
    report, question = boxes(desk)
    assert question["x"] >= report["x"] + report["width"]
    assert question["y"] == pytest.approx(report["y"], abs=2)
    desk.evaluate("scrollTo(0, 600)")
    _report, scrolled = boxes(desk)
    assert 0 < scrolled["y"] < 200, "it stays in sight"
    for width in (1280, 900, 400):
        desk.set_viewport_size({"width": width, "height": 900})
        desk.evaluate("scrollTo(0, 0)")
        report, question = boxes(desk)
        assert question["x"] == pytest.approx(report["x"], abs=2), width
        assert desk.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_a_text_stands_beside_its_question(desk: Page, live_server: Any, ana: User) -> None:
    opened(blocks=(Dialogue("Conversation", (Turn("user", "May I?"),)), QUESTION))
    desk.set_viewport_size({"width": 1920, "height": 900})
    goes(desk, live_server.url, "case", take(ana))
    turns, question = desk.locator(".turns").bounding_box(), desk.locator(".callout--question").bounding_box()
    assert turns is not None
    assert question is not None
    assert question["x"] == pytest.approx(turns["x"], abs=2)


def test_a_session_that_ended_says_so_and_what_was_typed_comes_back(desk: Page, live_server: Any, ana: User) -> None:
    opened()
    held = take(ana)
    goes(desk, live_server.url, "case", held)
    Session.objects.all().delete()
    reason = desk.locator("#reason")
    with desk.expect_response("**/draft/"):
        reason.fill("typed too late")
    note = desk.locator("[data-ended-note]")
    expect(note).to_contain_text("Your session has ended")
    expect(desk.locator(".saved__pending")).to_be_hidden()
    assert desk.url.endswith(reverse("review:case", args=[held.pk])), "nobody is led away"
    assert not Draft.objects.exists()
    reason.fill("typed too late, and more")
    note.get_by_role("link").click()
    desk.locator("[name=login]").fill("ana")
    desk.locator("[name=password]").fill(PASSWORD)
    with desk.expect_response("**/draft/"):
        desk.keyboard.press("Enter")
    expect(desk.locator("[data-replayed]")).to_be_visible()
    expect(reason).to_have_value("typed too late, and more")
    expect(desk.locator(".saved__done")).to_contain_text("Saved")
    assert Draft.objects.get().answers["reason"] == "typed too late, and more"


def test_what_is_typed_beside_a_review_survives_a_reload_until_it_is_sent(
    desk: Page, live_server: Any, ana: User
) -> None:
    opened()
    held = take(ana)
    goes(desk, live_server.url, "decline", held)
    declining, reporting = desk.locator("[data-aside*=':decline:']"), desk.locator("[data-aside*=':problem:']")
    declining.locator("textarea").fill("I know the patient.")
    declining.locator("[value=conflict]").check()
    reporting.locator("textarea").fill("A turn is missing.")
    desk.reload()
    expect(reporting.locator("textarea")).to_have_value("A turn is missing.")
    expect(declining.locator("textarea")).to_have_value("I know the patient.")
    expect(declining.locator("[value=conflict]")).to_be_checked()

    reporting.get_by_role("button", name="Report").click()
    desk.wait_for_url(re.compile(r"/assignments/\d+/$"))
    assert Event.objects.filter(kind=Event.Kind.PROBLEM).exists()
    goes(desk, live_server.url, "decline", held)
    expect(declining.locator("textarea")).to_have_value("I know the patient.")
    expect(reporting.locator("textarea")).to_have_value("")

    declining.get_by_role("button", name="Decline").click()
    desk.wait_for_url(re.compile(r"/review/$"))
    assert Declined.objects.get().text == "I know the patient."
    assert desk.evaluate(COPIES) == 0
