"""Sources, records and batches leave lists and choices, come back, or are deleted for good."""

from pathlib import Path
from typing import Any

import pytest
from django.db import ProgrammingError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from generation import errors
from generation.batches import queries as batches_queries
from generation.models import Batch, Draft, Source, SourceRecord
from generation.models.work import Work
from generation.removal import erasure, services
from review.audit import verification
from review.models import Audit, PersonEvent, User
from tests.engine import Manage, conversations_file, endpoint, import_file, launch_batch, manage

__all__ = ["manage"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return import_file(conversations_file(tmp_path / "own.jsonl", 3))


def finished_batch(source: Source) -> Batch:
    batch = launch_batch(source, endpoint("http://localhost:9/v1"))
    Draft.objects.filter(batch=batch).update(status=Work.Status.DONE)
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.FINISHED)
    return Batch.objects.get(pk=batch.pk)


def page(row: Any) -> str:
    kind = {"source": "source", "sourcerecord": "record", "batch": "batch"}[row._meta.model_name]
    return reverse("generation:removal", args=[kind, row.pk])


def test_an_archived_source_leaves_lists_and_choices_and_comes_back(
    source: Source, client: Client, adela: User
) -> None:
    client.force_login(adela)
    lists, launch = reverse("generation:sources"), reverse("generation:batch-new")
    shown = reverse("generation:source", args=["own"])
    assert client.post(page(source), {"action": "archive"}, follow=True).redirect_chain == [(shown, 302)]
    assert shown not in client.get(lists).content.decode()
    assert shown in client.get(lists, {"archived": "on"}).content.decode()
    assert "own (" not in client.get(launch).content.decode()
    assert batches_queries.suggested_source() is None
    assert "Archived" in client.get(shown).content.decode(), "it stays readable"
    source.refresh_from_db()
    with pytest.raises(errors.Archived):
        launch_batch(source, endpoint("http://localhost:9/v1"))
    client.post(page(source), {"action": "restore"})
    assert shown in client.get(lists).content.decode()
    assert batches_queries.suggested_source() == source
    acts = PersonEvent.objects.filter(kind=PersonEvent.Kind.ARCHIVED).values_list("data__what", "data__name", "actor")
    assert list(acts) == [("archived", "own", adela.pk), ("restored", "own", adela.pk)]
    assert list(verification.check(Audit())) == []


def test_no_batch_draws_an_archived_record(source: Source, client: Client, adela: User) -> None:
    client.force_login(adela)
    first = SourceRecord.objects.order_by("pk")[0]
    client.post(page(first), {"action": "archive"})
    shown = reverse("generation:record", args=["own", first.pk])
    listed = reverse("generation:source", args=["own"])
    assert shown not in client.get(listed).content.decode()
    assert shown in client.get(listed, {"archived": "on"}).content.decode()
    assert client.get(shown).status_code == 200
    batch = launch_batch(source, endpoint("http://localhost:9/v1"))
    assert Draft.objects.filter(batch=batch).count() == 2


def test_an_archived_batch_leaves_the_list(source: Source, client: Client, adela: User) -> None:
    client.force_login(adela)
    running = launch_batch(source, endpoint("http://localhost:9/v1"), limit=1)
    refused = client.post(page(running), {"action": "archive"}, follow=True)
    assert "in progress" in refused.content.decode()
    batch = finished_batch(source)
    client.post(page(batch), {"action": "archive"})
    rows, shown = reverse("generation:batches"), reverse("generation:batch", args=[batch.pk])
    assert shown not in client.get(rows).content.decode()
    assert shown in client.get(rows, {"status": "archived"}).content.decode()
    assert "Restore" in client.get(shown).content.decode()


def test_deletion_wants_a_reason_and_a_yes_and_shows_what_goes(source: Source, client: Client, adela: User) -> None:
    client.force_login(adela)
    record = SourceRecord.objects.order_by("pk")[0]
    assert "manage.py erase own" in client.get(page(record)).content.decode()
    for missing in ({"sure": "on"}, {"reason": "A patient."}, {"reason": " ", "sure": "on"}):
        assert client.post(page(record), {"action": "delete", **missing}).status_code == 422
    record.refresh_from_db()
    assert record.content["turns"]
    answer = client.post(page(record), {"action": "delete", "reason": "A patient.", "sure": "on"})
    assert answer.status_code == 302
    record.refresh_from_db()
    assert "turns" not in record.content
    event = PersonEvent.objects.get(kind=PersonEvent.Kind.ERASED)
    assert (event.actor, event.data["reason"]) == (adela, "A patient.")
    assert "This was deleted" in client.get(page(record)).content.decode()


@pytest.mark.parametrize("kind", ["source", "batch"])
def test_what_is_too_much_for_a_request_or_for_its_role_is_left_to_the_operator(
    source: Source, client: Client, adela: User, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    client.force_login(adela)
    row = source if kind == "source" else finished_batch(source)
    posted = {"action": "delete", "reason": "r", "sure": "on"}

    def refuse(*_args: object, **_options: object) -> None:
        raise ProgrammingError("must be owner of table")

    monkeypatch.setattr(erasure, f"erase_{kind}", refuse)
    refused = client.post(page(row), posted)
    assert (refused.status_code, "manage.py erase" in refused.content.decode()) == (422, True)
    monkeypatch.setattr(services, "MOST_HERE", 2)
    monkeypatch.setattr(erasure, f"erase_{kind}", None)
    assert client.post(page(row), posted).status_code == 422
    assert SourceRecord.objects.filter(latest=True).count() == 3


def test_the_api_and_the_command_do_the_same(source: Source, client: Client, adela: User, manage: Manage) -> None:
    client.force_login(adela)

    def call(**body: Any) -> Any:
        return client.post(reverse("api:removal"), body, content_type="application/json")

    assert call(kind="source", id=source.pk, action="archive").status_code == 200
    assert Source.objects.get().archived_at
    assert manage.json("archive", "source", source.pk, "--restore") == {"source": "own", "archived": False}
    assert Source.objects.get().archived_at is None
    assert call(kind="source", id=source.pk, action="delete").status_code == 400
    assert call(kind="source", id=source.pk + 1, action="delete", reason="r").status_code == 404
    answer = call(kind="source", id=source.pk, action="delete", reason="Wrong file.")
    assert (answer.status_code, answer.json()["records"]) == (200, 3)
    assert "There is no batch 77" in manage.refusal("archive", "batch", "77")
    assert "Give SOURCE" in manage.refusal("erase", "own", "--reason", "r")


def test_the_statements_of_the_page_do_not_grow_with_what_is_deleted(
    client: Client, adela: User, tmp_path: Path
) -> None:
    client.force_login(adela)
    counts = []
    for n in (2, 30):
        rows = import_file(conversations_file(tmp_path / f"own{n}.jsonl", n), name=f"own{n}")
        launch_batch(rows, endpoint("http://localhost:9/v1", f"e{n}"))
        with CaptureQueriesContext(connection) as captured:
            client.get(page(rows))
        counts.append(len(captured))
    assert counts[0] == counts[1]
