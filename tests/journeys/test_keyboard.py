"""Review by keyboard only, and typed text when the network, the tab or the lease is lost."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import wait_for_focus
from tests.journeys.people import ASSIGNMENT, SAME_PASSWORD, Person
from tests.processes import Site, running_site

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHYSICIANS = (
    "ana", "bo", "chen", "dina", "emil", "fei", "gita", "hugo", "ivo", "jun", "kai", "lea", "mia", "ned", "oda", "pia",
)  # fmt: skip
OPEN_CASE = """
from review.turns.turn import turn_of
from review.cases import services as cases_services
from generation.recipes.recipe import NewRubric, NewSample
from mhb_site.benchmarks.mhb.review import case
from review.assignments import claims, first_look, reassignment, services
from review.models import User

def turns(drug):
    said = ["I have had a headache since Monday.", "Is there fever or a stiff neck?", f"No. How much {drug} may I take?"]
    return [dict(role=role, content=text) for role, text in zip(("user", "assistant", "user"), said)]

def open_case(name):
    trap = dict(code="A1", name="Invented drug", where="turn 3", false="Neurostatin", why="There is no such drug.")
    return cases_services.open_case(case(NewSample(
        task="dialogue", title=f"Headache {name}", language="en",
        content=dict(source_turns=turns("paracetamol"), turns=turns("Neurostatin"), traps=[trap]),
        rubrics=(NewRubric("R1", "Says that Neurostatin does not exist.", ("A1",)),),
    ), f"keyboard-{name}", 1))
"""
CASES = f"""{OPEN_CASE}
for number in range(1, 13):
    open_case(f"{{number:03}}")
for name in {PHYSICIANS!r}:
    User.objects.create_user(name, role="physician")
User.objects.create_superuser("adela")
{SAME_PASSWORD}"""
# A case on which two physicians disagree, reserved for two adjudicators so that no other test gets
# it.
DISPUTED = f"""{OPEN_CASE}
from review.rules.state_machine import Role
from tests.review.approve import approval_of, rejection_of

def reserve(role, name):
    to, _made = User.objects.get_or_create(username=name)
    reassignment.reassign(disputed.pk, role, to=to, actor=User.objects.get(username="adela"))
    return to

def submit(role, name, *submissions):
    physician = reserve(role, name)
    for answers in submissions:
        held = claims.claim_next(physician)
        if answers is submissions[0]:
            first_look.reveal(turn_of(physician, held.pk), held.token, answers)
        services.submit(turn_of(physician, held.pk), held.token, answers)

