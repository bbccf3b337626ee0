"""Nobody reads a review too early: checked for every viewer at every stage of a case."""

import re
import uuid
from collections.abc import Iterable
from contextlib import suppress

import pytest
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from rest_framework.test import APIClient

from review import errors
from review.access import visibility
from review.assignments import claims, first_look, queries, retraction
from review.assignments import correction as assignments_correction
from review.assignments import services as assignments_services
from review.cases import services as cases_services
from review.models import Assignment, Case, Draft, FirstLook, Retraction, Review, Rewording, User
from review.people import accounts
from review.rewordings import queries as rewordings_queries
from review.rewordings import services as rewordings_services
from review.rules.permissions import UserRole
from review.rules.questions import Answers
from review.rules.state_machine import Phase, Policy, Role, State
from review.turns.turn import ReviewTurn, readable_reviews, turn_of
from tests.conftest import Clock
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
    correction,
    open_case,
    rejection,
    submit,
    turn_at,
)
from tests.review.pages import Browse

UNSENT = "typed and not submitted by "


class Stored:
    """Everything stored about a case that decides who may read what."""

    def __init__(self, case: Case) -> None:
        self.case, self.policy = case, case.frozen.policy
        retracted = set(Retraction.objects.values_list("review", flat=True))
        self.reviews = [review for review in Review.objects.filter(case=case) if review.pk not in retracted]
        self.roles = dict(Assignment.objects.filter(case=case).values_list("physician", "role"))
        self.looked = set(FirstLook.objects.filter(assignment__case=case).values_list("physician", flat=True))


def may_read(viewer: User, review: Review, stored: Stored) -> bool:
    """The rule in terms of the workflow, independent of the query; `review` is not retracted."""
    reviews = stored.reviews
    own_turns = {(own.role, own.phase) for own in reviews if own.physician_id == viewer.pk}
    if viewer.role == "admin" or review.physician_id == viewer.pk:
        return True
    role = stored.roles.get(viewer.pk)
    if State(stored.case.state).final:
        return bool(own_turns)
    if stored.policy.reveal_first_look and viewer.pk not in stored.looked:
        return False
    if role == Role.SECONDARY:
        committed = stored.policy.secondary_confirms and (Role.SECONDARY, Phase.COMMIT) in own_turns
        return committed and review.role == Role.PRIMARY
    if role in (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2):
        votes = [vote for vote in reviews if vote.role in (Role.ADJUDICATOR_1, Role.ADJUDICATOR_2)]
        both_voted = len([vote for vote in votes if vote.phase == Phase.COMMIT]) == 2
        if review.role in (Role.PRIMARY, Role.SECONDARY):
            return both_voted or not stored.policy.adjudicators_blind
        return both_voted and review.phase == Phase.COMMIT
    return False


def authors(reviews: Iterable[Review]) -> set[User]:
    return {review.physician for review in reviews}


def check_every_viewer(everybody: list[User], case: Case) -> None:
    """Save a draft for every holder, then assert that all are shown exactly what they may read."""
    case.refresh_from_db()
    assignments = list(Assignment.objects.filter(case=case, hold=Assignment.Hold.HELD).select_related("physician"))
    for assignment in assignments:
        assert assignment.physician is not None
        assert assignment.token is not None
        turn = turn_at(assignment.physician, assignment)
        assignments_services.save_draft(
            turn,
            assignment.token,
            Answers(reason=UNSENT + assignment.physician.username),
            revision=turn.draft.revision if turn.draft else 0,
        )
    stored = Stored(case)
    for viewer in everybody:
        shown = set(readable_reviews(viewer, case))
        assert shown == {review for review in stored.reviews if may_read(viewer, review, stored)}
        assert not any(UNSENT in str(review.answers) for review in shown)
        for assignment in assignments:
            if assignment.physician != viewer:
                assert ReviewTurn(viewer, assignment).draft is None
                with pytest.raises(errors.NotAssigned):
                    turn_of(viewer, assignment.pk)


