"""A submitted review is replaced while its case goes on, until somebody may have read it."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from review import errors
from review.access import visibility
from review.answers import signatures
from review.assignments import correction, retraction
from review.assignments import services as assignments_services
from review.cases import services as cases_services
from review.models import Assignment, Case, Event, Retraction, Review, User
from review.rules.questions import Answer, Answers
from review.rules.state_machine import Phase, Policy, Role, State
from review.turns.turn import readable_reviews
from tests.api.conftest import Client
from tests.conftest import RunConcurrently
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    full_rejection,
    inadequate_rubric,
    open_case,
    rejection,
    replayed,
    submit,
    take_first_look,
    turn_at,
)
from tests.review.pages import Browse, posted_fields

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Hold = Assignment.Hold
WHY = "I misread the dose."


def review_of(physician: User) -> Review:
    return visibility.reviews_by(physician).latest("id")


def correct(physician: User, answers: Answers, reason: str = WHY) -> Review:
    return correction.correct(physician, review_of(physician).pk, answers, reason=reason)


def course(case: Case) -> tuple[Any, ...]:
    """All of a case that a correction must leave alone."""
    case.refresh_from_db()
    rows = Assignment.objects.filter(case=case).order_by("pk").values()
    return case.state, case.ground, case.closed_at, list(rows)


def assert_not_correctable(physician: User) -> None:
    review = review_of(physician)
    before = course(review.case)
    with pytest.raises(errors.NotCorrectable):
        correct(physician, approval())
    assert course(review.case) == before
    assert not Retraction.objects.filter(review=review).exists()


@pytest.mark.parametrize("answers", [approval(), rejection(), inadequate_rubric()])
@pytest.mark.parametrize("corrected", [approval(), rejection("Wrong dose."), inadequate_rubric()])
def test_a_first_review_is_replaced_while_the_second_reviewer_works(
    ana: User, bo: User, answers: Answers, corrected: Answers
) -> None:
    case = case_in_secondary(ana, answers)
    held = claim(bo)
    first, before = review_of(ana), course(case)
    second = correct(ana, corrected)
    assert course(case) == before, "the case goes on as it was"
    assert (second.attempt, second.verdict) == (2, corrected.verdict)
    assert visibility.reviews_by(ana).get() == second
    assert Review.objects.filter(pk=first.pk).exists(), "the audit trail keeps both"
    retracted, submitted = Event.objects.filter(case=case).order_by("-id")[:2][::-1]
    assert (retracted.kind, retracted.data["review"], retracted.data["reason"]) == ("retracted", first.pk, WHY)
    assert retracted.data["corrected"] is True
    assert (submitted.kind, submitted.data["review"]) == ("submitted", second.pk)
    call_command("verify_audit")

    submit(held, approval())
    assert [review for review in readable_reviews(bo, case) if review.role == Role.PRIMARY] == [second]


def test_the_case_is_decided_by_the_corrected_answers(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, rejection("Too soon."))
    held = claim(bo)
    correct(ana, approval())
    submit(held, approval())
    submit(claim(bo), approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_a_correction_may_follow_another(ana: User) -> None:
    case_in_secondary(ana)
    assert [correct(ana, answers).attempt for answers in (rejection(), approval())] == [2, 3]


def test_no_review_is_replaced_once_it_may_have_been_read_or_decided(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    assert_not_correctable(ana)  # the secondary reads it
    assert_not_correctable(bo)  # the secondary has read the other's
    submit(claim(bo), rejection())
    assert_not_correctable(bo)  # it has led to the adjudication


def test_a_secondary_without_confirmation_learns_nothing_by_correcting(ana: User, bo: User) -> None:
    """Whether a correction is possible must not tell what the first reviewer decided."""
    case_in_secondary(ana, policy=Policy(secondary_confirms=False, adjudicators_blind=True))
    claim_and_submit(bo, rejection())
    assert_not_correctable(bo)


def test_a_vote_is_replaced_until_both_have_voted(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    other = claim(dina)
    before = course(case)
    correct(chen, rejection())
    assert course(case) == before
    assert chen not in {review.physician for review in readable_reviews(dina, case)}, "the vote is still sealed"
    submit(other, approval())
    for adjudicator in (chen, dina):
        assert_not_correctable(adjudicator)


@pytest.mark.parametrize("is_signed", [False, True])
def test_a_second_vote_is_replaced_unless_the_other_reads_it(
    ana: User, bo: User, chen: User, dina: User, is_signed: bool
) -> None:
    case = case_in_adjudication(ana, bo, policy=Policy(settle_wording=True, signed_wording=is_signed))
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, approval())
    if is_signed:
        assert_not_correctable(chen)
        return
    before = course(case)
    correct(chen, rejection())
    assert course(case) == before
    submit(claim(dina), rejection())
    case.refresh_from_db()
    assert case.state == State.REJECTED


def test_a_vote_is_replaced_in_the_phase_in_which_its_role_is_by_now(
    monkeypatch: pytest.MonkeyPatch, ana: User, bo: User, chen: User, dina: User, adela: User
) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    role = review_of(dina).role

    def reopen_meanwhile(*_: object) -> None:
        retraction.reopen_role(case.pk, Role(role), actor=adela, reason="Away.")

    monkeypatch.setattr(signatures, "check_password", reopen_meanwhile)
    corrected = correct(chen, rejection())
    assert corrected.phase == corrected.assignment.phase == Phase.COMMIT
    replayed(case)  # which raises OutOfTurn


def test_no_review_of_a_case_that_has_ended_is_replaced(ana: User, bo: User, adela: User) -> None:
    withdrawn = case_in_secondary(ana)
    cases_services.withdraw(withdrawn.pk, actor=adela, reason="Retracted.")
    assert_not_correctable(ana)
    case_in_secondary(ana, number=2)
    claim_and_submit(bo, approval(), approval())
    assert_not_correctable(ana)
    assert_not_correctable(bo)


def test_only_the_author_corrects_and_says_why(ana: User, bo: User, adela: User) -> None:
    review = review_of(case_in_secondary(ana).reviews.get().physician)
    refusals: list[tuple[User, Answers, str, type[Exception]]] = [
        (bo, approval(), WHY, errors.NotAssigned),
        (adela, approval(), WHY, errors.NotAllowed),
        (ana, approval(), "  ", errors.EmptyText),
        (ana, approval(), "x" * 10_000, errors.TooLong),
        (ana, Answers(), WHY, errors.Incomplete),
    ]
    for physician, answers, reason, refusal in refusals:
        with pytest.raises(refusal):
            correction.correct(physician, review.pk, answers, reason=reason)
    assert visibility.reviews_by(ana).get() == review


def test_the_first_look_stands(ana: User) -> None:
    case = open_case(policy=FIRST_LOOK_POLICY, form=FULL_FORM, first_look=FIRST_LOOK_BLOCKS)
    take_first_look(assignment := claim(ana), natural="no")
    submit(assignment, full_rejection())
    corrected = correct(
        ana, full_rejection(reason="Stiff.", questions={"natural": Answer("yes"), "false": Answer("yes")})
    )
    assert (corrected.answers["questions"]["natural"]["value"], corrected.answers["reason"]) == ("no", "Stiff.")
    case.refresh_from_db()
    assert case.state == State.SECONDARY


def test_a_review_is_corrected_on_its_page(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana, rejection("Too soon."))
    claim(bo)
    review = review_of(ana)
    page, address = browse(ana), reverse("review:correct", args=[review.pk])
    assert address in page.get(reverse("review:mine-detail", args=[review.pk])).content.decode()
    shown = page.get(address).content.decode()
    assert "Too soon." in shown
    for name in ("verdict", "reason", "rubric.R1", "rubric.R1.wording", "rubric.R1.note", "rubric.R2"):
        assert f'name="{name}"' in shown
    assert browse(bo).get(address).status_code == 404

    sent = posted_fields(rejection("Wrong dose."))
    refused = page.post(address, sent)
    assert refused.status_code == 422
    assert "Wrong dose." in refused.content.decode(), "nothing typed is lost"
    shown_again = page.post(address, {**sent, "correction": WHY, "do": "rest-adequate"})
    assert (shown_again.status_code, WHY in shown_again.content.decode()) == (200, True)
    assert review_of(ana) == review

    accepted = page.post(address, {**sent, "correction": WHY})
    corrected = review_of(ana)
    assert accepted.headers["Location"] == reverse("review:mine-detail", args=[corrected.pk])
    assert (corrected.attempt, corrected.answers["reason"]) == (2, "Wrong dose.")
    assert page.post(address, {**sent, "correction": WHY}).status_code == 404, "sent twice, corrected once"


def test_a_correction_that_comes_too_late_keeps_what_was_typed(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    review = review_of(ana)
    claim_and_submit(bo, approval())
    address = reverse("review:correct", args=[review.pk])
    late = browse(ana).post(address, {"verdict": "reject", "reason": "Wrong dose.", "correction": WHY})
    assert late.status_code == 409
    assert "Wrong dose." in late.content.decode()
    assert browse(ana).get(address).status_code == 409
    assert address not in browse(ana).get(reverse("review:mine-detail", args=[review.pk])).content.decode()


def test_a_review_is_corrected_over_the_api(ana: User) -> None:
    case_in_secondary(ana, rejection("Too soon."))
    client = Client()
    client.force_authenticate(ana)
    review = review_of(ana)
    address = reverse("api:review-correct", args=[review.pk])
    answers = {**review.answers, "reason": "Wrong dose."}
    assert client.post(address, {"answers": answers, "reason": ""}).status_code == 400
    assert client.post(address, {"answers": {}, "reason": WHY}).status_code == 422
    assert client.post(address, {"answers": answers, "reason": WHY}).status_code == 201
    assert review_of(ana).answers["reason"] == "Wrong dose."


def correct_or_refuse(physician: User, review: Review) -> Callable[[], Review]:
    return lambda: correction.correct(physician, review.pk, rejection("Wrong dose."), reason=WHY)


def test_a_correction_races_the_answer_that_may_read_it(run_concurrently: RunConcurrently) -> None:
    """Either the second reviewer compares with the corrected answers, or the review stands."""
    ana, bo = account("ana"), account("bo")
    for number in range(6):
        case = case_in_secondary(ana, number=number)
        review, held = review_of(ana), claim(bo)
        token = held.token or uuid.UUID(int=0)
        corrected, answered = run_concurrently(
            [
                correct_or_refuse(ana, review),
                lambda held=held, token=token: assignments_services.submit(turn_at(bo, held), token, approval()),  # type: ignore[misc]
            ]
        )
        assert isinstance(answered, Review), answered
        [shown] = [review for review in readable_reviews(bo, case) if review.role == Role.PRIMARY]
        if isinstance(corrected, Review):
            assert corrected.pk < answered.pk, "it was there before the answer that reads it"
            assert shown == corrected
        else:
            assert isinstance(corrected, errors.NotCorrectable), corrected
            assert shown == review
        submit(claim(bo), approval())  # ends the case or leads it to an adjudication: it is out of the way


def test_concurrent_corrections_correct_once(run_concurrently: RunConcurrently) -> None:
    ana = account("ana")
    case = case_in_secondary(ana)
    outcomes = run_concurrently([correct_or_refuse(ana, review_of(ana))] * 4)
    assert len([outcome for outcome in outcomes if isinstance(outcome, Review)]) == 1, outcomes
    refused = [outcome for outcome in outcomes if not isinstance(outcome, Review)]
    assert all(isinstance(outcome, errors.NotAssigned) for outcome in refused), outcomes
    assert Event.objects.filter(case=case, kind=Event.Kind.RETRACTED).count() == 1
