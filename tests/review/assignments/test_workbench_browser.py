"""The workbench in a real Chromium: layout, ended sessions, side forms, shortcut keys."""

import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.assignments import claims, services
from review.models import Assignment, Declined, Draft, Event, FirstLook, Remark, Review, User
from review.rules.blocks import Dialogue, Images, Picture, Table, Text, Turn
from review.rules.questions import Answers
from tests.browser import sign_in, wait_for_focus
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    PASSWORD,
    approval,
    case_in_secondary,
    claim,
    open_case,
    turn_at,
)

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

REPORT = Text("The report", "The lungs are clear. " * 200)
QUESTION = Text("Question", "What does the report say of the liver?", tone="question")
COPIES = "() => Object.keys(localStorage).filter((key) => key.startsWith('mhb-draft:')).length"


@pytest.fixture
def desk(page: Page, live_server: Any, ana: User) -> Page:
    sign_in(page, live_server.url, ana)
    page.set_default_timeout(20_000)
    return page


def open_page(page: Page, url: str, name: str, assignment: Assignment) -> None:
    page.goto(url + reverse(f"review:{name}", args=[assignment.pk]))


def boxes(page: Page) -> tuple[dict[str, Any], dict[str, Any]]:
    report, question = page.locator(".block--text").bounding_box(), page.locator(".callout--question").bounding_box()
    assert report is not None
    assert question is not None
    return {**report}, {**question}


def test_a_report_has_its_question_beside_it_where_there_is_room(desk: Page, live_server: Any, ana: User) -> None:
    open_case(blocks=(REPORT, QUESTION))
    assignment = claim(ana)
    desk.set_viewport_size({"width": 1920, "height": 900})
    open_page(desk, live_server.url, "case", assignment)
    report, question = boxes(desk)
    assert question["x"] >= report["x"] + report["width"]
    assert question["y"] == pytest.approx(report["y"], abs=2)
    desk.evaluate("scrollTo(0, 600)")
    _report, scrolled = boxes(desk)
    assert 0 < scrolled["y"] < 200, "it stays in view"
    for width in (1280, 900, 400):
        desk.set_viewport_size({"width": width, "height": 900})
        desk.evaluate("scrollTo(0, 0)")
        report, question = boxes(desk)
        assert question["x"] == pytest.approx(report["x"], abs=2), width
        assert desk.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_a_text_is_shown_beside_its_question(desk: Page, live_server: Any, ana: User) -> None:
    open_case(blocks=(Dialogue("Conversation", (Turn("user", "May I?"),)), QUESTION))
    desk.set_viewport_size({"width": 1920, "height": 900})
    open_page(desk, live_server.url, "case", claim(ana))
    turns, question = desk.locator(".turns").bounding_box(), desk.locator(".callout--question").bounding_box()
    assert turns is not None
    assert question is not None
    assert question["x"] == pytest.approx(turns["x"], abs=2)


def test_what_is_judged_is_inside_its_question_beside_an_image_that_stays(
    desk: Page, live_server: Any, ana: User
) -> None:
    image = Images("Image", (Picture("0" * 64, "A scan"),))
    blocks = (
        image,
        QUESTION,
        REPORT,
        Text("Finding", "The liver is enlarged."),
        Table("Source", ("From",), (("CT",),)),
    )
    question = replace(FULL_FORM.questions[1], shows=("Finding", "Source"))
    open_case(blocks=blocks, form=replace(FULL_FORM, questions=(question,)))
    assignment = claim(ana)
    for width in (768, 1366, 1920):
        desk.set_viewport_size({"width": width, "height": 768})
        open_page(desk, live_server.url, "case", assignment)
        inside = desk.locator(".question", has=desk.locator(".within")).first
        expect(inside.get_by_text("The liver is enlarged.")).to_be_visible()
        expect(inside.get_by_text("CT", exact=True)).to_be_visible()
        expect(desk.locator(".split__text").get_by_text("The liver is enlarged.")).to_have_count(0)
        desk.evaluate("scrollTo(0, 500)")
        viewer, asked = desk.locator(".viewer").bounding_box(), inside.bounding_box()
        assert viewer is not None
        assert asked is not None
        assert 0 < viewer["y"] < 120, f"the image stays at {width}"
        assert viewer["x"] + viewer["width"] <= asked["x"], width


def test_the_page_belongs_to_the_case(desk: Page, live_server: Any, ana: User) -> None:
    open_case(blocks=(REPORT, QUESTION))
    open_case(2, blocks=(REPORT, QUESTION))
    for width in (768, 1024, 1366):
        desk.set_viewport_size({"width": width, "height": 768})
        desk.goto(live_server.url + reverse("review:workbench"))
        desk.locator("button[data-key=n], a[data-key=n]").first.click()
        pane = desk.locator(".split__ask").bounding_box()
        assert pane is not None
        assert pane["y"] < 135
        assert pane["y"] + pane["height"] > 768 - 30
        desk.evaluate("scrollTo(0, 400)")
        bar = desk.locator(".casebar").bounding_box()
        assert bar is not None
        assert bar["y"] == 0
        assert bar["height"] < 80


