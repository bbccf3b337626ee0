"""Lists of cases and people: filters and views in the address, and actions on many rows at once."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from review.cases import services
from review.cases.attention import MIN_CASES, attention
from review.common import lists
from review.models import Assignment, Case, Event, PersonEvent, User
from review.rules.questions import Answers
from review.rules.state_machine import State
from tests.conftest import Clock
from tests.review.factories import account, approving, opened, rejecting, say, to_adjudication
from tests.review.pages import Elements, Open, Page, text_of

pytestmark = pytest.mark.django_db
CASES, PEOPLE = "review:cases", "review:people"


def acts(browse: Open, admin: User, name: str, action: str, rows: list[int], query: str = "", **said: Any) -> Page:
    typed = {f"{action}-{field}": value for field, value in said.items()}
    return browse(admin).post(reverse(name) + query, {"action": action, "rows": rows, **typed}, follow=True)


def told(page: Page) -> list[str]:
    return [str(message) for message in page.context["messages"]]


def test_many_cases_are_withdrawn_with_one_event_each_and_those_refused_are_named(
    browse: Open, adela: User, ana: User
) -> None:
    first, closed, last = (opened(number) for number in (1, 2, 3))
    services.withdraw(closed.pk, actor=adela, reason="A copy.")
    before = Event.objects.count()
    page = acts(browse, adela, CASES, "withdraw", [first.pk, closed.pk, last.pk], "?sort=title", reason="Out of date.")
    assert page.redirect_chain == [(reverse(CASES) + "?sort=title", 302)]
    assert {case.state for case in Case.objects.all()} == {State.WITHDRAWN}
    made = Event.objects.filter(kind=Event.Kind.WITHDRAWN).order_by("pk")[1:]
    assert [(event.case_id, event.actor_id) for event in made] == [(first.pk, adela.pk), (last.pk, adela.pk)]
    assert Event.objects.count() - before <= 4  # its own, and what follows from it
    done, refused = told(page)
    assert "2 rows" in done
    assert closed.title in refused
    assert "closed" in refused
    assert first.title not in refused


@pytest.mark.parametrize(
    ("action", "said"), [("prioritise", {"priority": "7"}), ("specialty", {"specialty": "Cardiology"})]
)
def test_priority_and_specialty_of_many(browse: Open, adela: User, action: str, said: dict[str, str]) -> None:
    cases = [opened(number) for number in (1, 2)]
    acts(browse, adela, CASES, action, [case.pk for case in cases], **said)
    [(field, value)] = said.items()
    assert [str(getattr(case, field)) for case in Case.objects.all()] == [value] * 2


def test_the_priority_of_a_closed_case_is_refused_by_its_name(browse: Open, adela: User) -> None:
    waiting, closed = opened(1), opened(2)
    services.withdraw(closed.pk, actor=adela, reason="A copy.")
    done, refused = told(acts(browse, adela, CASES, "prioritise", [waiting.pk, closed.pk], priority="7"))
    assert "1 row." in done
    assert refused == f"This case is closed. Not changed (1): {closed.title}"
    assert [case.priority for case in Case.objects.order_by("pk")] == [7, 0]


def test_the_open_role_of_many_cases_is_reserved(browse: Open, adela: User, ana: User, bo: User) -> None:
    answered = opened(1)
    say(ana, approving())  # its secondary is to come
    fresh = opened(2)
    acts(browse, adela, CASES, "reserve", [answered.pk, fresh.pk], physician=bo.pk)
    reserved = Assignment.objects.filter(reserved_for=bo).order_by("case").values_list("case", "role")
    assert list(reserved) == [(answered.pk, "secondary"), (fresh.pk, "primary")]
    page = acts(browse, adela, CASES, "reserve", [answered.pk], physician=ana.pk)  # who was the first reviewer
    assert answered.title in told(page)[0]


def test_nothing_happens_without_rows_an_action_or_what_it_needs(browse: Open, adela: User, monkeypatch: Any) -> None:
    case, other = opened(1), opened(2)
    form = text_of(browse(adela).get(reverse(CASES))).partition("data-list-actions")[2].partition("</details>")[0]
    assert "withdraw-reason" in form
    assert " required" not in form, "a browser would ask for what another action needs"
    for action, rows, said in (("withdraw", [], {"reason": "x"}), ("", [case.pk], {}), ("withdraw", [case.pk], {})):
        assert len(told(acts(browse, adela, CASES, action, rows, **said))) == 1
    monkeypatch.setattr(lists, "MAX_ROWS", 1)
    page = acts(browse, adela, CASES, "withdraw", [case.pk, other.pk], reason="x")
    assert "at most 1 row" in told(page)[0]
    assert not Case.objects.filter(state=State.WITHDRAWN).exists()


@pytest.mark.parametrize(
    ("action", "said", "why"),
    [
        ("withdraw", {"reason": ""}, "Reason: "),
        ("prioritise", {"priority": "soon"}, "Priority: "),
        ("language", {"language": "Chinese"}, "for example en or zh"),
    ],
)
def test_a_refused_action_keeps_what_was_selected_and_typed(
    browse: Open, adela: User, action: str, said: dict[str, str], why: str
) -> None:
    first, other, last = (opened(number) for number in (1, 2, 3))
    page = acts(browse, adela, CASES, action, [first.pk, last.pk], "?sort=title", **said)
    assert page.status_code == 422
    [fault] = told(page)
    assert fault.startswith("Nothing was changed.")
    assert why in fault
    boxes = {box["value"]: "checked" in box for box in Elements(page).named("rows")}
    assert boxes == {str(first.pk): True, str(other.pk): False, str(last.pk): True}
    [(name, value)] = said.items()
    [field] = Elements(page).named(f"{action}-{name}")
    assert (field.get("value", ""), field.get("aria-invalid")) == (value, "true")
    [panel] = [attrs for _, attrs in Elements(page).found if "data-list-actions" in attrs]
    assert "open" in panel


def test_a_page_whose_rows_have_left_the_list_is_the_last_there_is(browse: Open, adela: User) -> None:
    cases = [opened(number) for number in range(1, 53)]
    query = "?state=primary&sort=opened_at&cursor=50"
    page = acts(browse, adela, CASES, "withdraw", [case.pk for case in cases[50:]], query, reason="Out of date.")
    assert len(page.context["page"].rows) == 50
    assert (page.context["page"].newer, page.context["page"].older) == ("", "")


def test_a_row_costs_a_bounded_number_of_statements(browse: Open, adela: User) -> None:
    client = browse(adela)
    cases = [opened(number).pk for number in range(1, 9)]

    def asked(rows: list[int]) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.post(reverse(CASES), {"action": "prioritise", "rows": rows, "prioritise-priority": "3"})
        return len(seen)

    one, seven = asked(cases[:1]), asked(cases[1:])
    assert seven - one <= 6 * 12


def test_the_list_asks_as_often_for_many_rows_and_its_address_keeps_the_view(browse: Open, adela: User) -> None:
    client = browse(adela)

    def asked(query: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(reverse(CASES) + query)
        return len(seen)

    opened(1, specialty="Cardiology")
    asked("")  # whose session it is has to be found out once
    few = asked("?state=primary")
    for number in range(2, 12):
        opened(number, specialty="Nephrology")
    assert asked("?state=primary") == few
    view = "?state=primary&specialty=Cardiology&sort=-opened_at&view=My+hearts"
    page = client.get(reverse(CASES) + view)
    assert [case.specialty for case in page.context["page"].rows] == ["Cardiology"]
    assert "My hearts" in text_of(page)
    assert page.context["total"] == 1
    strange = client.get(reverse(CASES) + "?state=gone&sort=spec")
    assert len(strange.context["page"].rows) == 11  # what is not understood is left out
    acts(browse, adela, CASES, "withdraw", [page.context["page"].rows[0].pk], reason="Twice.")
    for gone in (view, "?language=und"):
        done = client.get(
            reverse(CASES) + gone
        )  # nothing like it is open any more, and the others are not what was asked for
        assert not done.context["page"].rows
    assert "unknown, waits for an admin" in text_of(done)


def test_people_are_found_and_paused_together(browse: Open, adela: User, ana: User, bo: User, rui: User) -> None:
    client = browse(adela)
    page = client.get(reverse(PEOPLE) + "?role=physician&text=an&sort=-username")
    assert [user.username for user in page.context["page"].rows] == ["ana"]
    acts(browse, adela, PEOPLE, "pause", [ana.pk, bo.pk])
    assert PersonEvent.objects.filter(kind=PersonEvent.Kind.PAUSED, actor=adela).count() == 2
    page = client.get(reverse(PEOPLE) + "?status=paused")
    assert {user.username for user in page.context["page"].rows} == {"ana", "bo"}
    acts(browse, adela, PEOPLE, "resume", [ana.pk])
    acts(browse, adela, PEOPLE, "specialty", [ana.pk], specialty="Oncology")
    ana.refresh_from_db()
    assert (ana.paused_at, ana.specialty) == (None, "Oncology")


# What needs a person --------------------------------------------------------------------------------------------------


def test_an_old_dissent_and_a_case_that_does_not_move_need_a_person(
    client: Client, adela: User, ana: User, bo: User, clock: Clock
) -> None:
    dissent = to_adjudication(ana, bo)
    stuck = opened(7)
    clock.advance(days=6)
    assert not attention()
    clock.advance(days=2)
    moving = opened(8)
    found = attention()
    assert (found.dissents, found.dissents_count) == ([dissent], 1)
    assert (found.stuck, found.stuck_count) == ([stuck], 1)
    assert moving not in found.stuck
    client.force_login(adela)
    page = client.get(reverse("review:overview")).content.decode()
    for case in (dissent, stuck):
        assert f'{reverse("review:history", args=[case.pk])}#holds"' in page, "where it is assigned"


def test_the_overview_leads_to_all_cases_that_do_not_move(
    browse: Open, adela: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = [opened(number) for number in (1, 2, 3)]
    services.withdraw(stuck.pop().pk, actor=adela, reason="A copy.")  # ended, and older than the others need to be
    clock.advance(days=8)
    opened(4)
    monkeypatch.setattr("review.cases.attention.SHOWN", 1)
    client = browse(adela)
    [link] = [
        str(attrs["href"])
        for _, attrs in Elements(client.get(reverse("review:overview"))).found
        if "sort=opened_at" in str(attrs.get("href"))
    ]
    assert {case.pk for case in client.get(link).context["page"].rows} == {case.pk for case in stuck}


def test_a_physician_whose_verdicts_fit_less_and_less_needs_a_person(ana: User, clock: Clock) -> None:
    def reviews(answers: Answers, first: int) -> None:
        for number in range(first, first + MIN_CASES):
            case = opened(number)
            say(ana, answers)
            Case.objects.filter(pk=case.pk).update(state=State.APPROVED, closed_at=clock(), ground="consensus")

    reviews(approving(), 1)
    clock.advance(days=40)
    assert attention().drifting == []
    reviews(rejecting(), 1 + MIN_CASES)
    [drift] = attention().drifting
    assert (drift.physician, drift.before, drift.lately) == (ana, "100%", "0%")


def test_the_overview_asks_as_often_for_many_cases(browse: Open, adela: User, ana: User, bo: User) -> None:
    client = browse(adela)

    def asked() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(reverse("review:overview")).status_code == 200
        return len(seen)

    to_adjudication(ana, bo)
    asked()  # whatever is looked up once only
    few = asked()
    for number in range(20, 30):
        opened(number)
    account("zoe")
    assert asked() == few
