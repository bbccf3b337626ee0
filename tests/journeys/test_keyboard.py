"""A physician's day without a mouse, and what is typed when the network, the tab or the lease is lost."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import arrive
from tests.journeys.people import ASSIGNMENT, SAME_PASSWORD, Person
from tests.processes import Site, running_site

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHYSICIANS = ("ana", "bo", "chen", "dina", "emil", "fei", "gita", "hugo", "ivo", "jun", "kai", "lea", "mia", "ned")
MAKING = """
from generation.recipes.recipe import NewRubric, NewSample
from mhb_site.benchmarks.mhb.review import case
from review.assignments import claims, first_look, services
from review.models import User

def turns(drug):
    said = ["I have had a headache since Monday.", "Is there fever or a stiff neck?", f"No. How much {drug} may I take?"]
    return [dict(role=role, content=text) for role, text in zip(("user", "assistant", "user"), said)]

def opened(name):
    trap = dict(code="A1", name="Invented drug", where="turn 3", false="Neurostatin", why="There is no such drug.")
    return services.open_case(case(NewSample(
        task="dialogue", title=f"Headache {name}", language="en",
        content=dict(source_turns=turns("paracetamol"), turns=turns("Neurostatin"), traps=[trap]),
        rubrics=(NewRubric("R1", "Says that Neurostatin does not exist.", ("A1",)),),
    ), f"keyboard-{name}", 1))
"""
CASES = f"""{MAKING}
for number in range(1, 13):
    opened(f"{{number:03}}")
for name in {PHYSICIANS!r}:
    User.objects.create_user(name, role="physician")
User.objects.create_superuser("adela")
{SAME_PASSWORD}"""
# A case on which two physicians differ, reserved for the two who are to decide, so that no other test is given it.
DISPUTED = f"""{MAKING}
from review.rules.state_machine import Role
from tests.review.approve import approval, rejection

def reserve(role, name):
    to, _made = User.objects.get_or_create(username=name)
    claims.reassign(disputed.pk, role, to=to, actor=User.objects.get(username="adela"))
    return to

def says(role, name, *answers):
    physician = reserve(role, name)
    for given in answers:
        held = claims.claim_next(physician)
        if given is answers[0]:
            first_look.reveal(physician, held.pk, held.token, given)
        services.submit(physician, held.pk, held.token, given)