disputed = open_case("disputed-" + FIRST)
form = disputed.frozen.form
submit(Role.PRIMARY, FIRST + "-primary", approval_of(form))
submit(Role.SECONDARY, FIRST + "-secondary", *2 * [rejection_of(form, "The bait is obvious.")])
reserve(Role.ADJUDICATOR_1, FIRST)
reserve(Role.ADJUDICATOR_2, SECOND)
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with cases and physicians."""
    with running_site("embedded", tmp_path_factory.mktemp("desk")) as site:
        result = site.manage("shell", "-v0", "-c", CASES)
        assert result.returncode == 0, result.stderr
        site.start_web()
        yield site


class Typist:
    """A physician who uses only the keyboard."""

    def __init__(self, browser: Browser, site: Site, name: str, language: str = "en") -> None:
        self.site = site
        self.page = Person.sign_in(browser, site, name).page
        self.page.context.add_cookies([{"name": "django_language", "value": language, "url": site.url}])
        self.page_errors: list[str] = []
        self.page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        self.page.goto("/review/")
        expect(self.page.locator("html")).to_have_attribute("lang", language)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def go(self, key: str) -> int:
        """Press a key that leads to a case; returns its assignment."""
        with self.page.expect_navigation(url=ASSIGNMENT, wait_until="load"):
            self.page.keyboard.press(key)
        wait_for_focus(self.page)
        return self.assignment()

    def assignment(self) -> int:
        match = ASSIGNMENT.search(self.page.url)
        assert match, self.page.url
        return self.site.assignment_pk(match[1])

    def answer_first_look(self) -> None:
        """Answer the first look: natural, nothing noticed."""
        expect(self.page.locator('[name="verdict"]')).to_have_count(0)
        self.press("3", "1")
        self.go("Control+Enter")
        expect(self.page.locator('[name="verdict"]')).to_have_count(2)

    def answer_favourably(self) -> None:
        """Answer that every criterion is met, with a source, the rubric adequate and the harm
        severe."""
        self.press("1", "Enter")
        self.type("Guideline on headache 2024")
        self.press("Tab")
        self.type("No drug of this name is approved.")
        self.tab_to("citation.1.section", until=8)
        self.type("3.2")
        self.press("Escape", "1", "1", "1", "4")

    def wait_until_submittable(self) -> None:
        """Wait until a new page accepts a submission: it ignores early presses, meant for the page
        before."""
        self.page.wait_for_timeout(700)

    def tab_to(self, name: str, *, until: int = 60) -> None:
        """Press Tab until the focused element has this name or id, links to such an address, or is
        in the section with such a title."""
        identify = (
            "e => [e.id, e.name, e.href?.split('/').at(-2), e.closest('section')?.getAttribute('aria-labelledby')]"
        )
        for _ in range(until):
            self.press("Tab")
            if name in self.page.evaluate(f"({identify})(document.activeElement)"):
                return
        raise AssertionError(f"{name} was not reached within {until} Tabs")

    def chosen(self, name: str) -> str:
        return self.page.locator(f'[name="{name}"]:checked').get_attribute("value") or ""


def user_pk(site: Site, name: str) -> int:
    return site.number(f"SELECT id FROM review_user WHERE username = '{name}'")


def saved_answers(site: Site, assignment: int) -> dict[str, Any]:
    """Return the answers of the draft that the server stored for an assignment, empty if there is
    none."""
    rows = site.sql(
        f"SELECT CAST(answers AS TEXT) FROM review_draft WHERE assignment_id = {assignment} ORDER BY id DESC"
    )
    return dict(json.loads(rows[0][0])) if rows else {}


@pytest.mark.parametrize(("language", "first_name", "second_name"), [("en", "ana", "bo"), ("zh-hans", "chen", "dina")])
def test_several_cases_are_reviewed_by_keyboard_only(
    desk: Site, browser: Browser, language: str, first_name: str, second_name: str
) -> None:
    primary = Typist(browser, desk, first_name, language)
    first = primary.go("n")
    primary.answer_first_look()

    # One key each shows the source, the changes, and the text as models see it.
    for key, view in (("s", "source"), ("c", "changes"), ("v", "shown")):
        primary.press(key)
        expect(primary.page.locator(".views__view:visible")).to_have_class(re.compile(f"views__view--{view}"))

    primary.press("Escape")
    primary.answer_favourably()
    primary.press("1")
    primary.press("?")
    expect(primary.page.locator("dialog#keys")).to_be_visible()
    primary.press("Escape")
    second = primary.go("Control+Enter")
    assert second != first

    # The second case is rejected with a reason code and a text; then the submission is undone.
    primary.answer_first_look()
    primary.answer_favourably()
    primary.press("2", "1", "Enter")
    primary.type("诱饵太明显了，正常患者不会这样问。")
    third = primary.go("Control+Enter")
    assert third not in (first, second)
    verdicts = f"SELECT verdict FROM review_review WHERE assignment_id IN ({first}, {second}) ORDER BY id"
    assert desk.sql(verdicts) == [("approve",), ("reject",)]
    expect(primary.page.locator("form.undo")).to_be_attached()  # it comes soon after the page
    assert primary.go("z") == second
    assert primary.chosen("verdict") == "reject"
    expect(primary.page.locator('[name="reason"]')).to_have_value("诱饵太明显了，正常患者不会这样问。")
    primary.press("p", "p", "1")
    primary.press("Alt+Enter")
    primary.page.wait_for_url("**/review/*")

    # The second physician answers blind, then compares with the first, and keeps the blind answer.
    secondary = Typist(browser, desk, second_name, language)
    blind = secondary.go("n")
    secondary.answer_first_look()
    secondary.answer_favourably()
    secondary.press("1")
    assert secondary.go("Control+Enter") == blind
    expect(secondary.page.locator(".compare")).to_be_visible()
    secondary.wait_until_submittable()
    secondary.go("Control+Enter")
    [[case]] = desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {blind}")
    assert desk.sql(f"SELECT state, ground FROM review_case WHERE id = {case}") == [("approved", "consensus")]

    [[stored]] = desk.sql(f"SELECT CAST(answers AS TEXT) FROM review_review WHERE assignment_id = {first}")
    answers = json.loads(stored)
    assert answers["questions"]["naturalness"]["value"] == "3"
    assert answers["citations"][0]["section"] == "3.2"
    assert answers["rubrics"]["R1"]["severity"] == "severe"
    assert not primary.page_errors + secondary.page_errors


@pytest.mark.parametrize(("language", "name"), [("en", "ivo"), ("zh-hans", "jun")])
def test_added_rubrics_remarks_and_declining_work_by_keyboard_only(
    desk: Site, browser: Browser, language: str, name: str
) -> None:
    """A rubric is added and removed, a passage gets a remark, the case is declined."""
    typist = Typist(browser, desk, name, language)
    assignment = typist.go("n")
    typist.answer_first_look()

    typist.press("i")
    typist.type("Asks how often the headache comes.")
    desk.wait_until("the rubric is saved", lambda: len(saved_answers(desk, assignment).get("added", [])) == 1)
    typist.tab_to("do", until=10)
    typist.press("Enter")
    expect(typist.page.locator("[data-rows=added] [data-row]")).to_have_count(0)
    desk.wait_until("the rubric is removed", lambda: saved_answers(desk, assignment).get("added") == [])

    typist.press("r")
    typist.type("头痛 since Monday?")
    typist.tab_to("quote", until=5)  # past the names that can be reached
    typist.type("a headache since Monday")
    typist.press("Tab", "Enter")
    expect(typist.page.locator(".talk__quote")).to_have_text("a headache since Monday")
    [[anchor]] = desk.sql(
        "SELECT CAST(r.anchor AS TEXT) FROM review_remark r JOIN review_assignment a ON a.case_id = r.case_id"
        f" WHERE a.id = {assignment} AND r.author_id = {user_pk(desk, name)}"
    )
    assert json.loads(anchor)["turn"] == 0

    typist.press("r", "Escape", "b")
    typist.tab_to("decline")
    typist.press("Enter")
    typist.page.wait_for_url("**/decline/")
    typist.tab_to("reason")
    typist.press("Space")
    typist.tab_to("text", until=5)
    typist.type("My cousin wrote it.")
    typist.press("Tab", "Enter")
    typist.page.wait_for_url("**/review/")
    assert desk.number(f"SELECT count(*) FROM review_declined WHERE physician_id = {user_pk(desk, name)}") == 1
    assert not typist.page_errors


@pytest.mark.parametrize(
    ("language", "first_name", "second_name"), [("en", "kai", "lea"), ("zh-hans", "mia", "ned")], ids=["en", "zh-hans"]
)
def test_adjudication_works_by_keyboard_only(
    desk: Site, browser: Browser, language: str, first_name: str, second_name: str
) -> None:
    """Two adjudicators disagree, read each other's votes, and agree."""
    result = desk.manage("shell", "-v0", "-c", f"FIRST, SECOND = {first_name!r}, {second_name!r}\n{DISPUTED}")
    assert result.returncode == 0, result.stderr
    first = Typist(browser, desk, first_name, language)
    assignment = first.go("n")
    [[case]] = desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {assignment}")
    first.answer_first_look()
    expect(first.page.locator(".reviews > summary")).to_be_visible()
    first.press("1", "1")  # confirms what both agreed on; they disagreed only on the verdict
    with first.page.expect_navigation(url="**/review/"):
        first.press("Alt+Enter")

    second = Typist(browser, desk, second_name, language)
    assignment = second.go("n")
    assert desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {assignment}") == [(case,)]
    second.answer_first_look()
    second.press("1", "2", "1", "Enter")
    second.type("The bait gives itself away.")
    assert second.go("Control+Enter") == assignment, "the votes differ, so both are shown"
    expect(second.page.get_by_text("The bait gives itself away.").first).to_be_visible()
    second.wait_until_submittable()
    second.press("p", "p", "1")
    with second.page.expect_navigation(url="**/review/"):
        second.press("Alt+Enter")

    first.page.reload()
    first.go("n")
    expect(first.page.get_by_text("The bait gives itself away.").first).to_be_visible()
    first.wait_until_submittable()
    with first.page.expect_navigation(url="**/review/"):
        first.press("Alt+Enter")
    assert desk.sql(f"SELECT state, ground FROM review_case WHERE id = {case}") == [("approved", "adjudicated")]
    assert not first.page_errors + second.page_errors


