"""The page of a case refuses what the server refuses, at each turn, and nothing else."""

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from django.http import QueryDict
from django.urls import reverse
from playwright.sync_api import Page

from review import errors
from review.answers.posted_answers import answers_from_post, without_blank_rows
from review.models import Assignment, User
from review.rules.questions import Answers, Form, Problem, TrapTerm, question_problems
from review.rules.state_machine import Policy
from review.turns.turn import Moment, ReviewTurn, turn_of
from tests.browser import sign_in
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FORM,
    FULL_FORM,
    claim,
    claim_and_submit,
    full_approval,
    full_rejection,
    open_case,
    submit,
)

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

# Only the server compares sources with traps.
LEFT_TO_THE_SERVER = {"evidence-missing", "evidence-unfit"}

# Values of fields that complete the form, and others of each part of it, alone and in pairs.
COMPLETE: dict[str, str] = {
    "question.natural": "yes",
    "question.natural.note": "",
    "question.false": "yes",
    "question.false.note": "",
    "citation.1.reference": "10.1000/abc",
    "citation.1.passage": "There is no such drug.",
    "rubric.R1": "adequate",
    "rubric.R1.note": "",
    "rubric.R1.wording": "Corrected.",
    "rubric.R1.severity": "",
    "rubric.R2": "adequate",
    "rubric.R2.note": "",
    "harm.A1": "mild",
    "harm.C2": "mild",
    "added.1.criterion": "",
    "added.1.tags": "",
    "added.1.severity": "",
    "verdict": "approve",
    "reason_code": "",
    "reason": "",
}
OTHERS: tuple[dict[str, str], ...] = (
    {"question.natural": ""},
    {"question.natural": "no"},
    {"question.natural": "no", "question.natural.note": "Stiff."},
    {"question.false": ""},
    {"question.false": "no"},
    {"question.false": "no", "question.false.note": "It exists."},
    {"citation.1.reference": ""},
    {"citation.1.passage": ""},
    {"citation.1.reference": "", "citation.1.passage": ""},
    {"citation.1.reference": "A guideline"},  # without its section
    {"rubric.R1": ""},
    {"rubric.R1": "corrected"},
    {"rubric.R1": "corrected", "rubric.R1.wording": " "},
    {"rubric.R1": "corrected", "rubric.R1.wording": FULL_FORM.rubrics[0].criterion + " "},
    {"rubric.R1": "inadequate"},
    {"rubric.R1": "inadequate", "rubric.R1.note": "Wrong."},
    {"rubric.R1": "removed"},
    {"rubric.R1": "removed", "rubric.R1.note": "Double."},
    {"rubric.R1.severity": "death"},
    {"rubric.R2": "removed", "rubric.R2.note": "Double."},
    {"rubric.R2": "inadequate", "rubric.R2.note": "Wrong."},
    {"harm.A1": ""},
    {"harm.C2": ""},
    {"added.1.criterion": "Says so."},
    {"added.1.criterion": "Says so.", "added.1.tags": "A1"},
    {"added.1.criterion": "Says so.", "added.1.tags": "A1", "added.1.severity": "mild"},
    {"added.1.severity": "mild"},
    {"verdict": ""},
    {"verdict": "reject"},
    {"verdict": "reject", "reason_code": "unclear"},
    {"verdict": "reject", "reason_code": "unclear", "reason": "Nobody would ask this."},
)
# Each with `flags`, what the server says of a draft that was saved. Without them, nothing is sent.
TRY_JS = """(forms) => {
  const form = document.querySelector("[data-answers]"), button = form.querySelector("[data-key='ctrl+enter']");
  let sent = false;
  const stop = (event) => { sent = true; event.preventDefault(); event.stopImmediatePropagation(); };
  form.addEventListener("submit", stop);
  const tried = forms.map(({ values, flags }) => {
    for (const [name, value] of Object.entries(values)) {
      for (const field of document.getElementsByName(name)) {
        if (["radio", "checkbox"].includes(field.type)) field.checked = field.value === value;
        else field.value = value;
      }
    }
    form.querySelector("[name='citation.1.reference']")?.dispatchEvent(new Event("input", { bubbles: true }));
    for (const [name, value] of Object.entries(flags ?? {})) {
      const given = document.querySelector(`[data-given="${name}"]`);
      if (given) given.dataset.value = value;
    }
    form.dispatchEvent(new Event("change", { bubbles: true }));
    sent = false;
    if (flags) form.requestSubmit(button);
    const listed = [...form.querySelectorAll("[data-problems] li")].map((line) => line.textContent);
    return { sent, listed, fields: [...new FormData(form)] };
  });
  form.removeEventListener("submit", stop);
  return tried;
}"""


