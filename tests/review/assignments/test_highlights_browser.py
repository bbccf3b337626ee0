"""Highlighting words in a real Chromium, by mouse and by keyboard, in English and in Chinese."""

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.models import Draft, User
from review.rules.blocks import Diff, Text, Turn
from tests.browser import sign_in, wait_for_focus
from tests.review.factories import FULL_FORM, claim, open_case

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

ENGLISH = Diff(
    "Talk",
    (Turn("user", "Hello 👍 there."), Turn("assistant", "Take it at night.")),
    (Turn("user", "Hello 👍 there."), Turn("assistant", "Take Neurostatin at night. Twice is fine.")),
)
CHINESE = Text("Bait", "我可以每天服用两次神经他汀吗？谢谢。", tone="question")


@pytest.fixture
def desk(page: Page, live_server: Any, ana: User) -> Page:
    sign_in(page, live_server.url, ana)
    page.set_default_timeout(20_000)
    page.set_viewport_size({"width": 1366, "height": 768})
    open_case(form=FULL_FORM, blocks=(ENGLISH, CHINESE))
    page.goto(live_server.url + reverse("review:case", args=[claim(ana).pk]))
    wait_for_focus(page)
    return page


def saved_highlights(desk: Page) -> list[dict[str, Any]]:
    """The highlights of the draft, once everything is saved."""
    expect(desk.locator("[data-answers]")).not_to_have_attribute("data-unsaved", "")
    highlights: list[dict[str, Any]] = Draft.objects.get().answers["highlights"]
    return [
        {name: highlight[name] for name in ("label", "passage", "start", "end", "quote")} for highlight in highlights
    ]


def begin(desk: Page) -> None:
    desk.locator(".split__text").click(position={"x": 2, "y": 2})
    desk.keyboard.press("m")


def test_words_are_chosen_and_labelled_by_keyboard_alone(desk: Page) -> None:
    desk.keyboard.press("m")
    # To "there", then to "Take" and "Neurostatin" of the next turn.
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        desk.keyboard.press(key)
    desk.keyboard.press("Shift+ArrowRight")
    desk.keyboard.press("1")
    expect(desk.locator("mark.mark--1 >> visible=true")).to_have_text("Neurostatin at")
    assert saved_highlights(desk) == [
        {"label": "trap", "passage": "1.2", "start": 5, "end": 19, "quote": "Neurostatin at"}
    ]
    for key in ("ArrowDown", "ArrowDown", "2"):  # the whole sentence, then the next
        desk.keyboard.press(key)
    expect(desk.locator("[data-rows='highlight'] [data-row]")).to_have_count(2)
    assert saved_highlights(desk)[1]["quote"] == "Twice is fine."
    desk.keyboard.press("Delete")
    assert [highlight["label"] for highlight in saved_highlights(desk)] == ["trap"]
    desk.keyboard.press("Escape")
    expect(desk.locator(".split__ask:focus")).to_have_count(1)


def test_chinese_is_chosen_by_words_and_places_count_code_points(desk: Page) -> None:
    desk.keyboard.press("m")
    for _turn in range(10):
        desk.keyboard.press("ArrowDown")  # sentence by sentence, to the last
    desk.keyboard.press("ArrowUp")
    desk.keyboard.press("1")
    assert saved_highlights(desk) == [
        {"label": "trap", "passage": "2.1", "start": 0, "end": 15, "quote": CHINESE.text[:15]}
    ]


def test_words_selected_by_mouse_are_labelled_from_the_menu(desk: Page) -> None:
    first = desk.locator("[data-passage='1.1'] >> visible=true")
    first.dblclick(position={"x": 80, "y": 10})
    menu = desk.locator(".highlight-menu")
    expect(menu).to_be_visible()
    menu.get_by_text("Odd").click()
    expect(menu).to_be_hidden()
    (highlight,) = saved_highlights(desk)
    assert highlight == {"label": "odd", "passage": "1.1", "start": 8, "end": 13, "quote": "there"}, (
        "the emoji counts as one character"
    )


def test_overlapping_highlights_are_both_shown_and_survive_a_reload(desk: Page) -> None:
    desk.keyboard.press("m")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "1", "Shift+ArrowLeft", "2"):
        desk.keyboard.press(key)
    assert [highlight["quote"] for highlight in saved_highlights(desk)] == ["Neurostatin", "Take Neurostatin"]
    desk.reload()
    shown = desk.locator("[data-passage='1.2'] >> visible=true")
    expect(shown).to_have_text("Take Neurostatin at night. Twice is fine.")
    expect(shown.locator("mark.mark--1")).to_have_text("Neurostatin")
    expect(shown.locator("mark.mark--2").first).to_have_text("Take ")
    desk.locator("[data-rows='highlight'] [data-remove]").first.click()
    assert [highlight["quote"] for highlight in saved_highlights(desk)] == ["Take Neurostatin"]
    expect(shown.locator("mark.mark--1")).to_have_count(0)


def test_words_typed_into_a_row_are_found_in_the_text(desk: Page) -> None:
    desk.locator("#highlights-panel > summary").click()
    desk.locator("#add-highlight").click()
    desk.keyboard.type("Neurostatin")
    desk.locator("[name='highlight.1.label']").select_option("trap")
    assert saved_highlights(desk)[0]["passage"] == "1.2"
    expect(desk.locator("mark.mark--1 >> visible=true")).to_have_text("Neurostatin")