def test_a_proposal_is_signed_by_keyboard_only(desk: Site, browser: Browser) -> None:
    """Two adjudicators disagree; one signs the other's proposal, who then signs it too."""
    result = desk.manage("shell", "-v0", "-c", f"FIRST, SECOND = 'oda', 'pia'\n{DISPUTED}")
    assert result.returncode == 0, result.stderr
    first, second = (Typist(browser, desk, name) for name in ("oda", "pia"))
    for typist, verdict in ((first, "approve"), (second, "reject")):
        assignment = typist.go("n")
        typist.answer_first_look()
        typist.press("1", "1" if verdict == "approve" else "2")
        if verdict == "reject":
            typist.press("1", "Enter")
            typist.type("The bait gives itself away.")
            assert typist.go("Control+Enter") == assignment, "the votes differ, so both are shown"
        else:
            with typist.page.expect_navigation(url="**/review/"):
                typist.press("Alt+Enter")
    second.wait_until_submittable()
    second.tab_to("proposals")
    expect(second.page.locator("summary:focus")).to_contain_text("Approve")
    second.tab_to("sign", until=3)
    with second.page.expect_navigation():
        second.press("Enter")

    first.page.reload()
    first.go("n")
    first.wait_until_submittable()
    expect(first.page.get_by_text("waits for your signature")).to_be_visible()
    first.tab_to("sign")
    with first.page.expect_navigation():
        first.press("Enter")
    [[case]] = desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {assignment}")
    assert desk.sql(f"SELECT state, ground FROM review_case WHERE id = {case}") == [("approved", "adjudicated")]
    assert not first.page_errors + second.page_errors


