"""What people do to the site is in the chain of accounts, with who did it."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from generation.endpoints.services import add_endpoint
from generation.jobs import life_cycle, services
from generation.models import Batch
from mhb_site.models import TokenName
from review.audit import acts, verification
from review.models import Audit, PersonEvent, User
from tests.engine import conversations_file, endpoint, import_file, launch_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def batch(tmp_path: Path, db: None) -> Batch:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    return launch_batch(source, endpoint("http://127.0.0.1:9/v1"))


def act(kind: PersonEvent.Kind) -> PersonEvent:
    return PersonEvent.objects.filter(kind=kind).latest("pk")


def test_a_change_of_an_endpoint_names_account_and_values(adela: User, client: Any) -> None:
    client.force_login(adela)
    body = {"name": "big", "url": "https://models.example/v1", "model": "big-1", "key_env": "MHB_KEY_BIG"}
    made = client.post("/api/v1/endpoints/", body, content_type="application/json")
    assert made.status_code == 201
    added = act(PersonEvent.Kind.ENDPOINT)
    assert (added.actor, added.data["what"], added.data["name"]) == (adela, "added", "big")
    assert added.data["changes"]["url"] == ["", "https://models.example/v1"]
    address = "/api/v1/endpoints/big/"
    client.patch(address, {"price_in": "2.50", "concurrency": 3}, content_type="application/json")
    changed = act(PersonEvent.Kind.ENDPOINT)
    assert changed.data["changes"]["concurrency"][1] == "3"
    assert changed.data["changes"]["price_in"][1] == "2.5"
    client.patch(address, {"price_in": "2.5000"}, content_type="application/json")
    assert act(PersonEvent.Kind.ENDPOINT) == changed  # nothing changed
    page = client.get(reverse("review:audit-site"), {"kind": "endpoint"}).content.decode()
    assert "<del>nothing</del> <ins>https://models.example/v1</ins>" in page
    assert not list(verification.check(Audit()))


def test_what_happens_to_a_job_is_recorded_in_order(adela: User, batch: Batch) -> None:
    assert act(PersonEvent.Kind.LAUNCHED).data["name"] == f"batch {batch.pk}"
    with acts.acting_for(lambda: adela):
        life_cycle.pause(batch.pk)
        life_cycle.pause(batch.pk)  # changes nothing
        life_cycle.change_limits(batch.pk, budget_money=None, budget_calls=50)
        life_cycle.resume(batch.pk)
        services.cancel(batch.pk)
    events = PersonEvent.objects.filter(kind=PersonEvent.Kind.JOB, actor=adela).order_by("sequence")
    assert [event.data["what"] for event in events] == ["paused", "budget", "resumed", "cancelled"]
    assert events[1].data["changes"]["calls"][1] == "50"
    assert {event.data["name"] for event in events} == {f"batch {batch.pk}"}


def test_a_pause_by_an_error_is_no_act(batch: Batch) -> None:
    life_cycle.pause(batch.pk, because="KeyMissing")
    assert not PersonEvent.objects.filter(kind=PersonEvent.Kind.JOB).exists()


def test_signing_in_and_tokens_are_recorded(adela: User, client: Any) -> None:
    adela.set_password("a-long-password-1")
    adela.save()
    client.post(reverse("account_login"), {"login": adela.username, "password": "a-long-password-1"})
    assert act(PersonEvent.Kind.SIGNED_IN).person == adela
    body = {"username": adela.username, "password": "a-long-password-1", "days": 3, "name": "Nightly export"}
    client.post("/api/v1/auth/token/", body, content_type="application/json")
    assert act(PersonEvent.Kind.TOKEN).data == {"what": "created", "days": 3}
    assert TokenName.objects.get().name == "Nightly export"


def test_the_trail_is_filtered_and_downloaded(adela: User, rui: User, client: Any) -> None:
    add_endpoint(name="big", url="https://models.example/v1", model="=big-1")
    client.force_login(adela)
    answer = client.get(reverse("review:audit-site"), {"kind": "endpoint", "format": "csv"})
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))
    assert [(row["kind"], row["actor_username"]) for row in rows] == [("endpoint", "")]
    for nonsense in ({"since": "2999-01-01"}, {"since": "2026-02-31"}, {"actor": "nobody"}):
        assert not client.get(reverse("review:audit-site"), nonsense).context["page"].rows
    assert client.get("/api/v1/audit/acts/", {"kind": "endpoint"}).json()["results"][0]["data"]["name"] == "big"
    client.force_login(rui)
    assert client.get(reverse("review:audit-site")).status_code == 403
