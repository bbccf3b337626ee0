"""Claims, drafts and submits: who gets which case, who is too late, and what the trail records."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from review import errors
from review.assignments import claims
from review.assignments import services as assignments_services
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.cases.services import lease
from review.models import Assignment, Case, Draft, Event, Review, User
from review.rules.questions import Answers
from review.rules.state_machine import Ground, Phase, Policy, Role, State
from review.turns.turn import ReviewTurn, turn_of
from tests.conftest import Clock
from tests.review.factories import (
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    case_spec,
    claim,
    claim_and_submit,
    correction,
    inadequate_rubric,
    open_case,
    rejection,
    submit,
    turn_at,
)

pytestmark = pytest.mark.both

Hold = Assignment.Hold


def state_of(case: Case) -> tuple[str, str]:
    case.refresh_from_db()
    return case.state, case.ground


def trail(case: Case) -> list[tuple[str, str]]:
    """The kind and the actor's username of every event, in order."""
    events = Event.objects.filter(case=case).select_related("actor").order_by("id")
    return [(event.kind, event.actor.username if event.actor else "") for event in events]


def renew(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    claims.heartbeat(physician, assignment.pk, token)


def save_approval(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    assignments_services.save_draft(turn_at(physician, assignment), token, approval(), revision=0)


def give_back(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    claims.release(physician, assignment.pk, token)


def submit_approval(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    assignments_services.submit(turn_at(physician, assignment), token, approval())


Action = Callable[[User, Assignment, uuid.UUID], None]
ACTIONS = [renew, save_approval, give_back, submit_approval]


# ----------------------------------------------------------------------------------------- claiming


def test_a_claim_returns_none_if_nothing_is_open(ana: User) -> None:
    assert claims.claim_next(ana) is None


def test_only_physicians_claim_cases(adela: User, rui: User) -> None:
    case = open_case()
    gone = account("gone", is_active=False)
    for person in (adela, rui, gone):
        with pytest.raises(errors.NotAllowed):
            claims.claim_next(person)
    assert trail(case) == [("opened", "")]


def test_a_held_case_comes_first(ana: User, clock: Clock) -> None:
    open_case(1)
    first = claim(ana)
    open_case(2, policy=Policy())
    clock.advance(minutes=5)
    again = claim(ana)
    assert (again.pk, again.token) == (first.pk, first.token)
    assert again.lease_until == clock.now + lease()


def test_a_lapsed_case_is_resumed_if_nobody_took_it_over(ana: User, clock: Clock) -> None:
    open_case()
    first = claim(ana)
    clock.advance(minutes=16)
    assert claim(ana).token == first.token
    submit(first, approval())


def test_cases_are_claimed_by_priority(ana: User, bo: User, adela: User) -> None:
    cases = [open_case(number) for number in range(5)]
    cases_services.prioritise(cases[3].pk, actor=adela, priority=5)
    assert claim(ana).case_id == cases[3].pk
    cases_services.prioritise(cases[1].pk, actor=adela, priority=-5)
    assert {claim(physician).case_id for physician in (bo, account("x"), account("y"))} == {
        case.pk for number, case in enumerate(cases) if number in (0, 2, 4)
    }


def test_cases_nearly_done_come_first(ana: User, bo: User, chen: User, dina: User, settings: Any) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 0
    case_in_adjudication(ana, bo, number=1)
    disputed = Case.objects.get()
    case_in_secondary(ana, number=2)
    open_case(3)
    chen_assignment = claim(chen)
    assert (chen_assignment.case_id, chen_assignment.role) == (disputed.pk, Role.ADJUDICATOR_1)
    submit(chen_assignment, approval())
    assert claim(chen).role == Role.SECONDARY
    assert (claim(dina).case_id, claim(dina).role) == (disputed.pk, Role.ADJUDICATOR_2)


def test_nobody_gets_a_second_role_in_a_case(ana: User, bo: User, chen: User) -> None:
    case = case_in_secondary(ana)
    assert claims.claim_next(ana) is None
    claim_and_submit(bo, rejection(), rejection())
    assert [claims.claim_next(physician) for physician in (ana, bo)] == [None, None]
    claim_and_submit(chen, approval())
    assert claims.claim_next(chen) is None
    assert state_of(case)[0] == State.ADJUDICATION


def test_two_roles_in_a_case_are_refused_by_the_database(ana: User) -> None:
    case = case_in_secondary(ana)
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.filter(case=case, role=Role.SECONDARY).update(
            physician=ana, token=uuid.uuid4(), hold=Hold.HELD
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.create(
            case=case,
            role=Role.ADJUDICATOR_1,
            physician=ana,
            token=uuid.uuid4(),
            hold=Hold.HELD,
            opened_at=timezone.now(),
        )


def test_a_role_has_one_assignment_and_a_turn_one_review(ana: User) -> None:
    case = case_in_secondary(ana)
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.create(case=case, role=Role.PRIMARY, opened_at=timezone.now())
    review = Review.objects.get()
    review.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        review.save(force_insert=True)


def test_a_version_is_opened_once(db: None) -> None:
    open_case(1)
    with pytest.raises(IntegrityError), transaction.atomic():
        open_case(1)
    open_case(1, version=2)


def second_version(policy: Policy, *reviewers: User) -> Case:
    """Version 2, still unclaimed, of a sample whose version 1 `reviewers` rejected."""
    open_case(1)
    claim_and_submit(reviewers[0], rejection())
    claim_and_submit(reviewers[1], rejection(), rejection())
    assert Case.objects.get().state == State.REJECTED
    return open_case(1, version=2, policy=policy)


def test_fresh_eyes_are_preferred(ana: User, bo: User, chen: User) -> None:
    again = second_version(Policy(), ana, bo)
    other = open_case(2)
    assert claim(ana).case_id == other.pk
    assert claim(chen).case_id == again.pk
    assert claims.claim_next(bo) is None  # both are held
    submit(claim(chen), approval())
    assert claim(bo).case_id == again.pk  # fresh eyes are preferred, not required


def test_fresh_eyes_are_required_where_the_policy_says_so(ana: User, bo: User, chen: User) -> None:
    again = second_version(Policy(fresh_eyes_required=True), ana, bo)
    assert claims.claim_next(ana) is None
    assert claims.claim_next(bo) is None
    assert claim(chen).case_id == again.pk


# ---------------------------------------------------------------------------------- leases, fencing


def test_a_held_case_is_reserved_until_its_lease_runs_out(ana: User, bo: User, clock: Clock) -> None:
    open_case()
    ana_assignment = claim(ana)
    clock.advance(minutes=10)
    assert ana_assignment.token is not None
    claims.heartbeat(ana, ana_assignment.pk, ana_assignment.token)
    clock.advance(minutes=10)
    assert claims.claim_next(bo) is None
    clock.advance(minutes=6)
    assert claim(bo).pk == ana_assignment.pk


@pytest.mark.parametrize("action", ACTIONS)
def test_the_old_token_is_refused_after_a_take_over(ana: User, bo: User, clock: Clock, action: Action) -> None:
    case = open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    clock.advance(minutes=16)
    bo_assignment = claim(bo)
    with pytest.raises(errors.LeaseLost):
        action(ana, ana_assignment, ana_assignment.token)
    bo_assignment.refresh_from_db()
    assert (bo_assignment.physician, bo_assignment.hold, bo_assignment.phase) == (bo, Hold.HELD, Phase.COMMIT)
    assert not Review.objects.exists()
    assert trail(case) == [("opened", ""), ("claimed", "ana"), ("taken-over", "bo")]
    assert Event.objects.get(kind=Event.Kind.TAKEN_OVER).data == {"role": "primary", "taken_from": ana.pk}
    submit(bo_assignment, approval())


@pytest.mark.parametrize("action", ACTIONS)
def test_a_physician_who_took_over_and_lost_the_case_is_refused(
    ana: User, bo: User, clock: Clock, action: Action
) -> None:
    open_case()
    claim(ana)
    clock.advance(minutes=16)
    bo_assignment = claim(bo)
    clock.advance(minutes=16)
    claim(ana)
    assert bo_assignment.token is not None
    with pytest.raises(errors.LeaseLost):
        action(bo, bo_assignment, bo_assignment.token)


@pytest.mark.parametrize("action", ACTIONS)
def test_another_physicians_assignment_is_not_found(ana: User, bo: User, action: Action) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    for token in (ana_assignment.token, uuid.uuid4()):
        with pytest.raises(errors.NotAssigned):
            action(bo, ana_assignment, token)
    ana_assignment.pk = 10**6
    with pytest.raises(errors.NotAssigned):
        action(bo, ana_assignment, ana_assignment.token)
    assert not Draft.objects.exists()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_deactivated_physician_is_refused(ana: User, action: Action) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    ana.is_active = False
    with pytest.raises(errors.NotAllowed):
        action(ana, ana_assignment, ana_assignment.token)


@pytest.mark.parametrize("late", [save_approval, submit_approval])
def test_late_answers_are_stored_as_the_draft(ana: User, bo: User, clock: Clock, late: Action) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    clock.advance(minutes=16)
    claim(bo)
    with pytest.raises(errors.LeaseLost):
        late(ana, ana_assignment, ana_assignment.token)
    draft = Draft.objects.get()
    assert (draft.physician, draft.assignment_id, draft.phase) == (ana, ana_assignment.pk, Phase.COMMIT)
    assert draft.answers["verdict"] == "approve"


@pytest.mark.parametrize("late", [save_approval, submit_approval])
def test_answers_to_a_withdrawn_case_are_stored_as_the_draft(ana: User, adela: User, late: Action) -> None:
    case = open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    with pytest.raises(errors.CaseClosed):
        late(ana, ana_assignment, ana_assignment.token)
    assert Draft.objects.get().physician == ana
    assert not Review.objects.exists()


def test_a_draft_saved_while_another_window_submits_counts_as_saved_before(ana: User, bo: User, clock: Clock) -> None:
    case_in_secondary(ana)
    held = claim(bo)
    assert held.token is not None
    read_before = turn_of(bo, held.pk)
    clock.advance(minutes=10)
    submit_approval(bo, held, held.token)  # opens the confirmation, under a new token
    draft = assignments_services.save_draft(read_before, held.token, Answers(reason="typed"), revision=0)
    assert (draft.phase, Draft.objects.get().answers["reason"]) == (Phase.COMMIT, "typed")


def test_a_draft_saved_while_the_case_is_withdrawn_is_late_and_kept(ana: User, adela: User, clock: Clock) -> None:
    case = open_case()
    held = claim(ana)
    assert held.token is not None
    read_before = turn_of(ana, held.pk)
    clock.advance(minutes=10)
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    with pytest.raises(errors.CaseClosed):
        assignments_services.save_draft(read_before, held.token, approval(), revision=0)
    assert Draft.objects.get().physician == ana


def test_a_case_closed_while_its_assignment_was_waited_for_is_closed(ana: User, adela: User) -> None:
    """PostgreSQL reads a row again after the wait for its lock, but not the row joined to it."""
    case = open_case()
    held = claim(ana)
    assert held.token is not None
    waited = turn_of(ana, held.pk).assignment
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    waited.hold = Assignment.objects.get(pk=held.pk).hold
    assert waited.case.state == State.PRIMARY, "as it was before"
    with pytest.raises(errors.CaseClosed):
        claims.fence(waited, ana, held.token)


def test_a_late_submit_does_not_overwrite_another_tabs_later_draft(ana: User, clock: Clock) -> None:
    open_case()
    old = claim(ana)
    clock.advance(minutes=16)
    claims.expire_leases()
    new = claim(ana)
    assert new.pk == old.pk
    assert old.token is not None
    assert new.token is not None
    assignments_services.save_draft(turn_at(ana, new), new.token, Answers(reason="typed since"), revision=0)
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, old), old.token, rejection("sent from the old window"), revision=0)
    assert Draft.objects.get().answers["reason"] == "typed since"
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, old), old.token, rejection("with knowledge of it"), revision=1)
    assert Draft.objects.get().answers["reason"] == "with knowledge of it"


def test_a_late_submit_overwrites_an_older_draft(ana: User, bo: User, clock: Clock) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    assignments_services.save_draft(
        turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="begun"), revision=0
    )
    clock.advance(minutes=16)
    claim(bo)
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, ana_assignment), ana_assignment.token, rejection("finished"))
    draft = Draft.objects.get()
    assert (draft.answers["reason"], draft.revision) == ("finished", 2)


