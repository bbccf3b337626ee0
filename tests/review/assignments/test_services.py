"""Claiming, drafting, submitting: who gets what, who is too late, and what stands in the trail."""

import uuid
from collections.abc import Callable

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import claims
from review.assignments import queries as assignments_queries
from review.assignments import services as assignments_services
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.models import Assignment, Case, Draft, Event, Review, User
from review.rules.questions import Answers
from review.rules.state_machine import Ground, Phase, Policy, Role, State, position
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
)

pytestmark = pytest.mark.both

Hold = Assignment.Hold


def state_of(case: Case) -> tuple[str, str]:
    case.refresh_from_db()
    return case.state, case.ground


def trail(case: Case) -> list[tuple[str, str]]:
    """(kind, who) of every event, in order."""
    events = Event.objects.filter(case=case).select_related("actor").order_by("id")
    return [(event.kind, event.actor.username if event.actor else "") for event in events]


def renew(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    claims.heartbeat(physician, assignment.pk, token)


def draft(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    assignments_services.save_draft(physician, assignment.pk, token, approval(), revision=0)


def give_back(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    claims.release(physician, assignment.pk, token)


def submit_approval(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    assignments_services.submit(physician, assignment.pk, token, approval())


Act = Callable[[User, Assignment, uuid.UUID], None]
ACTS = [renew, draft, give_back, submit_approval]


# ------------------------------------------------------------------------------------------------------------- claiming


def test_nothing_waits(ana: User) -> None:
    assert claims.claim_next(ana) is None


def test_only_physicians_take_cases(adela: User, rui: User) -> None:
    case = open_case()
    gone = account("gone", is_active=False)
    for person in (adela, rui, gone):
        with pytest.raises(errors.NotAllowed):
            claims.claim_next(person)
    assert trail(case) == [("opened", "")]


def test_own_case_in_hand_comes_first(ana: User, clock: Clock) -> None:
    open_case(1)
    first = claim(ana)
    open_case(2, policy=Policy())
    clock.advance(minutes=5)
    again = claim(ana)
    assert (again.pk, again.token) == (first.pk, first.token)
    assert again.lease_until == clock.now + claims.lease()


def test_own_case_is_resumed_even_after_its_lease_if_nobody_took_it(ana: User, clock: Clock) -> None:
    open_case()
    first = claim(ana)
    clock.advance(minutes=16)
    assert claim(ana).token == first.token
    submit(first, approval())


def test_by_priority(ana: User, bo: User, adela: User) -> None:
    cases = [open_case(number) for number in range(5)]
    cases_services.prioritise(cases[3].pk, actor=adela, priority=5)
    assert claim(ana).case_id == cases[3].pk
    cases_services.prioritise(cases[1].pk, actor=adela, priority=-5)
    assert {claim(physician).case_id for physician in (bo, account("x"), account("y"))} == {
        case.pk for number, case in enumerate(cases) if number in (0, 2, 4)
    }


def test_cases_nearly_done_come_first(ana: User, bo: User, chen: User, dina: User) -> None:
    case_in_adjudication(ana, bo, number=1)
    disputed = Case.objects.get()
    case_in_secondary(ana, number=2)
    open_case(3)
    chens = claim(chen)
    assert (chens.case_id, chens.role) == (disputed.pk, Role.ADJUDICATOR_1)
    submit(chens, approval())
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


def test_one_assignment_a_role_and_one_review_a_turn(ana: User) -> None:
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
    """Version 1 was rejected by `reviewers`; version 2 waits."""
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
    assert claim(bo).case_id == again.pk  # better than nothing: only preferred


def test_fresh_eyes_are_required_where_the_policy_says_so(ana: User, bo: User, chen: User) -> None:
    again = second_version(Policy(fresh_eyes_required=True), ana, bo)
    assert claims.claim_next(ana) is None
    assert claims.claim_next(bo) is None
    assert claim(chen).case_id == again.pk


# ------------------------------------------------------------------------------------------------------- leases, fencing


def test_a_held_case_is_nobody_elses_until_the_lease_runs_out(ana: User, bo: User, clock: Clock) -> None:
    open_case()
    anas = claim(ana)
    clock.advance(minutes=10)
    assert anas.token is not None
    claims.heartbeat(ana, anas.pk, anas.token)
    clock.advance(minutes=10)
    assert claims.claim_next(bo) is None
    clock.advance(minutes=6)
    assert claim(bo).pk == anas.pk


@pytest.mark.parametrize("act", ACTS)
def test_after_a_take_over_the_old_token_does_nothing(ana: User, bo: User, clock: Clock, act: Act) -> None:
    case = open_case()
    anas = claim(ana)
    assert anas.token is not None
    clock.advance(minutes=16)
    bos = claim(bo)
    with pytest.raises(errors.LeaseLost):
        act(ana, anas, anas.token)
    bos.refresh_from_db()
    assert (bos.physician, bos.hold, bos.phase) == (bo, Hold.HELD, Phase.COMMIT)
    assert not Review.objects.exists()
    assert trail(case) == [("opened", ""), ("claimed", "ana"), ("taken-over", "bo")]
    assert Event.objects.get(kind=Event.Kind.TAKEN_OVER).data == {"role": "primary", "taken_from": ana.pk}
    submit(bos, approval())


@pytest.mark.parametrize("act", ACTS)
def test_who_took_over_and_lost_it_again_is_told_so(ana: User, bo: User, clock: Clock, act: Act) -> None:
    open_case()
    claim(ana)
    clock.advance(minutes=16)
    bos = claim(bo)
    clock.advance(minutes=16)
    claim(ana)
    assert bos.token is not None
    with pytest.raises(errors.LeaseLost):
        act(bo, bos, bos.token)


@pytest.mark.parametrize("act", ACTS)
def test_anothers_assignment_does_not_exist(ana: User, bo: User, act: Act) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    for token in (anas.token, uuid.uuid4()):
        with pytest.raises(errors.NotYours):
            act(bo, anas, token)
    anas.pk = 10**6
    with pytest.raises(errors.NotYours):
        act(bo, anas, anas.token)
    assert not Draft.objects.exists()


@pytest.mark.parametrize("act", ACTS)
def test_a_physician_who_lost_the_role_may_do_nothing(ana: User, act: Act) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    ana.is_active = False
    with pytest.raises(errors.NotAllowed):
        act(ana, anas, anas.token)


@pytest.mark.parametrize("late", [draft, submit_approval])
def test_late_answers_are_kept_as_the_draft(ana: User, bo: User, clock: Clock, late: Act) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    clock.advance(minutes=16)
    claim(bo)
    with pytest.raises(errors.LeaseLost):
        late(ana, anas, anas.token)
    kept = Draft.objects.get()
    assert (kept.physician, kept.assignment_id, kept.phase) == (ana, anas.pk, Phase.COMMIT)
    assert kept.answers["verdict"] == "approve"


@pytest.mark.parametrize("late", [draft, submit_approval])
def test_answers_to_a_case_withdrawn_meanwhile_are_kept_as_the_draft(ana: User, adela: User, late: Act) -> None:
    case = open_case()
    anas = claim(ana)
    assert anas.token is not None
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    with pytest.raises(errors.CaseClosed):
        late(ana, anas, anas.token)
    assert Draft.objects.get().physician == ana
    assert not Review.objects.exists()


def test_a_late_submit_does_not_overwrite_what_another_window_has_saved_since(ana: User, clock: Clock) -> None:
    open_case()
    old = claim(ana)
    clock.advance(minutes=16)
    claims.expire_leases()
    new = claim(ana)
    assert new.pk == old.pk
    assert old.token is not None
    assert new.token is not None
    assignments_services.save_draft(ana, new.pk, new.token, Answers(reason="typed since"), revision=0)
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(ana, old.pk, old.token, rejection("sent from the old window"), revision=0)
    assert Draft.objects.get().answers["reason"] == "typed since"
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(ana, old.pk, old.token, rejection("with knowledge of it"), revision=1)
    assert Draft.objects.get().answers["reason"] == "with knowledge of it"


def test_a_late_submit_overwrites_an_older_draft(ana: User, bo: User, clock: Clock) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="begun"), revision=0)
    clock.advance(minutes=16)
    claim(bo)
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(ana, anas.pk, anas.token, rejection("finished"))
    kept = Draft.objects.get()
    assert (kept.answers["reason"], kept.revision) == ("finished", 2)


def test_forgotten_leases_are_given_back_once(ana: User, bo: User, clock: Clock) -> None:
    case = open_case()
    anas = claim(ana)
    assert claims.expire_leases() == 0
    clock.advance(minutes=16)
    assert claims.expire_leases() == 1
    assert claims.expire_leases() == 0
    assert trail(case)[-1] == ("expired", "ana")
    assert anas.token is not None
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(ana, anas.pk, anas.token, approval())
    claim(bo)
    assert trail(case)[-1] == ("claimed", "bo")  # it was free: nothing was taken from anybody


def test_a_lease_does_not_take_away_what_was_committed(
    ana: User, bo: User, chen: User, dina: User, emil: User, clock: Clock
) -> None:
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


def test_giving_back(ana: User, bo: User) -> None:
    both = {open_case(1), open_case(2)}
    anas = claim(ana)
    case = anas.case
    [other] = both - {case}
    draft(ana, anas, anas.token or uuid.uuid4())
    give_back(ana, anas, anas.token or uuid.uuid4())
    assert trail(case) == [("opened", ""), ("claimed", "ana"), ("released", "ana")]
    assert Draft.objects.get().physician == ana
    assert claim(ana).case_id == other.pk  # not the very case she has just declined
    assert claim(bo).case_id == case.pk, "free for anybody else"


def test_what_was_given_back_is_offered_again_when_nothing_else_is_left(ana: User) -> None:
    case = open_case()
    anas = claim(ana)
    give_back(ana, anas, anas.token or uuid.uuid4())
    assert claim(ana).case_id == case.pk


def test_nothing_committed_can_be_given_back(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, approval())
    bos = claim(bo)
    with pytest.raises(errors.AlreadySubmitted):
        give_back(bo, bos, bos.token or uuid.uuid4())


# --------------------------------------------------------------------------------------------------------------- drafts


def test_a_draft_counts_its_revisions_and_renews_the_lease(ana: User, clock: Clock) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    clock.advance(minutes=10)
    first = assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="a"), revision=0)
    second = assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="b"), revision=first.revision)
    assert (first.revision, second.revision) == (1, 2)
    anas.refresh_from_db()
    assert anas.lease_until == clock.now + claims.lease()
    found = assignments_queries.draft_of(anas, ana)
    assert found is not None
    assert found.answers["reason"] == "b"


