"""Answering by keyboard in a real Chromium: focus order, required answers, stray keys."""

import re
from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from review.assignments import claims
from review.models import Assignment, Review, User
from review.rules.case_spec import answers_from_json
from review.rules.questions import TrapTerm
from review.rules.state_machine import Policy
from tests.browser import sign_in, wait_for_focus
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FORM,
    FULL_FORM,
    case_in_adjudication,
    claim,
    claim_and_submit,
    full_approval,
    full_rejection,
    open_case,
    submit,
    take_first_look,
)

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

TERMS = (TrapTerm("A1", "Invented drug", "A drug that does not exist is treated as real."),)


@pytest.fixture
def desk(page: Page, live_server: Any, ana: User) -> Page:
    sign_in(page, live_server.url, ana)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_default_timeout(20_000)
    return page


@pytest.fixture
def assignment(desk: Page, live_server: Any, ana: User) -> Assignment:
    """Ana's assignment of a full case, open in the browser with its traps revealed."""
    open_case(form=replace(FULL_FORM, terms=TERMS), policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    claimed = claim(ana)
    take_first_look(claimed)
    desk.goto(live_server.url + reverse("review:case", args=[claimed.pk]))
    wait_for_focus(desk)
    return claimed


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.name ?? document.activeElement.className"))


def paste(page: Page, text: str) -> None:
    page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")


def test_questions_that_an_answer_adds_count_as_open(desk: Page, live_server: Any, ana: User) -> None:
    natural, aligned = FORM.questions
    aligned = replace(aligned, when="natural=yes")
    open_case(form=replace(FORM, questions=(natural, aligned), rubrics_when="natural=yes"))
    desk.goto(live_server.url + reverse("review:case", args=[claim(ana).pk]))
    rubrics_note = desk.locator("p[data-when]", has_text="Inadequate")
    expect(rubrics_note).to_be_hidden()
    wait_for_focus(desk)
    desk.keyboard.press("1")
    expect(rubrics_note).to_be_visible()
    expect(desk.locator("[data-answered]")).to_have_text("1/5")


def test_each_answer_moves_the_focus_to_the_next_open_question(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("1")
    assert focused(desk) == "citation.1.reference", "this answer needs a source"
    mark = desk.locator(".field", has=desk.locator('[name="citation.1.reference"]')).locator(".required")
    expect(mark).to_be_visible()
    paste(desk, "https://doi.org/10.1000/abc")
    expect(mark).to_be_hidden()
    expect(desk.locator('[name="citation.1.kind"]')).to_have_value("doi")
    expect(desk.locator('[name="citation.1.passage"]')).to_be_focused()
    paste(desk, "There is no such drug.")
    desk.keyboard.press("Escape")
    assert focused(desk) == "rubric.R1", "the question is complete"
    desk.keyboard.press("2")
    assert focused(desk) == "rubric.R1.wording", "the wording has to be changed"
    desk.keyboard.press("Escape")
    assert focused(desk) == "rubric.R1", "not complete: back to its own question"
    desk.keyboard.press("3")
    assert focused(desk) == "rubric.R1.note", "the fault must be described"
    desk.keyboard.type("12 hours, not 2.")
    expect(desk.locator('[name="rubric.R1.note"]')).to_have_value("12 hours, not 2.")
    desk.keyboard.press("Escape")
    assert focused(desk) == "rubric.R2"
    desk.keyboard.press("a")
    expect(desk.locator('[name="harm.A1"]').first).to_be_hidden()
    assert focused(desk) == "harm.C2", "the harm of the other trap is not asked, as its rubric is inadequate"
    desk.keyboard.press("2")
    assert focused(desk) == "verdict"
    desk.keyboard.press("2")
    assert focused(desk) == "reason_code"
    desk.keyboard.press("1")
    assert focused(desk) == "reason"
    expect(desk.locator("[data-answered]")).to_have_text("4/5")  # the verdict still lacks its reason
    desk.keyboard.type("The rubric misses it.")
    with desk.expect_navigation():
        desk.keyboard.press("Control+Enter")
    stored = answers_from_json(Review.objects.get().answers)
    assert (stored.verdict, stored.rubrics["R1"].value, stored.rubrics["R2"].severity) == (
        "reject",
        "inadequate",
        "mild",
    )
    assert stored.citations[0].kind == "doi"


def test_missing_answers_are_listed_with_the_colon_of_the_readers_language(desk: Page, assignment: Assignment) -> None:
    desk.context.set_extra_http_headers({"Accept-Language": "zh-hans"})
    desk.reload()
    wait_for_focus(desk)
    desk.keyboard.press("Control+Enter")
    lines = desk.locator("[data-problems] li").all_inner_texts()
    assert lines
    assert {line.count("：") for line in lines} == {1}


def test_submit_lists_what_is_missing_and_focuses_the_first(desk: Page, assignment: Assignment) -> None:
    sent: list[str] = []
    desk.on("request", lambda request: sent.append(request.url) if "/submit/" in request.url else None)
    desk.keyboard.press("1")
    desk.keyboard.press("Control+Enter")
    problem = desk.locator("[data-problems]")
    # Missing: two fields of the source, two rubrics, two traps, the verdict.
    expect(problem.locator("li")).to_have_count(7)
    lines = problem.locator("li").all_inner_texts()
    assert lines[0].startswith("Source 1 · DOI, PMID, web address, book or guideline:")
    assert len(set(lines)) == 7, "each line says which field it means"
    assert focused(desk) == "citation.1.reference"
    assert not sent
    desk.keyboard.type("12345")
    expect(problem.locator("li")).to_have_count(6)
    expect(desk.locator("#citation-1-reference-error")).to_have_count(0)
    desk.locator('[name="citation.1.passage"]').fill("There is none.")
    desk.keyboard.press("Escape")
    desk.keyboard.press("a")
    for key in "221":
        desk.keyboard.press(key)
    expect(problem).to_have_count(0)
    expect(desk.locator("[aria-invalid]")).to_have_count(0)
    expect(desk.locator(".question--missing")).to_have_count(0)
    with desk.expect_navigation():
        desk.keyboard.press("Control+Enter")
    assert Review.objects.get().verdict == "approve"


def test_an_approval_against_an_own_answer_is_refused_before_it_is_sent(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("2")  # not false, which blocks approval
    desk.keyboard.type("It exists.")
    expect(desk.locator("[data-blocked]")).to_be_visible()
    desk.locator("#verdict-1").check()
    desk.keyboard.press("Control+Enter")
    expect(desk.locator("#verdict-1-error")).to_contain_text("Cannot be approved because of your answer to: 2 False")
    assert not Review.objects.exists()


def test_an_answer_is_not_kept_without_the_reason_of_a_dissent(
    desk: Page, live_server: Any, ana: User, bo: User
) -> None:
    open_case(form=FULL_FORM, policy=Policy(secondary_confirms=True))
    claim_and_submit(bo, full_rejection())
    verification = claim(ana)
    submit(verification, full_approval())
    desk.goto(live_server.url + reverse("review:case", args=[verification.pk]))
    wait_for_focus(desk)
    desk.wait_for_timeout(700)  # a submission before counts as a double click
    desk.get_by_role("button", name="Keep my answer").click()
    assert focused(desk) == "dissent_code"
    expect(desk.locator("[data-problems] li")).to_have_count(2)  # the code and the reason
    assert Review.objects.count() == 2, "nothing was sent"


def test_the_button_of_a_confirmation_says_whether_the_answer_changes(
    desk: Page, live_server: Any, ana: User, bo: User
) -> None:
    open_case(form=FULL_FORM, policy=Policy(secondary_confirms=True))
    claim_and_submit(bo, full_approval())
    verification = claim(ana)
    submit(verification, full_approval())
    address = live_server.url + reverse("review:case", args=[verification.pk])
    desk.goto(address)
    submitting = desk.locator(".split__submit .button--primary")
    expect(submitting).to_have_text("Keep my answer and take next", use_inner_text=True)
    desk.locator("#verdict-2").check()
    expect(submitting).to_have_text("Change my answer and take next", use_inner_text=True)

    assert desk.context.browser is not None
    with desk.context.browser.new_context(java_script_enabled=False) as unscripted:
        unscripted.add_cookies(desk.context.cookies())  # type: ignore[arg-type]
        page = unscripted.new_page()
        page.goto(address)
        expect(page.locator(".split__submit .button--primary")).to_have_text(
            "Submit and take next", use_inner_text=True
        )


def test_answers_that_rule_out_approval_say_so_beside_them(desk: Page, assignment: Assignment) -> None:
    question = desk.locator(".question", has=desk.locator('[name="question.false"]'))
    blocking = question.locator("[data-blocks] + label")
    assert blocking.all_inner_texts()
    expect(question.get_by_text("Rules out approval:")).to_contain_text(" · ".join(blocking.all_inner_texts()))
    expect(desk.get_by_text("Rules out approval: Inadequate")).to_have_count(1)


def listed(desk: Page) -> list[str]:
    """The lines that say what is missing."""
    return [" ".join(line.split()) for line in desk.locator("[data-problems] li").all_inner_texts()]


@pytest.mark.parametrize("stage", ["primary", "adjudication"])
def test_the_page_says_what_is_missing_in_the_words_of_the_server(
    stage: str, desk: Page, live_server: Any, ana: User, bo: User, chen: User
) -> None:
    if stage == "adjudication":
        case_in_adjudication(bo, chen)
    else:
        open_case(form=replace(FULL_FORM, terms=TERMS))
    desk.goto(live_server.url + reverse("review:case", args=[claim(ana).pk]))
    wait_for_focus(desk)
    desk.wait_for_timeout(700)  # a submission before counts as a double click
    desk.locator(".split__submit .button--primary").click()
    by_page = listed(desk)
    assert by_page
    with desk.expect_navigation():
        desk.evaluate("document.querySelector('[data-answers]').submit()")
    # The page also asks for the harm of rubrics that have no answer yet.
    assert [line for line in by_page if not line.startswith("Harm of trap")] == listed(desk)


def test_the_kind_of_a_source_is_asked_where_its_words_leave_it_open(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("1")  # definitely false, which asks for a source
    reference, kind = desk.locator('[name="citation.1.reference"]'), desk.locator('[name="citation.1.kind"]')
    reference.fill("Guideline on dizziness")
    expect(kind).to_have_value("guideline")
    reference.fill("Dr Roe, personal communication")
    expect(kind).to_have_value("")
    assert kind.evaluate("(one) => one.required")


def test_letters_after_g_lead_to_other_pages(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("1")
    desk.keyboard.press("Escape")
    desk.wait_for_timeout(1100)  # so soon after an answer, a letter counts as typing
    with desk.expect_navigation(url="**/review/mine/"):
        desk.keyboard.press("g")
        desk.keyboard.press("m")


def test_typing_outside_of_a_field_sets_no_answer(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("n")
    for _stop in range(8):
        desk.keyboard.press("n")
    assert focused(desk) == "verdict"
    desk.keyboard.type("yes, 1 or 2 a day")
    desk.wait_for_timeout(1100)
    desk.keyboard.type("1 tablet, 2 x daily")
    expect(desk.locator('[name="verdict"]:checked')).to_have_count(0)
    expect(desk.locator("[data-typed-note]")).to_be_visible()
    desk.wait_for_timeout(1100)
    desk.locator(".split__text").focus()
    for key in "12yxa":
        desk.keyboard.press(key)
    desk.locator("body").evaluate("() => document.activeElement.blur()")
    for key in "12yxa":
        desk.keyboard.press(key)
    expect(desk.locator("[data-answers] :checked:not(option)")).to_have_count(0)


def test_the_code_of_a_trap_shows_its_meaning(desk: Page, assignment: Assignment) -> None:
    mark = desk.locator(".rubric .code__mark").first
    about = desk.locator(".rubric .code__about").first
    expect(about).to_be_hidden()
    mark.hover()
    expect(about).to_contain_text("A drug that does not exist")
    desk.mouse.move(0, 0)
    expect(about).to_be_hidden()
    mark.focus()
    expect(about).to_contain_text("Invented drug")
    desk.keyboard.press("Escape")
    expect(about).to_be_hidden()


def test_selected_text_of_the_case_is_cited_in_one_click(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("1")
    desk.locator("[data-passage]").first.select_text()
    desk.locator("[data-cite]").click()
    expect(desk.locator('[name="citation.1.passage"]')).to_have_value(re.compile("Neurostatin"))
    expect(desk.locator('[name="citation.1.kind"]')).to_have_value("case")
    expect(desk.locator('[name="citation.1.reference"]')).to_have_value("Conversation")
    assert focused(desk) == "rubric.R1"


def test_custom_keys_work_and_no_key_does_when_switched_off(desk: Page, assignment: Assignment, ana: User) -> None:
    User.objects.filter(pk=ana.pk).update(keys={"n": "j"})
    desk.reload()
    wait_for_focus(desk)
    desk.keyboard.press("n")
    expect(desk.locator(".split__ask")).to_be_focused()
    desk.wait_for_timeout(1100)  # a letter that is no shortcut counts as typing
    desk.keyboard.press("j")
    assert focused(desk) == "question.false"
    User.objects.filter(pk=ana.pk).update(keys_off=True)
    desk.reload()
    wait_for_focus(desk)
    for key in ("j", "1", "a", "?"):
        desk.keyboard.press(key)
    expect(desk.locator(".split__ask")).to_be_focused()
    expect(desk.locator("[data-answers] :checked:not(option)")).to_have_count(0)
    expect(desk.locator("dialog#keys")).to_be_hidden()


def test_a_submit_made_offline_is_sent_when_the_network_is_back(desk: Page, assignment: Assignment) -> None:
    desk.keyboard.press("1")
    paste(desk, "12345")
    paste(desk, "There is none.")
    desk.keyboard.press("Escape")
    for key in "a221":
        desk.keyboard.press(key)
    expect(desk.locator(".saved__done")).to_be_visible()
    desk.context.set_offline(True)
    desk.locator("#reason").fill("typed without a network")
    expect(desk.locator(".saved__offline")).to_be_visible()
    expect(desk.locator(".saved__pending")).to_be_hidden()
    desk.keyboard.press("Control+Enter")
    expect(desk.locator(".saved__waiting")).to_be_visible()
    assert not Review.objects.exists()
    with desk.expect_navigation(url="**/review/"):
        desk.context.set_offline(False)
    assert answers_from_json(Review.objects.get().answers).reason == "typed without a network"
    expect(desk.locator(".message--success")).to_contain_text("You were the first of two")


def test_an_offline_submit_that_arrives_too_late_is_refused_and_its_text_kept(
    desk: Page, assignment: Assignment, bo: User, ana: User
) -> None:
    desk.keyboard.press("1")
    paste(desk, "12345")
    paste(desk, "There is none.")
    desk.keyboard.press("Escape")
    for key in "a221":
        desk.keyboard.press(key)
    expect(desk.locator(".saved__done")).to_be_visible()
    desk.context.set_offline(True)
    desk.keyboard.press("Control+Enter")
    expect(desk.locator(".saved__waiting")).to_be_visible()
    assert assignment.token is not None
    claims.release(ana, assignment.pk, assignment.token)
    claim(bo)
    with desk.expect_navigation():
        desk.context.set_offline(False)
    expect(desk.locator("h1")).to_contain_text("no longer reserved for you")
    expect(desk.locator("[data-kept]")).to_have_value(re.compile("There is none."))
    assert not Review.objects.exists()


def test_a_recent_source_is_cited_again_in_one_click(
    desk: Page, assignment: Assignment, ana: User, live_server: Any
) -> None:
    open_case(2, form=FULL_FORM)
    submit(assignment, full_approval())
    next_assignment = claim(ana)
    desk.goto(live_server.url + reverse("review:case", args=[next_assignment.pk]))
    wait_for_focus(desk)
    desk.keyboard.press("1")
    desk.keyboard.press("1")
    desk.locator("[data-recent]").click()
    expect(desk.locator('[name="citation.1.reference"]')).to_have_value("Invented guideline")
    expect(desk.locator('[name="citation.1.kind"]')).to_have_value("guideline")
    expect(desk.locator('[name="citation.1.section"]')).to_have_value("2.1")
    expect(desk.locator('[name="citation.1.passage"]')).to_be_focused()