def test_lapsed_leases_are_expired_once(ana: User, bo: User, clock: Clock) -> None:
    case = open_case()
    ana_assignment = claim(ana)
    assert claims.expire_leases() == 0
    clock.advance(minutes=16)
    assert claims.expire_leases() == 1
    assert claims.expire_leases() == 0
    assert trail(case)[-1] == ("expired", "ana")
    assert ana_assignment.token is not None
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, ana_assignment), ana_assignment.token, approval())
    claim(bo)
    assert trail(case)[-1] == ("claimed", "bo")  # the lease had expired: nobody lost it


def test_a_committed_role_does_not_lapse(ana: User, bo: User, chen: User, dina: User, emil: User, clock: Clock) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    clock.advance(days=3)
    assert claims.expire_leases() == 0
    assert claims.claim_next(emil) is None
    assert claim(bo).phase == Phase.CONFIRM
    claim_and_submit(bo, rejection())
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    clock.advance(days=3)
    assert claims.expire_leases() == 0
    assert claims.claim_next(emil) is None
    claim_and_submit(chen, rejection())
    claim_and_submit(dina, rejection())
    assert state_of(case) == (State.REJECTED, Ground.ADJUDICATED)


def test_a_released_case_is_open_to_others_and_its_draft_is_kept(ana: User, bo: User) -> None:
    cases = {open_case(1), open_case(2)}
    ana_assignment = claim(ana)
    case = ana_assignment.case
    [other] = cases - {case}
    save_approval(ana, ana_assignment, ana_assignment.token or uuid.uuid4())
    give_back(ana, ana_assignment, ana_assignment.token or uuid.uuid4())
    assert trail(case) == [("opened", ""), ("claimed", "ana"), ("released", "ana")]
    assert Draft.objects.get().physician == ana
    assert claim(ana).case_id == other.pk  # not the case that she has just released
    assert claim(bo).case_id == case.pk, "open to anybody else"


