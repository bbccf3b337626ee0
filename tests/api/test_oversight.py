"""The API does what the pages do: guidelines, remarks, trail, progress, active time, accounts."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.urls import reverse
from django.utils import timezone

from review.audit import verification
from review.models import ActiveInterval, Event, Guideline, Notice, PersonEvent, Remark, User
from review.rules.permissions import UserRole
from review.tasks import check_trail
from tests.api.conftest import Api
from tests.api.test_problems import problem
from tests.review.factories import FIRST_LOOK_BLOCKS, FIRST_LOOK_POLICY, FULL_FORM, claim, open_case

PASSWORD = "a-long-enough-pass"


def test_each_change_of_a_guideline_is_a_new_version(api: Api, adela: User, ana: User) -> None:
    open_case()
    address = reverse("api:guideline-versions", args=["invented", "primary"])
    client = api(adela)
    created = client.post(address, {"text": "# Read twice", "base": 0})
    assert (created.status_code, created.json()["version"], created.json()["author"]) == (200, 1, "adela")
    assert client.post(address, {"text": "# Read twice"}).json()["version"] == 1
    assert problem(client.post(address, {"text": "Other", "base": 0}), 409)["type"] == "urn:mhb:stale-guideline"
    assert client.post(address, {"text": " "}).status_code == 422
    client.post(address, {"text": "# Read thrice", "base": 1})
    assert [row["version"] for row in client.get(address).json()["results"]] == [2, 1]
    current = {(row["benchmark"], row["stage"]): row for row in api(ana).get(reverse("api:guidelines")).json()}
    assert current["invented", "primary"]["text"] == "# Read thrice"
    assert (current["invented", "secondary"]["version"], current["invented", "secondary"]["text"]) == (0, "")
    for unknown in (("invented", "approved"), ("other", "primary")):
        assert client.get(reverse("api:guideline-versions", args=unknown)).status_code == 404
    assert Guideline.objects.count() == 2


def test_remarks_reach_those_who_may_read_them(api: Api, adela: User, ana: User, bo: User) -> None:
    case = open_case()
    assignment = claim(ana)
    by_assignment, by_case = (
        reverse("api:assignment-remarks", args=[assignment.pk]),
        reverse("api:case-remarks", args=[case.pk]),
    )
    remark = api(ana).post(by_assignment, {"text": "@adela: is this so?"})
    assert (remark.status_code, remark.json()["author"], remark.json()["anchor"]) == (201, "ana", None)
    assert Notice.objects.get().user == adela
    assert api(adela).post(by_case, {"text": "It is."}).status_code == 201
    assert [row["author"] for row in api(adela).get(by_case).json()["results"]] == ["ana", "adela"]
    assert (
        problem(api(ana).post(by_assignment, {"text": "?", "quote": "no such words"}), 422)["type"]
        == "urn:mhb:passage-unknown"
    )
    assert api(bo).get(by_assignment).status_code == 404, "the assignment is not theirs"
    assert api(bo).post(by_assignment, {"text": "Me too"}).status_code == 404
    assert api(adela).get(reverse("api:case-remarks", args=[case.pk + 99])).status_code == 404
    assert Remark.objects.count() == 2


def test_before_the_reveal_a_physician_reads_no_remarks_of_others(api: Api, adela: User, ana: User) -> None:
    case = open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS)
    assignment = claim(ana)
    api(adela).post(reverse("api:case-remarks", args=[case.pk]), {"text": "The trap is in turn 1."})
    assert api(ana).get(reverse("api:assignment-remarks", args=[assignment.pk])).json()["results"] == []


def test_the_trail_can_be_checked_and_read(
    api: Api, adela: User, ana: User, sent_tasks: list[tuple[Any, ...]], django_capture_on_commit_callbacks: Any
) -> None:
    case = open_case()
    claim(ana)
    client, address = api(adela), reverse("api:audit")
    assert client.get(address).json() == {
        "running": False, "check": None, "ends": verification.ends(), "contains": None,
    }  # fmt: skip
    for end in verification.ends():
        assert client.get(address, {"anchor": end}).json()["contains"] is True
        assert client.get(address, {"anchor": f"{end[:-64]}{'0' * 64}"}).json()["contains"] is False
    assert client.get(address, {"anchor": "accounts:1"}).status_code == 400
    with django_capture_on_commit_callbacks(execute=True):
        queued = client.post(reverse("api:audit-check"))
        client.post(reverse("api:audit-check"))
    [(name, pk), again] = sent_tasks
    assert (queued.status_code, queued.json()["running"], name, again) == (202, True, "check_trail", (name, pk))
    check_trail(pk)
    result = client.get(address).json()
    assert (result["running"], result["check"]["faults"], result["check"]["asked_by"]) == (False, [], "adela")
    assert result["check"]["checked"] == result["check"]["total"] > 0
    User.objects.filter(pk=ana.pk).update(role=UserRole.ADMIN)  # without an event
    verification.run(verification.create_check(None).pk)
    [fault] = client.get(address).json()["check"]["faults"]
    assert (fault["what"], fault["name"]) == ("account-role", "ana")
    assert "role" in fault["text"]
    events = reverse("api:audit-events")
    rows = client.get(events, {"case": str(case.pk), "actor": "ana"}).json()["results"]
    assert [(row["kind"], row["case"]) for row in rows] == [("claimed", case.pk)]
    today = timezone.now().date()
    assert client.get(events, {"since": str(today + timedelta(days=1))}).json()["results"] == []
    assert len(client.get(events, {"until": str(today)}).json()["results"]) == Event.objects.count()
    assert client.get(events, {"kind": "nothing"}).status_code == 400


def test_progress_shows_the_backlog_of_a_benchmark(api: Api, adela: User) -> None:
    open_case(1)
    open_case(2)
    progress = api(adela).get(reverse("api:review-progress"), {"benchmark": "invented"}).json()
    assert len(progress["days"]) == 30
    assert progress["backlog"] == {"": {"primary": 2, "secondary": 0, "adjudication": 0}}
    assert (progress["projection"]["open"], progress["projection"]["finish"]) == (2, None)
    assert api(adela).get(reverse("api:review-progress"), {"benchmark": "other"}).json()["backlog"] == {}


def test_active_time_sent_twice_counts_once(api: Api, ana: User, bo: User) -> None:
    open_case()
    assignment = claim(ana)
    start = int(assignment.opened_at.timestamp() * 1000) - 5_000
    address = reverse("api:assignment-activity", args=[assignment.pk])
    for _ in range(2):
        assert api(ana).post(address, {"stretches": [[start, start + 10_000_000]]}).status_code == 204
    assert ActiveInterval.objects.filter(physician=ana).count() <= 1
    assert api(ana).post(address, {"stretches": [[1]]}).status_code == 400
    assert api(bo).post(address, {"stretches": []}).status_code == 404


def test_an_account_is_created_closed_and_given_a_new_password(api: Api, adela: User) -> None:
    client, people = api(adela), reverse("api:people")
    body = {
        "username": "Dana",
        "password": PASSWORD,
        "role": "physician",
        "specialty": "Cardiology",
        "languages": ["en"],
    }
    created = client.post(people, body)
    assert created.status_code == 201, created.content
    assert "password" not in created.json()
    dana = User.objects.get(username="dana")
    assert (dana.role, dana.specialty, dana.languages) == ("physician", "Cardiology", ["en"])
    assert authenticate(created.wsgi_request, username="dana", password=PASSWORD) == dana
    for mistake in (
        {},
        {"username": "two words"},
        {"username": "e1", "password": "short"},
        {"username": "e1", "role": "owner"},
    ):
        refused = problem(client.post(people, {**body, **mistake}), 400)
        assert {error["field"] for error in refused["errors"]} <= {"username", "password", "role"}, mistake
    danas_client = api(dana)
    assert danas_client.get(reverse("api:me")).status_code == 200
    new_password = "another-long-pass"
    assert client.post(reverse("api:person-password", args=[dana.pk]), {"password": "short"}).status_code == 400
    assert client.post(reverse("api:person-password", args=[dana.pk]), {"password": new_password}).status_code == 200
    assert danas_client.get(reverse("api:me")).status_code == 401
    assert authenticate(created.wsgi_request, username="dana", password=new_password) == dana
    active = reverse("api:person-active", args=[dana.pk])
    assert client.post(active, {"active": False}).json()["is_active"] is False
    assert client.post(active, {"active": True}).json()["is_active"] is True
    assert client.post(reverse("api:person-second-factor", args=[dana.pk])).status_code == 200
    for change in ("active", "second-factor"):
        assert client.post(reverse(f"api:person-{change}", args=[adela.pk]), {"active": False}).status_code == 403
    kinds = PersonEvent.objects.filter(person=dana).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["made", "password", "closed", "opened"]


@pytest.mark.parametrize("field", ["is_staff", "is_superuser", "simulated", "is_active", "paused_at"])
def test_a_new_account_gets_no_field_that_the_page_does_not_offer(api: Api, adela: User, field: str) -> None:
    before = getattr(User(), field)
    body = {"username": "e1", "password": PASSWORD, "role": "admin", field: not before}
    answer = api(adela).post(reverse("api:people"), body)
    if answer.status_code == 400:  # no field of an account at all
        assert [error["field"] for error in answer.json()["errors"]] == [field]
    else:
        assert getattr(User.objects.get(username="e1"), field) == before
