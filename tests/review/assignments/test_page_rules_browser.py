"""The page of a case refuses what the server refuses, at each turn, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page

from review.models import User
from review.rules.questions import Form, TrapTerm
from review.rules.state_machine import Policy
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
from tests.review.page_rules import LEFT_TO_THE_SERVER, alone_and_in_pairs, check_each_rule

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

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


def test_of_a_primary_review(page: Page, live_server: Any, ana: User) -> None:
    open_case(form=FULL_FORM)
    sign_in(page, live_server.url, ana)
    check_each_rule(page, live_server.url, claim(ana), COMPLETE, alone_and_in_pairs(OTHERS))


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
    check_each_rule(page, live_server.url, claim(ana), complete, alone_and_in_pairs(others))


def test_of_a_first_look(page: Page, live_server: Any, ana: User) -> None:
    open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    sign_in(page, live_server.url, ana)
    complete = {"question.natural": "yes", "question.natural.note": ""}
    others = (
        {"question.natural": ""},
        {"question.natural": "no"},
        {"question.natural": "no", "question.natural.note": "Stiff."},
    )
    check_each_rule(page, live_server.url, claim(ana), complete, alone_and_in_pairs(others))


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
    check_each_rule(page, live_server.url, claim(ana), complete, alone_and_in_pairs(others), LEFT_TO_THE_SERVER)


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
    check_each_rule(page, live_server.url, verification, CONFIRMING, alone_and_in_pairs(CONFIRMED))


def test_of_an_adjudication(page: Page, live_server: Any, ana: User, bo: User, chen: User) -> None:
    open_case(form=FULL_FORM, policy=Policy(secondary_confirms=True))
    claim_and_submit(bo, full_approval())
    claim_and_submit(chen, full_rejection(), full_rejection())
    sign_in(page, live_server.url, ana)
    others = ({"agreed": ""}, *OTHERS[:4], *OTHERS[9:12], *OTHERS[-4:])
    check_each_rule(page, live_server.url, claim(ana), {**COMPLETE, "agreed": "1"}, alone_and_in_pairs(others))