@pytest.mark.parametrize("width", [768, 1366])
def test_a_message_covers_nothing_of_the_case(desk: Page, live_server: Any, ana: User, width: int) -> None:
    open_case(blocks=(REPORT, QUESTION))
    assignment = claim(ana)
    desk.set_viewport_size({"width": width, "height": 768})
    open_page(desk, live_server.url, "case", assignment)
    with desk.expect_navigation():
        desk.locator(".also [data-key='ctrl+s']").click()
    message, bar = desk.locator(".message").bounding_box(), desk.locator(".casebar").bounding_box()
    assert message is not None
    assert bar is not None
    assert message["y"] + message["height"] <= bar["y"]


@pytest.mark.parametrize("name", ["correct", "tour-case"])
def test_pages_without_a_reservation_have_no_script_errors(
    name: str, desk: Page, live_server: Any, ana: User, bo: User
) -> None:
    case_in_secondary(ana)
    argument: object = "mhb"
    if name == "correct":
        argument = Review.objects.get().pk
    mistakes: list[str] = []
    desk.on("pageerror", lambda error: mistakes.append(str(error)))
    desk.goto(live_server.url + reverse(f"review:{name}", args=[argument]) + "#!%")  # a link may end in anything
    wait_for_focus(desk)
    desk.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    desk.evaluate("document.querySelector('[data-answers]').requestSubmit()")
    expect(desk.locator("#incomplete")).to_be_visible()
    for key in ("Escape", "n", "1", "p", "e", "Escape"):
        desk.keyboard.press(key)
    assert mistakes == []


def test_lists_of_a_physician_fit_a_phone(desk: Page, live_server: Any, ana: User) -> None:
    case_in_secondary(ana)
    desk.set_viewport_size({"width": 360, "height": 740})
    for address in (reverse("review:mine"), reverse("review:tour", args=["mhb"])):
        desk.goto(live_server.url + address)
        assert desk.locator(".table-scroll").evaluate("(one) => one.scrollWidth <= one.clientWidth"), address
    expect(desk.locator("td").first).to_have_attribute("data-column", "Definition")
    desk.locator(".topbar__name").evaluate(
        "name => name.insertAdjacentHTML('afterend', `<span class='badge badge--count'>4</span>`)"
    )
    language = desk.locator(".topbar [name=language]").bounding_box()
    assert language is not None
    assert language["height"] < 40, "its name is in one line beside the number of notifications"


