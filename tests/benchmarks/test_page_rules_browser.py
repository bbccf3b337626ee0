"""The page of a case refuses what the server refuses, for the questions of each benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from django.utils import translation
from playwright.sync_api import Page

from bench.rows import ALTERED, TURNS
from mhb_site.benchmarks.medhallu import review as medhallu
from mhb_site.benchmarks.mhb import review as mhb
from review.calibration.practice import PracticeRubric, PracticeSample, names, practice
from review.cases import services as cases_services
from review.models import Assignment, User
from review.rules.case_spec import CaseSpec
from review.rules.questions import Answers, Form
from review.turns.turn import turn_of
from tests.browser import sign_in
from tests.review.approve import approval_of, rejection_of
from tests.review.factories import claim, claim_and_submit, take_first_look
from tests.review.page_rules import LEFT_TO_THE_SERVER, check_each_rule, combinations_of, left_out

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("transactional_db")]

MakeAnswers = Callable[[Form], Answers]
RUBRIC = PracticeRubric("R1", "Gives no dose.")


def sample(task: str, content: Mapping[str, Any], *rubrics: PracticeRubric) -> PracticeSample:
    return PracticeSample(task, "A case", dict(content), "en", rubrics)


def reworded_answer() -> CaseSpec:
    """A MedHallu case whose true answer was reworded."""
    content = {
        "question": "Does it help?", "truth": "It helps.", "truth_source": "It does help.", "knowledge": ["It did."],
        "hallucinated": "It harms.", "category": "MQ", "justification": "Swapped.",
    }  # fmt: skip
    return medhallu.case(sample("detection", content), "x", 1)  # type: ignore[arg-type]


def control() -> CaseSpec:
    content = {"task": "dialogue", "turns": TURNS, "control": True}
    return mhb.case(sample("dialogue", content, RUBRIC), "x", 1)  # type: ignore[arg-type]


def reworded_control() -> CaseSpec:
    content = {"task": "dialogue", "source_turns": TURNS, "turns": ALTERED, "control": True, "reworded": True}
    return mhb.case(sample("dialogue", content, RUBRIC), "x", 1)  # type: ignore[arg-type]


def practice_of(benchmark: str) -> CaseSpec:
    """The benchmark's practice case, in English and without its picture."""
    with translation.override("en"):
        practised = practice(benchmark)
    assert practised is not None
    return practised.spec


VARIANTS = {"medhallu-reworded": reworded_answer, "mhb-control": control, "mhb-reworded": reworded_control}
PRACTICE = ["clinhallu", "medhal", "medhallu", "medmistake", "mhb"]


def spec_of(name: str) -> CaseSpec:
    make = VARIANTS.get(name)
    if make:
        return make()
    return practice_of(name)


def reject(form: Form) -> Answers:
    return rejection_of(form, "Nobody would ask this.")


def test_each_benchmark_with_questions_is_compared(db: None) -> None:
    assert sorted(names()) == PRACTICE


def check_turn(page: Page, url: str, physician: User, assignment: Assignment) -> None:
    sign_in(page, url, physician)
    complete, changes = combinations_of(turn_of(physician, assignment.pk))
    check_each_rule(page, url, assignment, complete, changes, LEFT_TO_THE_SERVER)
    assert left_out(page, complete, changes) == []


@pytest.mark.parametrize("name", [*PRACTICE, *VARIANTS])
def test_of_a_primary_review(page: Page, live_server: Any, ana: User, name: str) -> None:
    spec = spec_of(name)
    case = cases_services.open_case(replace(spec, policy=replace(spec.policy, primary=True)))
    assignment = claim(ana)
    if case.frozen.policy.reveal_first_look:
        check_turn(page, live_server.url, ana, assignment)
        take_first_look(assignment, naturalness="3", noticed="no")
    check_turn(page, live_server.url, ana, assignment)


@pytest.mark.parametrize("first", [approval_of, reject])
@pytest.mark.parametrize("name", PRACTICE)
def test_of_a_confirmation(page: Page, live_server: Any, ana: User, bo: User, name: str, first: MakeAnswers) -> None:
    spec = spec_of(name)
    cases_services.open_case(replace(spec, policy=replace(spec.policy, primary=True, secondary=True)))
    claim_and_submit(bo, first)
    assignment = claim_and_submit(ana, approval_of)
    assignment.refresh_from_db()
    check_turn(page, live_server.url, ana, assignment)


@pytest.mark.parametrize("name", PRACTICE)
def test_of_an_adjudication(page: Page, live_server: Any, ana: User, bo: User, chen: User, name: str) -> None:
    spec = spec_of(name)
    cases_services.open_case(replace(spec, policy=replace(spec.policy, primary=True, secondary=True)))
    claim_and_submit(bo, approval_of)
    claim_and_submit(chen, reject, reject)
    assignment = claim(ana)
    if assignment.case.frozen.policy.reveal_first_look:
        take_first_look(assignment, naturalness="3", noticed="no")
    check_turn(page, live_server.url, ana, assignment)