def test_a_released_case_is_offered_again_when_nothing_else_is_left(ana: User) -> None:
    case = open_case()
    ana_assignment = claim(ana)
    give_back(ana, ana_assignment, ana_assignment.token or uuid.uuid4())
    assert claim(ana).case_id == case.pk


def test_a_committed_role_cannot_be_released(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, approval())
    bo_assignment = claim(bo)
    with pytest.raises(errors.AlreadySubmitted):
        give_back(bo, bo_assignment, bo_assignment.token or uuid.uuid4())


# ------------------------------------------------------------------------------------------- drafts


def test_a_draft_counts_its_revisions_and_renews_the_lease(ana: User, clock: Clock) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    clock.advance(minutes=10)
    first = assignments_services.save_draft(
        turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="a"), revision=0
    )
    second = assignments_services.save_draft(
        turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="b"), revision=first.revision
    )
    assert (first.revision, second.revision) == (1, 2)
    ana_assignment.refresh_from_db()
    assert ana_assignment.lease_until == clock.now + lease()
    stored = ReviewTurn(ana, ana_assignment).draft
    assert stored is not None
    assert stored.answers["reason"] == "b"


@pytest.mark.parametrize("revision", [0, 1, 7])
def test_a_draft_from_another_tab_is_not_overwritten(ana: User, revision: int) -> None:
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    assignments_services.save_draft(turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="a"), revision=0)
    assignments_services.save_draft(turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="b"), revision=1)
    with pytest.raises(errors.StaleDraft):
        assignments_services.save_draft(
            turn_at(ana, ana_assignment), ana_assignment.token, Answers(reason="c"), revision=revision
        )
    draft = Draft.objects.get()
    assert (draft.answers["reason"], draft.revision) == ("b", 2)


