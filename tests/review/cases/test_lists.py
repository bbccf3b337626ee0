"""Lists of cases and people: filters and views in the address, and bulk actions."""

from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from review.cases import services
from review.cases.attention import MIN_CASES, attention
from review.common import lists
from review.models import Assignment, Case, Event, PersonEvent, User
from review.rules.questions import Answers
from review.rules.state_machine import State
from tests.conftest import Clock
from tests.review.factories import account, approval, case_in_adjudication, claim_and_submit, open_case, rejection
from tests.review.pages import Browse, Elements, Page, text_of

pytestmark = pytest.mark.django_db
CASES, PEOPLE = "review:cases", "review:people"


def act(browse: Browse, admin: User, name: str, action: str, rows: list[int], query: str = "", **fields: Any) -> Page:
    """Post a bulk action on rows of a list; `fields` are the action's own."""
    typed = {f"{action}-{field}": value for field, value in fields.items()}
    return browse(admin).post(reverse(name) + query, {"action": action, "rows": rows, **typed}, follow=True)


def messages(page: Page) -> list[str]:
    return [str(message) for message in page.context["messages"]]


def test_withdrawing_many_cases_records_one_event_each_and_names_the_refused_ones(
    browse: Browse, adela: User, ana: User
) -> None:
    first, closed, last = (open_case(number) for number in (1, 2, 3))
    services.withdraw(closed.pk, actor=adela, reason="A copy.")
    before = Event.objects.count()
    page = act(browse, adela, CASES, "withdraw", [first.pk, closed.pk, last.pk], "?sort=title", reason="Out of date.")
    assert page.redirect_chain == [(reverse(CASES) + "?sort=title", 302)]
    assert {case.state for case in Case.objects.all()} == {State.WITHDRAWN}
    events = Event.objects.filter(kind=Event.Kind.WITHDRAWN).order_by("pk")[1:]
    assert [(event.case_id, event.actor_id) for event in events] == [(first.pk, adela.pk), (last.pk, adela.pk)]
    assert Event.objects.count() - before <= 4  # its own event and those that follow from it
    done, refused = messages(page)
    assert "2 rows" in done
    assert closed.title in refused
    assert "closed" in refused
    assert first.title not in refused


@pytest.mark.parametrize(
    ("action", "fields"), [("prioritise", {"priority": "7"}), ("specialty", {"specialty": "Cardiology"})]
)
def test_priority_and_specialty_are_changed_for_many_cases(
    browse: Browse, adela: User, action: str, fields: dict[str, str]
) -> None:
    cases = [open_case(number) for number in (1, 2)]
    act(browse, adela, CASES, action, [case.pk for case in cases], **fields)
    [(field, value)] = fields.items()
    assert [str(getattr(case, field)) for case in Case.objects.all()] == [value] * 2


def test_the_refusal_to_prioritise_a_closed_case_names_the_case(browse: Browse, adela: User) -> None:
    waiting, closed = open_case(1), open_case(2)
    services.withdraw(closed.pk, actor=adela, reason="A copy.")
    done, refused = messages(act(browse, adela, CASES, "prioritise", [waiting.pk, closed.pk], priority="7"))
    assert "1 row." in done
    assert refused == f"This case is closed. Not changed (1): {closed.title}"
    assert [case.priority for case in Case.objects.order_by("pk")] == [7, 0]


def test_the_open_role_of_many_cases_is_reserved(browse: Browse, adela: User, ana: User, bo: User) -> None:
    answered = open_case(1)
    claim_and_submit(ana, approval())  # its secondary review is next
    fresh = open_case(2)
    act(browse, adela, CASES, "reserve", [answered.pk, fresh.pk], to=bo.pk)
    reserved = Assignment.objects.filter(reserved_for=bo).order_by("case").values_list("case", "role")
    assert list(reserved) == [(answered.pk, "secondary"), (fresh.pk, "primary")]
    page = act(browse, adela, CASES, "reserve", [answered.pk], to=ana.pk)  # she was its first reviewer
    assert answered.title in messages(page)[0]


def test_assign_says_whom_it_does_not_list(browse: Browse, adela: User, ana: User) -> None:
    open_case()
    User.objects.filter(pk=ana.pk).update(invited_at=timezone.now())
    page = text_of(browse(adela).get(reverse(CASES)))
    assert f'<option value="{ana.pk}">' not in page.partition('name="reserve-to"')[2].partition("</select>")[0]
    assert "Not listed: who has not accepted the invitation yet." in page


