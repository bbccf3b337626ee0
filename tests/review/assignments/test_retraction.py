"""A review is taken back while nobody has built on it, and then it is as if it had not been given."""

import uuid

import pytest
from django.db import DatabaseError, transaction
from django.urls import reverse

from review import errors
from review.access import visibility
from review.assignments import claims, eligibility
from review.assignments import queries as assignments_queries
from review.assignments import retraction as assignments_retraction
from review.assignments import services as assignments_services
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.models import Assignment, Case, Draft, Event, FirstLook, Retraction, Review, User
from review.people import queries as people_queries
from review.rules.permissions import UserRole
from review.rules.questions import Answers
from review.rules.state_machine import Phase, Policy, Role, State
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
    full_approval,
    full_rejection,
    inadequate_rubric,
    open_case,
    rejection,
    submit,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Hold = Assignment.Hold


def last(case: Case) -> Review:
    return Review.objects.filter(case=case).latest("id")


def undo(review: Review) -> Assignment:
    return assignments_retraction.retract(review.physician, review.pk)


def refused(review: Review) -> None:
    before = list(Assignment.objects.order_by("pk").values())
    with pytest.raises(errors.NotUndoable):
        undo(review)
    assert not Retraction.objects.filter(review=review).exists()
    assert list(Assignment.objects.order_by("pk").values()) == before


def test_a_primary_review_is_taken_back_and_given_again(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, rejection("Too soon."))
    first, old = last(case), Assignment.objects.get(physician=ana)
    assert eligibility.count_available(bo) == 1
    held = undo(first)
    case.refresh_from_db()
    assert (case.state, visibility.opinions(case)) == (State.PRIMARY, [])
    assert (held.pk, held.hold, held.phase) == (old.pk, Hold.HELD, Phase.COMMIT)
    assert held.token != old.token
    assert not Assignment.objects.filter(case=case, role=Role.SECONDARY).exists(), "what it opened is gone"
    draft = assignments_queries.draft_of(held, ana)
    assert draft is not None
    assert draft.answers["reason"] == "Too soon."
    assert not visibility.reviews_by(ana).exists()
    assert not visibility.reviews_shown_to(ana, case).exists()
    assert claim(ana).pk == held.pk, "it is in hand again"

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


def test_the_old_token_fences_nothing_any_more(ana: User) -> None:
    case = case_in_secondary(ana)
    old = Assignment.objects.get(physician=ana).token or uuid.UUID(int=0)
    held = undo(last(case))
    with pytest.raises(errors.AlreadySubmitted):
        assignments_services.submit(ana, held.pk, old, approval())
    submit(held, approval())


def test_what_is_typed_after_the_undo_is_kept_when_the_case_is_lost(ana: User, bo: User, clock: Clock) -> None:
    case = case_in_secondary(ana)
    held = undo(last(case))
    clock.advance(minutes=16)
    assert claim(bo).pk == held.pk
    token = held.token or uuid.UUID(int=0)
    with pytest.raises(errors.LeaseLost):
        assignments_services.save_draft(ana, held.pk, token, Answers(reason="typed since"), revision=1)
    assert Draft.objects.get(physician=ana).answers["reason"] == "typed since"
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(ana, held.pk, token, rejection("sent too late"))
    assert Draft.objects.get(physician=ana).answers["reason"] == "sent too late"


def test_the_draft_goes_on_from_the_review(ana: User) -> None:
    open_case()
    held = claim(ana)
    assignments_services.save_draft(ana, held.pk, held.token or uuid.UUID(int=0), Answers(reason="half"), revision=0)
    held = undo(submit(held, rejection("whole")))
    draft = Draft.objects.get()
    assert (draft.answers["reason"], draft.revision) == ("whole", 2)
    assignments_services.save_draft(ana, held.pk, held.token or uuid.UUID(int=0), Answers(reason="more"), revision=2)


