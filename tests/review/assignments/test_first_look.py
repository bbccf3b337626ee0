"""The first look: no trap is shown before it, and its answers cannot be changed afterwards."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse

from review import errors
from review.assignments import claims, first_look, services
from review.cases import services as cases_services
from review.models import Assignment, Case, Event, FirstLook, Review, User
from review.rules.blocks import TrapTerm
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answer, Answers, Problem
from review.rules.state_machine import Phase, Policy, Role
from review.turns.turn import ReviewTurn, readable_reviews
from tests.api.conftest import Client
from tests.conftest import Clock, RunConcurrently
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    account,
    case_spec,
    claim,
    claim_and_submit,
    full_approval,
    full_rejection,
    open_case,
    submit,
    take_first_look,
    turn_at,
)
from tests.review.pages import Browse, text_of

pytestmark = pytest.mark.django_db
NO_TOKEN = uuid.UUID(int=0)
SEALED = ("Neurostatin?", "does not exist", "Gives no dose", "definitely false", "why it came back", "Disputed")


def first_look_case(number: int = 1, policy: Policy = FIRST_LOOK_POLICY, **changes: Any) -> Case:
    """A case with a first look, and with the words of SEALED in everything that it hides."""
    asked_for = ("This is why it came back.",)
    return open_case(
        number, policy=policy, form=FULL_FORM, first_look=FIRST_LOOK_BLOCKS, asked_for=asked_for, **changes
    )


def test_before_the_first_look_only_what_belongs_to_it_is_shown(ana: User) -> None:
    case = first_look_case()
    assignment = claim(ana)
    shown = ReviewTurn(ana, assignment).shows
    assert shown.blocks == FIRST_LOOK_BLOCKS
    assert shown.form == FULL_FORM.first_look
    assert [question.key for question in shown.form.questions] == ["natural"]
    assert not any(word in repr(shown) for word in SEALED)
    take_first_look(assignment)
    assert ReviewTurn(ana, assignment).shows == case.frozen


def test_without_the_policy_everything_is_shown_at_once(ana: User) -> None:
    case = first_look_case(policy=Policy())
    assignment = claim(ana)
    assert ReviewTurn(ana, assignment).shows == case.frozen
    with pytest.raises(errors.NothingToReveal):
        take_first_look(assignment)
    submit(assignment, full_approval())


def test_an_admin_sees_the_whole_case(ana: User, adela: User) -> None:
    case = first_look_case()
    assignment = claim(ana)
    assert ReviewTurn(adela, assignment).shows == case.frozen


def test_a_first_look_that_arrives_too_late_is_kept_as_a_draft(browse: Browse, ana: User, adela: User) -> None:
    case = first_look_case()
    assignment = claim(ana)
    cases_services.withdraw(case.pk, actor=adela, reason="Wrong patient.")
    # `false` is asked after the reveal only: its words are no longer for her.
    fields = {"question.natural": "no", "question.natural.note": "Stiff.", "question.false": "yes"}
    address = reverse("review:reveal", args=[assignment.pk])
    page = browse(ana).post(address, {**fields, "token": str(assignment.token), "revision": "0"})
    assert page.status_code == errors.CaseClosed.status
    assert "Stiff." in text_of(page)
    assert "If you get this case again" in text_of(page)
    assert not any(word in page.content.decode() for word in SEALED)
    assert assignment.drafts.get().answers["questions"]["natural"] == {"value": "no", "note": "Stiff."}
    again = browse(ana).get(reverse("review:case", args=[assignment.pk]))
    assert "Stiff." in text_of(again), "the page of a withdrawn case still has what was typed"


def test_a_case_that_is_returned_too_late_shows_what_was_typed(browse: Browse, ana: User, adela: User) -> None:
    case = first_look_case()
    assignment = claim(ana)
    cases_services.withdraw(case.pk, actor=adela, reason="Wrong patient.")
    fields = {"question.natural": "no", "question.natural.note": "Stiff.", "token": str(assignment.token)}
    page = browse(ana).post(reverse("review:release", args=[assignment.pk]), fields)
    assert page.status_code == errors.CaseClosed.status
    assert "Stiff." in text_of(page)


def test_a_review_needs_a_first_look(ana: User) -> None:
    first_look_case()
    assignment = claim(ana)
    with pytest.raises(errors.NotRevealed):
        submit(assignment, full_approval())
    # Incomplete answers do not reveal which rubrics exist either.
    with pytest.raises(errors.NotRevealed):
        submit(assignment, Answers())
    assert not Review.objects.exists()
    take_first_look(assignment)
    submit(assignment, full_approval())


def test_answers_of_the_first_look_cannot_be_changed(ana: User) -> None:
    first_look_case()
    assignment = claim(ana)
    take_first_look(assignment, natural="no")
    with pytest.raises(errors.Incomplete) as caught:
        submit(assignment, full_approval())
    assert caught.value.problems == [Problem("verdict", "verdict-contradicts")]
    review = submit(
        assignment, full_rejection(questions={"natural": Answer("yes", "After all."), "false": Answer("yes")})
    )
    assert review.answers["questions"]["natural"] == {"value": "no", "note": "Stiff."}


def test_answers_of_the_first_look_also_hold_in_the_confirmation(ana: User, bo: User) -> None:
    first_look_case()
    claim_and_submit(ana, full_approval())
    assignment = claim(bo)
    take_first_look(assignment, natural="no")
    submit(assignment, full_rejection())
    review = submit(claim(bo), full_rejection(questions={"natural": Answer("yes"), "false": Answer("yes")}))
    assert review.phase == Phase.CONFIRM
    assert review.answers["questions"]["natural"]["value"] == "no"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(), Problem("question.natural", "unanswered")),
        (Answer("perhaps"), Problem("question.natural", "unknown-value")),
        (Answer("no"), Problem("question.natural.note", "note-missing")),
    ],
)
def test_an_incomplete_first_look_reveals_nothing(ana: User, answer: Answer, problem: Problem) -> None:
    first_look_case()
    assignment = claim(ana)
    with pytest.raises(errors.Incomplete) as caught:
        first_look.reveal(turn_at(ana, assignment), assignment.token or NO_TOKEN, Answers({"natural": answer}))
    assert caught.value.problems == [problem]
    assert not FirstLook.objects.exists()
    assert not ReviewTurn(ana, assignment).is_revealed


def test_only_answers_to_first_look_questions_are_stored(ana: User) -> None:
    first_look_case()
    assignment = claim(ana)
    first_look.reveal(turn_at(ana, assignment), assignment.token or NO_TOKEN, full_rejection())
    stored = FirstLook.objects.get().answers
    assert stored["questions"] == {"natural": {"value": "yes", "note": ""}}
    assert (stored["verdict"], stored["rubrics"], stored["citations"]) == ("", {}, [])


def test_revealing_twice_takes_one_first_look(ana: User) -> None:
    first_look_case()
    assignment = claim(ana)
    first = take_first_look(assignment, natural="yes")
    assert take_first_look(assignment, natural="no") == first
    assert FirstLook.objects.get().answers["questions"]["natural"]["value"] == "yes"
    assert Event.objects.filter(kind=Event.Kind.REVEALED, actor=ana).count() == 1


def test_a_first_look_renews_the_lease_and_is_fenced(ana: User, bo: User, clock: Clock) -> None:
    first_look_case()
    assignment = claim(ana)
    before = assignment.lease_until
    clock.advance(minutes=5)
    take_first_look(assignment)
    assignment.refresh_from_db()
    assert assignment.lease_until is not None
    assert before is not None
    assert assignment.lease_until > before
    with pytest.raises(errors.NotAssigned):
        first_look.reveal(turn_at(bo, assignment), assignment.token or NO_TOKEN, Answers({"natural": Answer("yes")}))
    clock.advance(minutes=16)
    taken = claim(bo)
    assert taken.pk == assignment.pk
    with pytest.raises(errors.LeaseLost):
        take_first_look(assignment)


def test_a_first_look_that_arrives_too_late_replaces_the_draft_of_a_client_that_checks_none(
    ana: User, adela: User
) -> None:
    case = first_look_case()
    assignment = claim(ana)
    turn = turn_at(ana, assignment)
    services.save_draft(turn, turn.assignment.token or NO_TOKEN, Answers({"natural": Answer("no")}), revision=0)
    cases_services.withdraw(case.pk, actor=adela, reason="Wrong patient.")
    with pytest.raises(errors.CaseClosed) as late:
        first_look.reveal(turn_at(ana, assignment), assignment.token or NO_TOKEN, Answers({"natural": Answer("yes")}))
    assert not late.value.detail
    assert assignment.drafts.get().answers["questions"]["natural"]["value"] == "yes"


def test_whoever_takes_over_the_case_takes_an_own_first_look(ana: User, bo: User, clock: Clock) -> None:
    first_look_case()
    assignment = claim(ana)
    take_first_look(assignment, natural="no")
    clock.advance(minutes=16)
    taken = claim(bo)
    assert taken.pk == assignment.pk
    assert not ReviewTurn(bo, taken).is_revealed
    assert ReviewTurn(bo, taken).shows.form == FULL_FORM.first_look
    with pytest.raises(errors.NotRevealed):
        submit(taken, full_approval())
    take_first_look(taken)
    assert submit(taken, full_approval()).answers["questions"]["natural"]["value"] == "yes"
    assert FirstLook.objects.count() == 2


def test_whoever_claims_the_case_again_needs_no_second_first_look(ana: User, clock: Clock) -> None:
    first_look_case()
    assignment = claim(ana)
    take_first_look(assignment, natural="no")
    claims.release(ana, assignment.pk, assignment.token or NO_TOKEN)
    again = claim(ana)
    assert ReviewTurn(ana, again).is_revealed
    first_look = take_first_look(again)
    assert first_look is not None
    assert first_look.answers["questions"]["natural"]["value"] == "no", "each person has one first look"


def test_adjudicators_take_a_first_look_before_they_see_traps_and_reviews(
    ana: User, bo: User, chen: User, dina: User
) -> None:
    case = first_look_case()
    claim_and_submit(ana, full_approval())
    claim_and_submit(bo, full_rejection("disputed"), full_rejection("disputed"))
    assignment = claim(chen)
    assert assignment.role == Role.ADJUDICATOR_1
    assert not readable_reviews(chen, case)
    assert ReviewTurn(chen, assignment).shows.form == FULL_FORM.first_look
    other = claim(dina)
    take_first_look(other)
    assert len(readable_reviews(dina, case)) == 3
    assert not readable_reviews(chen, case), "another adjudicator's first look reveals nothing"
    take_first_look(assignment)
    assert {review.role for review in readable_reviews(chen, case)} == {Role.PRIMARY, Role.SECONDARY}


def test_the_secondary_takes_a_first_look_before_the_blind_answer(ana: User, bo: User) -> None:
    case = first_look_case()
    claim_and_submit(ana, full_approval())
    assignment = claim(bo)
    assert ReviewTurn(bo, assignment).shows.blocks == FIRST_LOOK_BLOCKS
    take_first_look(assignment)
    assert not readable_reviews(bo, case), "the traps are revealed, but the primary's review is not"
    submit(assignment, full_approval())
    assignment.refresh_from_db()
    assert ReviewTurn(bo, assignment).is_revealed
    assert Role.PRIMARY in {review.role for review in readable_reviews(bo, case)}


def test_old_cases_without_the_setting_ask_for_no_first_look(ana: User) -> None:
    case = open_case()
    del case.spec["policy"]["reveal_first_look"]
    case.save(update_fields=["spec"])
    assignment = claim(ana)
    assert ReviewTurn(ana, assignment).is_revealed
    assert ReviewTurn(ana, assignment).shows.form == case.frozen.form


def test_concurrent_reveals_take_one_first_look(run_concurrently: RunConcurrently) -> None:
    ana = account("ana")
    cases_services.open_case(case_spec(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS))
    assignment = claim(ana)
    values = ["yes", "no", "yes", "no"]
    outcomes = run_concurrently([lambda value=value: take_first_look(assignment, natural=value) for value in values])  # type: ignore[misc]
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert len({outcome.pk for outcome in outcomes}) == 1
    assert Event.objects.filter(kind=Event.Kind.REVEALED).count() == 1


def test_the_api_returns_nothing_sealed_before_the_first_look(ana: User) -> None:
    first_look_case()
    client = Client()
    client.force_authenticate(ana)
    work = client.post(reverse("api:assignment-next"))
    assert not any(word in work.content.decode() for word in SEALED)
    body = work.json()
    assert body["revealed"] is False
    address = reverse("api:assignment", args=[body["id"]])
    assert not any(word in client.get(address).content.decode() for word in SEALED)
    sent = {"token": body["token"], "answers": {"questions": {"natural": {"value": "yes"}}}}
    early = client.post(reverse("api:assignment-submit", args=[body["id"]]), sent)
    assert (early.status_code, early.json()["type"]) == (409, "urn:mhb:not-revealed")
    assert not any(word in early.content.decode() for word in SEALED)
    empty = client.post(reverse("api:assignment-reveal", args=[body["id"]]), {"token": body["token"], "answers": {}})
    assert (empty.status_code, [p["field"] for p in empty.json()["problems"]]) == (422, ["question.natural"])
    revealed = client.post(reverse("api:assignment-reveal", args=[body["id"]]), sent).json()
    assert revealed["revealed"] is True
    assert all(word in str(revealed["case"]) for word in ("does not exist", "Gives no dose", "why it came back"))
    assert Assignment.objects.get().hold == Assignment.Hold.HELD


def test_a_draft_before_the_first_look_tells_nothing_of_the_rest(browse: Browse, ana: User) -> None:
    """Sources and added rubrics are filled in from the case, and unknown fields are named."""
    trap = TrapTerm("A1", "Invented drug", levels=("guideline",))
    one_trap = replace(FULL_FORM, rubrics=FULL_FORM.rubrics[:1], terms=(trap,))
    open_case(policy=FIRST_LOOK_POLICY, form=one_trap, first_look=FIRST_LOOK_BLOCKS)
    held, client = claim(ana), Client()
    client.force_authenticate(ana)
    fields = {"question.natural": "no", "question.false": "no", "citation.1.reference": "A book", "do": "add-rubric"}
    browse(ana).post(reverse("review:draft", args=[held.pk]), {"token": str(held.token), "revision": "0", **fields})
    answers = client.get(reverse("api:assignment", args=[held.pk])).json()["draft"]["answers"]
    assert answers_from_json(answers) == Answers({"natural": Answer("no")})
    guesses: list[dict[str, Any]] = [{"rubrics": {"R1": {}}}, {"rubrics": {"R9": {}}}, {"questions": {"x": {}}}]
    for revision, guessed in enumerate(guesses, 1):
        body = {"token": str(held.token), "answers": guessed, "revision": revision}
        assert client.put(reverse("api:assignment-draft", args=[held.pk]), body).status_code == 200
        assert client.post(reverse("api:assignment-submit", args=[held.pk]), body).status_code == 409
