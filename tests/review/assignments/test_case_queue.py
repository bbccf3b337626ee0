"""Which cases a physician may claim, in which order, and why: rules alone and together."""

import itertools
import random
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import case_queue, claims, reassignment, retraction
from review.assignments import services as assignments_services
from review.audit import verification
from review.audit.trail import recording_events
from review.calibration import queries
from review.calibration import services as calibration_services
from review.cases import services as cases_services
from review.models import Assignment, Audit, Case, Declined, Event, Notice, PersonEvent, User
from review.people import accounts
from review.rules.state_machine import Ground, Phase, Policy, Role, State
from review.turns.turn import readable_reviews
from tests.conftest import Clock, RunConcurrently
from tests.review.factories import (
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    count_available,
    open_case,
    rejection,
    replayed,
    submit,
    turn_at,
)
from tests.review.pages import Browse

pytestmark = pytest.mark.both

Hold = Assignment.Hold


def update_account(physician: User, **fields: Any) -> User:
    User.objects.filter(pk=physician.pk).update(**fields)
    physician.refresh_from_db()
    return physician


# --------------------------------------------------------------------------------------- the matrix


@dataclass(frozen=True)
class Rule:
    """A rule that keeps a physician from a case; `apply` brings the situation about."""

    name: str
    waived: bool  # a reservation by an admin overrides it

    def apply(self, physician: User, case: Case) -> None:
        rows = Assignment.objects.filter(case=case, role=Role.SECONDARY)
        primary = Assignment.objects.get(case=case, role=Role.PRIMARY).physician
        assert primary is not None
        match self.name:
            case "paused":
                update_account(physician, paused_at=timezone.now())
            case "stage":
                update_account(physician, stages=["primary", "adjudication"])
            case "specialty":
                rows.update(specialty="oncology")
                update_account(physician, specialty="Cardiology")
            case "language":
                rows.update(language="zh")
                update_account(physician, languages=["en", "fr"])
            case "same hospital":
                rows.update(other_hospital=True)
                update_account(primary, hospital="City Hospital")
                update_account(physician, hospital=" city hospital ")
            case "no hospital":
                rows.update(other_hospital=True)
                update_account(primary, hospital="City Hospital")
                update_account(physician, hospital="")
            case "not senior":
                rows.update(senior=True)
            case "declined":
                Declined.objects.create(case=case, physician=physician, reason="field", at=timezone.now())
            case "second role":
                Assignment.objects.filter(case=case, role=Role.PRIMARY).update(physician=physician)
            case "earlier version":
                earlier = open_case(1, version=1)
                reassignment.reassign(earlier.pk, Role.PRIMARY, to=physician, actor=admin())
                claim_and_submit(physician, approval())
                assert visibility.reviews_by(physician).get().case == earlier
                Case.objects.filter(pk=case.pk).update(fresh_eyes_required=True)
            case "cap":
                other = open_case(77, policy=Policy(secondary=False))
                reassignment.reassign(other.pk, Role.PRIMARY, to=physician, actor=admin())
                claim_and_submit(physician, approval())
                update_account(physician, daily_cap=1)
            case "calibration":
                rows.update(calibration=case.benchmark)
            case "reserved":
                rows.update(reserved_for=account("somebody-else"))
            case _:
                raise AssertionError(self.name)


RULES = [
    Rule("paused", waived=False),
    Rule("stage", waived=True),
    Rule("specialty", waived=True),
    Rule("language", waived=True),
    Rule("same hospital", waived=False),
    Rule("no hospital", waived=False),
    Rule("not senior", waived=False),
    Rule("declined", waived=False),
    Rule("second role", waived=False),
    Rule("earlier version", waived=False),
    Rule("cap", waived=False),
    Rule("calibration", waived=True),
    Rule("reserved", waived=True),
]


def admin() -> User:
    return User.objects.filter(username="chief").first() or account("chief", role="admin")  # type: ignore[arg-type]


def second_version(primary: User) -> Case:
    """Version 2 of a sample, which waits for its secondary."""
    case = open_case(1, version=2)
    reassignment.reassign(case.pk, Role.PRIMARY, to=primary, actor=admin())
    claim_and_submit(primary, approval())
    case.refresh_from_db()
    assert case.state == State.SECONDARY
    return case


def reserve(case: Case, physician: User) -> None:
    Assignment.objects.filter(case=case, role=Role.SECONDARY).update(reserved_for=physician)


def test_without_any_rule_the_case_is_offered(ana: User, bo: User) -> None:
    case = second_version(ana)
    assert count_available(bo) == 1
    assert case_queue.likely_next_case(bo) == case
    assert claim(bo).case == case


