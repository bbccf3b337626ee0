"""Reading a case in Chromium: changes, the traps beside them, the position after a reload."""

from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.models import User
from review.rules.blocks import Diff, Table, Text, Turn
from tests.browser import sign_in, wait_for_focus
from tests.review.factories import FIRST_LOOK_BLOCKS, FIRST_LOOK_POLICY, FULL_FORM, claim, open_case

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

BEFORE = tuple(
    Turn(("user", "assistant")[n % 2], f"Turn {n} is long and says little of note. " * 12) for n in range(12)
)
AFTER = tuple(
    Turn(turn.speaker, turn.text + " Take Neurostatin." if n in (5, 8) else turn.text) for n, turn in enumerate(BEFORE)
)
TRAPS = Table(
    "Traps",
    ("Code", "Trap", "Location", "What is false", "Why it is false"),
    (
        ("A1", "Invented drug", "turn 6", "It is a drug.", "No register has it."),
        ("C2", "Dose", "turn 9", "A dose.", "None."),
    ),
    tone="trap",
    places=((6,), (9,)),
)


@pytest.fixture
def desk(page: Page, live_server: Any, ana: User) -> Page:
    """A case of twelve turns with two changes, before the first look."""
    sign_in(page, live_server.url, ana)
    page.set_default_timeout(20_000)
    page.set_viewport_size({"width": 1366, "height": 768})
    blocks = (Diff("Talk", BEFORE, AFTER), Text("Bait", "May I take it twice a day?", tone="question"), TRAPS)
    open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, blocks=blocks)
    page.goto(live_server.url + reverse("review:case", args=[claim(ana).pk]))
    wait_for_focus(page)
    return page


def reveal(desk: Page) -> None:
    desk.keyboard.press("1")
    with desk.expect_navigation():
        desk.keyboard.press("Control+Enter")
    wait_for_focus(desk)


def is_in_view(desk: Page, selector: str) -> bool:
    """Whether some of the height of an element is visible in the window."""
    return bool(
        desk.locator(selector).first.evaluate(
            "(one) => { const box = one.getBoundingClientRect(); return box.top < innerHeight - 40 && box.bottom > 80 }"
        )
    )


def test_revealing_opens_the_changes_at_the_first(desk: Page) -> None:
    reveal(desk)
    expect(desk.locator(".views__view--changes")).to_be_visible()
    assert is_in_view(desk, "[data-change]")
    assert is_in_view(desk, ".trap-card"), "the trap is shown beside its turn"
    assert is_in_view(desk, ".split__submit")
    assert is_in_view(desk, ".callout--question")
    assert is_in_view(desk, ".question:not(.given)")
    expect(desk.locator(".diff__fold[open]")).to_have_count(0)


def test_the_question_is_as_wide_as_the_text(desk: Page) -> None:
    reveal(desk)
    text, question = (
        desk.locator(selector).first.bounding_box() for selector in (".views", ".blocks > .callout--question")
    )
    assert text
    assert question
    assert (question["x"], question["width"]) == (text["x"], text["width"])


def test_keys_move_between_changes_and_between_traps(desk: Page) -> None:
    reveal(desk)
    for key, selector in (
        ("]", "[data-change] >> nth=0"),
        ("]", "[data-change] >> nth=1"),
        ("]", "[data-change] >> nth=0"),
    ):
        desk.keyboard.press(key)
        expect(desk.locator(selector)).to_be_focused()
        assert is_in_view(desk, selector)
    desk.keyboard.press("[")
    expect(desk.locator("[data-change] >> nth=1")).to_be_focused()
    desk.keyboard.press("t")
    expect(desk.locator(".trap-card >> nth=0")).to_be_focused()
    expect(desk.locator(".trap-card >> nth=0")).to_contain_text("No register has it.")
    desk.keyboard.press("t")
    expect(desk.locator(".trap-card >> nth=1")).to_be_focused()
    desk.keyboard.press("Escape")
    assert desk.evaluate("document.querySelector('.split__ask').contains(document.activeElement)")


def test_each_trap_is_shown_once_with_its_question_and_the_bait_in_the_conversation(
    page: Page, live_server: Any, ana: User
) -> None:
    sign_in(page, live_server.url, ana)
    page.set_viewport_size({"width": 1366, "height": 768})
    about_traps = []
    for code, name in (("A1", "Invented drug"), ("C2", "Dose")):
        question = replace(FULL_FORM.questions[1], key=f"false:{code}", about=f"{code} {name}", shows=("Traps",))
        about_traps.append(question)
    bait = Turn("user", "May I take Neurostatin twice a day?")
    blocks = (Diff("Talk", BEFORE, (*AFTER, bait)), Text("Bait", bait.text, tone="question"), TRAPS)
    open_case(form=replace(FULL_FORM, questions=tuple(about_traps)), blocks=blocks)
    page.goto(live_server.url + reverse("review:case", args=[claim(ana).pk]))
    expect(page.get_by_text("No register has it.")).to_have_count(1)
    cards = page.locator(".split__ask .trap-card")
    expect(cards).to_have_count(2)
    expect(cards.nth(1)).to_contain_text("C2 Dose")
    expect(page.locator(".callout--question")).to_have_count(0)
    for key in ("v", "c"):
        page.locator(".split__ask").press(key)
        expect(page.locator(".views__view:visible").get_by_text(bait.text)).to_have_count(1)
        assert is_in_view(page, ".views__view:visible :text('Neurostatin twice')"), "it stays while the text scrolls"
    page.locator(".split__ask").press("e")
    page.keyboard.type("10.1000/abc")
    assert is_in_view(page, ".split__ask .trap-card >> nth=1"), "it stays while its source is typed"
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("link", name="Trap 2").first.click()
    expect(cards.nth(1)).to_be_visible()


def test_the_guideline_is_loaded_when_it_is_opened(desk: Page) -> None:
    panel = desk.locator("#guideline")
    expect(panel.get_by_role("heading")).to_have_count(0)
    desk.keyboard.press("h")
    expect(panel.get_by_role("heading", name="Primary")).to_be_visible()
    expect(panel.locator(".prose")).to_be_visible()


def test_the_view_and_the_position_survive_a_reload(desk: Page) -> None:
    reveal(desk)
    desk.keyboard.press("s")
    desk.locator(".views__pick--source").first.wait_for(state="attached")
    expect(desk.locator(".views__view--source")).to_be_visible()
    desk.evaluate("scrollTo(0, 900)")
    desk.reload()
    expect(desk.locator(".views__view--source")).to_be_visible()
    assert abs(desk.evaluate("scrollY") - 900) < 5
    wait_for_focus(desk)
    desk.keyboard.press("c")
    desk.locator(".diff__fold summary").first.click()
    desk.reload()
    expect(desk.locator(".views__view--changes")).to_be_visible()
    expect(desk.locator(".diff__fold[open]")).to_have_count(1)


def test_two_columns_from_768_pixels(desk: Page) -> None:
    for width, beside in ((768, True), (760, False)):
        desk.set_viewport_size({"width": width, "height": 800})
        assert desk.locator(".split__ask").is_visible() is beside
        assert desk.evaluate("document.documentElement.scrollWidth <= innerWidth")
