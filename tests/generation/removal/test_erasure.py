"""A record that should not be there goes with all that was made of it; the trail stays whole."""

import json
import zlib
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client, TestCase
from django.urls import reverse

from generation import errors
from generation.batches import queries as batches_queries
from generation.images.files import NoImage, open_image
from generation.jobs import services as jobs_services
from generation.models import (
    Batch,
    Call,
    Draft,
    Erratum,
    GateEvent,
    Import,
    ImportRefusal,
    ProbeWork,
    Sample,
    SampleVersion,
    SentText,
    Source,
    SourceRecord,
    StoredImage,
)
from generation.models.sent_texts import store_requests
from generation.models.work import Work
from generation.releases import services as releases_services
from generation.removal.erasure import erase_records
from generation.samples import services as samples_services
from review.audit import verification
from review.discussion import remarks
from review.models import Audit, Case, Event, PersonEvent, Review, User
from tests.engine import Manage, conversation, conversations_file, endpoint, import_file, launch_batch, manage
from tests.generation.images.drawing import picture, store_image
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
    for subject in (f"check:{batch.pk}", "playground:1"):
        Call.objects.create(
            subject=subject, endpoint=endpoint("http://localhost:9/v1"), model="m", seconds=1.0,
            request=shared, text=WORD, attempt=1, started_at=version.created_at,
        )  # fmt: skip
    finding = {"code": "broken", "detail": WORD}
    Batch.objects.update(paused_detail=WORD, model_checks={"1": {"endpoint": "m", "tried": [{"findings": [finding]}]}})
    return batch


def test_nothing_of_the_text_is_left_and_the_trail_verifies(
    client: Client, adela: User, tmp_path: Path, manage: Manage
) -> None:
    batch = patient(tmp_path)
    ana, bo = account("ana"), account("bo")
    claim_and_submit(ana, lambda form: rejection_of(form, f"About the {WORD}."))
    case = Case.objects.get()
    remarks.remark(adela, case.pk, f"It is about a {WORD}.")
    Erratum.objects.create(sample=Sample.objects.get(), kind="reported", reason=WORD, at=case.opened_at)
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
    for rows in (Event.objects.all(), Review.objects.all(), GateEvent.objects.all(), Erratum.objects.all()):
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


def test_a_failed_draft_of_an_erased_record_is_not_tried_again(tmp_path: Path) -> None:
    """It has no text to try: a worker could only end with an error, again and again."""
    batch = patient(tmp_path)
    failed = batch.drafts.order_by("pk")[1]
    Draft.objects.filter(pk=failed.pk).update(status=Work.Status.FAILED, error="BadReply")
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.FINISHED)
    erase_records(batch.source, [failed.record.external_id], reason="Another clinic's patient.")
    assert jobs_services.retry_failed(batch.pk) == 0
    failed.refresh_from_db()
    assert (failed.status, failed.error, failed.detail) == (Work.Status.DROPPED, "", "(erased)")


def test_a_whole_source_goes_with_its_name_and_what_was_refused_of_its_file(tmp_path: Path, manage: Manage) -> None:
    batch = patient(tmp_path)
    Source.objects.update(name=WORD, label=WORD, citation=WORD)
    run = Import.objects.get()
    ImportRefusal.objects.create(run=run, where="line 1", reason=f"'{WORD}' is not JSON.")
    Import.objects.update(file_name=f"{WORD}.jsonl", path=f"/{WORD}.jsonl", facets={"site": {WORD: 1}})
    ProbeWork.objects.create(source=batch.source, result={"word": WORD}, created_at=run.created_at)
    SourceRecord.objects.update(title=WORD)
    assert "in progress" in manage.refusal("erase", WORD, "--all", "--reason", "r")
    Batch.objects.update(status=Batch.Status.CANCELLED)
    Draft.objects.filter(status=Work.Status.QUEUED).update(status=Work.Status.DROPPED)
    result = manage.json("erase", WORD, "--all", "--reason", "Wrong file.")
    assert (result["records"], result["samples"], result["cases"]) == (2, 1, 1)
    left = everything()
    assert left.count(WORD) == left.count(f"'{WORD}'") + left.count(f'"{WORD}"'), "only the name, in the trail"
    assert not SourceRecord.objects.filter(latest=True).exists()
    assert Source.objects.get().archived_at is not None
    assert list(verification.check(Audit())) == []
    again = manage.json("erase", Source.objects.get().name, "--all", "--reason", "Again.")
    assert again["records"] == 0, "what was erased is not erased again"


def test_what_a_batch_made_goes_and_its_records_can_be_used_again(tmp_path: Path, manage: Manage) -> None:
    batch = patient(tmp_path)
    records = list(SourceRecord.objects.order_by("pk").values_list("title", "content"))
    Batch.objects.update(status=Batch.Status.FINISHED)
    Draft.objects.filter(status=Work.Status.QUEUED).update(status=Work.Status.DONE)
    assert not batches_queries.records_without_draft(batch.source, "mhb", ["dialogue"]).exists()
    result = manage.json("erase", "--batch", batch.pk, "--reason", "Wrong prompts.")
    assert (result["records"], result["drafts"], result["calls"]) == (0, 2, 1)
    assert list(SourceRecord.objects.order_by("pk").values_list("title", "content")) == records
    assert everything().count("SourceRecord") == 0
    assert not Draft.objects.exclude(data={}).exists()
    assert not Call.objects.exclude(text="").exists()
    assert batches_queries.records_without_draft(batch.source, "mhb", ["dialogue"]).count() == 2
    assert list(verification.check(Audit())) == []


def test_images_go_with_the_last_record_that_shows_them(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    first, second, third = SourceRecord.objects.order_by("pk")
    own, shared = (store_image(picture(shade=shade)).sha256 for shade in (90, 91))
    for record, images in ((first, [own, shared]), (second, [shared]), (third, None)):
        SourceRecord.objects.filter(pk=record.pk).update(content={**record.content, "images": images})
    with TestCase.captureOnCommitCallbacks(execute=True):
        erase_records(source, [first.external_id], reason="A face.")
    with pytest.raises(NoImage):
        open_image(own)
    assert open_image(shared)
    with TestCase.captureOnCommitCallbacks(execute=True):
        erase_records(source, [second.external_id], reason="A face.")
    with pytest.raises(NoImage):
        open_image(shared)
    assert not StoredImage.objects.exists()