def test_without_a_case_to_take_none_is_likely(ana: User) -> None:
    open_case(1, policy=Policy(primary=False))  # approved unreviewed: it has no assignment
    assert case_queue.likely_next_case(ana) is None


def test_the_work_can_be_chosen_by_benchmark_and_stage(browse: Browse, ana: User, bo: User) -> None:
    second = case_in_secondary(ana)
    open_case(2)
    other = open_case(3, benchmark="other")
    work = {(each.benchmark, each.stage): each.cases for each in case_queue.available_work(bo)}
    assert work == {(second.benchmark, "secondary"): 1, (second.benchmark, "primary"): 1, ("other", "primary"): 1}
    assert claims.claim_next(bo, case_queue.ChosenWork(stage="adjudication")) is None
    browse(bo).post(reverse("review:next"), {"benchmark": "other", "stage": "primary"})
    held = Assignment.objects.get(physician=bo, hold=Hold.HELD)
    assert held.case == other
    assert held.token is not None
    claims.release(bo, held.pk, held.token)
    client = browse(bo)
    client.post(reverse("review:next"), {"stage": "adjudication"})
    assert "Nothing is left of the work that you chose" in client.get(reverse("review:workbench")).content.decode()
    client.post(reverse("review:next"))
    assert Assignment.objects.get(physician=bo, hold=Hold.HELD).case == second, "any work again"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_alone_withholds_the_case(ana: User, bo: User, chen: User, rule: Rule) -> None:
    case = second_version(ana)
    rule.apply(bo, case)
    others = Assignment.objects.exclude(case=case)
    others.update(hold=Hold.DONE)  # leave out the cases that the rule's setup created
    assert case_queue.likely_next_case(bo) is None
    assert claims.claim_next(bo) is None
    if rule.name != "paused" and rule.name != "cap":
        assert count_available(bo) == 0
    if rule.name not in (
        "reserved",
        "calibration",
        "language",
        "specialty",
        "same hospital",
        "no hospital",
        "not senior",
    ):
        assert claim(chen).case == case  # nobody else is kept away


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_reservation_overrides_rules_of_fit_and_no_others(ana: User, bo: User, rule: Rule) -> None:
    case = second_version(ana)
    rule.apply(bo, case)
    Assignment.objects.exclude(case=case).update(hold=Hold.DONE)
    reserve(case, bo)
    taken = claims.claim_next(bo)
    assert (taken is not None) == rule.waived
    assert taken is None or taken.reason == case_queue.WHY_RESERVED
    if not rule.waived and rule.name not in ("paused", "cap"):
        reserved = Assignment.objects.get(case=case, role=Role.SECONDARY)
        assert case_queue.ineligibility(bo, reserved) is not None


def test_one_role_of_a_case_is_reserved_for_a_person(ana: User, bo: User, chen: User, adela: User) -> None:
    """They could not take the other, and nobody else would be offered it."""
    case = case_in_adjudication(ana, bo)
    for _again in range(2):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_1, to=chen, actor=adela)
    with pytest.raises(errors.NotReserved):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_2, to=chen, actor=adela)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(RULES, 2)), ids=lambda rule: rule.name)
def test_two_rules_do_not_cancel_each_other(ana: User, bo: User, one: Rule, other: Rule) -> None:
    case = second_version(ana)
    last = ["cap", "paused"]  # once either applies, the others cannot be set up
    for rule in sorted((one, other), key=lambda rule: last.index(rule.name) + 1 if rule.name in last else 0):
        rule.apply(bo, case)
    Assignment.objects.exclude(case=case).update(hold=Hold.DONE)
    assert claims.claim_next(bo) is None


FITS = [
    ("", "", True), ("Cardiology", "", True), ("", "cardiology", True),
    ("CARDIOLOGY ", "Cardiology", True), ("Oncology", "cardiology", False),
    ("Nephrology", "Cardiology, Nephrology", True), ("Oncology", "Cardiology, Nephrology", False),
    ("Hand, foot", "Hand, foot", True), ("肾内科", "心内科、肾内科", True),
]  # fmt: skip


@pytest.mark.parametrize(("of_case", "of_physician", "fits"), FITS)
def test_specialty_of_case_and_physician(ana: User, of_case: str, of_physician: str, fits: bool) -> None:
    update_account(ana, specialty=of_physician)
    open_case(1, specialty=of_case)
    assert (claims.claim_next(ana) is not None) == fits