def test_a_confirmation_that_opened_the_adjudication(ana: User, bo: User, chen: User) -> None:
    case = case_in_adjudication(ana, bo)
    held = undo(last(case))
    case.refresh_from_db()
    assert (case.state, held.phase, held.role) == (State.SECONDARY, Phase.CONFIRM, Role.SECONDARY)
    assert claims.claim_next(chen) is None
    assert visibility.reviews_shown_to(bo, case).filter(role=Role.PRIMARY).exists(), "what was seen stays seen"
    submit(held, approval(change_reason="The primary is right."))
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_a_vote_while_the_other_adjudicator_is_still_at_it(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    other = claim(dina)
    held = undo(last(case))
    assert (held.role, held.hold) == (Role.ADJUDICATOR_1, Hold.HELD)
    submit(other, rejection())
    assert not visibility.reviews_shown_to(chen, case).filter(physician=dina).exists(), "still sealed"
    submit(held, rejection())
    case.refresh_from_db()
    assert case.state == State.REJECTED


def test_a_second_vote_before_the_other_gives_the_own(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, rejection())
    held = undo(last(case))
    assert (held.phase, held.hold) == (Phase.DISCUSS, Hold.HELD)
    submit(held, approval())
    claim_and_submit(dina, approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_not_after_somebody_claimed_what_it_opened(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim(bo)
    refused(last(case))


def test_not_after_somebody_had_it_in_hand_and_gave_it_back(ana: User, bo: User, clock: Clock) -> None:
    case = case_in_secondary(ana)
    held = claim(bo)
    claims.release(bo, held.pk, held.token or uuid.UUID(int=0))
    refused(last(case))
    claim(bo)
    clock.advance(minutes=16)
    claims.expire_leases()
    refused(last(case))


def test_not_after_a_later_review(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    first = last(case)
    claim_and_submit(bo, rejection())
    refused(first)


def test_not_the_blind_answer_after_which_the_primarys_was_shown(ana: User, bo: User) -> None:
    """Else a secondary could look, take the 'blind' answer back and give another: agreement would mean nothing."""
    case = case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    refused(last(case))


def test_the_blind_answer_after_which_nothing_was_shown(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, rejection())
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION
    held = undo(last(case))
    assert not visibility.reviews_shown_to(bo, case).exists()
    submit(held, approval())
    case.refresh_from_db()
    assert case.state == State.APPROVED


def test_not_the_vote_that_opened_the_discussion(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    refused(last(case))


@pytest.mark.parametrize("answers", [approval(), inadequate_rubric()])
def test_not_what_closed_the_case(ana: User, bo: User, answers: Answers) -> None:
    case = case_in_secondary(ana, answers)
    claim_and_submit(bo, answers, answers)
    case.refresh_from_db()
    assert State(case.state).final
    refused(last(case))


def test_not_after_the_case_was_withdrawn(ana: User, adela: User) -> None:
    case = case_in_secondary(ana)
    cases_services.withdraw(case.pk, actor=adela, reason="Retracted.")
    refused(last(case))


def test_not_twice(ana: User) -> None:
    case = case_in_secondary(ana)
    undo(last(case))
    with pytest.raises(errors.NotYours):
        undo(last(case))
    assert Retraction.objects.count() == 1


def test_nobody_elses(ana: User, bo: User, adela: User) -> None:
    review = last(case_in_secondary(ana))
    with pytest.raises(errors.NotYours):
        assignments_retraction.retract(bo, review.pk)
    with pytest.raises(errors.NotYours):
        assignments_retraction.retract(bo, 10**6)
    with pytest.raises(errors.NotAllowed):
        assignments_retraction.retract(adela, review.pk)


def test_the_first_look_stays_taken(ana: User) -> None:
    case = open_case(policy=FIRST_LOOK_POLICY, form=FULL_FORM, first_look=FIRST_LOOK_BLOCKS)
    claim_and_submit(ana, full_rejection())
    held = undo(last(case))
    assert visibility.is_revealed(ana, held)
    assert FirstLook.objects.count() == 1
    submit(held, full_approval())


def test_lost_after_it_was_taken_back_it_is_anybodys(ana: User, bo: User, clock: Clock) -> None:
    case = case_in_secondary(ana, rejection())
    held = undo(last(case))
    clock.advance(minutes=16)
    assert claim(bo).pk == held.pk
    claim_and_submit(bo, approval())
    review = last(case)
    assert (review.physician, review.role, review.attempt) == (bo, Role.PRIMARY, 2)
    assert not visibility.reviews_shown_to(ana, case).exists()
    assert not visibility.reviews_shown_to(bo, case).filter(physician=ana).exists()


def test_a_retraction_is_written_once(ana: User) -> None:
    undo(last(case_in_secondary(ana)))
    retraction = Retraction.objects.get()
    with pytest.raises(DatabaseError), transaction.atomic():
        Retraction.objects.filter(pk=retraction.pk).update(review=retraction.review_id)
    with pytest.raises(DatabaseError), transaction.atomic():
        retraction.delete()


def test_it_counts_for_nobodys_figures(ana: User, adela: User) -> None:
    case = case_in_secondary(ana)
    undo(last(case))
    assert next(person for person in people_queries.people() if person == ana).done == 0  # type: ignore[attr-defined]
    assert not visibility.reviews_shown_to(adela, case).exists()
    with pytest.raises(errors.NotYours):
        visibility.own_review(ana, last(case).pk)


def test_taking_back_against_a_claim_of_what_it_opened(run_concurrently: RunConcurrently) -> None:
    """Either the secondary has it and the review stands, or it is taken back and there is nothing to claim."""
    ana, bo = account("ana"), account("bo")
    for number in range(8):
        case = open_case(number)
        claim_and_submit(ana, approval())
        review = last(case)
        undone, claimed = run_concurrently([lambda review=review: undo(review), lambda: claims.claim_next(bo)])  # type: ignore[misc]
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


def test_taken_back_twice_at_once_it_is_taken_back_once(run_concurrently: RunConcurrently) -> None:
    ana = account("ana")
    review = last(case_in_secondary(ana))
    outcomes = run_concurrently([lambda: undo(review)] * 4)
    done = [outcome for outcome in outcomes if isinstance(outcome, Assignment)]
    assert len(done) == 1, outcomes
    assert all(isinstance(outcome, errors.NotYours) for outcome in outcomes if outcome not in done), outcomes
    assert Event.objects.filter(kind=Event.Kind.RETRACTED).count() == 1


def test_over_the_api(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, rejection("Too soon."))
    client, other = Client(), Client()
    client.force_authenticate(ana)
    other.force_authenticate(bo)
    address = reverse("api:review-retract", args=[last(case).pk])
    assert other.post(address).status_code == 404
    work = client.post(address).json()
    assert (work["hold"], work["phase"], work["draft"]["answers"]["reason"]) == ("held", "commit", "Too soon.")
    assert client.get(reverse("api:review-mine")).json()["results"] == []
    sent = {"token": work["token"], "answers": work["draft"]["answers"]}
    assert client.post(reverse("api:assignment-submit", args=[work["id"]]), sent).status_code == 201
    claim(bo)
    late = client.post(reverse("api:review-retract", args=[last(case).pk]))
    assert (late.status_code, late.json()["type"]) == (409, "urn:mhb:not-undoable")