def test_a_save_that_loses_the_case_midway_reports_the_loss(ana: User, bo: User, clock: Clock) -> None:
    """Not that another tab saved a draft meanwhile, which is the smaller news."""
    open_case()
    ana_assignment = claim(ana)
    assert ana_assignment.token is not None
    save = partial(assignments_services.save_draft, token=ana_assignment.token, revision=0)
    loaded = turn_of(ana, ana_assignment.pk)
    clock.advance(minutes=16)
    claim(bo)
    with pytest.raises(errors.LeaseLost):
        save(turn_at(ana, ana_assignment), answers=Answers(reason="from the other tab"))
    with pytest.raises(errors.LeaseLost):
        save(loaded, answers=Answers(reason="late"))
    assert Draft.objects.get().answers["reason"] == "from the other tab"


def test_each_phase_has_its_own_draft(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    bo_assignment = claim(bo)
    save_approval(bo, bo_assignment, bo_assignment.token or uuid.uuid4())
    submit(bo_assignment, approval())
    bo_assignment = claim(bo)
    assert ReviewTurn(bo, bo_assignment).draft is None
    save_approval(bo, bo_assignment, bo_assignment.token or uuid.uuid4())
    assert set(Draft.objects.values_list("phase", flat=True)) == {Phase.COMMIT, Phase.CONFIRM}


# --------------------------------------------------------------------------------------- submitting


def test_incomplete_answers_are_refused_with_every_problem_and_nothing_is_written(ana: User) -> None:
    case = open_case()
    ana_assignment = claim(ana)
    with pytest.raises(errors.Incomplete) as refused:
        submit(ana_assignment, Answers())
    assert len(refused.value.problems) == 5
    assert not Review.objects.exists()
    assert trail(case) == [("opened", ""), ("claimed", "ana")]
    submit(ana_assignment, approval())


def test_a_review_cannot_be_submitted_twice(ana: User, bo: User) -> None:
    open_case()
    ana_assignment = claim(ana)
    submit(ana_assignment, approval())
    with pytest.raises(errors.AlreadySubmitted):
        submit(ana_assignment, rejection())
    assert Review.objects.count() == 1


def test_the_review_that_closed_the_case_cannot_be_submitted_twice(ana: User) -> None:
    case = open_case(policy=Policy(secondary=False))
    ana_assignment = claim(ana)
    submit(ana_assignment, approval())
    assert state_of(case) == (State.APPROVED, Ground.PRIMARY_ALONE)
    with pytest.raises(errors.AlreadySubmitted):
        submit(ana_assignment, approval())


def test_a_double_click_on_the_blind_answer_does_not_confirm_it(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    bo_assignment = claim(bo)
    submit(bo_assignment, approval())
    with pytest.raises(errors.AlreadySubmitted):
        submit(bo_assignment, approval())
    assert state_of(case)[0] == State.SECONDARY
    assert Review.objects.filter(physician=bo).count() == 1


def test_a_late_repeat_of_an_adjudicators_vote_is_not_the_second_vote(
    ana: User, bo: User, chen: User, dina: User
) -> None:
    case_in_adjudication(ana, bo)
    chen_assignment = claim(chen)
    submit(chen_assignment, approval())
    claim_and_submit(dina, rejection())
    with pytest.raises(errors.AlreadySubmitted):
        submit(chen_assignment, approval())
    assert claim(chen).phase == Phase.DISCUSS


def test_a_submitted_review_returns_the_token_of_the_next_phase(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    review = submit(claim(bo), approval())
    assert review.assignment.phase == Phase.CONFIRM
    assert review.assignment.token == claim(bo).token


def test_a_changed_verdict_needs_a_reason(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    bo_assignment = claim(bo)
    with pytest.raises(errors.Incomplete):
        submit(bo_assignment, approval())
    submit(bo_assignment, approval(change_reason="The primary is right about the dose."))
    assert state_of(case) == (State.APPROVED, Ground.CONSENSUS)


# ------------------------------------------------------------------------------------ the whole way


def test_a_consensus_and_its_trail(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, approval(), approval())
    assert state_of(case) == (State.APPROVED, Ground.CONSENSUS)
    assert case.closed_at is not None
    assert trail(case) == [
        ("opened", ""),
        ("claimed", "ana"),
        ("submitted", "ana"),
        ("moved", "ana"),
        ("claimed", "bo"),
        ("submitted", "bo"),
        ("submitted", "bo"),
        ("closed", "bo"),
    ]
    closing = Event.objects.filter(case=case).last()
    assert closing is not None
    assert closing.data == {"before": "secondary", "after": "approved", "ground": "consensus"}


def test_an_inadequate_rubric_is_rejected_without_adjudication(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=inadequate_rubric())
    claim_and_submit(bo, approval(), approval())
    assert state_of(case) == (State.REJECTED, Ground.RUBRIC_INADEQUATE)


def test_a_dissent_its_discussion_and_its_trail(ana: User, bo: User, chen: User, dina: User, emil: User) -> None:
    case = case_in_adjudication(ana, bo)
    chen_assignment, dina_assignment = claim(chen), claim(dina)
    assert {chen_assignment.role, dina_assignment.role} == {Role.ADJUDICATOR_1, Role.ADJUDICATOR_2}
    assert claims.claim_next(emil) is None
    submit(chen_assignment, approval())
    chen_assignment.refresh_from_db()
    assert chen_assignment.hold == Hold.WAITING
    assert claims.claim_next(chen) is None
    submit(dina_assignment, rejection())
    assert claims.claim_next(emil) is None  # only the same two may discuss
    for physician, assignment in ((chen, chen_assignment), (dina, dina_assignment)):
        resumed = claim(physician)
        assert (resumed.pk, resumed.phase) == (assignment.pk, Phase.DISCUSS)
    claim_and_submit(dina, approval())
    claim_and_submit(chen, approval())
    assert state_of(case) == (State.APPROVED, Ground.ADJUDICATED)
    assert not Assignment.objects.filter(case=case).exclude(hold=Hold.DONE).exists()
    assert trail(case)[-8:] == [
        ("moved", "bo"),
        ("claimed", "chen"),
        ("claimed", "dina"),
        ("submitted", "chen"),
        ("submitted", "dina"),
        ("submitted", "dina"),
        ("submitted", "chen"),
        ("closed", "chen"),
    ]


def test_a_case_is_rejected_if_the_adjudicators_never_agree(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    assert state_of(case) == (State.REJECTED, Ground.UNDECIDED)


def submit_steps(*steps: tuple[User, Answers]) -> None:
    for physician, answers in steps:
        claim_and_submit(physician, answers)


@pytest.mark.parametrize("steps", range(7))
def test_a_case_is_withdrawn_from_every_state_that_is_not_final(
    ana: User, bo: User, chen: User, dina: User, emil: User, adela: User, steps: int
) -> None:
    case = open_case()
    steps_to_adjudication = [
        (ana, approval()),
        (bo, rejection()),
        (bo, rejection()),
        (chen, approval()),
        (dina, rejection()),
    ]
    submit_steps(*[*steps_to_adjudication, (chen, approval())][:steps])
    before = state_of(case)[0]
    cases_services.withdraw(case.pk, actor=adela, reason="The source was retracted.")
    assert state_of(case) == (State.WITHDRAWN, Ground.WITHDRAWN)
    assert not Assignment.objects.filter(case=case).exclude(hold=Hold.DONE).exists()
    assert claims.claim_next(emil) is None
    assert trail(case)[-2:] == [("withdrawn", "adela"), ("closed", "adela")]
    closing = Event.objects.filter(case=case).last()
    assert closing is not None
    assert closing.data["before"] == before


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("committed", [False, True])
def test_a_withdrawn_case_is_closed_to_its_holder(
    ana: User, bo: User, adela: User, action: Action, committed: bool
) -> None:
    case = case_in_secondary(ana)
    if committed:
        claim_and_submit(bo, approval())
    bo_assignment = claim(bo)
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    assert bo_assignment.token is not None
    with pytest.raises(errors.CaseClosed):
        action(bo, bo_assignment, bo_assignment.token)


def test_a_final_case_cannot_be_changed(ana: User, bo: User, adela: User) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, approval(), approval())
    with pytest.raises(errors.CaseClosed):
        cases_services.withdraw(case.pk, actor=adela, reason="Too late.")
    with pytest.raises(errors.CaseClosed):
        cases_services.prioritise(case.pk, actor=adela, priority=3)
    assert state_of(case)[0] == State.APPROVED
    assert not Event.objects.filter(case=case, kind=Event.Kind.PRIORITISED).exists()


def test_only_admins_withdraw_and_prioritise(ana: User, rui: User) -> None:
    case = open_case()
    for person in (ana, rui):
        with pytest.raises(errors.NotAllowed):
            cases_services.withdraw(case.pk, actor=person, reason="No.")
        with pytest.raises(errors.NotAllowed):
            cases_services.prioritise(case.pk, actor=person, priority=9)


def test_a_priority_change_is_in_the_trail(adela: User) -> None:
    case = open_case()
    cases_services.prioritise(case.pk, actor=adela, priority=3)
    last = Event.objects.filter(case=case).last()
    assert last is not None
    assert (last.kind, last.data) == ("prioritised", {"before": 0, "after": 3})


def test_long_and_unusual_text_is_stored(ana: User) -> None:
    case = cases_services.open_case(case_spec(title="\0" + "漢" * 400))
    assert case.title == "漢" * 299 + "…"
    review = submit(claim(ana), rejection("a\0b \ud800 \U0001f600"))
    review.refresh_from_db()
    assert review.answers["reason"] == "ab ? \U0001f600"


# ------------------------------------------------------------------------------------------ settled


def settled_wordings(case: Case) -> dict[str, str]:
    """The settled wordings that differ from the original, by rubric."""
    case.refresh_from_db()
    original = {rubric.key: rubric.criterion for rubric in case.frozen.form.rubrics}
    return {r.key: r.criterion for r in cases_queries.settled_case(case).rubrics if r.criterion != original[r.key]}


@pytest.mark.parametrize(
    ("primary", "confirmed", "settled"),
    [
        (
            " Calls it invented. ",
            correction("Calls it invented.", change_reason="Right."),
            {"R1": "Calls it invented."},
        ),
        ("Calls it invented.", correction("Calls it unknown.", change_reason="Right."), {"R1": "Calls it unknown."}),
        ("Calls it invented.", approval(), {}),
    ],
)
def test_the_wording_of_the_secondary_who_saw_the_correction_is_settled(
    ana: User, bo: User, primary: str, confirmed: Answers, settled: dict[str, str]
) -> None:
    case = case_in_secondary(ana, answers=correction(primary))
    claim_and_submit(bo, approval(), confirmed)
    assert settled_wordings(case) == settled


def test_a_secondary_who_never_saw_the_correction_does_not_undo_it(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."), policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, approval())
    assert state_of(case)[0] == State.APPROVED
    assert settled_wordings(case) == {"R1": "Calls it invented."}


def test_the_adjudicators_wording_wins_over_all_others(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."))
    claim_and_submit(bo, rejection(), rejection())
    claim_and_submit(chen, correction("Says that no such drug is registered."))
    claim_and_submit(dina, approval())
    assert settled_wordings(case) == {"R1": "Says that no such drug is registered."}


def test_the_reasons_of_an_outcome_are_those_for_rejection(ana: User, bo: User) -> None:
    against = inadequate_rubric("Silent on the dose.", reason="The rubric misses the trap.")
    case = case_in_secondary(ana, answers=against)
    claim_and_submit(bo, approval(), approval())
    case.refresh_from_db()
    outcome = cases_queries.settled_case(case)
    assert outcome.reasons == ("The rubric misses the trap.", "R1: Silent on the dose.")
    assert (outcome.rubrics, outcome.ground) == ((), "rubric-inadequate")
    assert set(outcome.answers) == {"primary/commit", "secondary/commit", "secondary/confirm"}


def test_the_same_reason_from_two_reviewers_is_listed_once(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=rejection("Nobody would ask this."))
    claim_and_submit(bo, rejection("Nobody would ask this."), rejection("Nobody would ask this."))
    case.refresh_from_db()
    assert cases_queries.settled_case(case).reasons == ("Nobody would ask this.",)


def test_an_approved_case_has_no_reasons(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, approval())
    case.refresh_from_db()
    assert cases_queries.settled_case(case).reasons == ()
