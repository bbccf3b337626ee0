"""Guidelines, remarks, the trail, progress, active time and accounts over the API: what the pages can do."""

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
from tests.review.factories import LOOK_FIRST, SEEN_PLAIN, WHOLE_FORM, opened, take

PASSWORD = "a-long-enough-pass"


def test_guidelines_are_written_in_versions(api: Api, adela: User, ana: User) -> None:
    opened()
    there = reverse("api:guideline-versions", args=["invented", "primary"])
    client = api(adela)
    made = client.post(there, {"text": "# Read twice", "base": 0})
    assert (made.status_code, made.json()["version"], made.json()["author"]) == (200, 1, "adela")
    assert client.post(there, {"text": "# Read twice"}).json()["version"] == 1
    assert problem(client.post(there, {"text": "Other", "base": 0}), 409)["type"] == "urn:mhb:stale-guideline"
    assert client.post(there, {"text": " "}).status_code == 422
    client.post(there, {"text": "# Read thrice", "base": 1})
    assert [row["version"] for row in client.get(there).json()["results"]] == [2, 1]
    shown = {(row["benchmark"], row["stage"]): row for row in api(ana).get(reverse("api:guidelines")).json()}
    assert shown["invented", "primary"]["text"] == "# Read thrice"
    assert (shown["invented", "secondary"]["version"], shown["invented", "secondary"]["text"]) == (0, "")
    for wrong in (("invented", "approved"), ("other", "primary")):
        assert client.get(reverse("api:guideline-versions", args=wrong)).status_code == 404
    assert Guideline.objects.count() == 2


def test_remarks_reach_those_who_may_read_them(api: Api, adela: User, ana: User, bo: User) -> None:
    case = opened()
    held = take(ana)
    own, whole = reverse("api:assignment-remarks", args=[held.pk]), reverse("api:case-remarks", args=[case.pk])
    said = api(ana).post(own, {"text": "@adela: is this so?"})
    assert (said.status_code, said.json()["author"], said.json()["anchor"]) == (201, "ana", None)
    assert Notice.objects.get().user == adela
    assert api(adela).post(whole, {"text": "It is."}).status_code == 201
    assert [row["author"] for row in api(adela).get(whole).json()["results"]] == ["ana", "adela"]
    assert (
        problem(api(ana).post(own, {"text": "?", "quote": "no such words"}), 422)["type"] == "urn:mhb:passage-unknown"
    )
    assert api(bo).get(own).status_code == 404, "not theirs"
    assert api(bo).post(own, {"text": "Me too"}).status_code == 404
    assert api(adela).get(reverse("api:case-remarks", args=[case.pk + 99])).status_code == 404
    assert Remark.objects.count() == 2


def test_a_sealed_physician_reads_nothing_of_what_others_say(api: Api, adela: User, ana: User) -> None:
    case = opened(form=WHOLE_FORM, policy=LOOK_FIRST, first_look=SEEN_PLAIN)
    held = take(ana)
    api(adela).post(reverse("api:case-remarks", args=[case.pk]), {"text": "The trap is in turn 1."})
    assert api(ana).get(reverse("api:assignment-remarks", args=[held.pk])).json()["results"] == []


def test_the_trail_is_checked_and_read(
    api: Api, adela: User, ana: User, woken: list[tuple[str, int]], django_capture_on_commit_callbacks: Any
) -> None:
    case = opened()
    take(ana)
    client, there = api(adela), reverse("api:audit")
    assert client.get(there).json() == {"running": False, "check": None}
    with django_capture_on_commit_callbacks(execute=True):
        asked = client.post(reverse("api:audit-check"))
        client.post(reverse("api:audit-check"))
    [(name, pk), again] = woken
    assert (asked.status_code, asked.json()["running"], name, again) == (202, True, "check_trail", (name, pk))
    check_trail(pk)
    found = client.get(there).json()
    assert (found["running"], found["check"]["faults"], found["check"]["asked_by"]) == (False, [], "adela")
    assert found["check"]["checked"] == found["check"]["total"] > 0
    User.objects.filter(pk=ana.pk).update(role=UserRole.ADMIN)  # past the trail
    verification.run(verification.create_check(None).pk)
    [fault] = client.get(there).json()["check"]["faults"]
    assert (fault["what"], fault["name"]) == ("account-role", "ana")
    assert "role" in fault["text"]
    events = reverse("api:audit-events")
    rows = client.get(events, {"case": str(case.pk), "actor": "ana"}).json()["results"]
    assert [(row["kind"], row["case"]) for row in rows] == [("claimed", case.pk)]
    today = timezone.now().date()
    assert client.get(events, {"since": str(today + timedelta(days=1))}).json()["results"] == []
    assert len(client.get(events, {"until": str(today)}).json()["results"]) == Event.objects.count()
    assert client.get(events, {"kind": "nothing"}).status_code == 400