def check_correction(everybody: list[User], review: Review, answers: Answers) -> None:
    """Correct a review if possible: nobody whose turn it is has read it, and the case stays."""
    case = Case.objects.get(pk=review.case_id)
    holders = Assignment.objects.filter(case=case, hold=Assignment.Hold.HELD).values_list("physician", flat=True)
    others = [viewer for viewer in everybody if viewer.pk in holders and viewer != review.physician]
    seen = [other for other in others if review in readable_reviews(other, case)]
    with suppress(errors.NotCorrectable):
        assignments_correction.correct(review.physician, review.pk, answers, reason="I misread it.")
        assert not seen
        assert Case.objects.get(pk=case.pk).state == case.state


@examples(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policy=st.builds(
        Policy,
        secondary=st.booleans(),
        secondary_confirms=st.booleans(),
        discussion=st.booleans(),
        reveal_first_look=st.booleans(),
        adjudicators_blind=st.booleans(),
    ),
    turns=st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["take", "look", "submit", "take back", "correct"]), st.booleans()
        ),
        max_size=24,
    ),
    withdrawn=st.booleans(),
)
def test_every_viewer_is_shown_what_they_may_read_at_every_stage(
    adela: User,
    rui: User,
    physicians: list[User],
    policy: Policy,
    turns: list[tuple[int, str, bool]],
    withdrawn: bool,
) -> None:
    everybody = [adela, rui, *physicians]
    with transaction.atomic():
        case = open_case(policy=policy)
        check_every_viewer(everybody, case)
        for number, action, approves in turns:
            physician = physicians[number]
            own_review = visibility.reviews_by(physician).first()
            if action == "take back" and own_review is not None:
                with suppress(errors.NotUndoable):
                    retraction.retract(physician, own_review.pk)
                check_every_viewer(everybody, case)
                continue
            if action == "correct" and own_review is not None:
                check_correction(everybody, own_review, approval() if approves else rejection())
                check_every_viewer(everybody, case)
                continue
            assignment = claims.claim_next(physician)
            if assignment is not None and action in ("look", "submit"):
                if not ReviewTurn(physician, assignment).is_revealed:
                    first_look.reveal(turn_at(physician, assignment), assignment.token or uuid.uuid4(), Answers())
                    check_every_viewer(everybody, case)
                if action == "submit":
                    answers = approval if approves else rejection
                    submit(assignment, answers(change_reason="I see it now."))
            check_every_viewer(everybody, case)
        if withdrawn and not State(case.state).final:
            cases_services.withdraw(case.pk, actor=adela, reason="Retracted.")
            check_every_viewer(everybody, case)
        transaction.set_rollback(True)


def test_every_viewer_along_the_longest_way(adela: User, rui: User, physicians: list[User]) -> None:
    """Makes sure that the late stages are among those checked."""
    ana, bo, chen, dina, *_ = physicians
    everybody = [adela, rui, *physicians]
    case = case_in_adjudication(ana, bo)
    for physician, answers in ((chen, approval()), (dina, rejection()), (dina, approval()), (chen, approval())):
        claim(physician)
        check_every_viewer(everybody, case)
        claim_and_submit(physician, answers)
        check_every_viewer(everybody, case)
    assert case.state == State.APPROVED