def test_nothing_happens_without_rows_without_an_action_or_without_its_fields(
    browse: Browse, adela: User, monkeypatch: Any
) -> None:
    case, other = open_case(1), open_case(2)
    form = text_of(browse(adela).get(reverse(CASES))).partition("data-list-actions")[2].partition("</details>")[0]
    assert "withdraw-reason" in form
    assert " required" not in form, "a browser would insist on fields of other actions"
    for action, rows, fields in (("withdraw", [], {"reason": "x"}), ("", [case.pk], {}), ("withdraw", [case.pk], {})):
        assert len(messages(act(browse, adela, CASES, action, rows, **fields))) == 1
    monkeypatch.setattr(lists, "MAX_ROWS", 1)
    page = act(browse, adela, CASES, "withdraw", [case.pk, other.pk], reason="x")
    assert "at most 1 row" in messages(page)[0]
    assert not Case.objects.filter(state=State.WITHDRAWN).exists()


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("withdraw", {"reason": ""}, "Reason: "),
        ("prioritise", {"priority": "soon"}, "Priority: "),
        ("language", {"language": "Chinese"}, "for example en or zh"),
    ],
)
def test_a_refused_action_keeps_what_was_selected_and_typed(
    browse: Browse, adela: User, action: str, fields: dict[str, str], message: str
) -> None:
    first, other, last = (open_case(number) for number in (1, 2, 3))
    page = act(browse, adela, CASES, action, [first.pk, last.pk], "?sort=title", **fields)
    assert page.status_code == 422
    [fault] = messages(page)
    assert fault.startswith("Nothing was changed.")
    assert message in fault
    boxes = {box["value"]: "checked" in box for box in Elements(page).named("rows")}
    assert boxes == {str(first.pk): True, str(other.pk): False, str(last.pk): True}
    [(name, value)] = fields.items()
    [field] = Elements(page).named(f"{action}-{name}")
    assert (field.get("value", ""), field.get("aria-invalid")) == (value, "true")
    [panel] = [attrs for _, attrs in Elements(page).tags if "data-list-actions" in attrs]
    assert "open" in panel


def test_when_all_rows_of_a_page_have_left_the_list_the_last_page_is_shown(browse: Browse, adela: User) -> None:
    cases = [open_case(number) for number in range(1, 53)]
    query = "?state=primary&sort=opened_at&cursor=50"
    page = act(browse, adela, CASES, "withdraw", [case.pk for case in cases[50:]], query, reason="Out of date.")
    assert len(page.context["page"].rows) == 50
    assert (page.context["page"].newer, page.context["page"].older) == ("", "")


def test_a_bulk_action_takes_a_bounded_number_of_queries_per_row(browse: Browse, adela: User) -> None:
    client = browse(adela)
    cases = [open_case(number).pk for number in range(1, 9)]

    def query_count(rows: list[int]) -> int:
        with CaptureQueriesContext(connection) as queries:
            client.post(reverse(CASES), {"action": "prioritise", "rows": rows, "prioritise-priority": "3"})
        return len(queries)

    one, seven = query_count(cases[:1]), query_count(cases[1:])
    assert seven - one <= 6 * 12


def test_the_list_takes_as_many_queries_for_many_rows_and_its_address_keeps_the_view(
    browse: Browse, adela: User
) -> None:
    client = browse(adela)

    def query_count(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse(CASES) + query)
        return len(queries)

    open_case(1, specialty="Cardiology")
    query_count("")  # the first request also loads the session
    few = query_count("?state=primary")
    for number in range(2, 12):
        open_case(number, specialty="Nephrology")
    assert query_count("?state=primary") == few
    view = "?state=primary&specialty=Cardiology&sort=-opened_at&view=My+hearts"
    page = client.get(reverse(CASES) + view)
    assert [case.specialty for case in page.context["page"].rows] == ["Cardiology"]
    assert "My hearts" in text_of(page)
    assert page.context["total"] == 1
    unfiltered = client.get(reverse(CASES) + "?state=gone&sort=spec")
    assert len(unfiltered.context["page"].rows) == 11  # unknown filters are ignored
    act(browse, adela, CASES, "withdraw", [page.context["page"].rows[0].pk], reason="Twice.")
    for unmatched in (view, "?language=und"):
        # No open case matches any more, and the list must not fall back to showing the others.
        page = client.get(reverse(CASES) + unmatched)
        assert not page.context["page"].rows
    assert "unknown, waits for an admin" in text_of(page)


def test_people_are_filtered_and_paused_in_bulk(browse: Browse, adela: User, ana: User, bo: User, rui: User) -> None:
    client = browse(adela)
    page = client.get(reverse(PEOPLE) + "?role=physician&text=an&sort=-username")
    assert [user.username for user in page.context["page"].rows] == ["ana"]
    act(browse, adela, PEOPLE, "pause", [ana.pk, bo.pk])
    assert PersonEvent.objects.filter(kind=PersonEvent.Kind.PAUSED, actor=adela).count() == 2
    page = client.get(reverse(PEOPLE) + "?status=paused")
    assert {user.username for user in page.context["page"].rows} == {"ana", "bo"}
    act(browse, adela, PEOPLE, "resume", [ana.pk])
    act(browse, adela, PEOPLE, "specialty", [ana.pk], specialty="Oncology")
    ana.refresh_from_db()
    assert (ana.paused_at, ana.specialty) == (None, "Oncology")