def answers_in(turn: ReviewTurn, fields: list[list[str]]) -> Answers:
    data = QueryDict(mutable=True)
    for name, value in fields:
        data.appendlist(name, value)
    return without_blank_rows(answers_from_post(turn.asks, data))


def refusals(turn: ReviewTurn, fields: list[list[str]]) -> list[Problem]:
    """The problems with which the server refuses these fields; none if it accepts them."""
    answers = answers_in(turn, fields)
    if not turn.is_revealed:
        return question_problems(turn.asks.first_look, answers)
    if ["agreed", "1"] not in fields and (unconfirmed := turn.unconfirmed(answers)):
        return unconfirmed
    try:
        turn.accept(answers)
    except errors.Incomplete as incomplete:
        return list(incomplete.problems)
    return []


def flags_of(turn: ReviewTurn, fields: list[list[str]]) -> dict[str, str]:
    """What the server answers to the draft of a confirmation: whether a reason is asked."""
    changed = "no"
    if turn.needs_reason(answers_in(turn, fields)):
        changed = "yes"
    return {"changed": changed}


def check_each_rule(
    page: Page,
    url: str,
    assignment: Assignment,
    tables: tuple[dict[str, str], ...],
    left_to_the_server: Collection[str] = (),
) -> None:
    """Fill in each of the tables, alone and in pairs, and compare the page with the server."""
    assert assignment.physician is not None
    page.route("**/draft/", lambda route: route.abort())
    page.goto(url + reverse("review:case", args=[assignment.pk]))
    page.locator("[data-answers]").wait_for()
    if page.locator("#add-rubric").count():
        page.locator("#add-rubric").click()
    page.wait_for_timeout(700)  # a submission before counts as a double click
    turn = turn_of(assignment.physician, assignment.pk)
    complete, *others = tables
    combined = [complete, *({**complete, **one} for one in others)]
    combined += [{**complete, **one, **two} for one, two in combinations(others, 2)]
    given: list[dict[str, Any]] = [{"values": values, "flags": {}} for values in combined]
    if turn.moment is Moment.CONFIRM:
        filled = page.evaluate(TRY_JS, [{"values": values, "flags": None} for values in combined])
        for one, result in zip(given, filled, strict=True):
            one["flags"] = flags_of(turn, result["fields"])
    tried = page.evaluate(TRY_JS, given)
    wrong = []
    for values, result in zip(combined, tried, strict=True):
        refused = refusals(turn, result["fields"])
        expected = {problem.code for problem in refused}.difference(left_to_the_server)
        is_in_vain = not result["sent"] and not refused
        is_let_through = result["sent"] and expected
        if is_in_vain or is_let_through:
            changed = {name: value for name, value in values.items() if value != complete.get(name)}
            wrong.append((changed, result["listed"], refused))
    assert not wrong, (len(wrong), wrong[:6])
    assert 0 < sum(result["sent"] for result in tried) < len(tried)


def test_of_a_primary_review(page: Page, live_server: Any, ana: User) -> None:
    open_case(form=FULL_FORM)
    sign_in(page, live_server.url, ana)
    check_each_rule(page, live_server.url, claim(ana), (COMPLETE, *OTHERS))


