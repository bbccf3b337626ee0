"""Physicians on real threads and connections, and what must hold afterwards on either database."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from review import errors
from review.assignments import case_queue, claims, reassignment
from review.assignments import services as assignments_services
from review.cases import services as cases_services
from review.cases.services import lease
from review.models import Assignment, Case, Draft, Event, Review, User
from review.people import accounts
from review.rules.permissions import UserRole
from review.rules.questions import Answers
from review.rules.state_machine import FINAL, Phase, Policy, Role, State
from tests.conftest import RunConcurrently
from tests.review.factories import (
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    open_case,
    rejection,
    replayed,
    submit,
    turn_at,
)

Hold = Assignment.Hold
PRIMARY_ONLY = Policy(secondary=False)
ROUNDS = 12  # a race shows only once in several tries


@pytest.fixture
def eight_physicians(run_concurrently: RunConcurrently) -> list[User]:
    return [account(f"physician-{number}") for number in range(8)]


def expire_lease(assignment: Assignment) -> None:
    """Let the lease run out, as if the physician had left."""
    Assignment.objects.filter(pk=assignment.pk).update(lease_until=timezone.now() - lease())


def late_submit(assignment: Assignment) -> Review:
    return submit(assignment, approval())


def assert_none_failed(outcomes: list[object], *expected: type[Exception]) -> None:
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception) and not isinstance(outcome, expected)]
    assert not failed, failed


def test_concurrent_claims_get_different_cases(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    for number in range(len(eight_physicians)):
        open_case(number)
    outcomes = run_concurrently([partial(claims.claim_next, physician) for physician in eight_physicians])
    assert_none_failed(outcomes)
    assert len({assignment.case_id for assignment in outcomes}) == len(eight_physicians)


def test_concurrent_claims_of_fewer_cases_than_physicians(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    for number in range(3):
        open_case(number)
    outcomes = run_concurrently([partial(claims.claim_next, physician) for physician in eight_physicians])
    assert_none_failed(outcomes)
    assert len([outcome for outcome in outcomes if outcome is not None]) == 3
    assert Assignment.objects.filter(hold=Hold.HELD).count() == 3


def test_of_many_cases_none_is_claimed_twice_and_none_lost(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    for number in range(60):
        open_case(number, policy=PRIMARY_ONLY)

    def work(physician: User) -> int:
        done = 0
        while (assignment := claims.claim_next(physician)) is not None:
            submit(assignment, approval())
            done += 1
        return done

    outcomes = run_concurrently([partial(work, physician) for physician in eight_physicians])
    assert_none_failed(outcomes)
    assert sum(outcomes) == 60
    assert set(Counter(Review.objects.values_list("case_id", flat=True)).values()) == {1}
    assert Event.objects.filter(kind=Event.Kind.CLAIMED).count() == 60
    assert set(Case.objects.values_list("state", flat=True)) == {State.APPROVED}


def test_all_physicians_work_off_the_queue_at_once(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    for number in range(12):
        open_case(number)

    def work(physician: User) -> None:
        chance = random.Random(physician.username)
        while Case.objects.exclude(state__in=FINAL).exists():
            assignment = claims.claim_next(physician)
            if assignment is None:
                time.sleep(0.05)  # else those who ask in vain starve those who submit: SQLite's lock is not fair
                continue
            answers = approval if chance.random() < 0.5 else rejection
            submit(assignment, answers(change_reason="I see it now."))

    assert_none_failed(run_concurrently([partial(work, physician) for physician in eight_physicians]))
    for case in Case.objects.all():
        assert case.state == replayed(case).state
        reviews = list(Review.objects.filter(case=case))
        assert len({(review.role, review.physician_id) for review in reviews}) == len(
            {review.physician_id for review in reviews}
        )
        assert all(review.physician_id == review.assignment.physician_id for review in reviews)
        kinds = Counter(Event.objects.filter(case=case).values_list("kind", flat=True))
        assert kinds[Event.Kind.SUBMITTED] == len(reviews)
        assert kinds[Event.Kind.CLOSED] == 1


def test_a_physician_claiming_in_several_tabs_gets_one_case(
    eight_physicians: list[User], run_concurrently: RunConcurrently, settings: Any
) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 0
    case = case_in_adjudication(eight_physicians[0], eight_physicians[1])  # two roles of the same case are open
    open_case(2)
    outcomes = run_concurrently([partial(claims.claim_next, eight_physicians[2])] * 4)
    assert_none_failed(outcomes)
    assert {(assignment.case_id, assignment.token) for assignment in outcomes} == {(case.pk, outcomes[0].token)}
    assert Event.objects.filter(kind=Event.Kind.CLAIMED, actor=eight_physicians[2]).count() == 1


def test_a_review_submitted_concurrently_is_stored_once(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    ana, bo = eight_physicians[:2]
    for number in range(ROUNDS):
        case = case_in_secondary(ana, number=number)
        bo_assignment = claim(bo)
        outcomes = run_concurrently([partial(late_submit, bo_assignment)] * 3)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [
            "AlreadySubmitted",
            "AlreadySubmitted",
            "Review",
        ]
        assert Review.objects.get(case=case, physician=bo).phase == Phase.COMMIT
        claim_and_submit(bo, approval())


def test_the_last_review_submitted_concurrently_closes_the_case_once(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    for number in range(ROUNDS):
        case = open_case(number, policy=PRIMARY_ONLY)
        outcomes = run_concurrently([partial(late_submit, claim(eight_physicians[0]))] * 2)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadySubmitted", "Review"]
        assert Event.objects.filter(case=case, kind=Event.Kind.CLOSED).count() == 1


def test_a_late_submit_races_a_take_over(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    ana, bo = eight_physicians[:2]
    for number in range(ROUNDS):
        case = open_case(number, policy=PRIMARY_ONLY)
        ana_assignment = claim(ana)
        expire_lease(ana_assignment)
        submitted, taken = run_concurrently([partial(late_submit, ana_assignment), partial(claims.claim_next, bo)])
        assert_none_failed([submitted, taken], errors.LeaseLost)
        if isinstance(submitted, Review):
            assert taken is None
        else:
            assert taken.pk == ana_assignment.pk
            assert Draft.objects.filter(assignment=ana_assignment, physician=ana).exists()
            submit(taken, approval())
        review = Review.objects.select_related("assignment").get(case=case)
        assert review.physician_id == review.assignment.physician_id


def test_a_late_blind_answer_races_a_take_over(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    """If the commit wins, the confirmation is still the committer's own."""
    ana, bo, chen = eight_physicians[:3]
    for number in range(ROUNDS):
        case = case_in_secondary(ana, number=number)
        bo_assignment = claim(bo)
        expire_lease(bo_assignment)
        submitted, taken = run_concurrently([partial(late_submit, bo_assignment), partial(claims.claim_next, chen)])
        assert_none_failed([submitted, taken], errors.LeaseLost)
        holder = bo if isinstance(submitted, Review) else chen
        assert (taken is None) == (holder == bo)
        assert Assignment.objects.get(case=case, role=Role.SECONDARY).physician == holder
        claim_and_submit(holder, *[approval()] * (1 if holder == bo else 2))