def test_progress(api: Api, adela: User) -> None:
    opened(1)
    opened(2)
    found = api(adela).get(reverse("api:review-progress"), {"benchmark": "invented"}).json()
    assert len(found["days"]) == 30
    assert found["backlog"] == {"": {"primary": 2, "secondary": 0, "adjudication": 0}}
    assert (found["projection"]["open"], found["projection"]["finish"]) == (2, None)
    assert api(adela).get(reverse("api:review-progress"), {"benchmark": "other"}).json()["backlog"] == {}


def test_active_time_counts_once(api: Api, ana: User, bo: User) -> None:
    opened()
    held = take(ana)
    began = int(held.opened_at.timestamp() * 1000) - 5_000
    there = reverse("api:assignment-activity", args=[held.pk])
    for _ in range(2):
        assert api(ana).post(there, {"stretches": [[began, began + 10_000_000]]}).status_code == 204
    assert ActiveInterval.objects.filter(physician=ana).count() <= 1
    assert api(ana).post(there, {"stretches": [[1]]}).status_code == 400
    assert api(bo).post(there, {"stretches": []}).status_code == 404


def test_an_account_is_made_closed_and_given_a_password(api: Api, adela: User) -> None:
    client, people = api(adela), reverse("api:people")
    body = {
        "username": "Dana",
        "password": PASSWORD,
        "role": "physician",
        "specialty": "Cardiology",
        "languages": ["en"],
    }
    made = client.post(people, body)
    assert made.status_code == 201, made.content
    assert "password" not in made.json()
    dana = User.objects.get(username="dana")
    assert (dana.role, dana.specialty, dana.languages) == ("physician", "Cardiology", ["en"])
    assert authenticate(made.wsgi_request, username="dana", password=PASSWORD) == dana
    for wrong in (
        {},
        {"username": "two words"},
        {"username": "e1", "password": "short"},
        {"username": "e1", "role": "owner"},
    ):
        refused = problem(client.post(people, {**body, **wrong}), 400)
        assert {error["field"] for error in refused["errors"]} <= {"username", "password", "role"}, wrong
    token = api(dana)
    assert token.get(reverse("api:me")).status_code == 200
    other = "another-long-pass"
    assert client.post(reverse("api:person-password", args=[dana.pk]), {"password": "short"}).status_code == 400
    assert client.post(reverse("api:person-password", args=[dana.pk]), {"password": other}).status_code == 200
    assert token.get(reverse("api:me")).status_code == 401
    assert authenticate(made.wsgi_request, username="dana", password=other) == dana
    active = reverse("api:person-active", args=[dana.pk])
    assert client.post(active, {"active": False}).json()["is_active"] is False
    assert client.post(active, {"active": True}).json()["is_active"] is True
    assert client.post(reverse("api:person-second-factor", args=[dana.pk])).status_code == 200
    for what in ("active", "second-factor"):
        assert client.post(reverse(f"api:person-{what}", args=[adela.pk]), {"active": False}).status_code == 403
    kinds = PersonEvent.objects.filter(person=dana).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["made", "password", "closed", "opened"]


@pytest.mark.parametrize("field", ["is_staff", "is_superuser", "simulated", "is_active", "paused_at"])
def test_an_account_is_made_with_no_more_than_the_page_gives(api: Api, adela: User, field: str) -> None:
    before = getattr(User(), field)
    api(adela).post(reverse("api:people"), {"username": "e1", "password": PASSWORD, "role": "admin", field: not before})
    assert getattr(User.objects.get(username="e1"), field) == before