def test_of_a_review_without_a_scale_and_of_fixed_rubrics(page: Page, live_server: Any, ana: User) -> None:
    open_case(form=FORM)
    sign_in(page, live_server.url, ana)
    complete = {
        "question.natural": "yes",
        "question.natural.note": "",
        "question.aligned": "yes",
        "question.aligned.note": "",
        "rubric.R1": "adequate",
        "rubric.R1.note": "",
        "rubric.R1.wording": "Corrected.",
        "rubric.R2": "adequate",
        "verdict": "approve",
        "reason": "",
    }
    others = (
        {"question.natural": "no", "question.natural.note": "Stiff."},
        {"question.aligned": ""},
        {"question.aligned": "no"},
        {"rubric.R1": "corrected"},
        {"rubric.R1": "inadequate"},
        {"rubric.R1": "inadequate", "rubric.R1.note": "Wrong."},
        {"rubric.R2": ""},
        {"verdict": ""},
        {"verdict": "reject"},
        {"verdict": "reject", "reason": "Nobody would ask this."},
    )
    check_each_rule(page, live_server.url, claim(ana), (complete, *others))


def test_of_a_first_look(page: Page, live_server: Any, ana: User) -> None:
    open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    sign_in(page, live_server.url, ana)
    complete = {"question.natural": "yes", "question.natural.note": ""}
    others = (
        {"question.natural": ""},
        {"question.natural": "no"},
        {"question.natural": "no", "question.natural.note": "Stiff."},
    )
    check_each_rule(page, live_server.url, claim(ana), (complete, *others))


def test_of_evidence_by_trap(page: Page, live_server: Any, ana: User) -> None:
    terms = (
        TrapTerm("A1", "Invented drug", "A drug that does not exist.", levels=("guideline", "textbook")),
        TrapTerm("C2", "Dose", "A wrong dose.", levels=("guideline", "textbook")),
    )
    form: Form = replace(FULL_FORM, terms=terms)
    open_case(form=form)
    sign_in(page, live_server.url, ana)
    complete = {
        **COMPLETE,
        "citation.1.reference": "A guideline",
        "citation.1.section": "2.1",
        "citation.1.trap": "A1",
        "citation.1.level": "guideline",
    }
    others = (
        {"citation.1.trap": ""},
        {"citation.1.level": ""},
        {"citation.1.section": ""},
        {"citation.1.passage": ""},
        {"question.false": "no", "question.false.note": "It exists."},
        {"verdict": "reject", "reason_code": "unclear", "reason": "Nobody would ask this."},
    )
    check_each_rule(page, live_server.url, claim(ana), (complete, *others), LEFT_TO_THE_SERVER)


CONFIRMING = {**COMPLETE, "dissent_code": "", "change_reason": ""}
CONFIRMED = (
    {"question.natural": "no", "question.natural.note": "Stiff."},
    {"rubric.R1": "corrected"},
    {"rubric.R1": "removed", "rubric.R1.note": "Double."},
    {"harm.A1": "death"},
    {"change_reason": "They are right."},
    {"verdict": "reject", "reason_code": "unclear", "reason": "Nobody would ask this."},
    {"verdict": "reject"},
    {"dissent_code": "misread"},
    {"dissent_code": "misread", "reason": "I do not see it."},
    {"reason": "I do not see it."},
)


@pytest.mark.parametrize("primary", [full_approval, full_rejection])
def test_of_a_confirmation(page: Page, live_server: Any, ana: User, bo: User, primary: Any) -> None:
    open_case(form=FULL_FORM, policy=Policy(secondary_confirms=True))
    claim_and_submit(bo, primary())
    verification = claim(ana)
    submit(verification, full_approval())
    verification.refresh_from_db()
    sign_in(page, live_server.url, ana)
    check_each_rule(page, live_server.url, verification, (CONFIRMING, *CONFIRMED))


def test_of_an_adjudication(page: Page, live_server: Any, ana: User, bo: User, chen: User) -> None:
    open_case(form=FULL_FORM, policy=Policy(secondary_confirms=True))
    claim_and_submit(bo, full_approval())
    claim_and_submit(chen, full_rejection(), full_rejection())
    sign_in(page, live_server.url, ana)
    others = ({"agreed": ""}, *OTHERS[:4], *OTHERS[9:12], *OTHERS[-4:])
    check_each_rule(page, live_server.url, claim(ana), ({**COMPLETE, "agreed": "1"}, *others))
