"""A record that should not be there goes with all that was made of it; the trail stays whole."""

import json
import zlib
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.models import Batch, Call, Draft, GateEvent, Sample, SampleVersion, SentText, SourceRecord
from generation.models.sent_texts import store_requests
from generation.models.work import Work
from generation.outcomes.erasure import erase_records
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.audit import verification
from review.discussion import remarks
from review.models import Audit, Case, Event, PersonEvent, Review, User
from tests.engine import Manage, conversation, conversations_file, endpoint, import_file, launch_batch, manage
from tests.review.approve import approval_of, rejection_of
from tests.review.factories import account, claim, claim_and_submit
from tests.site.world import sample

__all__ = ["manage"]
pytestmark = [pytest.mark.django_db, pytest.mark.both]
WORD = "zebrafinch"  # stands in every text about the patient


def everything() -> str:
    """All rows of all tables that contain the word, as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            found += [str(row) for row in cursor.fetchall() if WORD in str(row).lower()]
    texts = [zlib.decompress(text.data).decode() for text in SentText.objects.all()]
    requests = [json.dumps(call.sent) for call in Call.objects.all()]
    found += [text for text in (*texts, *requests) if WORD in text.lower()]
    return "\n".join(found)


def patient(folder: Path) -> Batch:
    """A batch over a patient's record and another one, whose texts have the word everywhere."""
    turns = [{"role": "user", "content": f"The {WORD} hurts."}]
    file = conversations_file(folder / "own.jsonl", {**conversation(1), "prompt": turns}, conversation(2))
    batch = launch_batch(import_file(file), endpoint("http://localhost:9/v1"))
    draft = Draft.objects.filter(batch=batch).order_by("pk")[0]
    Draft.objects.filter(pk=draft.pk).update(data={"text": WORD}, detail=WORD, status=Work.Status.DONE)
    draft.refresh_from_db()
    version = samples_services.make_version(draft, batch, sample(1))
    SampleVersion.objects.filter(pk=version.pk).update(title=WORD, content={"text": WORD})
    version.rubrics.update(criterion=WORD)
    spec = json.loads(json.dumps(version.case.spec).replace("eadache", WORD))
    Case.objects.filter(pk=version.case.pk).update(title=WORD, spec=spec)
    GateEvent.objects.create(draft=draft, kind="stopped", reason=WORD, at=version.created_at)
    prompt, source = "You write test cases. " * 20, f"The {WORD} hurts. " * 20
    sent = [{"role": "system", "content": prompt}, {"role": "user", "content": source}]
    shared, of_another = store_requests([{"messages": sent}, {"messages": [*sent[:1], {"content": "Another."}]}])
    Call.objects.create(
        job=batch, subject="draft:0", endpoint=endpoint("http://localhost:9/v1"), model="m", seconds=1.0,
        request=of_another, attempt=1, started_at=version.created_at,
    )  # fmt: skip
    Call.objects.create(
        job=batch, subject=f"draft:{draft.pk}", endpoint=endpoint("http://localhost:9/v1"), model="m", seconds=1.0,
        request=shared, text=WORD, reasoning=WORD, detail=WORD, attempt=1, started_at=version.created_at,
    )  # fmt: skip
    return batch


def test_nothing_of_the_text_is_left_and_the_trail_verifies(
    client: Client, adela: User, tmp_path: Path, manage: Manage
) -> None:
    batch = patient(tmp_path)
    ana, bo = account("ana"), account("bo")
    claim_and_submit(ana, lambda form: rejection_of(form, f"About the {WORD}."))
    case = Case.objects.get()
    remarks.remark(adela, case.pk, f"It is about a {WORD}.")
    assert claim(bo).case_id == case.pk
    assert everything()
    record, other = SourceRecord.objects.order_by("pk")
    before = (other.title, other.content)
    result = manage.json("erase", "own", record.external_id, "--reason", "Imported by mistake.")
    assert (result["records"], result["samples"], result["cases"], result["calls"]) == (1, 1, 1, 1)
    assert everything() == ""
    messages = Call.objects.get(subject="draft:0").sent["messages"]
    assert [message["content"][:9] for message in messages] == ["You write", "Another."], "what it shared is kept"
    other.refresh_from_db()
    assert (other.title, other.content) == before
    assert list(verification.check(Audit())) == []
    event = PersonEvent.objects.get(kind=PersonEvent.Kind.ERASED)
    assert event.data["reason"] == "Imported by mistake."
    assert list(event.data["records"]) == [str(record.pk)]
    assert Sample.objects.get().status == Sample.Status.WITHDRAWN
    client.force_login(adela)
    pages = [
        reverse("review:history", args=[case.pk]),
        reverse("generation:sample", args=[Sample.objects.get().pk]),
        reverse("generation:batch", args=[batch.pk]),
        reverse("generation:draft", args=[Draft.objects.order_by("pk")[0].pk]),
        reverse("review:overview"),
    ]
    assert [client.get(page).status_code for page in pages] == [200] * len(pages)
    for rows in (Event.objects.all(), Review.objects.all(), GateEvent.objects.all()):
        with pytest.raises(DatabaseError), transaction.atomic():
            rows.delete()


def test_what_is_released_or_in_progress_stays(tmp_path: Path, manage: Manage) -> None:
    batch = patient(tmp_path)
    record = SourceRecord.objects.order_by("pk")[0]
    Draft.objects.filter(record=record).update(
        status=Work.Status.RUNNING, token="0" * 32, lease_until=record.source.created_at
    )
    assert "in progress" in manage.refusal("erase", "own", record.external_id, "--reason", "r")
    Draft.objects.filter(record=record).update(status=Work.Status.DONE, token=None, lease_until=None)
    for name in ("ana", "bo"):
        claim_and_submit(account(name), *([approval_of] if name == "ana" else [approval_of, approval_of]))
    releases_services.freeze_release("own", benchmark="mhb")
    with pytest.raises(errors.NotErasable, match="Released in own v1"):
        erase_records(batch.source, [record.external_id], reason="r")
    with pytest.raises(errors.UnknownRecords):
        erase_records(batch.source, [record.external_id, "no such"], reason="r")
    assert everything()
