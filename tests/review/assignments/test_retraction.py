"""A review can be retracted until somebody builds on it, and then counts as never submitted."""

import uuid

import pytest
from django.db import DatabaseError, transaction
from django.urls import reverse

from review import errors
from review.access import visibility
from review.assignments import claims, queries
from review.assignments import retraction as assignments_retraction
from review.assignments import services as assignments_services
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.models import Assignment, Case, Draft, Event, FirstLook, Retraction, Review, User
from review.people import queries as people_queries
from review.rules.permissions import UserRole
from review.rules.questions import Answers
from review.rules.state_machine import Phase, Policy, Role, State
from review.turns.turn import ReviewTurn, counted_reviews, readable_reviews
from tests.api.conftest import Client
from tests.conftest import Clock, RunConcurrently
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
    count_available,
    full_approval,
    full_rejection,
    inadequate_rubric,
    open_case,
    rejection,
    submit,
    turn_at,
)
from tests.review.pages import Browse

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Hold = Assignment.Hold


def last_review(case: Case) -> Review:
    return Review.objects.filter(case=case).latest("id")


def retract(review: Review) -> Assignment:
    return assignments_retraction.retract(review.physician, review.pk)


def assert_not_undoable(review: Review) -> None:
    before = list(Assignment.objects.order_by("pk").values())
    with pytest.raises(errors.NotUndoable):
        retract(review)
    assert not Retraction.objects.filter(review=review).exists()
    assert list(Assignment.objects.order_by("pk").values()) == before


def test_a_primary_review_is_retracted_and_submitted_again(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, rejection("Too soon."))
    first, old = last_review(case), Assignment.objects.get(physician=ana)
    assert count_available(bo) == 1
    assignment = retract(first)
    case.refresh_from_db()
    assert case.state == State.PRIMARY
    assert not counted_reviews().filter(case=case).exists()
    assert (assignment.pk, assignment.hold, assignment.phase) == (old.pk, Hold.HELD, Phase.COMMIT)
    assert assignment.token != old.token
    assert not Assignment.objects.filter(case=case, role=Role.SECONDARY).exists(), "the role that it opened is gone"
    draft = ReviewTurn(ana, assignment).draft
    assert draft is not None
    assert draft.answers["reason"] == "Too soon."
    assert not visibility.reviews_by(ana).exists()
    assert not readable_reviews(ana, case)
    assert claim(ana).pk == assignment.pk, "the physician holds it again"

    again = submit(claim(ana), approval())
    assert (first.attempt, again.attempt) == (1, 2)
    case.refresh_from_db()
    assert case.state == State.SECONDARY
    claim_and_submit(bo, approval(), approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED
    assert cases_queries.settled_case(case).reasons == ()
    assert [event.kind for event in cases_queries.trail(case)] == [
        "opened",
        "claimed",
        "submitted",
        "moved",
        "retracted",
        "moved",
        "submitted",
        "moved",
        "claimed",
        "submitted",
        "submitted",
        "closed",
    ]


def test_the_old_token_is_refused_after_a_retraction(ana: User) -> None:
    case = case_in_secondary(ana)
    old = Assignment.objects.get(physician=ana).token or uuid.UUID(int=0)
    assignment = retract(last_review(case))
    with pytest.raises(errors.AlreadySubmitted):
        assignments_services.submit(turn_at(ana, assignment), old, approval())
    submit(assignment, approval())


def test_text_typed_after_a_retraction_is_kept_when_the_lease_is_lost(ana: User, bo: User, clock: Clock) -> None:
    case = case_in_secondary(ana)
    assignment = retract(last_review(case))
    clock.advance(minutes=16)
    assert claim(bo).pk == assignment.pk
    token = assignment.token or uuid.UUID(int=0)
    with pytest.raises(errors.LeaseLost):
        assignments_services.save_draft(turn_at(ana, assignment), token, Answers(reason="typed since"), revision=1)
    assert Draft.objects.get(physician=ana).answers["reason"] == "typed since"
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, assignment), token, rejection("sent too late"))
    assert Draft.objects.get(physician=ana).answers["reason"] == "sent too late"


def test_the_draft_continues_from_the_retracted_review(ana: User) -> None:
    open_case()
    assignment = claim(ana)
    assignments_services.save_draft(
        turn_at(ana, assignment), assignment.token or uuid.UUID(int=0), Answers(reason="half"), revision=0
    )
    assignment = retract(submit(assignment, rejection("whole")))
    draft = Draft.objects.get()
    assert (draft.answers["reason"], draft.revision) == ("whole", 2)
    assignments_services.save_draft(
        turn_at(ana, assignment), assignment.token or uuid.UUID(int=0), Answers(reason="more"), revision=2
    )