@pytest.mark.parametrize(
    ("of_case", "of_physician", "fits"),
    [
        ("", [], True), ("en", [], True), ("", ["zh"], True), ("zh-Hans", ["zh"], True), ("ZH", ["en", "zh"], True),
        ("en", ["zh"], False),
    ],
)  # fmt: skip
def test_language_of_case_and_physician(ana: User, of_case: str, of_physician: list[str], fits: bool) -> None:
    update_account(ana, languages=of_physician)
    open_case(1, language=of_case)
    assert (claims.claim_next(ana) is not None) == fits


def test_cases_are_offered_only_in_the_physicians_stages(ana: User, bo: User, chen: User) -> None:
    case_in_adjudication(ana, bo, number=1)
    update_account(chen, stages=["adjudication"])
    open_case(2)
    assert claim(chen).role == Role.ADJUDICATOR_1
    submit(claim(chen), approval())
    assert claims.claim_next(chen) is None


def test_only_the_primarys_hospital_is_excluded(ana: User, bo: User, chen: User, dina: User) -> None:
    policy = Policy(other_hospital=True)
    for physician, hospital in ((ana, "North"), (bo, "South"), (chen, "north"), (dina, "South")):
        update_account(physician, hospital=hospital)
    case_in_secondary(ana, number=1, policy=policy)
    assert claims.claim_next(chen) is None
    claim_and_submit(bo, rejection(), rejection())
    assert claims.claim_next(chen) is None
    assert claim(dina).role == Role.ADJUDICATOR_1  # a colleague of the secondary's


def test_only_senior_physicians_decide_where_the_policy_says_so(
    browse: Browse, ana: User, bo: User, chen: User, dina: User, adela: User
) -> None:
    case = case_in_adjudication(ana, bo, number=1, policy=Policy(senior_decides=True))
    assert case_queue.needs_senior(chen)
    assert not case_queue.needs_senior(ana)  # it would be closed to her anyway
    assert "need a senior physician" in browse(chen).get(reverse("review:workbench")).content.decode()
    page = browse(chen).post(reverse("review:next"), follow=True).content.decode()
    assert page.count("need a senior physician") == 2, "as a message and on the page"
    with pytest.raises(errors.NotReserved, match="requires a senior physician"):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_1, to=chen, actor=adela)
    assert "senior physicians only" in browse(adela).get(reverse("review:history", args=[case.pk])).content.decode()
    for physician in (chen, dina):
        accounts.edit_person(physician.pk, {"senior": True}, actor=adela)
        physician.refresh_from_db()
        claim_and_submit(physician, approval())
    case.refresh_from_db()
    assert case.ground == Ground.ADJUDICATED
    assert list(verification.check(Audit())) == []
    User.objects.filter(pk=bo.pk).update(senior=True)
    assert [fault.what for fault in verification.check(Audit())] == ["account-senior"]


def test_a_primary_without_a_hospital_is_excluded_where_the_policy_needs_one(ana: User, bo: User) -> None:
    open_case(1, policy=Policy(other_hospital=True))
    assert claims.claim_next(ana) is None
    update_account(bo, hospital="South")
    assert claim(bo).role == Role.PRIMARY


def test_the_cap_counts_the_days_answered_cases_and_resets_at_midnight(ana: User, bo: User, clock: Clock) -> None:
    clock.now = clock.now.replace(hour=21, minute=0)
    update_account(ana, daily_cap=2)
    for number in range(6):
        open_case(number)
    released = claim(ana)
    claims.release(ana, released.pk, released.token)  # type: ignore[arg-type]  # does not count
    claim_and_submit(ana, approval())
    assignment = claim(ana)
    assert claims.claim_next(ana) == assignment  # a held case stays available
    submit(assignment, approval())
    assert claims.claim_next(ana) is None
    assert case_queue.likely_next_case(ana) is None
    assert "daily case limit" in str(case_queue.blocking_reason(ana))
    clock.advance(hours=4)
    assert claims.claim_next(ana) is not None