def test_an_ended_session_is_announced_and_typed_text_is_restored(desk: Page, live_server: Any, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    open_page(desk, live_server.url, "case", assignment)
    Session.objects.all().delete()
    reason = desk.locator("#reason")
    with desk.expect_response("**/draft/"):
        reason.fill("typed too late")
    note = desk.locator("[data-ended-note]")
    expect(note).to_contain_text("Your session has ended")
    expect(desk.locator(".saved__pending")).to_be_hidden()
    assert desk.url.endswith(reverse("review:case", args=[assignment.pk])), "the page does not navigate away"
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


def test_text_in_side_forms_survives_a_reload_until_it_is_sent(desk: Page, live_server: Any, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    open_page(desk, live_server.url, "decline", assignment)
    declining, reporting = desk.locator("[data-aside*=':decline:']"), desk.locator("[data-aside*=':problem:']")
    declining.locator("textarea").fill("I know the patient.")
    declining.locator("[value=conflict]").check()
    reporting.locator("textarea").fill("A turn is missing.")
    desk.reload()
    expect(reporting.locator("textarea")).to_have_value("A turn is missing.")
    expect(declining.locator("textarea")).to_have_value("I know the patient.")
    expect(declining.locator("[value=conflict]")).to_be_checked()

    reporting.get_by_role("button", name="Send to the admins").click()
    desk.wait_for_url(re.compile(r"/assignments/\w+/$"))
    assert Event.objects.filter(kind=Event.Kind.PROBLEM).exists()
    open_page(desk, live_server.url, "decline", assignment)
    expect(declining.locator("textarea")).to_have_value("I know the patient.")
    expect(reporting.locator("textarea")).to_have_value("")

    declining.get_by_role("button", name="Decline").click()
    desk.wait_for_url(re.compile(r"/review/$"))
    assert Declined.objects.get().text == "I know the patient."
    assert desk.evaluate(COPIES) == 0


def test_a_draft_refused_by_a_busy_database_is_kept_and_sent_again(
    desk: Page, live_server: Any, ana: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_case()
    assignment = claim(ana)
    open_page(desk, live_server.url, "case", assignment)

    def locked(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as busy:
        busy.setattr("review.assignments.services.save_draft", locked)
        with desk.expect_response("**/draft/") as answer:
            desk.locator("#reason").fill("typed while somebody else wrote")
        assert answer.value.status == 503
        expect(desk.locator("#messages .problem")).to_contain_text("The database is busy")
        assert desk.evaluate(COPIES) == 1
        assert not Draft.objects.exists()
    with desk.expect_response("**/draft/"):
        # Sooner than the next attempt, which is 5 seconds away.
        desk.evaluate("dispatchEvent(new Event('online'))")
    expect(desk.locator("[data-unsaved]")).to_have_count(0)
    expect(desk.locator("#messages .problem")).to_have_count(0)
    assert desk.evaluate(COPIES) == 0
    assert Draft.objects.get().answers["reason"] == "typed while somebody else wrote"


def open_first_look(page: Page, url: str, physician: User) -> list[str]:
    """Open a first look with its question answered; returns the requests as they are sent."""
    open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    open_page(page, url, "case", claim(physician))
    wait_for_focus(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url.split("/")[-2]))
    return sent


def test_nothing_is_saved_after_a_submit_which_would_look_like_another_window(
    desk: Page, live_server: Any, ana: User
) -> None:
    sent = open_first_look(desk, live_server.url, ana)
    held: list[Any] = []
    desk.route(re.compile("/reveal/"), lambda route: held.append(route))
    desk.locator("[name='question.natural'][value=yes]").check(force=True)
    with desk.expect_request(re.compile("/reveal/")):
        desk.get_by_role("button", name="Reveal traps").click(no_wait_after=True)
    desk.wait_for_timeout(1500)  # longer than a change waits for its save
    assert "draft" not in sent[sent.index("reveal") :]
    with desk.expect_navigation():
        held[0].continue_()
    with desk.expect_response("**/draft/") as saved:
        desk.locator("#reason").fill("typed in the only window", force=True)
    assert saved.value.status == 200


def test_a_submit_waits_for_a_save_in_progress(desk: Page, live_server: Any, ana: User) -> None:
    sent = open_first_look(desk, live_server.url, ana)
    held: list[Any] = []
    desk.route("**/draft/", lambda route: held.append(route))
    with desk.expect_request("**/draft/"):
        desk.locator("[name='question.natural'][value=yes]").check(force=True)
    desk.get_by_role("button", name="Reveal traps").click()
    desk.wait_for_timeout(500)
    assert "reveal" not in sent
    with desk.expect_navigation():
        held[0].continue_()
    assert Review.objects.count() == 0
    expect(desk.locator("[data-unsaved]")).to_have_count(0)
    assert sent.index("draft") < sent.index("reveal")


def test_a_submit_does_not_follow_a_save_that_is_refused(desk: Page, live_server: Any, ana: User) -> None:
    sent = open_first_look(desk, live_server.url, ana)
    held: list[Any] = []
    desk.route("**/draft/", lambda route: held.append(route))
    with desk.expect_request("**/draft/"):
        desk.locator("[name='question.natural'][value=yes]").check(force=True)
    desk.get_by_role("button", name="Reveal traps").click()
    assignment = Assignment.objects.get()
    assert assignment.token is not None
    services.save_draft(turn_at(ana, assignment), assignment.token, Answers(reason="in another window"), revision=0)
    with desk.expect_response("**/draft/") as refused:
        held[0].continue_()
    assert refused.value.status == 409
    expect(desk.locator("[data-refused]")).to_have_count(1)
    expect(desk.get_by_role("link", name="Saving stopped: see what to do")).to_have_attribute("href", "#messages")
    expect(desk.locator("#messages").get_by_role("button", name="Keep this version")).to_be_visible()
    assert "reveal" not in sent
    assert not FirstLook.objects.exists()


def ready_to_sign(page: Page, url: str, physician: User) -> Assignment:
    """Open a case with every question answered, which one press of Ctrl+Enter would sign."""
    open_case()
    assignment = claim(physician)
    assert assignment.token is not None
    services.save_draft(turn_at(physician, assignment), assignment.token, approval(), revision=0)
    open_page(page, url, "case", assignment)
    expect(page.locator("[data-answered]")).to_have_text("5/5")
    wait_for_focus(page)
    return assignment


def test_keys_act_on_the_focused_form(desk: Page, live_server: Any, ana: User) -> None:
    assignment = ready_to_sign(desk, live_server.url, ana)
    address = desk.url
    desk.keyboard.press("r")
    remark = desk.locator("#remark-text")
    remark.press_sequentially("yx1nk?z")
    desk.keyboard.press("Alt+Enter")
    desk.keyboard.press("Control+s")
    desk.locator("#remark-quote").press("Alt+Enter")
    desk.locator(".talk").get_by_role("button").press("k")
    desk.locator(".talk").get_by_role("button").press("2")
    assert desk.url == address
    with desk.expect_response("**/remarks/"):
        remark.press("Control+Enter")
    expect(desk.locator(".talk__entry")).to_contain_text("yx1nk?z")
    expect(remark).to_be_focused()
    # The field is empty: nothing is posted, and nothing signed.
    desk.keyboard.press("Control+Enter")
    assert Remark.objects.get().text == "yx1nk?z"
    assert desk.url == address
    assert not Review.objects.exists()
    expect(desk.locator('[name="verdict"]:checked')).to_have_value("approve")

    desk.keyboard.press("Escape")
    with desk.expect_navigation(url="**/review/"):
        desk.keyboard.press("Control+Enter")
    assert Review.objects.get().assignment_id == assignment.pk


def test_no_key_signs_from_a_field_outside_of_the_review(desk: Page, live_server: Any, ana: User) -> None:
    ready_to_sign(desk, live_server.url, ana)
    address = desk.url
    desk.evaluate(
        """document.querySelector("#main").insertAdjacentHTML("afterbegin", `<div id="free" contenteditable="true"></div>
        <select id="pick"><option>one</option></select><form id="other"><input id="line"></form>`);
        document.querySelector("#other").addEventListener("submit", (event) => event.preventDefault())"""
    )
    for field in ("#free", "#pick", "#line"):
        for key in ("Control+Enter", "Alt+Enter", "x", "2", "n"):
            desk.locator(field).press(key)
    expect(desk.locator("#free")).to_contain_text("x2n")
    # Keys held down since the previous page, those of an input method, keys while a dialog is open.
    send = """(init) => document.body.dispatchEvent(new KeyboardEvent("keydown",
        {key: "Enter", ctrlKey: true, bubbles: true, cancelable: true, ...init}))"""
    for init in ({"repeat": True}, {"isComposing": True}, {"keyCode": 229}):
        desk.evaluate(send, init)
    desk.locator(".split__ask").press("?")
    expect(desk.locator("dialog#keys")).to_be_visible()
    desk.keyboard.press("Control+Enter")
    desk.evaluate(send, {})
    expect(desk.locator('[name="verdict"]:checked')).to_have_value("approve")
    assert desk.url == address
    assert not Review.objects.exists()


def test_notices_for_an_admin_are_a_styled_list(page: Page, live_server: Any, ana: User, adela: User) -> None:
    open_case()
    assignment = claim(ana)
    for text in ("A turn is missing.", "The dose in the last turn is in the wrong unit, and in the report as well."):
        claims.report_problem(ana, assignment.pk, text)
    sign_in(page, live_server.url, adela)
    page.set_viewport_size({"width": 420, "height": 900})
    page.goto(live_server.url + reverse("review:overview"))
    items = page.locator("section:has(#notices) li")
    expect(items).to_have_count(2)
    styles = items.evaluate_all(
        "(all) => all.map((one) => [getComputedStyle(one).paddingInlineStart, getComputedStyle(one).borderTopStyle])"
    )
    assert [style[1] for style in styles] == ["none", "solid"]
    assert all(style[0] not in ("", "0px") for style in styles)
    expect(items.first.locator("..")).to_have_css("list-style-type", "none")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_texts_of_another_account_leave_the_browser(desk: Page, live_server: Any, ana: User, bo: User) -> None:
    keys = {
        "ana": [f"mhb-draft:{ana.pk}:x:primary#1", f"mhb-draft:decline:{ana.pk}:x"],
        "bo": f"mhb-draft:remark:{bo.pk}:x",
    }
    workbench = live_server.url + reverse("review:workbench")
    store = "key => localStorage.setItem(key, JSON.stringify({at: Date.now(), fields: []}))"
    desk.goto(workbench)
    for key in keys["ana"]:
        desk.evaluate(store, key)
    desk.goto(workbench)
    assert desk.evaluate(COPIES) == 2
    desk.evaluate(store, keys["bo"])
    sign_in(desk, live_server.url, bo)
    desk.goto(workbench)
    stored = desk.evaluate("() => Object.keys(localStorage).filter((key) => key.startsWith('mhb-draft:'))")
    assert stored == [keys["bo"]]


def test_the_link_to_the_discussion_leads_into_its_field(desk: Page, live_server: Any, ana: User) -> None:
    """Elsewhere, what is typed would set off the keys of the page."""
    open_case()
    open_page(desk, live_server.url, "case", claim(ana))
    wait_for_focus(desk)
    desk.get_by_role("link", name="Discussion").click()
    desk.keyboard.type("@me: read this")
    expect(desk.locator("#remark-text")).to_have_value("@me: read this")
