"""Adjudicators reach consensus by signing one proposal word for word, on the page or by the API."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from review import errors
from review.access import visibility
from review.answers import signatures
from review.assignments import retraction, services
from review.audit import verification
from review.cases import queries
from review.models import Assignment, Audit, Case, Review, User
from review.rules.questions import AddedRubric, Answers, RubricAnswer
from review.rules.state_machine import Ground, Policy, State
from review.turns.turn import readable_reviews
from tests.review.factories import (
    FULL_FORM,
    case_in_secondary,
    claim,
    claim_and_submit,
    full_approval,
    full_rejection,
    turn_at,
)
from tests.review.pages import text_of

pytestmark = pytest.mark.django_db
SIGNED = Policy(settle_wording=True, signed_wording=True)
WORDING = "Says that the drug is invented."
ADDED = AddedRubric("Names where to look it up.", ("A1",), "death")


def corrected(**changes: Any) -> Answers:
    rubrics = dict(full_approval().rubrics) | {"R1": RubricAnswer("corrected", wording=WORDING, severity="death")}
    return full_approval(rubrics=rubrics, **changes)


@pytest.fixture
def discussed(ana: User, bo: User, chen: User, dina: User) -> Case:
    """Both adjudicators approve, one of them with a correction and a rubric of their own."""
    case = case_in_secondary(ana, full_approval(), policy=SIGNED, form=FULL_FORM)
    claim_and_submit(bo, full_rejection(), full_rejection())
    claim_and_submit(chen, full_approval())
    claim_and_submit(dina, corrected(added=(ADDED,)))
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION
    return case


def test_a_long_name_does_not_cut_the_username_off(ana: User) -> None:
    ana.first_name, ana.last_name = "A" * 150, "B" * 150
    signed = signatures.signing_name(ana)
    assert (len(signed), signed.endswith(" (ana)")) == (signatures.SIGNED_AS, True)


def review_of(physician: User, **fields: str) -> Review:
    return visibility.reviews_by(physician).filter(**fields).latest("pk")


def sign(assignment: Assignment, review: Review) -> Review:
    assert assignment.physician is not None
    assert assignment.token is not None
    return services.sign_proposal(turn_at(assignment.physician, assignment), assignment.token, review.pk)


def test_both_sign_one_proposal_on_the_page_and_by_the_api(
    discussed: Case, chen: User, dina: User, client: Client
) -> None:
    first = claim(chen)
    client.force_login(chen)
    page = text_of(client.get(reverse("review:case", args=[first.pk])))
    assert "Sign a proposal" in page
    assert WORDING in page
    assert "1 rubric differs" in page, "the one that is corrected in the other proposal"
    assert "2 rubrics differ" in page, "the corrected and the added one"
    assert "waits for your signature" not in page
    proposal = review_of(dina)
    client.post(reverse("review:submit", args=[first.pk]), {"token": str(first.token), "sign": str(proposal.pk)})
    signed = review_of(chen, phase="discuss")
    assert signed.answers["rubrics"]["R1"]["wording"] == WORDING
    assert signed.answers["rubrics"]["R1"]["severity"] == "mild", "the signer's own level of harm"
    assert [added["criterion"] for added in signed.answers["added"]] == [ADDED.criterion]
    second = claim(dina)
    client.force_login(dina)
    assert "waits for your signature" in text_of(client.get(reverse("review:case", args=[second.pk])))
    shown = client.get(reverse("api:assignment", args=[second.pk])).json()["reviews"]
    assert signed.pk in {review["review"] for review in shown}
    body = {"token": str(second.token), "review": signed.pk}
    answer = client.post(reverse("api:assignment-sign", args=[second.pk]), body, content_type="application/json")
    assert (answer.status_code, answer.json()["meaning"]) == (201, "adjudication")
    discussed.refresh_from_db()
    assert (discussed.state, discussed.ground) == (State.APPROVED, Ground.ADJUDICATED)
    settled = queries.settled_case(discussed).rubrics
    assert next(rubric.criterion for rubric in settled if not rubric.removed) == WORDING
    assert settled[-1].criterion == ADDED.criterion
    assert not list(verification.check(Audit()))


def test_two_who_sign_different_proposals_leave_the_sample_undecided(discussed: Case, chen: User, dina: User) -> None:
    first, second = claim(chen), claim(dina)
    sign(first, review_of(chen))
    sign(second, review_of(dina))
    discussed.refresh_from_db()
    assert (discussed.state, discussed.ground) == (State.REJECTED, Ground.UNDECIDED)


def test_a_second_vote_is_a_proposal_that_cannot_be_taken_back(discussed: Case, chen: User, dina: User) -> None:
    first = claim(chen)
    assert not any(one.phase == "discuss" for one in readable_reviews(dina, discussed))
    vote = sign(first, review_of(chen))
    assert vote in readable_reviews(dina, discussed)
    with pytest.raises(errors.NotUndoable):
        retraction.retract(chen, vote.pk)


def test_only_what_an_adjudicator_reads_can_be_signed_and_only_in_the_second_vote(
    ana: User, bo: User, chen: User, discussed: Case
) -> None:
    mine = claim(chen)
    other = case_in_secondary(ana, full_approval(), number=2, policy=SIGNED, form=FULL_FORM)
    with pytest.raises(errors.NotAProposal):
        sign(mine, visibility.counted_reviews().get(case=other))
    secondary = claim(bo)
    with pytest.raises(errors.NotAProposal):
        sign(secondary, visibility.counted_reviews().get(case=other))
