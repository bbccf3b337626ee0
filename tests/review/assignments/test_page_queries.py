"""The number of statements behind the pages of a physician's day.

Another statement is a decision: change the number together with its reason.
"""

from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from review.access import visibility
from review.assignments import claims, eligibility
from review.assignments import services as assignments_services
from review.audit.trail import recording_events
from review.calibration import queries as calibration_queries
from review.calibration import services as calibration_services
from review.cases import queries as cases_queries
from review.discussion import notices, remarks
from review.models import Assignment, Case, User
from review.rules.questions import Answer, Answers
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
)
from tests.review.pages import HTMX, Browse, post, posted_fields

pytestmark = pytest.mark.both

SESSION_AND_ACCOUNT = 1  # from the second request of a session on, in each process
# Read the end of the chain, insert the event, and store the new end.
EVENT = 2 if connection.vendor == "postgresql" else 3


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
    return with_known_session(browse(ana))


def with_known_session(client: Client) -> Client:
    """The client after one request, so that this process knows its session."""
    client.get(reverse("review:workbench"))
    return client


def test_next_case(client: Client) -> None:
    open_first_look_case()
    assert len(statements(lambda: client.post(reverse("review:next")))) == SESSION_AND_ACCOUNT + 4 + EVENT


def test_the_page_in_answer_to_next_and_to_a_reveal(client: Client, ana: User) -> None:
    open_first_look_case()
    assert len(statements(lambda: client.post(reverse("review:next") + "?here"))) == SESSION_AND_ACCOUNT + 5 + EVENT
    assignment = visibility.current_assignments(ana).get()
    typed = {
        "token": str(assignment.token),
        "revision": "0",
        **posted_fields(Answers({"natural": Answer("yes", "Stiff.")})),
    }
    address = reverse("review:reveal", args=[assignment.pk]) + "?here"
    assert len(statements(lambda: client.post(address, typed))) == SESSION_AND_ACCOUNT + 4 + EVENT


def test_the_page_before_and_after_the_first_look(client: Client, ana: User) -> None:
    open_first_look_case()
    assignment = claim(ana)
    before = page_statements(client, assignment)
    assert len(before) == SESSION_AND_ACCOUNT + 2
    assert all(sql.startswith("SELECT") for sql in before), "right after a claim the page writes nothing"
    take_first_look(assignment)
    assert len(page_statements(client, assignment)) == SESSION_AND_ACCOUNT + 2


def test_the_page_costs_the_same_however_many_cases_and_remarks_exist(client: Client, ana: User, bo: User) -> None:
    open_first_look_case()
    assignment = claim(ana)
    take_first_look(assignment)
    assignments_services.save_draft(ana, assignment.pk, assignment.token, full_approval(), revision=0)  # type: ignore[arg-type]
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


def test_saving_a_draft(client: Client, ana: User) -> None:
    open_first_look_case()
    assignment = claim(ana)
    take_first_look(assignment)

    def save(revision: int) -> list[str]:
        return statements(
            lambda: post(client, "draft", assignment, full_approval(), revision=str(revision), headers=HTMX)
        )

    assert len(save(0)) == SESSION_AND_ACCOUNT + 2
    assert len(save(1)) == SESSION_AND_ACCOUNT + 2


def test_submitting_a_review(client: Client, ana: User) -> None:
    open_first_look_case()
    assignment = claim(ana)
    take_first_look(assignment)
    submitted = statements(lambda: post(client, "submit", assignment, full_approval(), stop="1"))
    assert len(submitted) == SESSION_AND_ACCOUNT + 7 + EVENT


def test_opening_the_page_renews_a_lease_that_is_not_fresh(client: Client, ana: User, clock: Clock) -> None:
    open_case()
    assignment = claim(ana)
    page_statements(client, assignment)
    assignment.refresh_from_db()
    assert assignment.lease_until == clock.now + claims.lease()
    clock.advance(minutes=5)
    page_statements(client, assignment)
    assignment.refresh_from_db()
    assert assignment.lease_until == timezone.now() + claims.lease()


def test_a_claim_looks_up_the_previous_holder_only_after_a_lapsed_lease(ana: User, bo: User, clock: Clock) -> None:
    open_case()
    with CaptureQueriesContext(connection) as captured:
        claim(ana)
    history_query = 'review_event"."kind" IN'
    assert not any(history_query in query["sql"] for query in captured)
    clock.advance(hours=1)
    with CaptureQueriesContext(connection) as captured:
        assignment = claim(bo)
    assert any(history_query in query["sql"] for query in captured)
    assert cases_queries.trail(assignment.case).last().data["taken_from"] == ana.pk  # type: ignore[union-attr]


def copy_rows(model: type[Model], count: int, **changes: str) -> None:
    """Insert `count` copies of the only row of `model`; `changes`: SQL for some columns."""
    columns = [str(field.column) for field in model._meta.concrete_fields if not field.primary_key]
    values = ", ".join(changes.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) SELECT {values}"
            f" FROM {model._meta.db_table}, generate_series(1, {count}) AS n"
        )
        cursor.execute(f"ANALYZE {model._meta.db_table}")


def test_a_generic_plan_of_a_claim_uses_the_index(ana: User) -> None:
    """PostgreSQL may plan a statement without its parameters; a claim still uses its index."""
    if connection.vendor != "postgresql":
        return
    open_case()
    copy_rows(Case, 999, lineage="lineage || n")
    [first] = Case.objects.filter(assignments__isnull=False)
    copy_rows(Assignment, 999, case_id=f"(SELECT id FROM review_case WHERE lineage = '{first.lineage}' || n)")
    [first_round, *_others] = eligibility.search_rounds(ana, reserved_for_me=False)
    statement, params = first_round.locking_select()
    for number in range(1, len(params) + 1):
        statement = statement.replace("%s", f"${number}", 1)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute("PREPARE claim AS " + statement.replace("%%", "%"))
        cursor.execute(f"EXPLAIN EXECUTE claim({', '.join(['NULL'] * len(params))})")
        plan = [line for (line,) in cursor.fetchall()]
        cursor.execute("DEALLOCATE claim")
    assert any("assignment_queue" in line for line in plan), plan


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
        f"{viewer.username} {name}": (with_known_session(browse(viewer)), reverse(f"review:{name}", args=args))
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
        return {
            name: statements(lambda client=client, address=address: client.get(address))
            for name, (client, address) in pages.items()
        }

    for number in range(1, 3):
        add_listed_rows(adela, ana, bo, chen, number)
    few = costs()
    for number in range(3, 9):
        add_listed_rows(adela, ana, bo, chen, number)
    many = costs()
    assert len(notices.notices_for(ana)) == len(notices.notices_for(chen)) == 8
    assert {name: len(queries) for name, queries in many.items()} == {
        name: len(queries) for name, queries in few.items()
    }
    assert len(calibration_queries.results()) == 8
