"""Pages of a physician's day cost the same number of statements however much is stored."""

from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from review.assignments import services as assignments_services
from review.audit.trail import recording_events
from review.calibration import queries as calibration_queries
from review.calibration import services as calibration_services
from review.cases.services import lease
from review.discussion import notices, remarks
from review.models import Assignment, User
from tests.conftest import Clock
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    account,
    approval,
    case_in_secondary,
    claim,
    claim_and_submit,
    full_approval,
    open_case,
    take_first_look,
    turn_at,
)
from tests.review.pages import Browse

pytestmark = pytest.mark.both


def statements(act: Any) -> list[str]:
    """The statements of `act`, without those of transactions, which databases log differently."""
    with CaptureQueriesContext(connection) as captured:
        response = act()
    assert response.status_code in (200, 302)
    return [
        query["sql"] for query in captured if query["sql"].startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"))
    ]


def open_first_look_case(number: int = 1) -> None:
    open_case(number, form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)


def page_statements(client: Client, assignment: Assignment) -> list[str]:
    return statements(lambda: client.get(reverse("review:case", args=[assignment.pk])))


@pytest.fixture
def client(browse: Browse, ana: User) -> Client:
    return browse(ana)


def test_the_page_costs_the_same_however_many_cases_and_remarks_exist(client: Client, ana: User, bo: User) -> None:
    open_first_look_case()
    assignment = claim(ana)
    take_first_look(assignment)
    assignments_services.save_draft(turn_at(ana, assignment), assignment.token, full_approval(), revision=0)  # type: ignore[arg-type]
    few = page_statements(client, assignment)
    for number in range(2, 12):
        open_case(number)
        claim_and_submit(bo, approval())
    assert len(page_statements(client, assignment)) == len(few)
    remarks.remark(ana, assignment.case_id, "One thing.")
    with_one = page_statements(client, assignment)
    for _ in range(5):
        remarks.remark(ana, assignment.case_id, "And another.")
    assert len(page_statements(client, assignment)) == len(with_one)


def test_opening_the_page_renews_a_lease_that_is_not_fresh(client: Client, ana: User, clock: Clock) -> None:
    open_case()
    assignment = claim(ana)
    assert all(sql.startswith("SELECT") for sql in page_statements(client, assignment)), "the lease is fresh"
    assignment.refresh_from_db()
    assert assignment.lease_until == clock.now + lease()
    clock.advance(minutes=5)
    page_statements(client, assignment)
    assignment.refresh_from_db()
    assert assignment.lease_until == timezone.now() + lease()


def add_listed_rows(adela: User, ana: User, bo: User, chen: User, number: int) -> None:
    """Add one of everything that pages list.

    A closed case with a remark, an answered copy, a held case, a notice and accounts.
    """
    closed = case_in_secondary(chen, number=2 * number)
    claim_and_submit(bo, approval(), approval())
    remarks.remark(bo, closed.pk, "Closed, @chen.")
    remarks.remark(adela, ana.assignments.get().case_id, "Still open, @ana?")
    trained = account(f"trained-{number}")
    closed.refresh_from_db()
    item = calibration_services.make_item(closed, approval(), actor=adela)
    with recording_events():
        calibration_services._calibrate(trained, item)
    claim_and_submit(trained, approval())
    open_case(2 * number + 1)
    claim(account(f"busy-{number}"))


@pytest.mark.django_db
def test_lists_cost_the_same_however_long_they_are(
    browse: Browse, adela: User, ana: User, bo: User, chen: User, settings: Any
) -> None:
    settings.MHB_CALIBRATION_SHARE = settings.MHB_REPEAT_SHARE = 0
    open_case(1000)
    case = claim(ana).case
    pages = {
        f"{viewer.username} {name}": (browse(viewer), reverse(f"review:{name}", args=args))
        for viewer, name, args in [
            (ana, "workbench", []),
            (chen, "workbench", []),
            (chen, "mine", []),
            (chen, "guidelines", []),
            *((adela, name, []) for name in ("overview", "cases", "people", "calibration", "agreement", "progress")),
            (adela, "history", [case.pk]),
        ]
    }

    def costs() -> dict[str, list[str]]:
        cache.clear()  # how many cases nobody can take is kept for a minute
        return {
            name: statements(lambda client=client, address=address: client.get(address))
            for name, (client, address) in pages.items()
        }

    for number in range(1, 3):
        add_listed_rows(adela, ana, bo, chen, number)
    # The first look at a history is an event, the next one within an hour is none.
    history, address = pages["adela history"]
    history.get(address)
    few = costs()
    for number in range(3, 9):
        add_listed_rows(adela, ana, bo, chen, number)
    many = costs()
    assert len(notices.notices_for(ana)) == len(notices.notices_for(chen)) == 8
    assert {name: len(queries) for name, queries in many.items()} == {
        name: len(queries) for name, queries in few.items()
    }
    assert len(calibration_queries.results()) == 8


def test_a_claimed_case_and_its_page_take_few_statements(client: Client) -> None:
    open_first_look_case()
    asked = statements(lambda: client.post(f"{reverse('review:next')}?here"))
    # Session, account; account locked, what is held, search, claim, four of the trail; notices.
    assert len(asked) == 11, "\n".join(asked)
    assert not [sql for sql in asked if "review_remark" in sql], "nobody has commented on the case"
