"""Highlights: stored with the answers, checked against the text, as private as the review."""

from dataclasses import replace

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from review import errors
from review.assignments import first_look, services
from review.models import Assignment, Draft, FirstLook, Review, User
from review.rules.blocks import Diff, Highlight, Table, Text, Turn
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answer, Answers
from review.turns.turn import ReviewTurn
from tests.review.factories import (
    CITATION,
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    claim,
    full_approval,
    open_case,
    submit,
    take_first_look,
    turn_at,
)
from tests.review.pages import Browse, post, refused_page, text_of

QUESTION = "May I take Neurostatin tonight?"
BLOCKS = (
    Text("Bait", "Is it safe & <b>sound</b>?"),
    Diff("Talk", (Turn("user", "May I take it?"),), (Turn("user", QUESTION),)),
    Table(
        "Traps",
        ("Code", "Trap", "Location", "False"),
        (("A1", "Invented", "1", "“Neurostatin” exists."),),
        "trap",
        places=((1,),),
    ),
)
NEUROSTATIN = Highlight("Neurostatin", "trap", "2.1", 11, 22)
BEFORE_REVEAL = Highlight("take Neurostatin", "odd", "1.1", 6, 22)


@pytest.fixture
def assignment(ana: User) -> Assignment:
    open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, blocks=BLOCKS)
    return claim(ana)


def reveal_with(assignment: Assignment, *highlights: Highlight) -> None:
    assert assignment.physician is not None
    assert assignment.token is not None
    answers = Answers({"natural": Answer("yes")}, highlights=highlights)
    first_look.reveal(turn_at(assignment.physician, assignment), assignment.token, answers)


def stored_highlights(review: Review) -> tuple[Highlight, ...]:
    return answers_from_json(review.answers).highlights


def test_highlights_before_the_reveal_are_kept_beside_later_ones(assignment: Assignment) -> None:
    reveal_with(assignment, BEFORE_REVEAL)
    review = submit(
        assignment, full_approval(highlights=(NEUROSTATIN, replace(BEFORE_REVEAL, quote="x", first_look=True)))
    )
    assert stored_highlights(review) == (replace(BEFORE_REVEAL, first_look=True), NEUROSTATIN)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(NEUROSTATIN, start=10, end=21),
        replace(NEUROSTATIN, quote="neurostatin"),
        replace(NEUROSTATIN, passage="3.1"),
        replace(NEUROSTATIN, label="no"),
    ],
)
def test_a_highlight_that_is_not_in_the_text_is_refused_at_submit_and_draft(
    assignment: Assignment, wrong: Highlight
) -> None:
    reveal_with(assignment)
    with pytest.raises(errors.Incomplete) as refused:
        submit(assignment, full_approval(highlights=(wrong,)))
    assert [problem.field.rpartition(".")[0] for problem in refused.value.problems] == ["highlight.1"]
    assert assignment.physician is not None
    assert assignment.token is not None
    with pytest.raises(errors.Incomplete):
        services.save_draft(
            turn_at(assignment.physician, assignment), assignment.token, Answers(highlights=(wrong,)), revision=0
        )
    assert not Draft.objects.exists()


def test_before_the_reveal_only_text_and_labels_of_the_first_look_are_accepted(assignment: Assignment) -> None:
    for wrong in (NEUROSTATIN, replace(BEFORE_REVEAL, label="trap")):
        with pytest.raises(errors.Incomplete):
            reveal_with(assignment, wrong)
    assert not FirstLook.objects.exists()


def test_words_without_a_place_are_kept_in_a_draft_and_refused_at_submit(assignment: Assignment) -> None:
    reveal_with(assignment)
    assert assignment.physician is not None
    assert assignment.token is not None
    typing = full_approval(highlights=(Highlight("Neuros tatin"),))
    services.save_draft(turn_at(assignment.physician, assignment), assignment.token, typing, revision=0)
    with pytest.raises(errors.Incomplete):
        submit(assignment, typing)