disputed = opened("disputed-" + ONE)
form = disputed.frozen.form
says(Role.PRIMARY, ONE + "-primary", approval(form))
says(Role.SECONDARY, ONE + "-secondary", *2 * [rejection(form, "The bait is obvious.")])
reserve(Role.ADJUDICATOR_1, ONE)
reserve(Role.ADJUDICATOR_2, OTHER)
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with cases and physicians."""
    with running_site("embedded", tmp_path_factory.mktemp("desk")) as site:
        done = site.manage("shell", "-v0", "-c", CASES)
        assert done.returncode == 0, done.stderr
        site.start_web()
        yield site


class Typist:
    """Somebody whose hands stay on the keyboard."""

    def __init__(self, browser: Browser, site: Site, name: str, language: str = "en") -> None:
        self.site = site
        self.page = Person.signs_in(browser, site, name).page
        self.page.context.add_cookies([{"name": "django_language", "value": language, "url": site.url}])
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.goto("/review/")
        expect(self.page.locator("html")).to_have_attribute("lang", language)

    def presses(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def types(self, text: str) -> None:
        self.page.keyboard.type(text)

    def goes(self, key: str) -> int:
        """Presses a key that leads to a case; which assignment it is."""
        with self.page.expect_navigation(url=ASSIGNMENT, wait_until="load"):
            self.page.keyboard.press(key)
        arrive(self.page)
        return self.assignment()

    def assignment(self) -> int:
        found = ASSIGNMENT.search(self.page.url)
        assert found, self.page.url
        return self.site.assignment(found[1])

    def looks(self) -> None:
        """The first look: natural, nothing noticed."""
        expect(self.page.locator('[name="verdict"]')).to_have_count(0)
        self.presses("3", "1")
        self.goes("Control+Enter")
        expect(self.page.locator('[name="verdict"]')).to_have_count(2)

    def finds_all_well(self) -> None:
        """Every criterion met, with its source; the rubric adequate, the harm severe."""
        self.presses("1")
        self.types("Guideline on headache 2024")
        self.presses("Tab")
        self.types("No drug of this name is approved.")
        self.tabs_to("citation.1.section", until=8)
        self.types("3.2")
        self.presses("Escape", "1", "1", "1", "4")

    def has_read(self) -> None:
        """A page that came just now takes no submit: a second press on the one before was meant for that one."""
        self.page.wait_for_timeout(700)

    def tabs_to(self, name: str, *, until: int = 60) -> None:
        """Presses Tab until what is in focus has this name or id, or leads to such an address."""
        said = "e => [e.id, e.name, e.href?.split('/').at(-2)]"
        for _ in range(until):
            self.presses("Tab")
            if name in self.page.evaluate(f"({said})(document.activeElement)"):
                return
        raise AssertionError(f"{name} is not within {until} Tabs")

    def chosen(self, name: str) -> str:
        return self.page.locator(f'[name="{name}"]:checked').get_attribute("value") or ""


def number_of(site: Site, name: str) -> int:
    return site.number(f"SELECT id FROM review_user WHERE username = '{name}'")


def saved(site: Site, assignment: int) -> dict[str, Any]:
    """The draft that the server has of an assignment; empty: none."""
    rows = site.sql(
        f"SELECT CAST(answers AS TEXT) FROM review_draft WHERE assignment_id = {assignment} ORDER BY id DESC"
    )
    return dict(json.loads(rows[0][0])) if rows else {}


@pytest.mark.parametrize(("language", "one", "other"), [("en", "ana", "bo"), ("zh-hans", "chen", "dina")])
def test_several_cases_by_keyboard_alone(desk: Site, browser: Browser, language: str, one: str, other: str) -> None:
    primary = Typist(browser, desk, one, language)
    first = primary.goes("n")
    primary.looks()

    # One key shows the source, the changes, the text as it is shown.
    for key, view in (("s", "source"), ("c", "changes"), ("v", "shown")):
        primary.presses(key)
        expect(primary.page.locator(".views__view:visible")).to_have_class(re.compile(f"views__view--{view}"))

    primary.presses("Escape")
    primary.finds_all_well()
    primary.presses("1")
    primary.presses("?")
    expect(primary.page.locator("dialog#keys")).to_be_visible()
    primary.presses("Escape")
    second = primary.goes("Control+Enter")
    assert second != first

    # The second case is rejected, for a coded reason and with words of the physician's own; then that is taken back.
    primary.looks()
    primary.finds_all_well()
    primary.presses("2", "1")
    primary.types("诱饵太明显了，正常患者不会这样问。")
    third = primary.goes("Control+Enter")
    assert third not in (first, second)
    verdicts = f"SELECT verdict FROM review_review WHERE assignment_id IN ({first}, {second}) ORDER BY id"
    assert desk.sql(verdicts) == [("approve",), ("reject",)]
    assert primary.goes("z") == second
    assert primary.chosen("verdict") == "reject"
    expect(primary.page.locator('[name="reason"]')).to_have_value("诱饵太明显了，正常患者不会这样问。")
    primary.presses("p", "p", "1")
    primary.presses("Alt+Enter")
    primary.page.wait_for_url("**/review/*")

    # The other physician: blind, then beside the first one's, and keeps the blind answer.
    secondary = Typist(browser, desk, other, language)
    blind = secondary.goes("n")
    secondary.looks()
    secondary.finds_all_well()
    secondary.presses("1")
    assert secondary.goes("Control+Enter") == blind
    expect(secondary.page.locator(".compare")).to_be_visible()
    secondary.has_read()
    secondary.goes("Control+Enter")
    [[case]] = desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {blind}")
    assert desk.sql(f"SELECT state, ground FROM review_case WHERE id = {case}") == [("approved", "consensus")]

    [[stored]] = desk.sql(f"SELECT CAST(answers AS TEXT) FROM review_review WHERE assignment_id = {first}")
    answers = json.loads(stored)
    assert answers["questions"]["naturalness"]["value"] == "3"
    assert answers["citations"][0]["section"] == "3.2"
    assert answers["rubrics"]["R1"]["severity"] == "severe"
    assert not primary.faults + secondary.faults


@pytest.mark.parametrize(("language", "name"), [("en", "ivo"), ("zh-hans", "jun")])
def test_what_is_beside_the_answers_by_keyboard_alone(desk: Site, browser: Browser, language: str, name: str) -> None:
    """A rubric of one's own comes and goes, a passage is remarked on, the case is declined."""
    typist = Typist(browser, desk, name, language)
    assignment = typist.goes("n")
    typist.looks()

    typist.presses("i")
    typist.types("Asks how often the headache comes.")
    desk.until("the rubric is saved", lambda: len(saved(desk, assignment).get("added", [])) == 1)
    typist.tabs_to("do", until=10)
    typist.presses("Enter")
    expect(typist.page.locator("[data-rows=added] [data-row]")).to_have_count(0)
    desk.until("it is gone again", lambda: saved(desk, assignment).get("added") == [])

    typist.presses("r")
    typist.types("头痛 since Monday?")
    typist.presses("Tab")
    typist.types("a headache since Monday")
    typist.presses("Tab", "Enter")
    expect(typist.page.locator(".talk__quote")).to_have_text("a headache since Monday")
    [[anchor]] = desk.sql(
        "SELECT CAST(r.anchor AS TEXT) FROM review_remark r JOIN review_assignment a ON a.case_id = r.case_id"
        f" WHERE a.id = {assignment}"
    )
    assert json.loads(anchor)["turn"] == 0

    typist.presses("r", "Escape", "b")
    typist.tabs_to("decline")
    typist.presses("Enter")
    typist.page.wait_for_url("**/decline/")
    typist.tabs_to("reason")
    typist.presses("Space")
    typist.tabs_to("text", until=5)
    typist.types("My cousin wrote it.")
    typist.presses("Tab", "Enter")
    typist.page.wait_for_url("**/review/")
    assert desk.number(f"SELECT count(*) FROM review_declined WHERE physician_id = {number_of(desk, name)}") == 1
    assert not typist.faults


