"""Nobody stores more text, entries or keys than people write: not by page, API or service."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.urls import reverse

from review import errors
from review.assignments import services
from review.discussion import guidelines, remarks
from review.models import Assignment, Draft, Remark, Review, User
from review.rules import limits
from review.rules.blocks import Highlight
from review.rules.questions import AddedRubric, Answer, Answers, Citation, RubricAnswer
from review.rules.state_machine import State
from tests.conftest import Clock, RunConcurrently
from tests.review.factories import approval, claim, open_case, turn_at
from tests.review.pages import Browse

LONG = "x" * 4_900_000
OVER: dict[str, dict[str, Any]] = {
    "reason": {"reason": LONG},
    "change of answer": {"change_reason": LONG},
    "note": {"questions": {"natural": Answer("no", LONG)}},
    "wording": {"rubrics": {"R1": RubricAnswer("corrected", LONG)}},
    "verdict": {"verdict": LONG},
    "unknown questions": {"questions": {f"q{number}": Answer("yes") for number in range(60_000)}},
    "unknown rubrics": {"rubrics": {f"R{number}": RubricAnswer("adequate") for number in range(60_000)}},
    "citations": {"citations": (Citation("url", "https://a.org/"),) * 50_000},
    "passage": {"citations": (Citation("url", "https://a.org/", "", LONG),)},
    "rubrics": {"added": (AddedRubric("Say so."),) * 50_000},
    "rubric": {"added": (AddedRubric(LONG),)},
    "tags": {"added": (AddedRubric("Say so.", ("A1",) * 50_000),)},
    "highlights": {"highlights": (Highlight("May I", "odd", "1.1", 0, 5),) * 60_000},
    "words": {"highlights": (Highlight(LONG, "odd", "1.1", 0, 5),)},
}


@pytest.fixture
def assignment(ana: User) -> Assignment:
    open_case()
    return claim(ana)


@pytest.mark.parametrize("kind", OVER)
def test_what_nobody_writes_is_refused_as_draft_and_as_review(kind: str, assignment: Assignment, ana: User) -> None:
    assert assignment.token is not None
    answers = replace(approval(), **OVER[kind])
    with pytest.raises(errors.OverLimits):
        services.save_draft(turn_at(ana, assignment), assignment.token, answers, revision=0)
    with pytest.raises(errors.OverLimits):
        services.submit(turn_at(ana, assignment), assignment.token, answers)
    assert not Draft.objects.exists()
    assert not Review.objects.exists()


def test_the_longest_text_is_kept(assignment: Assignment, ana: User) -> None:
    assert assignment.token is not None
    services.save_draft(turn_at(ana, assignment), assignment.token, Answers(reason="x" * limits.TEXT), revision=0)


def _put(browse: Browse, ana: User, assignment: Assignment, answers: dict[str, Any]) -> Any:
    body = {"token": str(assignment.token), "revision": 0, "answers": answers}
    return browse(ana).put(reverse("api:assignment-draft", args=[assignment.pk]), body, "application/json")


def test_the_api_reports_ten_faults_and_the_number_of_the_others(
    assignment: Assignment, ana: User, browse: Browse
) -> None:
    refused = _put(browse, ana, assignment, {"questions": {f"q{number}": {} for number in range(9_000)}})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:mhb:over-limits")
    assert (len(refused.json()["problems"]), refused.json()["more"]) == (10, 8_990)
    assert refused.json()["detail"] == "And 8990 more."
    refused = _put(browse, ana, assignment, {"citations": [{"kind": "no such"}] * limits.CITATIONS})
    assert (refused.status_code, len(refused.json()["errors"]), refused.json()["more"]) == (400, 10, 40)
    wrongs: list[dict[str, Any]] = [
        {"citations": [{}] * 50_000},
        {"reason": "x" * 20_000},
        {"junk": 1},
        {"questions": {"natural": {"value": "yes", "junk": "x"}}},
        {"questions": {f"q{number}": {} for number in range(60_000)}},  # more values than a body may have
    ]
    for wrong in wrongs:
        refused = _put(browse, ana, assignment, wrong)
        assert refused.status_code == 400, refused.content
        assert len(refused.content) < 2_000


def test_the_page_keeps_what_was_typed_and_says_what_is_too_long(
    assignment: Assignment, ana: User, browse: Browse
) -> None:
    typed = "y" * (limits.TEXT + 1)
    fields = {"token": str(assignment.token), "revision": "0", "reason": typed, "verdict": "reject"}
    page = browse(ana).post(reverse("review:submit", args=[assignment.pk]), fields)
    assert page.status_code == 422
    assert "This text is too long. Shorten it." in page.content.decode()
    assert typed in page.content.decode()


def test_comments_and_reports_are_limited_per_person_and_minute(
    assignment: Assignment, ana: User, adela: User, browse: Browse, clock: Clock
) -> None:
    case, client = assignment.case, browse(ana)
    for number in range(limits.COMMENTS - 1):
        remarks.remark(ana, case.pk, f"No. {number}")
    report = reverse("api:assignment-problem", args=[assignment.pk])
    assert client.post(report, {"text": "It is broken."}, "application/json").status_code == 204
    with pytest.raises(errors.TooManyComments):
        remarks.remark(ana, case.pk, "One more.")
    assert client.post(report, {"text": "Still."}, "application/json").status_code == 429
    page = client.post(reverse("review:remark", args=[case.pk]), {"text": "One more."})
    assert page.status_code == 422
    assert "Wait a minute" in page.content.decode()
    remarks.remark(adela, case.pk, "Another person's.")
    clock.advance(minutes=2)
    remarks.remark(ana, case.pk, "Later.")
    assert Remark.objects.count() == limits.COMMENTS + 1


def test_guidelines_and_comments_that_are_too_long_are_refused(assignment: Assignment, ana: User, adela: User) -> None:
    with pytest.raises(errors.TooLong):
        remarks.remark(ana, assignment.case.pk, LONG)
    with pytest.raises(errors.TooLong):
        guidelines.write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text=LONG)


@pytest.mark.both
def test_comments_at_the_same_moment_count_too(
    ana: User, run_concurrently: RunConcurrently, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COMMENTS", 1)
    case = open_case()
    claim(ana)
    outcomes = run_concurrently([partial(remarks.remark, ana, case.pk, "The dose is off.")] * 4)
    assert Remark.objects.count() == 1, outcomes
    assert sum(isinstance(outcome, errors.TooManyComments) for outcome in outcomes) == 3