def test_no_time_zone_of_a_browser_begins_another_day_of_the_cap(ana: User, clock: Clock) -> None:
    clock.now = clock.now.replace(hour=12, minute=0)
    update_account(ana, daily_cap=1)
    open_case(1, policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    clock.advance(hours=2)
    for hours in (-13, 11):  # midnight has just been there
        with timezone.override(timezone.get_fixed_timezone(60 * hours)):
            assert case_queue.done_today(ana) == 1
    with override_settings(MHB_TIME_ZONE="Etc/GMT-11"):
        assert case_queue.done_today(ana) == 0, "a new day at the site"


def test_two_phases_of_a_case_count_once_towards_the_cap(ana: User, bo: User) -> None:
    case_in_secondary(ana, number=1)
    claim_and_submit(bo, approval(), approval())
    assert case_queue.done_today(bo) == 1


def test_a_paused_physician_can_finish_a_held_case(ana: User, bo: User, adela: User) -> None:
    open_case(1)
    open_case(2)
    assignment = claim(ana)
    accounts.set_paused(ana.pk, True, actor=adela)
    assert claims.claim_next(ana) == assignment
    submit(assignment, approval())
    assert claims.claim_next(ana) is None
    accounts.set_paused(ana.pk, False, actor=adela)
    assert claims.claim_next(ana) is not None


# ---------------------------------------------------------------------------------------- the order


def test_peeking_claims_nothing_and_predicts_the_next_claim(physicians: list[User]) -> None:
    for number in range(20):
        open_case(number)
    for physician in physicians:
        before = list(Assignment.objects.values())
        expected = case_queue.likely_next_case(physician)
        assert list(Assignment.objects.values()) == before
        assert claim(physician).case == expected


def test_the_oldest_case_comes_first(ana: User) -> None:
    cases = [open_case(number, policy=Policy(secondary=False)).pk for number in range(10)]
    assert [claim_and_submit(ana, approval()).case_id for _ in cases] == cases


def test_fresh_cases_come_first_and_then_priority_decides(ana: User, bo: User, adela: User) -> None:
    open_case(1)
    claim_and_submit(ana, rejection())
    claim_and_submit(bo, rejection(), rejection())
    again = open_case(1, version=2)
    cases_services.prioritise(again.pk, actor=adela, priority=9)
    fresh = open_case(2)
    assert case_queue.likely_next_case(ana) == fresh
    assert claim(account("new")).case == again


def test_a_lapsed_lease_is_taken_over_only_if_nothing_else_is_open(ana: User, bo: User, clock: Clock) -> None:
    lost = open_case(1)
    ana_assignment = claim(ana)
    clock.advance(minutes=16)
    other = open_case(2)
    assert claim(bo).case == other
    taken = claim(account("new"))
    assert (taken.pk, taken.case, taken.reason) == (ana_assignment.pk, lost, case_queue.WHY_LEFT)


def test_a_released_case_is_offered_again_only_if_nothing_else_is_open(ana: User, adela: User) -> None:
    back = open_case(1)
    assignment = claim(ana)
    claims.release(ana, assignment.pk, assignment.token)  # type: ignore[arg-type]
    cases_services.prioritise(back.pk, actor=adela, priority=50)
    other = open_case(2)
    assert claim_and_submit(ana, approval()).case == other
    again = claim(ana)
    assert (again.case, again.reason) == (back, case_queue.WHY_AGAIN)


def test_the_claim_reason_is_stored(ana: User, bo: User, chen: User, adela: User) -> None:
    open_case(1)
    assert claim(ana).reason == case_queue.WHY_NEXT
    submit(claim(ana), rejection())
    assert claim(bo).reason == case_queue.WHY_SECONDARY
    claim_and_submit(bo, approval(), approval())
    assert claim(chen).reason == case_queue.WHY_ADJUDICATOR
    urgent = open_case(2)
    cases_services.prioritise(urgent.pk, actor=adela, priority=1)
    new = account("new")
    update_account(new, stages=["primary"])
    assert claim(new).reason == case_queue.WHY_PRIORITY
    open_case(3, version=2)
    newer = account("newer")
    update_account(newer, stages=["primary"])
    assert claim(newer).reason == case_queue.WHY_FRESH
    assignment = Assignment.objects.get(physician=newer)
    claims.release(newer, assignment.pk, assignment.token)  # type: ignore[arg-type]
    assignment.refresh_from_db()
    assert assignment.reason == ""


def test_counting_available_cases_stops_at_the_limit(ana: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_queue, "COUNT_LIMIT", 3)
    for number in range(5):
        assert count_available(ana) == min(number, 3)
        open_case(number)


# ----------------------------------------------------------------------------- declining, reporting


def test_declining_is_permanent_and_leaves_the_case_to_others(ana: User, bo: User) -> None:
    case = open_case(1)
    assignment = claim(ana)
    assert assignment.token is not None
    claims.decline(ana, assignment.pk, assignment.token, Declined.Reason.CONFLICT, "I have treated this patient.")
    assert claims.claim_next(ana) is None
    event = Event.objects.get(kind=Event.Kind.DECLINED)
    assert (event.actor, event.data["because"], event.data["text"]) == (ana, "conflict", "I have treated this patient.")
    assert claim(bo).case == case
    assert not Event.objects.filter(kind=Event.Kind.TAKEN_OVER).exists()
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, assignment), assignment.token, approval())