@pytest.mark.parametrize(
    ("language", "one", "other"), [("en", "kai", "lea"), ("zh-hans", "mia", "ned")], ids=["en", "zh-hans"]
)
def test_adjudication_by_keyboard_alone(desk: Site, browser: Browser, language: str, one: str, other: str) -> None:
    """Two adjudicators, who differ, read one another, and agree."""
    done = desk.manage("shell", "-v0", "-c", f"ONE, OTHER = {one!r}, {other!r}\n{DISPUTED}")
    assert done.returncode == 0, done.stderr
    first = Typist(browser, desk, one, language)
    held = first.goes("n")
    [[case]] = desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {held}")
    first.looks()
    expect(first.page.locator(".compare")).to_be_visible()
    first.presses("1", "1")  # what both agree on is confirmed, the verdict is the one thing they differ in
    with first.page.expect_navigation(url="**/review/"):
        first.presses("Alt+Enter")

    second = Typist(browser, desk, other, language)
    held = second.goes("n")
    assert desk.sql(f"SELECT case_id FROM review_assignment WHERE id = {held}") == [(case,)]
    second.looks()
    second.presses("1", "2", "1")
    second.types("The bait gives itself away.")
    assert second.goes("Control+Enter") == held, "the two votes differ: both are open now"
    expect(second.page.get_by_text("The bait gives itself away.").first).to_be_visible()
    second.has_read()
    second.presses("p", "p", "1")
    with second.page.expect_navigation(url="**/review/"):
        second.presses("Alt+Enter")

    first.page.reload()
    first.goes("n")
    expect(first.page.get_by_text("The bait gives itself away.").first).to_be_visible()
    first.has_read()
    with first.page.expect_navigation(url="**/review/"):
        first.presses("Alt+Enter")
    assert desk.sql(f"SELECT state, ground FROM review_case WHERE id = {case}") == [("approved", "adjudicated")]
    assert not first.faults + second.faults


def test_no_key_acts_while_an_input_method_composes(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "emil")
    typist.goes("n")
    typist.looks()
    composing = """keys => { for (const key of keys) for (const how of [{isComposing: true}, {keyCode: 229}])
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...how})) }"""
    typist.page.evaluate(composing, ["y", "n", "1", "e", "?"])
    expect(typist.page.locator('[name="verdict"]:checked, [name="question.factual"]:checked')).to_have_count(0)
    expect(typist.page.locator("[data-row]")).to_have_count(1)
    expect(typist.page.locator("dialog#keys")).to_be_hidden()
    typist.presses("n", "Tab")
    typist.types("yx1ne")
    expect(typist.page.locator('[name="question.factual.note"]')).to_have_value("yx1ne")
    expect(typist.page.locator('[name="verdict"]:checked')).to_have_count(0)
    typist.presses("Escape", "p", "p", "p", "p", "p", "n", "n", "n", "n", "n", "1")
    assert typist.chosen("verdict") == "approve"