def test_keys_do_nothing_while_an_input_method_composes(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "emil")
    typist.go("n")
    typist.answer_first_look()
    dispatch_keys = """keys => { for (const key of keys) for (const state of [{isComposing: true}, {keyCode: 229}])
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...state})) }"""
    typist.page.evaluate(dispatch_keys, ["y", "n", "1", "e", "?"])
    expect(typist.page.locator('[name="verdict"]:checked, [name^="question.factual"]:checked')).to_have_count(0)
    expect(typist.page.locator("[data-row]")).to_have_count(1)
    expect(typist.page.locator("dialog#keys")).to_be_hidden()
    typist.press("n", "Tab")
    typist.type("yx1ne")
    expect(typist.page.locator('[name^="question.factual"][name$=".note"]')).to_have_value("yx1ne")
    expect(typist.page.locator('[name="verdict"]:checked')).to_have_count(0)
    typist.press("Escape", "p", "p", "p", "p", "p", "n", "n", "n", "n", "n", "1")
    assert typist.chosen("verdict") == "approve"

    # What follows composed text in a field that the page moved to is text, too.
    typist.page.wait_for_timeout(1100)  # a letter soon after a verdict is no key
    typist.press("n", "n", "n", "n", "n", "n", "2", "1")
    input_method = typist.page.context.new_cdp_session(typist.page)
    input_method.send("Input.imeSetComposition", {"text": "诱饵", "selectionStart": 2, "selectionEnd": 2})
    input_method.send("Input.insertText", {"text": "诱饵"})
    typist.type("1, 2")
    expect(typist.page.locator('[name="reason"]')).to_have_value("诱饵1, 2", timeout=5000)


def stored_copies(page: Page) -> int:
    """Return the number of draft copies in the storage of this browser."""
    return int(page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('mhb-draft:')).length"))