def test_the_secondary_is_blind_until_it_commits(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim(bo)
    assert not readable_reviews(bo, case)
    claim_and_submit(bo, rejection())
    assert [review.role for review in readable_reviews(bo, case)] == [Role.PRIMARY, Role.SECONDARY]
    assert [review.role for review in readable_reviews(ana, case)] == [Role.PRIMARY]


def test_adjudicators_are_sealed_from_each_other_until_both_have_voted(
    ana: User, bo: User, chen: User, dina: User
) -> None:
    case = case_in_adjudication(ana, bo)
    claim(chen)
    claim(dina)
    claim_and_submit(chen, approval())
    assert chen not in authors(readable_reviews(dina, case))
    claim_and_submit(dina, rejection())
    assert chen in authors(readable_reviews(dina, case))
    claim_and_submit(chen, rejection())
    assert [review.phase for review in readable_reviews(dina, case) if review.physician == chen] == [Phase.COMMIT]


def test_adjudicators_who_vote_blind_see_nothing_until_both_have_voted(
    browse: Browse, ana: User, bo: User, chen: User, dina: User
) -> None:
    case = case_in_adjudication(ana, bo, policy=Policy(adjudicators_blind=True))
    assignment = claim(chen)
    claim(dina)
    page = browse(chen).get(reverse("review:case", args=[assignment.pk])).content.decode()
    assert "First reviewer" not in page
    assert 'name="agreed"' not in page, "nothing is filled in from hidden reviews"
    claim_and_submit(chen, approval())
    for adjudicator in (chen, dina):
        assert authors(readable_reviews(adjudicator, case)) <= {adjudicator}
    claim_and_submit(dina, rejection())
    for adjudicator in (chen, dina):
        others = [review for review in readable_reviews(adjudicator, case) if review.physician != adjudicator]
        assert len(others) >= 3


def test_the_first_reviewer_who_may_object_reads_no_other_review(ana: User, bo: User, chen: User) -> None:
    case = case_in_secondary(ana, policy=Policy(settle_wording=True))
    claim_and_submit(bo, approval(), correction("Calls it invented.", change_reason="Clearer.", declaration="wording"))
    rewording = Rewording.objects.get(case=case)
    assert {review.physician for review in readable_reviews(ana, case)} == {ana}
    assert visibility.outcome_shown_to(ana, Review.objects.get(case=case, physician=ana)) == ""
    [rubric] = rewordings_queries.reworded_rubrics(rewording)
    assert (rubric.key, rubric.after) == ("R1", "Calls it invented.")
    rewordings_services.object_to(ana, rewording.pk, "It says more.")
    case.refresh_from_db()
    assert {review.physician for review in readable_reviews(ana, case)} == {ana}, "nor while the objection is settled"
    for other in (bo, chen):
        with pytest.raises(errors.NotAssigned):
            rewordings_queries.rewording_of(other, rewording.pk)


def test_a_physician_who_lost_the_case_reads_none_of_its_reviews(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    assignment = claim(chen)
    assert readable_reviews(chen, case)
    claims.release(chen, assignment.pk, assignment.token or uuid.uuid4())
    assert not readable_reviews(chen, case)


def test_an_earlier_draft_stays_with_its_author(ana: User, bo: User) -> None:
    open_case()
    assignment = claim(ana)
    token = assignment.token or uuid.uuid4()
    assignments_services.save_draft(turn_at(ana, assignment), token, Answers(reason=UNSENT + "ana"), revision=0)
    claims.release(ana, assignment.pk, token)
    bo_assignment = claim(bo)
    assert bo_assignment.pk == assignment.pk
    assert ReviewTurn(bo, bo_assignment).draft is None
    assert Draft.objects.count() == 1


def shown_states(user: User, review: Review) -> list[str]:
    """The states and outcomes that pages and API show the author of a review for its case."""
    client, rest = Client(), APIClient()
    client.force_login(user)
    rest.force_authenticate(user)
    pages = [client.get(reverse("review:mine")), client.get(reverse("review:mine-detail", args=[review.pk]))]
    badges = [badge for page in pages for badge in re.findall(r"badge--([a-z]+)", page.content.decode())]
    row = next(row for row in rest.get(reverse("api:review-mine")).json()["results"] if row["id"] == review.pk)
    return [state for state in badges if state in set(State)] + ([row["outcome"]] if row["outcome"] else [])


def test_an_open_case_does_not_show_that_the_secondary_dissents(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    review = Review.objects.get(case=case, role=Role.PRIMARY)
    assert shown_states(ana, review) == []
    claim_and_submit(chen, approval())
    claim_and_submit(dina, approval())
    assert shown_states(ana, review) == [State.APPROVED] * 3


def review_of_a_copy(physician: User) -> Review:
    """The physician's review of a repeat of a case that they reviewed before."""
    original = open_case(1, policy=Policy(secondary=False))
    claim_and_submit(physician, approval())
    copy = Case.objects.create(
        kind=Case.Kind.REPEAT,
        repeats=Review.objects.get(case=original),
        benchmark=original.benchmark,
        lineage="repeat:1",
        title=original.title,
        spec=original.spec,
        opened_at=timezone.now(),
    )
    Assignment.objects.create(case=copy, role=Role.PRIMARY, reserved_for=physician, opened_at=timezone.now())
    claim_and_submit(physician, approval())
    return Review.objects.get(case=copy)


def test_a_copy_looks_like_an_open_case(ana: User) -> None:
    review = review_of_a_copy(ana)
    page = Client()
    page.force_login(ana)
    shown = page.get(reverse("review:mine-detail", args=[review.pk])).content.decode()
    assert not any(f"badge--{state}" in shown for state in State)
    assert visibility.outcome_shown_to(ana, review) == ""
    assert queries.retractable_review(ana) == review
    assert reverse("review:correct", args=[review.pk]) in shown
    review = assignments_correction.correct(ana, review.pk, rejection(), reason="I misread it.")
    assert Case.objects.get(pk=review.case_id).state == State.REJECTED
    retraction.retract(ana, review.pk)
    assert Case.objects.get(pk=review.case_id).state == State.PRIMARY
    claim_and_submit(ana, rejection())
    assert Case.objects.get(pk=review.case_id).state == State.REJECTED


@pytest.mark.parametrize(("stages", "copies"), [([], 1), (["primary", "secondary"], 1), (["secondary"], 0)])
def test_copies_are_mixed_in_only_for_physicians_who_review_first(
    ana: User, clock: Clock, stages: list[str], copies: int
) -> None:
    open_case(1, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    clock.advance(days=30)
    User.objects.filter(pk=ana.pk).update(stages=stages)
    with override_settings(MHB_REPEAT_SHARE=1):
        claims.claim_next(User.objects.get(pk=ana.pk))
    assert Case.objects.filter(kind=Case.Kind.REPEAT).count() == copies


def test_a_new_physician_reviews_no_case_that_is_reopened_after_they_read_it(
    browse: Browse, adela: User, ana: User
) -> None:
    case = open_case(policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    former = account("former", UserRole.ADMIN)
    assert browse(former).get(reverse("review:history", args=[case.pk])).status_code == 200
    accounts.set_role(former.pk, UserRole.PHYSICIAN, actor=adela)
    former.refresh_from_db()
    retraction.reopen(case.pk, ana.pk, actor=adela, reason="Careless.")
    assert claims.claim_next(former) is None
    assert claim(account("fresh")).case == case


def test_a_physician_who_was_an_admin_within_a_lease_submits_nothing_blind(
    browse: Browse, adela: User, ana: User, bo: User
) -> None:
    case = case_in_secondary(ana)
    held = claim(bo)
    assert held.token is not None
    accounts.set_role(bo.pk, UserRole.ADMIN, actor=adela)
    bo.refresh_from_db()
    assert browse(bo).get(reverse("review:history", args=[case.pk])).status_code == 200
    accounts.set_role(bo.pk, UserRole.PHYSICIAN, actor=adela)
    bo.refresh_from_db()
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(bo, held), held.token, approval())
    assert claims.claim_next(bo) is None
    assert claim(account("fresh")).case == case


def test_a_new_physician_reviews_no_case_that_they_read_in_another_role(browse: Browse, adela: User, ana: User) -> None:
    reviewed = case_in_secondary(ana)
    hidden = open_case(2, form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    plain = open_case(3)
    former = account("former", UserRole.ADMIN)
    for case in (reviewed, hidden, plain):
        assert browse(former).get(reverse("review:history", args=[case.pk])).status_code == 200
    accounts.set_role(former.pk, UserRole.PHYSICIAN, actor=adela)
    former.refresh_from_db()
    assert claim_and_submit(former, approval()).case == plain, "nothing of it was hidden from its first reviewer"
    assert claims.claim_next(former) is None
    assert claim(account("fresh")).case == reviewed