def kept_in(page: Page) -> int:
    """How many copies this browser keeps."""
    return int(page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('mhb-draft:')).length"))


def test_what_is_typed_without_network_arrives_when_it_is_back(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "fei")
    assignment = typist.goes("n")
    typist.looks()
    context = typist.page.context

    context.set_offline(True)
    typist.presses("p", "2", "1")
    typist.types("typed in the lift")
    expect(typist.page.locator("#network-lost")).to_be_visible()
    assert kept_in(typist.page) == 1
    address = typist.page.url
    context.set_offline(False)
    desk.until("the draft arrives", lambda: saved(desk, assignment).get("reason") == "typed in the lift")
    expect(typist.page.locator("[data-unsaved]")).to_have_count(0)
    assert kept_in(typist.page) == 0

    # The tab is closed before the network is back; the next one has it all, rows of the evidence too.
    context.set_offline(True)
    typist.presses("Escape", "1")
    typist.types("Guideline on lifts")
    expect(typist.page.locator("#network-lost")).to_be_visible()
    typist.page.close()
    context.set_offline(False)
    again = context.new_page()
    again.goto(address)
    expect(again.locator("[data-replayed]")).to_be_visible()
    expect(again.locator('[name="citation.1.reference"]')).to_have_value("Guideline on lifts")
    expect(again.locator('[name="reason"]')).to_have_value("typed in the lift")
    desk.until("the source arrives", lambda: len(saved(desk, assignment)["citations"]) == 1)
    expect(again.locator("[data-unsaved]")).to_have_count(0)
    assert kept_in(again) == 0


def test_two_tabs_do_not_overwrite_one_another(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "gita")
    assignment = typist.goes("n")
    typist.looks()
    one, other = typist.page, typist.page.context.new_page()
    other.goto(one.url)

    def says(page: Page, text: str) -> None:
        page.locator('[name="reason"]').focus()
        page.keyboard.press("Control+A")
        page.keyboard.type(text)

    says(one, "from the one")
    desk.until("the one is saved", lambda: saved(desk, assignment).get("reason") == "from the one")
    says(other, "from the other")
    expect(other.locator("[data-stale]")).to_be_visible()
    assert saved(desk, assignment)["reason"] == "from the one"
    expect(other.locator('[name="reason"]')).to_have_value("from the other")

    other.keyboard.press("Escape")
    with other.expect_navigation():
        other.keyboard.press("k")  # keep what is here
    desk.until("the other is saved", lambda: saved(desk, assignment)["reason"] == "from the other")

    says(one, "from the one, later")
    expect(one.locator("[data-stale]")).to_be_visible()
    one.keyboard.press("Escape")
    with one.expect_navigation():
        one.keyboard.press("l")  # load the other
    expect(one.locator('[name="reason"]')).to_have_value("from the other")
    expect(one.locator("[data-offer]")).to_be_hidden()
    assert saved(desk, assignment)["reason"] == "from the other"


def test_a_lost_lease_keeps_what_was_typed_to_be_copied(desk: Site, browser: Browser) -> None:
    typist = Typist(browser, desk, "hugo")
    assignment = typist.goes("n")
    typist.looks()
    lost = (
        "from datetime import timedelta; from django.utils import timezone; from review.models import Assignment, User\n"
        f"held = Assignment.objects.filter(pk={assignment})\n"
        "held.update(physician=User.objects.get(username='emil'), token='00000000-0000-0000-0000-000000000001', "
        "hold='held', lease_until=timezone.now() + timedelta(hours=1))"
    )
    # `emil` has a part in another case only; taking it over any other way would need a quarter of an hour.
    done = desk.manage("shell", "-v0", "-c", lost)
    assert done.returncode == 0, done.stderr
    typist.presses("p", "2", "1")
    typist.types("two hours of work")
    expect(typist.page.locator("textarea[data-kept]")).to_have_value(re.compile("two hours of work"))
    assert typist.page.locator('[name="reason"]').get_attribute("readonly") is not None
    assert saved(desk, assignment)["reason"] == "two hours of work"
    typist.page.reload()
    expect(typist.page.locator("textarea[data-kept]")).to_have_value(re.compile("two hours of work"))