def test_a_committed_answer_cannot_be_declined(ana: User, bo: User) -> None:
    case_in_secondary(ana)
    claim_and_submit(bo, approval())
    assignment = claim(bo)
    assert assignment.token is not None
    with pytest.raises(errors.AlreadySubmitted):
        claims.decline(bo, assignment.pk, assignment.token, Declined.Reason.OTHER)


def test_a_problem_is_reported_to_every_admin_and_the_case_stays_held(ana: User, bo: User, adela: User) -> None:
    account("gone", role="admin", is_active=False)  # type: ignore[arg-type]
    case = open_case(1)
    assignment = claim(ana)
    claims.report_problem(ana, assignment.pk, "The report is cut off.")
    notice = Notice.objects.get()
    assert (notice.user, notice.kind, notice.case, notice.text) == (
        adela, Notice.Kind.PROBLEM, case, "The report is cut off.",
    )  # fmt: skip
    assert Event.objects.get(kind=Event.Kind.PROBLEM).actor == ana
    assert claim(ana).token == assignment.token
    with pytest.raises(errors.NotAssigned):
        claims.report_problem(bo, assignment.pk, "Let me see.")


# -------------------------------------------------------------------------------------- reassigning


def test_reassigning_takes_the_case_from_its_holder_who_keeps_the_draft(ana: User, bo: User, adela: User) -> None:
    case = open_case(1)
    open_case(2)
    assignment = claim(ana)
    assert assignment.token is not None
    assignments_services.save_draft(turn_at(ana, assignment), assignment.token, approval(), revision=0)
    reassignment.reassign(assignment.case_id, Role.PRIMARY, to=bo, actor=adela)
    event = Event.objects.get(case=assignment.case, kind=Event.Kind.REASSIGNED)
    assert (event.actor, event.data) == (adela, {"role": "primary", "taken_from": ana.pk, "given_to": bo.pk})
    with pytest.raises(errors.LeaseLost):
        assignments_services.submit(turn_at(ana, assignment), assignment.token, approval())
    assert ana.drafts.count() == 1
    assert claim(ana).case != assignment.case
    taken = claim(bo)
    assert (taken.case, taken.reason) == (assignment.case, case_queue.WHY_RESERVED)
    assert not Event.objects.filter(kind=Event.Kind.TAKEN_OVER).exists()
    assert case.pk


def test_reassigning_to_nobody_opens_the_case_to_all(ana: User, bo: User, adela: User) -> None:
    case = open_case(1)
    claim(ana)
    reassignment.reassign(case.pk, Role.PRIMARY, to=None, actor=adela)
    assert claim(bo).case == case


def test_only_uncommitted_roles_can_be_reassigned(ana: User, bo: User, chen: User, dina: User, adela: User) -> None:
    case = case_in_secondary(ana)
    for role, refusal in ((Role.PRIMARY, errors.Committed), (Role.ADJUDICATOR_1, errors.NotAssigned)):
        with pytest.raises(refusal):
            reassignment.reassign(case.pk, role, to=None, actor=adela)
    claim_and_submit(bo, rejection())
    with pytest.raises(errors.Committed):  # the confirmation is the secondary's own
        reassignment.reassign(case.pk, Role.SECONDARY, to=chen, actor=adela)
    claim_and_submit(bo, rejection())
    claim_and_submit(chen, approval())
    with pytest.raises(errors.Committed):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_1, to=dina, actor=adela)
    reassignment.reassign(case.pk, Role.ADJUDICATOR_2, to=dina, actor=adela)
    cases_services.withdraw(case.pk, actor=adela, reason="Stuck.")
    with pytest.raises(errors.CaseClosed):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_2, to=dina, actor=adela)
    with pytest.raises(errors.NotAllowed):
        reassignment.reassign(case.pk, Role.ADJUDICATOR_2, to=dina, actor=dina)


def test_a_case_cannot_be_reassigned_to_an_ineligible_person(ana: User, bo: User, adela: User, rui: User) -> None:
    case = case_in_secondary(ana)
    gone = account("gone", is_active=False)
    for person in (ana, rui, adela, gone):
        with pytest.raises(errors.NotReserved):
            reassignment.reassign(case.pk, Role.SECONDARY, to=person, actor=adela)
    assert not Event.objects.filter(kind=Event.Kind.REASSIGNED).exists()
    assert claim(bo).case == case


def test_reassigning_to_the_holder_fences_the_old_page(ana: User, adela: User) -> None:
    case = open_case(1)
    assignment = claim(ana)
    reassignment.reassign(case.pk, Role.PRIMARY, to=ana, actor=adela)
    assert claim(ana).token != assignment.token


# ------------------------------------------------------------------------------------------ threads


