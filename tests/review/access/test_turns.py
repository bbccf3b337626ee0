"""What leaves the site at each stage, for each person, compared with a table written by hand."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from review.cases.services import withdraw
from review.models import Assignment, Case, User
from review.rules.blocks import Dialogue, Turn
from review.rules.questions import Answers
from review.rules.state_machine import Policy, Role
from review.turns.turn import Moment, ReviewTurn
from tests.review.factories import (
    CITATION,
    FIRST_LOOK_BLOCKS,
    FULL_FORM,
    claim,
    full_approval,
    full_rejection,
    open_case,
    submit,
    take_first_look,
)
from tests.review.pages import Browse, text_of

pytestmark = pytest.mark.django_db

HIDDEN = "a sentence that only exists with its trap"
BLOCKS = (Dialogue("Conversation", (Turn("user", f"May I take Neurostatin? {HIDDEN}"),)),)
PEOPLE = ("primary", "secondary", "adjudicator-1", "adjudicator-2")

# What was just done, and what each of PEOPLE sees then. "-": the case is not theirs; "look": the
# text of the first look; else everything, and the reviews: P of the primary, S and s of the
# secondary (blind, confirmed), A and B of the adjudicators, a and b their second votes.
TABLE = """
    primary claims          | look       | -          | -          | -
    primary looks           | all        | -          | -          | -
    primary approves P      | all P      | -          | -          | -
    secondary claims        | all P      | look       | -          | -
    secondary looks         | all P      | all        | -          | -
    secondary rejects S     | all P      | all PS     | -          | -
    secondary rejects s     | all P      | all PSs    | -          | -
    adjudicator-1 claims    | all P      | all PSs    | look       | -
    adjudicator-1 looks     | all P      | all PSs    | all PSs    | -
    adjudicator-2 claims    | all P      | all PSs    | all PSs    | look
    adjudicator-1 approves A| all P      | all PSs    | all PSsA   | look
    adjudicator-2 looks     | all P      | all PSs    | all PSsA   | all PSs
    adjudicator-2 rejects B | all P      | all PSs    | all PSsAB  | all PSsAB
    adjudicator-1 approves a| all P      | all PSs    | all PSsABa | all PSsAB
    adjudicator-2 approves b| all PSsABab| all PSsABab| all PSsABab| all PSsABab
"""
BLIND_VOTES = {
    "adjudicator-1 looks": "all",
    "adjudicator-2 claims": "all",
    "adjudicator-1 approves A": "all A",
    "adjudicator-2 looks": "all A",
}


def token(review: str) -> str:
    """The words by which a review is recognised wherever it is shown."""
    kind = "second" if review.islower() else "first"
    return f"written-{kind}-{review}"


TOKENS = {review: token(review) for review in "PSsABab"}


def act(people: dict[str, User], case: Case, action: str) -> None:
    name, verb, *review = action.split()
    if verb == "claims":
        claim(people[name])
        return
    assignment = Assignment.objects.select_related("case", "physician").get(case=case, role=name)
    if verb == "looks":
        take_first_look(assignment)
        return
    cited: dict[str, Any] = {
        "citations": (replace(CITATION, passage=TOKENS[review[0]]),),
        "change_reason": TOKENS[review[0]],
    }
    answers: Answers = full_approval(**cited) if verb == "approves" else full_rejection(**cited)
    submit(assignment, answers)


def expected(cell: str) -> tuple[str, set[str]]:
    shows, _space, reviews = cell.strip().partition(" ")
    return shows, set(reviews)


def what_leaves(browse: Browse, person: User, role: str, case: Case) -> tuple[str, set[str]]:
    """What the API sends a person about the case; checks that the page shows nothing else."""
    assignment = Assignment.objects.get(case=case, role=role)
    client = APIClient()
    client.force_authenticate(person)
    response = client.get(reverse("api:assignment", args=[assignment.pk]))
    page = browse(person).get(reverse("review:case", args=[assignment.pk]), follow=True)
    if response.status_code == 404:
        assert page.status_code == 404
        return "-", set()
    sent = response.json()
    reviews = {name for name, words in TOKENS.items() if any(words in str(one["answers"]) for one in sent["reviews"])}
    assert len(sent["reviews"]) == len(reviews)
    shows = "all" if HIDDEN in str(sent["case"]) else "look"
    assert sent["revealed"] == (shows == "all")
    shown = text_of(page)
    assert {name for name, words in TOKENS.items() if words in shown} <= reviews
    assert (HIDDEN in shown) == (shows == "all")
    assert any(rubric.criterion in shown for rubric in FULL_FORM.rubrics) == (shows == "all")
    return shows, reviews


@pytest.mark.parametrize("votes", ["open", "blind"])
def test_what_leaves_the_site_is_what_the_table_says(
    votes: str, browse: Browse, ana: User, bo: User, chen: User, dina: User
) -> None:
    people = dict(zip(PEOPLE, (ana, bo, chen, dina), strict=True))
    policy = Policy(reveal_first_look=True, adjudicators_blind=votes == "blind")
    case = open_case(policy=policy, form=FULL_FORM, blocks=BLOCKS, first_look=FIRST_LOOK_BLOCKS)
    for line in TABLE.strip().splitlines():
        action, *cells = (cell.strip() for cell in line.split("|"))
        act(people, case, action)
        if votes == "blind" and action in BLIND_VOTES:
            cells[2] = BLIND_VOTES[action]
            cells[3] = {"look": "look", "-": "-"}.get(cells[3], "all")
        for name, cell in zip(PEOPLE, cells, strict=True):
            held = Assignment.objects.filter(case=case, role=name).exists()
            found = what_leaves(browse, people[name], name, case) if held else ("-", set())
            assert found == expected(cell), (action, name)


def test_nobody_reads_through_the_role_of_another(browse: Browse, ana: User, bo: User, chen: User) -> None:
    case = open_case(form=FULL_FORM)
    submit(claim(ana), full_approval())
    claim(bo)
    for person, role in ((ana, "secondary"), (bo, "primary"), (chen, "primary")):
        assert what_leaves(browse, person, role, case) == ("-", set())


def test_a_withdrawn_case_is_read_by_those_who_had_written_in_it(ana: User, bo: User, adela: User) -> None:
    case = open_case(form=FULL_FORM)
    submit(claim(ana), full_approval())
    blind = claim(bo)
    withdraw(case.pk, actor=adela, reason="Duplicate.")
    case.refresh_from_db()
    blind.refresh_from_db()
    blind.case = case
    assert ReviewTurn(bo, blind).moment is Moment.CLOSED
    assert ReviewTurn(bo, blind).reviews == []
    primary = Assignment.objects.get(case=case, role=Role.PRIMARY)
    assert [review.role for review in ReviewTurn(ana, primary).reviews] == [Role.PRIMARY]


def test_a_turn_says_what_a_submit_stores(ana: User, bo: User) -> None:
    open_case(form=FULL_FORM)
    held = claim(ana)
    accepted = ReviewTurn(ana, held).accept(full_approval(declaration="wording"))
    assert (accepted.verdict, accepted.declaration) == ("approve", ""), "nothing was to be declared"
    assert not ReviewTurn(bo, held).is_due
    assert held.token != uuid.UUID(int=0)