def test_a_confirmation_that_opened_the_adjudication_is_undoable(ana: User, bo: User, chen: User) -> None:
    case = case_in_adjudication(ana, bo)
    assignment = retract(last_review(case))
    case.refresh_from_db()
    assert (case.state, assignment.phase, assignment.role) == (State.SECONDARY, Phase.CONFIRM, Role.SECONDARY)
    assert claims.claim_next(chen) is None
    assert Role.PRIMARY in {review.role for review in readable_reviews(bo, case)}, (
        "what the secondary has seen stays visible"
    )
    submit(assignment, approval(change_reason="The primary is right."))
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_a_vote_is_undoable_while_the_other_adjudicator_still_works(
    ana: User, bo: User, chen: User, dina: User
) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    other = claim(dina)
    assignment = retract(last_review(case))
    assert (assignment.role, assignment.hold) == (Role.ADJUDICATOR_1, Hold.HELD)
    submit(other, rejection())
    assert dina not in {review.physician for review in readable_reviews(chen, case)}, "the vote is still sealed"
    submit(assignment, rejection())
    case.refresh_from_db()
    assert case.state == State.REJECTED


def test_a_second_vote_is_undoable_before_the_other_adjudicators(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, rejection())
    assignment = retract(last_review(case))
    assert (assignment.phase, assignment.hold) == (Phase.DISCUSS, Hold.HELD)
    submit(assignment, approval())
    claim_and_submit(dina, approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_a_review_is_not_undoable_once_the_role_it_opened_was_claimed(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim(bo)
    assert_not_undoable(last_review(case))


def test_a_review_is_not_undoable_after_the_next_role_was_claimed_and_released(
    ana: User, bo: User, clock: Clock
) -> None:
    case = case_in_secondary(ana)
    assignment = claim(bo)
    claims.release(bo, assignment.pk, assignment.token or uuid.UUID(int=0))
    assert_not_undoable(last_review(case))
    claim(bo)
    clock.advance(minutes=16)
    claims.expire_leases()
    assert_not_undoable(last_review(case))


def test_neither_review_is_undoable_once_the_secondary_was_shown_the_primarys(ana: User, bo: User) -> None:
    """Otherwise a secondary could read the primary's review and then change the 'blind' answer."""
    case = case_in_secondary(ana)
    first = last_review(case)
    claim_and_submit(bo, rejection())
    for review in (first, last_review(case)):
        assert_not_undoable(review)


def test_a_blind_answer_is_undoable_if_nothing_was_shown_after_it(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, rejection())
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION
    assignment = retract(last_review(case))
    assert not readable_reviews(bo, case)
    submit(assignment, approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_the_vote_that_opened_the_discussion_is_not_undoable(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    assert_not_undoable(last_review(case))


@pytest.mark.parametrize("answers", [approval(), inadequate_rubric()])
def test_the_review_that_closed_the_case_is_not_undoable(ana: User, bo: User, answers: Answers) -> None:
    case = case_in_secondary(ana, answers)
    claim_and_submit(bo, answers, answers)
    case.refresh_from_db()
    assert State(case.state).final
    assert_not_undoable(last_review(case))


def test_a_review_of_a_withdrawn_case_is_not_undoable(ana: User, adela: User) -> None:
    case = case_in_secondary(ana)
    cases_services.withdraw(case.pk, actor=adela, reason="Retracted.")
    assert_not_undoable(last_review(case))


def test_a_review_is_retracted_only_once(ana: User) -> None:
    case = case_in_secondary(ana)
    retract(last_review(case))
    with pytest.raises(errors.NotAssigned):
        retract(last_review(case))
    assert Retraction.objects.count() == 1


def test_only_the_author_can_retract_a_review(ana: User, bo: User, adela: User) -> None:
    review = last_review(case_in_secondary(ana))
    with pytest.raises(errors.NotAssigned):
        assignments_retraction.retract(bo, review.pk)
    with pytest.raises(errors.NotAssigned):
        assignments_retraction.retract(bo, 10**6)
    with pytest.raises(errors.NotAllowed):
        assignments_retraction.retract(adela, review.pk)


def test_a_retraction_keeps_the_first_look(ana: User) -> None:
    case = open_case(policy=FIRST_LOOK_POLICY, form=FULL_FORM, first_look=FIRST_LOOK_BLOCKS)
    claim_and_submit(ana, full_rejection())
    assignment = retract(last_review(case))
    assert ReviewTurn(ana, assignment).is_revealed
    assert FirstLook.objects.count() == 1
    submit(assignment, full_approval())


def test_a_retracted_case_whose_lease_is_lost_is_open_to_anybody(ana: User, bo: User, clock: Clock) -> None:
    case = case_in_secondary(ana, rejection())
    assignment = retract(last_review(case))
    clock.advance(minutes=16)
    assert claim(bo).pk == assignment.pk
    claim_and_submit(bo, approval())
    review = last_review(case)
    assert (review.physician, review.role, review.attempt) == (bo, Role.PRIMARY, 2)
    assert not readable_reviews(ana, case)
    assert ana not in {review.physician for review in readable_reviews(bo, case)}


def test_a_retraction_cannot_be_changed_or_deleted(ana: User) -> None:
    retract(last_review(case_in_secondary(ana)))
    retraction = Retraction.objects.get()
    with pytest.raises(DatabaseError), transaction.atomic():
        Retraction.objects.filter(pk=retraction.pk).update(review=retraction.review_id)
    with pytest.raises(DatabaseError), transaction.atomic():
        retraction.delete()


def test_a_retracted_review_is_left_out_of_all_figures(ana: User, adela: User) -> None:
    case = case_in_secondary(ana)
    retract(last_review(case))
    assert next(person for person in people_queries.people() if person == ana).done == 0  # type: ignore[attr-defined]
    assert not readable_reviews(adela, case)
    with pytest.raises(errors.NotAssigned):
        visibility.own_review(ana, last_review(case).pk)


def test_a_retraction_races_a_claim_of_the_role_it_opened(run_concurrently: RunConcurrently) -> None:
    """Either the secondary gets the case and the review counts, or nothing is left to claim."""
    ana, bo = account("ana"), account("bo")
    for number in range(8):
        case = open_case(number)
        claim_and_submit(ana, approval())
        review = last_review(case)
        undone, claimed = run_concurrently([lambda review=review: retract(review), lambda: claims.claim_next(bo)])  # type: ignore[misc]
        case.refresh_from_db()
        if isinstance(undone, errors.NotUndoable):
            assert claimed is not None
            assert (claimed.case_id, case.state) == (case.pk, State.SECONDARY)
        else:
            assert not isinstance(undone, Exception), undone
            assert case.state == State.PRIMARY
            assert claimed is None
            assert not Assignment.objects.filter(case=case, role=Role.SECONDARY).exists()
        cases_services.withdraw(
            case.pk, actor=User.objects.filter(role="admin").first() or account("adela", UserRole.ADMIN), reason="x"
        )


def test_concurrent_retractions_retract_once(run_concurrently: RunConcurrently) -> None:
    ana = account("ana")
    review = last_review(case_in_secondary(ana))
    outcomes = run_concurrently([lambda: retract(review)] * 4)
    retractions = [outcome for outcome in outcomes if isinstance(outcome, Assignment)]
    assert len(retractions) == 1, outcomes
    assert all(isinstance(outcome, errors.NotAssigned) for outcome in outcomes if outcome not in retractions), outcomes
    assert Event.objects.filter(kind=Event.Kind.RETRACTED).count() == 1


def test_a_review_is_retracted_over_the_api(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, rejection("Too soon."))
    client, other = Client(), Client()
    client.force_authenticate(ana)
    other.force_authenticate(bo)
    address = reverse("api:review-retract", args=[last_review(case).pk])
    assert other.post(address).status_code == 404
    work = client.post(address).json()
    assert (work["hold"], work["phase"], work["draft"]["answers"]["reason"]) == ("held", "commit", "Too soon.")
    assert client.get(reverse("api:review-mine")).json()["results"] == []
    sent = {"token": work["token"], "answers": work["draft"]["answers"]}
    assert client.post(reverse("api:assignment-submit", args=[work["id"]]), sent).status_code == 201
    claim(bo)
    late = client.post(reverse("api:review-retract", args=[last_review(case).pk]))
    assert (late.status_code, late.json()["type"]) == (409, "urn:mhb:not-undoable")


def test_an_earlier_review_is_corrected_from_its_page_with_a_reason(browse: Browse, ana: User) -> None:
    open_case(1)
    open_case(2)
    first, second = (claim_and_submit(ana, approval()) for _case in range(2))
    review = Review.objects.get(assignment=first)
    page = browse(ana).get(reverse("review:mine-detail", args=[review.pk])).content.decode()
    assert "Correct review" in page
    assert reverse("review:decline", args=[first.pk]) in page, "reporting is a click away"
    browse(ana).post(reverse("review:retract", args=[review.pk]), {"reason": "I misread the dose."})
    event = Event.objects.get(kind=Event.Kind.RETRACTED)
    assert (event.case_id, event.data["reason"]) == (first.case_id, "I misread the dose.")
    assert Assignment.objects.get(pk=first.pk).hold == Assignment.Hold.HELD
    listed = browse(ana).get(reverse("review:mine"), {"verdict": "approve", "order": "oldest"}).content.decode()
    assert second.case.title in listed
    assert first.case.title not in listed, "a retracted review is none"
    assert second.case.title not in browse(ana).get(reverse("review:mine"), {"verdict": "reject"}).content.decode()


def test_a_review_that_another_window_has_retracted_is_not_offered(ana: User) -> None:
    case_in_secondary(ana)
    review = Review.objects.get()
    assert queries.is_retractable(review)
    retract(review)
    assert not queries.is_retractable(review)