@pytest.mark.both
def test_words_and_a_label_are_enough_without_a_script(assignment: Assignment, ana: User, browse: Browse) -> None:
    reveal_with(assignment, BEFORE_REVEAL)
    client = browse(ana)
    address = reverse("review:case", args=[assignment.pk])
    page = post(client, "draft", assignment, full_approval(), do="add-highlight")
    assert page.url == f"{address}#highlight-1-quote"
    typed = {"highlight.1.quote": "Neurostatin", "highlight.1.label": "trap", "revision": "1"}
    page = post(client, "draft", assignment, full_approval(), **typed)
    assert page.status_code == 302
    shown = text_of(client.get(address))
    assert '<mark class="mark mark--1" title="Trap" data-name="Trap" data-own>Neurostatin</mark>' in shown
    assert '<mark class="mark mark--2" title="Odd" data-name="Odd">' in shown, (
        "the first look's stands, and no script moves it"
    )
    assert "&lt;b&gt;sound&lt;/b&gt;" in shown
    sent = post(client, "submit", assignment, full_approval(), **typed)
    assert sent.status_code == 302
    assert stored_highlights(Review.objects.get()) == (replace(BEFORE_REVEAL, first_look=True), replace(NEUROSTATIN))


def test_a_citation_of_the_text_itself_is_checked_against_it(assignment: Assignment) -> None:
    reveal_with(assignment)
    cited = replace(CITATION, kind="case", reference="Talk", section="", passage="Neurostatin")
    with pytest.raises(errors.Incomplete) as refused:
        submit(assignment, full_approval(citations=(replace(cited, passage="There is no such drug."),)))
    assert [problem.field for problem in refused.value.problems] == ["citation.1.passage"]
    review = submit(assignment, full_approval(citations=(cited,)))
    assert answers_from_json(review.answers).citations[0].section == "2.1:11-22"


def test_words_that_are_not_in_the_text_are_refused_at_their_field(
    assignment: Assignment, ana: User, browse: Browse
) -> None:
    reveal_with(assignment)
    typed = {"highlight.1.quote": "Neurostatine", "highlight.1.label": "trap"}
    client = browse(ana)
    page = refused_page(client, post(client, "submit", assignment, full_approval(), **typed))
    assert "These words are not in the text." in text_of(page)
    assert 'href="#highlight-1-quote"' in text_of(page)


def test_a_quote_of_hidden_text_is_not_located_before_the_reveal(
    assignment: Assignment, ana: User, browse: Browse
) -> None:
    client = browse(ana)
    typed = {"highlight.1.quote": "Is it safe", "highlight.1.label": "odd"}
    page = post(client, "draft", assignment, Answers(), **typed)
    assert page.status_code == 302
    draft = ReviewTurn(ana, assignment).draft
    assert draft is not None
    assert draft.answers["highlights"][0]["passage"] == ""


def test_the_second_reviewer_sees_the_firsts_highlights_only_after_answering(
    assignment: Assignment, bo: User, browse: Browse
) -> None:
    reveal_with(assignment)
    submit(assignment, full_approval(highlights=(NEUROSTATIN,)))
    second = claim(bo)
    take_first_look(second)
    client = browse(bo)
    address = reverse("review:case", args=[second.pk])
    assert "<mark" not in text_of(client.get(address))
    submit(second, full_approval())
    shown = text_of(client.get(address))
    assert 'title="Trap (First reviewer)"' in shown
    assert "Highlights" in shown
    assert "“Neurostatin”" in shown


def test_the_api_accepts_and_returns_highlights(assignment: Assignment, ana: User) -> None:
    client = APIClient()
    client.force_authenticate(ana)
    reveal_with(assignment)
    url = f"/api/v1/assignments/{assignment.public_id}/"
    form = client.get(url).json()["case"]["form"]
    assert form["labels"] == [
        {"value": "trap", "label": "Trap", "first_look": False},
        {"value": "odd", "label": "Odd", "first_look": True},
    ]
    place = {"quote": "Neurostatin", "label": "trap", "passage": "2.1", "start": 11, "end": 22}
    body = {"token": str(assignment.token), "revision": 0, "answers": {"highlights": [place]}}
    assert client.put(f"{url}draft/", body, format="json").status_code == 200
    assert client.get(url).json()["draft"]["answers"]["highlights"] == [place | {"first_look": False}]
    body["answers"] = {"highlights": [place | {"start": 12}]}
    refused = client.put(f"{url}draft/", body | {"revision": 1}, format="json")
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["field"] == "highlight.1.quote"