# Cases and physicians that need attention
# -----------------------------------------------------------------------------


def test_an_old_dissent_and_a_stuck_case_need_attention(
    client: Client, adela: User, ana: User, bo: User, clock: Clock
) -> None:
    dissent = case_in_adjudication(ana, bo)
    stuck = open_case(7)
    clock.advance(days=6)
    assert not attention()
    clock.advance(days=2)
    moving = open_case(8)
    result = attention()
    assert (result.dissents, result.dissents_count) == ([dissent], 1)
    assert (result.stuck, result.stuck_count) == ([stuck], 1)
    assert moving not in result.stuck
    client.force_login(adela)
    page = client.get(reverse("review:overview")).content.decode()
    for case in (dissent, stuck):
        assert f'{reverse("review:history", args=[case.pk])}#holds"' in page, "the link leads to the assignments"


def test_the_overview_links_to_all_stuck_cases(
    browse: Browse, adela: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = [open_case(number) for number in (1, 2, 3)]
    services.withdraw(stuck.pop().pk, actor=adela, reason="A copy.")  # old, but closed
    clock.advance(days=8)
    open_case(4)
    monkeypatch.setattr("review.cases.attention.MAX_LISTED", 1)
    client = browse(adela)
    [link] = [
        str(attrs["href"])
        for _, attrs in Elements(client.get(reverse("review:overview"))).tags
        if "sort=opened_at" in str(attrs.get("href"))
    ]
    assert {case.pk for case in client.get(link).context["page"].rows} == {case.pk for case in stuck}


def test_a_physician_whose_agreement_drops_needs_attention(ana: User, clock: Clock) -> None:
    def review_cases(answers: Answers, first: int) -> None:
        for number in range(first, first + MIN_CASES):
            case = open_case(number)
            claim_and_submit(ana, answers)
            Case.objects.filter(pk=case.pk).update(state=State.APPROVED, closed_at=clock(), ground="consensus")

    review_cases(approval(), 1)
    clock.advance(days=40)
    assert attention().drifting == []
    review_cases(rejection(), 1 + MIN_CASES)
    [drift] = attention().drifting
    assert (drift.physician, drift.before, drift.lately) == (ana, "100%", "0%")


def test_the_overview_takes_as_many_queries_for_many_cases(browse: Browse, adela: User, ana: User, bo: User) -> None:
    client = browse(adela)

    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(reverse("review:overview")).status_code == 200
        return len(queries)

    case_in_adjudication(ana, bo)
    query_count()  # the first request also fills caches
    few = query_count()
    for number in range(20, 30):
        open_case(number)
    account("zoe")
    assert query_count() == few


def test_the_shell_sets_language_and_specialty_of_cases(adela: User) -> None:
    unknown, other, closed = (open_case(number, language=code) for number, code in ((1, "und"), (2, "en"), (3, "und")))
    services.withdraw(closed.pk, actor=adela, reason="A copy.")
    call_command("set_case", "--undetermined", "--language", "fr", verbosity=0)
    call_command("set_case", str(other.pk), "--specialty", "Cardiology", verbosity=0)
    for case in (unknown, other, closed):
        case.refresh_from_db()
    assert [(case.language, case.specialty) for case in (unknown, other, closed)] == [
        ("fr", ""), ("en", "Cardiology"), ("und", ""),
    ]  # fmt: skip
    assert set(Assignment.objects.filter(case=unknown).values_list("language", flat=True)) == {"fr"}
    event = Event.objects.filter(case=unknown).latest("pk")
    assert (event.kind, event.actor, event.data["text"]) == (Event.Kind.LANGUAGE, None, "fr")
    with pytest.raises(CommandError, match="ISO 639-1"):
        call_command("set_case", "--undetermined", "--language", "french", verbosity=0)
    with pytest.raises(CommandError, match="--language, --specialty"):
        call_command("set_case", str(other.pk), verbosity=0)


def test_the_list_says_and_filters_who_a_case_is_assigned_to(browse: Browse, adela: User, ana: User) -> None:
    assigned, other = open_case(1), open_case(2)
    bo = account("bo")
    act(browse, adela, CASES, "reserve", [assigned.pk], to=bo.pk)
    everything = browse(adela).get(reverse(CASES)).context["page"].rows
    assert {case.pk: len(case.current_assignments) for case in everything} == {assigned.pk: 1, other.pk: 0}
    User.objects.filter(pk=bo.pk).update(invited_at=timezone.now())  # as before the first sign-in
    rows = browse(adela).get(reverse(CASES), {"assignee": bo.pk}).context["page"].rows
    assert [case.pk for case in rows] == [assigned.pk]
    assert [assignment.reserved_for for assignment in rows[0].current_assignments] == [bo]
    assert not browse(adela).get(reverse(CASES), {"assignee": ana.pk}).context["page"].rows