def assert_none_failed(outcomes: list[object], *expected: type[Exception]) -> None:
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception) and not isinstance(outcome, expected)]
    assert not failed, failed


def test_twelve_concurrent_claims_never_share_a_case(run_concurrently: RunConcurrently) -> None:
    # Twelve, because a process has sixteen connections.
    people = [account(f"physician-{number}") for number in range(12)]
    for number in range(60):
        open_case(number)
    for _round in range(3):
        outcomes = run_concurrently([partial(claims.claim_next, physician) for physician in people])
        assert_none_failed(outcomes)
        assert len({assignment.pk for assignment in outcomes}) == len(people)
        Assignment.objects.filter(hold=Hold.HELD).update(hold=Hold.OPEN, physician=None, token=None, lease_until=None)


def test_reassigning_declining_and_claiming_at_once(run_concurrently: RunConcurrently) -> None:
    ana, bo, chen = (account(name) for name in ("ana", "bo", "chen"))
    chief = admin()
    for number in range(10):
        case = open_case(number)
        assignment = claim(ana)
        outcomes = run_concurrently(
            [
                partial(reassignment.reassign, case.pk, Role.PRIMARY, to=bo, actor=chief),
                partial(claims.decline, ana, assignment.pk, assignment.token, Declined.Reason.FIELD),  # type: ignore[arg-type]
                partial(claims.claim_next, chen),
                partial(cases_services.prioritise, case.pk, actor=chief, priority=number),
            ]
        )
        assert_none_failed(outcomes, errors.LeaseLost, errors.NotAssigned)
        row = Assignment.objects.get(case=case)
        assert row.priority == number
        assert row.physician in (None, chen)
        if row.physician is None:
            assert row.reserved_for == bo
        Assignment.objects.filter(case=case).update(
            hold=Hold.DONE, physician=None, token=None, lease_until=None, reserved_for=None
        )


def test_the_cap_holds_in_several_tabs(run_concurrently: RunConcurrently) -> None:
    ana = update_account(account("ana"), daily_cap=2)
    for number in range(20):
        open_case(number, policy=Policy(secondary=False))

    def work() -> None:
        while (assignment := claims.claim_next(ana)) is not None:
            try:
                submit(assignment, approval())
            except (errors.AlreadySubmitted, errors.LeaseLost, errors.CaseClosed):
                continue

    assert_none_failed(run_concurrently([work] * 4))
    assert case_queue.done_today(ana) == 2


def test_a_mixed_team_works_off_a_queue_with_all_rules_on(run_concurrently: RunConcurrently) -> None:
    chance = random.Random(3)
    people = [
        account(f"p{n}", hospital=f"H{n % 3}", languages=[["en"], ["zh"], []][n % 3], stages=[[], ["primary"]][n % 2])
        for n in range(6)
    ]
    policy = Policy(other_hospital=True, discussion=False)
    for number in range(12):
        open_case(number, policy=policy, language=chance.choice(["", "en", "zh"]))

    def work(physician: User) -> None:
        while (assignment := claims.claim_next(physician)) is not None:
            submit(assignment, approval(change_reason="I see it now."))

    for _round in range(3):
        assert_none_failed(run_concurrently([partial(work, physician) for physician in people]))
    for case in Case.objects.all():
        roles = {a.role: a.physician for a in Assignment.objects.filter(case=case).select_related("physician")}
        first = roles[Role.PRIMARY]
        assert first is not None
        assert not case.language or not first.languages or case.language in first.languages
        second = roles.get(Role.SECONDARY)
        if second is not None:
            assert second.hospital != first.hospital
            assert not second.stages


def test_a_row_reserved_for_somebody_else_after_the_search_is_not_claimed(ana: User, bo: User, adela: User) -> None:
    """The search reads a snapshot; a row reserved since then is checked again once it is locked."""
    case = open_case()
    [row] = case.assignments.all()
    reassignment.reassign(case.pk, Role.PRIMARY, to=bo, actor=adela)
    search = case_queue.first_round(ana)
    with recording_events():
        assert not claims._claim(row, ana, search)
        assert claims._claim(row, bo, search)


def replayed_state(case: Case) -> State:
    return replayed(case).state