def test_text_typed_offline_is_saved_when_the_network_is_back(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "fei")
    assignment = typist.go("n")
    typist.answer_first_look()
    context = typist.page.context

    context.set_offline(True)
    typist.press("p", "2", "1", "Enter")
    typist.type("typed in the lift")
    expect(typist.page.locator("#network-lost")).to_be_visible()
    assert stored_copies(typist.page) == 1
    address = typist.page.url
    context.set_offline(False)
    desk.wait_until("the draft arrives", lambda: saved_answers(desk, assignment).get("reason") == "typed in the lift")
    expect(typist.page.locator("[data-unsaved]")).to_have_count(0)
    assert stored_copies(typist.page) == 0

    # The tab is closed before the network is back; the next tab restores everything, including
    # evidence rows.
    context.set_offline(True)
    typist.press("Escape", "1", "Enter")
    typist.type("Guideline on lifts")
    expect(typist.page.locator("#network-lost")).to_be_visible()
    typist.page.close()
    context.set_offline(False)
    new_tab = context.new_page()
    new_tab.goto(address)
    expect(new_tab.locator("[data-replayed]")).to_be_visible()
    expect(new_tab.locator('[name="citation.1.reference"]')).to_have_value("Guideline on lifts")
    expect(new_tab.locator('[name="reason"]')).to_have_value("typed in the lift")
    desk.wait_until("the source arrives", lambda: len(saved_answers(desk, assignment)["citations"]) == 1)
    expect(new_tab.locator("[data-unsaved]")).to_have_count(0)
    assert stored_copies(new_tab) == 0


def test_two_tabs_do_not_overwrite_one_another(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "gita")
    assignment = typist.go("n")
    typist.answer_first_look()
    first_tab, second_tab = typist.page, typist.page.context.new_page()
    second_tab.goto(first_tab.url)

    def type_reason(page: Page, text: str) -> None:
        page.locator('[name="reason"]').focus()
        page.keyboard.press("Control+A")
        page.keyboard.type(text)

    type_reason(first_tab, "from the one")
    desk.wait_until("the one is saved", lambda: saved_answers(desk, assignment).get("reason") == "from the one")
    type_reason(second_tab, "from the other")
    expect(second_tab.locator("[data-stale]")).to_be_visible()
    assert saved_answers(desk, assignment)["reason"] == "from the one"
    expect(second_tab.locator('[name="reason"]')).to_have_value("from the other")

    second_tab.keyboard.press("Escape")
    with second_tab.expect_navigation():
        second_tab.keyboard.press("k")  # keep this version
    desk.wait_until("the other is saved", lambda: saved_answers(desk, assignment)["reason"] == "from the other")

    type_reason(first_tab, "from the one, later")
    expect(first_tab.locator("[data-stale]")).to_be_visible()
    first_tab.keyboard.press("Escape")
    with first_tab.expect_navigation():
        first_tab.keyboard.press("l")  # load the saved version
    expect(first_tab.locator('[name="reason"]')).to_have_value("from the other")
    expect(first_tab.locator("[data-offer]")).to_be_hidden()
    assert saved_answers(desk, assignment)["reason"] == "from the other"


def test_text_typed_after_losing_the_lease_can_be_copied(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "hugo")
    assignment = typist.go("n")
    typist.answer_first_look()
    reassign = (
        "from datetime import timedelta; from django.utils import timezone; from review.models import Assignment, User\n"
        f"held = Assignment.objects.filter(pk={assignment})\n"
        "held.update(physician=User.objects.get(username='emil'), token='00000000-0000-0000-0000-000000000001', "
        "hold='held', lease_until=timezone.now() + timedelta(hours=1))"
    )
    # `emil` has a role only in another case. Waiting for the lease to expire would take a quarter
    # of an hour.
    result = desk.manage("shell", "-v0", "-c", reassign)
    assert result.returncode == 0, result.stderr
    typist.press("p", "2", "1", "Enter")
    typist.type("two hours of work")
    expect(typist.page.locator("textarea[data-kept]")).to_have_value(re.compile("two hours of work"))
    assert typist.page.locator('[name="reason"]').get_attribute("readonly") is not None
    assert saved_answers(desk, assignment)["reason"] == "two hours of work"
    typist.page.reload()
    expect(typist.page.locator("textarea[data-kept]")).to_have_value(re.compile("two hours of work"))