def save_first_draft(assignment: Assignment) -> Draft:
    """Save a draft of the physician who claimed the assignment, as it was then."""
    assert assignment.physician is not None
    assert assignment.token is not None
    turn = turn_at(assignment.physician, assignment)
    return assignments_services.save_draft(turn, assignment.token, Answers(reason="typed"), revision=0)


def test_a_late_draft_races_a_take_over(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    ana, bo = eight_physicians[:2]
    for number in range(ROUNDS):
        open_case(number, policy=PRIMARY_ONLY)
        ana_assignment = claim(ana)
        expire_lease(ana_assignment)
        assert ana_assignment.token is not None
        saved, taken = run_concurrently(
            [
                partial(save_first_draft, ana_assignment),
                partial(claims.claim_next, bo),
            ]
        )
        assert_none_failed([saved, taken], errors.LeaseLost)
        assert isinstance(saved, Draft) == (taken is None)
        assert Draft.objects.get(assignment=ana_assignment).answers["reason"] == "typed"
        submit(taken or claim(ana), approval())


def test_the_sweeper_races_a_heartbeat_a_submit_and_a_claim(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    ana, bo = eight_physicians[:2]
    for number in range(ROUNDS):
        case = open_case(number, policy=PRIMARY_ONLY)
        ana_assignment = claim(ana)
        expire_lease(ana_assignment)
        assert ana_assignment.token is not None
        outcomes = run_concurrently(
            [
                claims.expire_leases,
                partial(claims.heartbeat, ana, ana_assignment.pk, ana_assignment.token),
                partial(late_submit, ana_assignment),
                partial(claims.claim_next, bo),
            ]
        )
        assert_none_failed(outcomes, errors.LeaseLost, errors.AlreadySubmitted)
        taken = outcomes[3]
        if not isinstance(outcomes[2], Review):
            submit(taken or claim(bo), approval())
        assert Review.objects.filter(case=case).count() == 1
        kinds = Counter(Event.objects.filter(case=case).values_list("kind", flat=True))
        takes = kinds[Event.Kind.CLAIMED] + kinds[Event.Kind.TAKEN_OVER]
        # Every hold ends with exactly one event.
        assert takes - kinds[Event.Kind.EXPIRED] - kinds[Event.Kind.TAKEN_OVER] == 1


def test_a_release_races_a_submit(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    ana, bo = eight_physicians[:2]
    for number in range(ROUNDS):
        case = case_in_secondary(ana, number=number)
        bo_assignment = claim(bo)
        assert bo_assignment.token is not None
        outcomes = run_concurrently(
            [partial(claims.release, bo, bo_assignment.pk, bo_assignment.token), partial(late_submit, bo_assignment)]
        )
        assert_none_failed(outcomes, errors.LeaseLost, errors.AlreadySubmitted)
        assert isinstance(outcomes[0], Exception) != isinstance(outcomes[1], Exception)
        while not Case.objects.filter(pk=case.pk, state__in=FINAL).exists():
            claim_and_submit(bo, approval())


def test_two_tabs_save_the_first_draft_at_once(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    for number in range(ROUNDS):
        open_case(number, policy=PRIMARY_ONLY)
        assignment = claim(eight_physicians[0])
        save = partial(save_first_draft, assignment)
        outcomes = run_concurrently([save, save])
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Draft", "StaleDraft"]
        submit(assignment, approval())


def test_two_adjudicators_vote_at_once(eight_physicians: list[User], run_concurrently: RunConcurrently) -> None:
    ana, bo, chen, dina = eight_physicians[:4]
    for number in range(ROUNDS):
        case = case_in_adjudication(ana, bo, number=number)
        for phase in (Phase.COMMIT, Phase.DISCUSS):
            chen_assignment, dina_assignment = claim(chen), claim(dina)
            assert (chen_assignment.phase, dina_assignment.phase) == (phase, phase)
            assert_none_failed(
                run_concurrently(
                    [partial(submit, chen_assignment, approval()), partial(submit, dina_assignment, rejection())]
                )
            )
        case.refresh_from_db()
        assert (case.state, case.ground) == (State.REJECTED, "undecided")


def test_a_withdrawal_races_a_submit_and_a_claim(
    eight_physicians: list[User], run_concurrently: RunConcurrently
) -> None:
    ana, bo = eight_physicians[:2]
    adela = account("adela", role="admin")  # type: ignore[arg-type]
    for number in range(ROUNDS):
        case = open_case(number)
        ana_assignment = claim(ana)
        open_case(1000 + number)
        outcomes = run_concurrently(
            [
                partial(cases_services.withdraw, case.pk, actor=adela, reason="Duplicate."),
                partial(late_submit, ana_assignment),
                partial(claims.claim_next, bo),
            ]
        )
        assert_none_failed(outcomes, errors.CaseClosed)
        case.refresh_from_db()
        assert case.state == State.WITHDRAWN
        assert Review.objects.filter(case=case).count() == isinstance(outcomes[1], Review)
        assert not Assignment.objects.filter(case=case).exclude(hold=Hold.DONE).exists()
        for rest in Case.objects.exclude(state__in=FINAL):
            cases_services.withdraw(rest.pk, actor=adela, reason="Cleared for the next round.")


def test_a_claim_waits_for_the_only_case_instead_of_finding_none(
    run_concurrently: RunConcurrently,
) -> None:
    ana = account("ana")
    row = open_case().assignments.get(role=Role.PRIMARY)
    locked = threading.Event()

    def hold_the_row() -> None:
        with transaction.atomic():
            Assignment.objects.select_for_update().get(pk=row.pk)
            locked.set()
            time.sleep(0.5)  # much longer than skipping the row twenty times takes

    def claim_meanwhile() -> Assignment | None:
        assert locked.wait(timeout=60)
        return claims.claim_next(ana)

    _, taken = run_concurrently([hold_the_row, claim_meanwhile])
    assert taken == row


def test_a_claim_finds_the_only_case_while_it_is_reassigned_to_its_physician(
    run_concurrently: RunConcurrently, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case is open when the claim begins and reserved for its physician when it ends."""
    ana, adela = account("ana"), account("adela", UserRole.ADMIN)
    row = open_case().assignments.get(role=Role.PRIMARY)
    locked, skipped, reassigned = threading.Event(), threading.Event(), threading.Event()
    first_candidate = case_queue.first_candidate

    def first_candidate_after_reassignment(
        physician: User, search_rounds: Iterable[case_queue.SearchRound]
    ) -> int | None:
        rounds = list(search_rounds)
        skipped.set()
        assert reassigned.wait(timeout=20)
        return first_candidate(physician, rounds)

    monkeypatch.setattr(case_queue, "first_candidate", first_candidate_after_reassignment)

    def reassign() -> None:
        with transaction.atomic():
            reassignment.reassign(row.case_id, Role.PRIMARY, to=ana, actor=adela)
            locked.set()
            # Without SKIP LOCKED the claim cannot even begin before the reassignment ends.
            if connection.features.has_select_for_update_skip_locked:
                assert skipped.wait(timeout=20)
        reassigned.set()

    def claim_meanwhile() -> Assignment | None:
        assert locked.wait(timeout=60)
        return claims.claim_next(ana)

    _, taken = run_concurrently([reassign, claim_meanwhile])
    assert taken == row


@pytest.mark.parametrize("end", [partial(accounts.set_active, active=False), partial(accounts.set_paused, paused=True)])
def test_no_case_stays_reserved_for_somebody_who_stops_meanwhile(
    end: Callable[..., User], run_concurrently: RunConcurrently, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, adela, boss = account("ana"), account("adela", UserRole.ADMIN), account("boss", UserRole.ADMIN)
    case, checked = open_case(), case_queue.ineligibility

    def check_slowly(*args: Any) -> object | None:
        problem = checked(*args)
        time.sleep(0.3)  # for the other to come in between
        return problem

    monkeypatch.setattr(case_queue, "ineligibility", check_slowly)
    outcomes = run_concurrently(
        [partial(reassignment.reserve, case.pk, to=ana, actor=adela), partial(end, ana.pk, actor=boss)]
    )
    assert_none_failed(outcomes, errors.NotReserved)
    assert not Assignment.objects.filter(reserved_for=ana).exists()


def test_a_claim_locks_one_row_and_updates_it_only_if_it_is_free(ana: User) -> None:
    open_case()
    with CaptureQueriesContext(connection) as captured:
        claim(ana)
    statements = [query["sql"] for query in captured]
    [update] = [sql for sql in statements if sql.startswith("UPDATE") and "physician_id" in sql]
    condition = update.partition("WHERE")[2]
    assert '"hold"' in condition
    assert '"lease_until" <' in condition
    if connection.vendor == "postgresql":
        selections = [sql for sql in statements if "SKIP LOCKED" in sql]
        assert selections
        assert all(sql.rstrip().endswith('LIMIT 1 FOR UPDATE OF "review_assignment" SKIP LOCKED') for sql in selections)