def test_the_role_of_a_secondary_who_left_before_confirming_is_reopened(
    ana: User, bo: User, chen: User, dina: User, adela: User
) -> None:
    case = case_in_secondary(ana)
    with pytest.raises(errors.NotStuck):
        retraction.reopen_role(case.pk, Role.SECONDARY, actor=adela, reason="Left.")
    claim_and_submit(bo, rejection())
    stuck = claim(bo)
    with pytest.raises(errors.NotAllowed):
        retraction.reopen_role(case.pk, Role.SECONDARY, actor=chen, reason="Left.")
    retraction.reopen_role(case.pk, Role.SECONDARY, actor=adela, reason="Left the hospital.")
    case.refresh_from_db()
    assert case.state == replayed_state(case) == State.SECONDARY
    assert list(Event.objects.filter(case=case).values_list("kind", "actor"))[-2:] == [
        ("retracted", adela.pk),
        ("reassigned", adela.pk),
    ]
    assert claims.claim_next(bo) is None
    assert not readable_reviews(bo, case)
    with pytest.raises(errors.LeaseLost):
        submit(stuck, rejection())
    with pytest.raises(errors.NotReserved):
        reassignment.reassign(case.pk, Role.SECONDARY, to=bo, actor=adela)
    assert claim(chen).phase == Phase.COMMIT
    assert not readable_reviews(chen, case)
    claim_and_submit(chen, approval(), approval())
    case.refresh_from_db()
    assert case.state == replayed_state(case) == State.APPROVED


@pytest.mark.parametrize("voted_again", [False, True])
def test_the_role_of_an_adjudicator_who_left_before_the_second_vote_is_reopened(
    ana: User, bo: User, chen: User, dina: User, adela: User, voted_again: bool
) -> None:
    case = case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    if voted_again:
        claim_and_submit(dina, approval())
    retraction.reopen_role(case.pk, Role.ADJUDICATOR_1, actor=adela, reason="Left the hospital.")
    case.refresh_from_db()
    assert case.state == replayed_state(case) == State.ADJUDICATION
    assert [(one.role, one.verdict) for one in visibility.counted_reviews().filter(case=case, physician=dina)] == [
        (Role.ADJUDICATOR_2, "reject")
    ]
    assert claims.claim_next(chen) is None
    assert claims.claim_next(dina) is None
    emil = account("emil-again")
    assert claim(emil).case == case
    assert {one.role for one in readable_reviews(emil, case)} == {Role.PRIMARY, Role.SECONDARY}
    claim_and_submit(emil, approval())
    assert claim(dina).phase == Phase.DISCUSS  # they differ, so both vote again
    claim_and_submit(dina, approval())
    claim_and_submit(emil, approval())
    case.refresh_from_db()
    assert case.state == replayed_state(case) == State.APPROVED


def test_who_returned_an_adjudication_takes_no_earlier_role_once_the_case_is_reopened(
    ana: User, bo: User, chen: User, dina: User, adela: User
) -> None:
    case = case_in_adjudication(ana, bo)
    returned = claim(chen)
    assert {review.role for review in readable_reviews(chen, case)} == {Role.PRIMARY, Role.SECONDARY}
    assert returned.token is not None
    claims.release(chen, returned.pk, returned.token)
    claim_and_submit(dina, approval())
    claim_and_submit(account("emil-again"), approval())
    retraction.reopen(case.pk, bo.pk, actor=adela, reason="Two seconds a case.")
    case.refresh_from_db()
    assert case.state == replayed_state(case) == State.SECONDARY
    assert claims.claim_next(chen) is None, "who has read the first review gives no blind second one"
    assert claim(account("farah")).case == case


def test_the_history_offers_to_reopen_a_role_and_requires_a_reason(ana: User, bo: User, adela: User) -> None:
    case = case_in_secondary(ana)
    client = Client()
    client.force_login(adela)
    history, address = reverse("review:history", args=[case.pk]), reverse("review:set-back", args=[case.pk])
    assert address not in client.get(history).content.decode()
    claim_and_submit(bo, rejection())
    assert address in client.get(history).content.decode()
    client.post(address, {"role": "secondary", "reason": " "})
    assert visibility.counted_reviews().filter(case=case).count() == 2
    client.post(address, {"role": "secondary", "reason": "Left."})
    assert visibility.counted_reviews().filter(case=case).count() == 1
    assert address not in client.get(history).content.decode()


def test_an_admin_sets_the_specialty_of_a_case(ana: User, bo: User, adela: User) -> None:
    update_account(ana, specialty="Oncology")
    update_account(bo, specialty="cardiology")
    case = open_case()
    client = Client()
    client.force_login(adela)
    client.post(reverse("review:specialty", args=[case.pk]), {"specialty": " Cardiology "})
    assert claims.claim_next(ana) is None
    claim_and_submit(bo, approval())
    assert Assignment.objects.get(case=case, role=Role.SECONDARY).specialty == "cardiology"  # later roles too
    event = Event.objects.get(case=case, kind=Event.Kind.SPECIALTY)
    assert (event.actor, event.data) == (adela, {"text": "Cardiology"})
    cases_services.set_specialty(case.pk, "", actor=adela)
    assert claim(ana).case == case
    with pytest.raises(errors.NotAllowed):
        cases_services.set_specialty(case.pk, "", actor=bo)