@pytest.mark.parametrize("revision", [0, 1, 7])
def test_a_draft_from_another_window_is_not_overwritten(ana: User, revision: int) -> None:
    open_case()
    anas = claim(ana)
    assert anas.token is not None
    assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="a"), revision=0)
    assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="b"), revision=1)
    with pytest.raises(errors.StaleDraft):
        assignments_services.save_draft(ana, anas.pk, anas.token, Answers(reason="c"), revision=revision)
    kept = Draft.objects.get()
    assert (kept.answers["reason"], kept.revision) == ("b", 2)


def test_each_phase_has_its_own_draft(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    bos = claim(bo)
    draft(bo, bos, bos.token or uuid.uuid4())
    submit(bos, approval())
    bos = claim(bo)
    assert assignments_queries.draft_of(bos, bo) is None
    draft(bo, bos, bos.token or uuid.uuid4())
    assert set(Draft.objects.values_list("phase", flat=True)) == {Phase.COMMIT, Phase.CONFIRM}


# ----------------------------------------------------------------------------------------------------------- submitting


def test_incomplete_answers_are_refused_with_every_problem_and_nothing_is_written(ana: User) -> None:
    case = open_case()
    anas = claim(ana)
    with pytest.raises(errors.Incomplete) as refused:
        submit(anas, Answers())
    assert len(refused.value.problems) == 5
    assert not Review.objects.exists()
    assert trail(case) == [("opened", ""), ("claimed", "ana")]
    submit(anas, approval())


def test_submitting_twice(ana: User, bo: User) -> None:
    open_case()
    anas = claim(ana)
    submit(anas, approval())
    with pytest.raises(errors.AlreadySubmitted):
        submit(anas, rejection())
    assert Review.objects.count() == 1


def test_submitting_the_review_that_closed_the_case_twice(ana: User) -> None:
    case = open_case(policy=Policy(secondary=False))
    anas = claim(ana)
    submit(anas, approval())
    assert state_of(case) == (State.APPROVED, Ground.PRIMARY_ALONE)
    with pytest.raises(errors.AlreadySubmitted):
        submit(anas, approval())


def test_a_double_click_on_the_blind_answer_does_not_confirm_it(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    bos = claim(bo)
    submit(bos, approval())
    with pytest.raises(errors.AlreadySubmitted):
        submit(bos, approval())
    assert state_of(case)[0] == State.SECONDARY
    assert Review.objects.filter(physician=bo).count() == 1


def test_a_late_repeat_of_an_adjudicators_vote_is_not_the_second_vote(
    ana: User, bo: User, chen: User, dina: User
) -> None:
    case_in_adjudication(ana, bo)
    chens = claim(chen)
    submit(chens, approval())
    claim_and_submit(dina, rejection())
    with pytest.raises(errors.AlreadySubmitted):
        submit(chens, approval())
    assert claim(chen).phase == Phase.DISCUSS


def test_a_review_submitted_carries_the_token_of_what_comes_next(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    review = submit(claim(bo), approval())
    assert review.assignment.phase == Phase.CONFIRM
    assert review.assignment.token == claim(bo).token


def test_a_changed_mind_wants_a_reason(ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, rejection())
    bos = claim(bo)
    with pytest.raises(errors.Incomplete):
        submit(bos, approval())
    submit(bos, approval(change_reason="The primary is right about the dose."))
    assert state_of(case) == (State.APPROVED, Ground.CONSENSUS)


# -------------------------------------------------------------------------------------------------------- the whole way


def test_consensus_and_its_trail(ana: User, bo: User) -> None:
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


def test_dissent_discussion_and_its_trail(ana: User, bo: User, chen: User, dina: User, emil: User) -> None:
    case = case_in_adjudication(ana, bo)
    chens, dinas = claim(chen), claim(dina)
    assert {chens.role, dinas.role} == {Role.ADJUDICATOR_1, Role.ADJUDICATOR_2}
    assert claims.claim_next(emil) is None
    submit(chens, approval())
    chens.refresh_from_db()
    assert chens.hold == Hold.WAITING
    assert claims.claim_next(chen) is None
    submit(dinas, rejection())
    assert claims.claim_next(emil) is None  # the discussion is for the same two
    for physician, assignment in ((chen, chens), (dina, dinas)):
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


def test_adjudicators_who_never_agree_reject(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    assert state_of(case) == (State.REJECTED, Ground.UNDECIDED)


def progress(*steps: tuple[User, Answers]) -> None:
    for physician, answers in steps:
        claim_and_submit(physician, answers)


@pytest.mark.parametrize("steps", range(7))
def test_withdrawn_from_every_state_that_is_not_final(
    ana: User, bo: User, chen: User, dina: User, emil: User, adela: User, steps: int
) -> None:
    case = open_case()
    way = [(ana, approval()), (bo, rejection()), (bo, rejection()), (chen, approval()), (dina, rejection())]
    progress(*[*way, (chen, approval())][:steps])
    before = state_of(case)[0]
    cases_services.withdraw(case.pk, actor=adela, reason="The source was retracted.")
    assert state_of(case) == (State.WITHDRAWN, Ground.WITHDRAWN)
    assert not Assignment.objects.filter(case=case).exclude(hold=Hold.DONE).exists()
    assert claims.claim_next(emil) is None
    assert trail(case)[-2:] == [("withdrawn", "adela"), ("closed", "adela")]
    closing = Event.objects.filter(case=case).last()
    assert closing is not None
    assert closing.data["before"] == before


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("committed", [False, True])
def test_a_withdrawn_case_is_closed_to_who_holds_it(
    ana: User, bo: User, adela: User, act: Act, committed: bool
) -> None:
    case = case_in_secondary(ana)
    if committed:
        claim_and_submit(bo, approval())
    bos = claim(bo)
    cases_services.withdraw(case.pk, actor=adela, reason="Duplicate.")
    assert bos.token is not None
    with pytest.raises(errors.CaseClosed):
        act(bo, bos, bos.token)


def test_what_is_final_stays_so(ana: User, bo: User, adela: User) -> None:
    case = case_in_secondary(ana)
    claim_and_submit(bo, approval(), approval())
    with pytest.raises(errors.CaseClosed):
        cases_services.withdraw(case.pk, actor=adela, reason="Too late.")
    with pytest.raises(errors.CaseClosed):
        cases_services.prioritise(case.pk, actor=adela, priority=3)
    assert state_of(case)[0] == State.APPROVED
    assert not Event.objects.filter(case=case, kind=Event.Kind.PRIORITISED).exists()


def test_only_who_oversees_withdraws_and_prioritises(ana: User, rui: User) -> None:
    case = open_case()
    for person in (ana, rui):
        with pytest.raises(errors.NotAllowed):
            cases_services.withdraw(case.pk, actor=person, reason="No.")
        with pytest.raises(errors.NotAllowed):
            cases_services.prioritise(case.pk, actor=person, priority=9)


def test_priority_is_in_the_trail(adela: User) -> None:
    case = open_case()
    cases_services.prioritise(case.pk, actor=adela, priority=3)
    last = Event.objects.filter(case=case).last()
    assert last is not None
    assert (last.kind, last.data) == ("prioritised", {"before": 0, "after": 3})


def test_the_stored_state_is_the_machines(ana: User, bo: User, chen: User, dina: User) -> None:
    """`Case.state` is a copy: replaying the reviews gives the same, wherever the case stands."""
    case = open_case()
    way = [(ana, approval()), (bo, rejection()), (bo, rejection()), (chen, approval()), (dina, approval())]
    for physician, answers in way:
        assert state_of(case)[0] == position(case.frozen.policy, visibility.opinions(case)).state
        claim_and_submit(physician, answers)
    assert state_of(case)[0] == position(case.frozen.policy, visibility.opinions(case)).state == State.APPROVED


def test_long_and_strange_text_is_stored(ana: User) -> None:
    case = assignments_services.open_case(case_spec(title="\0" + "漢" * 400))
    assert case.title == "漢" * 300
    review = submit(claim(ana), rejection("a\0b \ud800 \U0001f600"))
    review.refresh_from_db()
    assert review.answers["reason"] == "ab ? \U0001f600"


# -------------------------------------------------------------------------------------------------------------- settled


def settled_wordings(case: Case) -> dict[str, str]:
    """The wordings that stand and are not the original."""
    case.refresh_from_db()
    original = {rubric.key: rubric.criterion for rubric in case.frozen.form.rubrics}
    return {r.key: r.criterion for r in cases_queries.settled_case(case).rubrics if r.criterion != original[r.key]}


def test_a_correction_stands_when_the_secondary_makes_it_too(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=correction(" Calls it invented. "))
    claim_and_submit(bo, correction("Calls it invented."), correction("Calls it invented."))
    assert settled_wordings(case) == {"R1": "Calls it invented."}


def test_the_secondarys_wording_over_the_primarys(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."))
    claim_and_submit(
        bo, approval(), correction("Calls it unknown.", change_reason="The primary is right, but too narrow.")
    )
    assert settled_wordings(case) == {"R1": "Calls it unknown."}


def test_a_secondary_who_saw_the_correction_and_prefers_the_original(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."))
    claim_and_submit(bo, approval(), approval())
    assert settled_wordings(case) == {}


def test_a_secondary_who_never_saw_the_correction_does_not_undo_it(ana: User, bo: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."), policy=Policy(secondary_confirms=False))
    claim_and_submit(bo, approval())
    assert state_of(case)[0] == State.APPROVED
    assert settled_wordings(case) == {"R1": "Calls it invented."}


def test_the_adjudicators_wording_over_all_others(ana: User, bo: User, chen: User, dina: User) -> None:
    case = case_in_secondary(ana, answers=correction("Calls it invented."))
    claim_and_submit(bo, rejection(), rejection())
    claim_and_submit(chen, correction("Says that no such drug is registered."))
    claim_and_submit(dina, approval())
    assert settled_wordings(case) == {"R1": "Says that no such drug is registered."}


def test_reasons_are_those_that_speak_against(ana: User, bo: User) -> None:
    against = inadequate_rubric("Silent on the dose.", reason="The rubric misses the trap.")
    case = case_in_secondary(ana, answers=against)
    claim_and_submit(bo, approval(), approval())
    case.refresh_from_db()
    outcome = cases_queries.settled_case(case)
    assert outcome.reasons == ("The rubric misses the trap.", "R1: Silent on the dose.")
    assert (outcome.rubrics, outcome.ground) == ((), "rubric-inadequate")
    assert set(outcome.answers) == {"primary/commit", "secondary/commit", "secondary/confirm"}


def test_the_same_reason_from_two_is_given_once(ana: User, bo: User) -> None:
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