def test_what_no_field_of_a_case_can_hold_changes_nothing_and_is_said(ana: User, admin: Client) -> None:
    case = open_case()
    for route, value in (("specialty", "x" * 101), ("case-language", "english")):
        page = admin.post(reverse(f"review:{route}", args=[case.pk]), {route.removeprefix("case-"): value}, follow=True)
        assert page.status_code == 200
        said = " ".join(map(str, page.context["messages"]))
        assert {"specialty": "Specialty: ", "case-language": "Language: "}[route] in said
    role = {"role": Role.PRIMARY, "physician": "9" * 5000}
    assert admin.post(reverse("review:reassign", args=[case.pk]), role).status_code == 404
    before = (case.specialty, case.language)
    case.refresh_from_db()
    assert (case.specialty, case.language) == before


def test_known_answers_suit_who_reads_their_language_of_whatever_region(
    ana: User, bo: User, chen: User, adela: User
) -> None:
    case = open_case(policy=Policy(secondary=False), language="en")
    claim_and_submit(ana, approval())
    case.refresh_from_db()
    calibration_services.make_item(case, queries.suggested_answers(case), actor=adela)
    assert calibration_services.offer_again(update_account(bo, languages=["en-GB"]), actor=adela) == 1
    assert calibration_services.offer_again(update_account(chen, languages=["zh-Hant"]), actor=adela) == 0


def test_changes_of_known_answers_are_recorded(ana: User, adela: User) -> None:
    case = open_case(policy=Policy(secondary=False))
    claim_and_submit(ana, approval())
    case.refresh_from_db()
    item = calibration_services.make_item(case, queries.suggested_answers(case), actor=adela)
    known = item.expected
    calibration_services.change_item(item, actor=adela, expected=rejection())
    calibration_services.change_item(item, actor=adela, active=False)
    calibration_services.change_item(item, actor=adela, active=False)  # changes nothing
    created, changed, retired = PersonEvent.objects.filter(person=adela, actor=adela)
    assert (created.kind, created.data["item"], created.data["expected"]) == ("item-made", item.pk, known)
    assert changed.data["changed"] == {"expected": {"from": known, "to": item.expected}}
    assert (retired.kind, retired.data["changed"]) == ("item-changed", {"active": {"from": True, "to": False}})
    client = Client()
    client.force_login(adela)
    page = client.get(reverse("review:person", args=[adela.pk])).content.decode()
    assert f"Calibration case created: {item.title}" in " ".join(page.split())


def test_adjudication_is_for_people_who_have_finished_cases_of_the_benchmark(
    settings: Any, ana: User, bo: User, chen: User
) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 1
    disputed = case_in_adjudication(ana, bo)
    first = open_case(2)
    held = claim(chen)
    assert held.case == first, "a first review of this benchmark comes before"
    submit(held, approval())
    assert claim(chen).case == disputed


def test_experience_with_one_benchmark_is_enough_for_its_adjudications_alone(
    settings: Any, ana: User, bo: User, chen: User
) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 1
    open_case(1, benchmark="known", policy=Policy(secondary=False))
    claim_and_submit(chen, approval())
    disputed = case_in_adjudication(ana, bo, number=2)
    of_known = case_in_adjudication(ana, bo, number=3, benchmark="known")
    first = open_case(4)
    assert disputed.pk < of_known.pk
    for expected in (of_known, first, disputed):
        assert claim_and_submit(chen, approval()).case == expected


def test_zero_lets_anybody_adjudicate(settings: Any, ana: User, bo: User, chen: User) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 0
    disputed = case_in_adjudication(ana, bo)
    open_case(2)
    assert claim(chen).case == disputed


def test_without_other_work_anybody_adjudicates(settings: Any, ana: User, bo: User, chen: User) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 3
    disputed = case_in_adjudication(ana, bo)
    assert claim(chen).case == disputed


def test_work_that_somebody_may_not_take_keeps_no_adjudication_from_them(
    settings: Any, ana: User, bo: User, chen: User
) -> None:
    settings.MHB_CASES_BEFORE_ADJUDICATION = 3
    disputed = case_in_adjudication(ana, bo)
    other = open_case(2)
    reviewed = claim(chen)
    assert reviewed.case == other
    submit(reviewed, approval())  # its second review is open, and not for the first reviewer
    assert not case_queue.out_of_reach().exists(), "others may finish enough cases"
    assert claim(chen).case == disputed
