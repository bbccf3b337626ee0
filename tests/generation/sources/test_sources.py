"""Imports count rows, add none twice, and survive the death of their worker.

Bad files are refused as a whole, bad rows one by one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile

from generation import errors
from generation.batches import queries as batches_queries
from generation.common import chunks as common_chunks
from generation.engine.task_queue import lease, requeue_expired
from generation.models import Draft, Import, ImportRefusal, Source, SourceRecord
from generation.models.work import Work
from generation.sources import queries as sources_queries
from generation.sources import reading, services, uploads
from generation.sources import services as sources_services
from generation.sources.importers import healthbench
from review.rules.permissions import UserRole
from tests.conftest import Clock, RunConcurrently
from tests.engine import CANARY, conversation, conversations_file, drafts, import_file, report, reports_file
from tests.review.factories import account

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


def start_import(path: Path, name: str = "own", **options: Any) -> Import:
    return services.start_import(path, **{"format_name": "healthbench", "name": name, **options})


def counts(run: Import) -> dict[str, int]:
    return {"rows": run.rows, "added": run.added, "same": run.same, "refused": run.refused}


def set_chunk_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(common_chunks, "CHUNK", size)


def file_with_a_bad_row(path: Path) -> Path:
    """Six good records, one of them twice, and in line 3 a record without a conversation."""
    bad = conversation(99)
    del bad["prompt"]
    return conversations_file(path, conversation(1), conversation(2), bad, *map(conversation, (3, 4, 5, 6, 2)))


def test_what_could_not_be_read_is_named_and_the_import_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "reports.json"
    path.write_text(f"[{json.dumps(report(1))}, {json.dumps(report(2))[:-1]}")
    run = services.run_import(start_import(path, format_name="pmc-patients").pk)
    assert run.status == Status.FAILED
    assert counts(run) == {"rows": 2, "added": 1, "same": 0, "refused": 1}
    assert run.detail.startswith("reports.json: record 2 and everything after it: ")


def test_rows_are_counted_and_bad_ones_are_reported(tmp_path: Path) -> None:
    run = services.run_import(start_import(file_with_a_bad_row(tmp_path / "own.jsonl")).pk)
    assert run.status == Status.DONE
    assert run.finished_at is not None
    assert counts(run) == {"rows": 8, "added": 6, "same": 1, "refused": 1}
    refusal = ImportRefusal.objects.get(run=run)
    assert refusal.where == "line 3"
    assert "prompt" in refusal.reason
    assert SourceRecord.objects.count() == 6


@pytest.mark.parametrize("chunk", [1, 500], ids=["across chunks", "in one chunk"])
def test_a_corrected_record_differs_and_becomes_a_revision_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    set_chunk_size(monkeypatch, chunk)
    corrected = conversation(1, prompt=[{"role": "user", "content": "What is the dose, 50 mg?"}])
    path = conversations_file(tmp_path / "own.jsonl", conversation(1), conversation(2), conversation(2), corrected)
    run = services.run_import(start_import(path).pk)
    assert (run.added, run.same, run.differs, run.refused) == (2, 1, 1, 0)
    [difference] = ImportRefusal.objects.filter(run=run)
    assert (difference.where, difference.differs) == ("line 4", True)
    assert "in: turns. That one stays" in difference.reason
    old = SourceRecord.objects.get(external_id=conversation(1)["prompt_id"])

    for again in range(2):  # a killed import starts over
        run = services.run_import(start_import(path, updates=True).pk)
        assert (run.added, run.same, run.differs) == ((0, 3, 1) if not again else (0, 4, 0))
    new = sources_queries.records(run.source).get(external_id=old.external_id)
    assert (new.revision, new.content["turns"][0]["content"]) == (2, "What is the dose, 50 mg?")
    assert run.source.records.count() == 3
    assert sources_queries.records(run.source).count() == 2
    assert getattr(sources_queries.sources().get(), "records_count") == 2  # noqa: B009 - an annotation
    stored = SourceRecord.objects.get(pk=old.pk)
    assert (stored.content, stored.latest) == (old.content, False)


def test_a_source_has_licence_and_citation(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    assert (source.licence, source.label) == ("MIT", "HealthBench")
    assert source.citation == healthbench.citation
    assert "canary" in source.restrictions
    reports = import_file(reports_file(tmp_path / "own.json", 1), "own-reports", "pmc-patients")
    assert reports.licence == "CC BY-NC-SA 4.0"
    assert "non-commercial" in reports.restrictions


def test_importing_a_file_again_adds_nothing(tmp_path: Path) -> None:
    path = file_with_a_bad_row(tmp_path / "own.jsonl")
    import_file(path)
    before = list(SourceRecord.objects.order_by("pk").values())
    second_run = services.run_import(start_import(path).pk)
    assert counts(second_run) == {"rows": 8, "added": 0, "same": 7, "refused": 1}
    assert list(SourceRecord.objects.order_by("pk").values()) == before
    assert Source.objects.count() == 1


def test_a_larger_file_adds_what_is_new(tmp_path: Path) -> None:
    import_file(conversations_file(tmp_path / "few.jsonl", 3))
    run = services.run_import(start_import(conversations_file(tmp_path / "more.jsonl", 5)).pk)
    assert counts(run) == {"rows": 5, "added": 2, "same": 3, "refused": 0}


@pytest.mark.parametrize("chunk", [2, 500], ids=["across chunks", "in one chunk"])
def test_the_first_of_two_records_with_one_id_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    set_chunk_size(monkeypatch, chunk)
    other = conversation(
        1, prompt=[{"role": "user", "content": "Something else under the same id, which comes later."}]
    )
    path = conversations_file(tmp_path / "own.jsonl", conversation(1), conversation(2), other)
    source = import_file(path)
    assert SourceRecord.objects.count() == 2
    first = sources_queries.records(source)[0]
    assert first.external_id == conversation(1)["prompt_id"]
    assert first.content["turns"][0]["content"].startswith("This is case 1.")


def nothing_is_stored() -> bool:
    return not (Source.objects.exists() or Import.objects.exists() or SourceRecord.objects.exists())


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"a": 1}\n', "<html></html>", "id,text\n1,hello\n"])
def test_a_wrong_file_stores_nothing_at_all(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(content)
    with pytest.raises(errors.WrongFile, match=r"wrong\.jsonl"):
        start_import(path)
    assert nothing_is_stored()


def test_a_missing_file_a_folder_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    good = conversations_file(tmp_path / "own.jsonl", 1)
    for path, format_name in ((tmp_path / "none.jsonl", "healthbench"), (tmp_path, "healthbench"), (good, "medline")):
        with pytest.raises(errors.WrongFile):
            start_import(path, format_name=format_name)
    assert nothing_is_stored()


@pytest.mark.parametrize("name", ["", "two words", "a@2", "x" * 101])
def test_a_name_that_does_not_fit_in_a_url_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidationError):
        start_import(conversations_file(tmp_path / "own.jsonl", 1), name=name)
    assert nothing_is_stored()


def test_a_source_has_one_format(tmp_path: Path) -> None:
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    with pytest.raises(errors.SourceExists):
        services.start_import(reports_file(tmp_path / "own.json", 1), format_name="pmc-patients", name="own")
    assert (Source.objects.count(), Import.objects.count(), SourceRecord.objects.count()) == (1, 1, 2)


def kill_in_chunk(number: int, run: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an import until its worker dies in this chunk."""
    add, chunks = services._add_records, 0

    def add_or_die(source: Source, rows: Any, **options: Any) -> Any:
        nonlocal chunks
        chunks += 1
        if chunks == number:
            raise KeyboardInterrupt
        return add(source, rows, **options)

    with monkeypatch.context() as patch:
        patch.setattr(services, "_add_records", add_or_die)
        with pytest.raises(KeyboardInterrupt):
            services.run_import(run.pk)


def test_a_killed_import_of_updates_still_names_what_differed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    set_chunk_size(monkeypatch, 1)
    import_file(conversations_file(tmp_path / "old.jsonl", 2))
    corrected = conversation(1, prompt=[{"role": "user", "content": "What is the dose, 50 mg?"}])
    run = start_import(conversations_file(tmp_path / "new.jsonl", corrected, conversation(2)), updates=True)
    kill_in_chunk(2, run, monkeypatch)
    clock.advance(minutes=2)
    sources_services.sweep()
    run = services.run_import(run.pk)
    assert (run.status, run.rows, run.added, run.same, run.differs) == (Status.DONE, 2, 0, 1, 1)
    assert ImportRefusal.objects.get(run=run).differs


def test_a_killed_import_is_finished_without_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    set_chunk_size(monkeypatch, 2)
    run = start_import(file_with_a_bad_row(tmp_path / "own.jsonl"))
    kill_in_chunk(3, run, monkeypatch)
    run.refresh_from_db()
    assert (run.status, SourceRecord.objects.count(), ImportRefusal.objects.count()) == (Status.RUNNING, 3, 1)
    assert services.run_import(run.pk).status == Status.RUNNING, "the worker that holds it may still be running"
    clock.advance(minutes=2)
    assert sources_services.sweep() == [run.pk]
    run = services.run_import(run.pk)
    assert (run.status, run.tries) == (Status.DONE, 2)
    assert counts(run) == {"rows": 8, "added": 6, "same": 1, "refused": 1}, "as if undisturbed"
    assert SourceRecord.objects.count() == 6
    assert ImportRefusal.objects.count() == 1
    assert sources_services.sweep() == []


def test_a_reader_that_lost_its_lease_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The lease expires between two chunks, and another worker reads the file meanwhile."""
    set_chunk_size(monkeypatch, 2)
    run = start_import(file_with_a_bad_row(tmp_path / "own.jsonl"))
    open_file = reading.open_file

    def open_with_a_pause(*arguments: Any) -> Any:
        layout, rows = open_file(*arguments)

        def rows_with_a_pause() -> Iterator[Any]:
            for number, row in enumerate(rows):
                if number == 2:
                    monkeypatch.setattr(reading, "open_file", open_file)
                    clock.advance(minutes=2)
                    requeue_expired(Import)
                    assert services.run_import(run.pk).status == Status.DONE
                    SourceRecord.objects.all().delete()  # so that rows added later would be noticed
                yield row

        return layout, rows_with_a_pause()

    monkeypatch.setattr(reading, "open_file", open_with_a_pause)
    result = services.run_import(run.pk)
    assert result.status == Status.DONE
    assert counts(result) == {"rows": 8, "added": 6, "same": 1, "refused": 1}, "the counts of both readers"
    assert SourceRecord.objects.count() == 0
    assert ImportRefusal.objects.count() == 1


def test_an_import_whose_reader_is_silent_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    run = start_import(conversations_file(tmp_path / "own.jsonl", 2))
    open_file = reading.open_file
    swept = []

    def open_late(*arguments: Any) -> Any:
        *rest, while_silent = arguments
        for _second in range(4):  # the reader takes three leases until its first row
            clock.advance(seconds=0.75 * lease().total_seconds())
            while_silent()
            swept.append(requeue_expired(Import))
        return open_file(*rest)

    monkeypatch.setattr(reading, "open_file", open_late)
    assert services.run_import(run.pk).status == Status.DONE
    assert swept == [0] * 4
    assert Import.objects.get().tries == 1


def test_concurrent_workers_run_an_import_once(tmp_path: Path, run_concurrently: RunConcurrently) -> None:
    run = start_import(conversations_file(tmp_path / "own.jsonl", 30))
    outcomes = run_concurrently([lambda: services.run_import(run.pk)] * 4)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    run.refresh_from_db()
    assert (run.tries, run.added, run.same) == (1, 30, 0)
    assert SourceRecord.objects.count() == 30


@pytest.mark.parametrize("fails", [False, True])
def test_an_upload_is_deleted_as_soon_as_it_has_been_read(tmp_path: Path, settings: Any, fails: bool) -> None:
    settings.MEDIA_ROOT = tmp_path / "uploads"
    content = conversations_file(tmp_path / "own.jsonl", 2).read_bytes()
    options: dict[str, Any] = {"format_name": "healthbench", "actor": account("adela", UserRole.ADMIN)}
    with pytest.raises(ValidationError):
        uploads.start_import(SimpleUploadedFile("own.jsonl", content), name="two words", **options)
    assert not list(settings.MEDIA_ROOT.iterdir())
    run = uploads.start_import(SimpleUploadedFile("own.jsonl", content), name="own", **options)
    assert len(list(settings.MEDIA_ROOT.iterdir())) == 1
    if fails:
        next(settings.MEDIA_ROOT.iterdir()).write_text("It has changed.")
    assert services.run_import(run.pk).status == (Status.FAILED if fails else Status.DONE)
    assert not list(settings.MEDIA_ROOT.iterdir())


def test_a_file_that_vanishes_before_it_is_read_fails_the_import(tmp_path: Path) -> None:
    path = conversations_file(tmp_path / "own.jsonl", 1)
    run = start_import(path)
    path.unlink()
    run = services.run_import(run.pk)
    assert (run.status, run.error) == (Status.FAILED, "FileNotFoundError")
    assert "own.jsonl" in run.detail


def test_only_uploaded_files_are_deleted(tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = tmp_path
    local_file = conversations_file(tmp_path / "given.jsonl", 1)
    import_file(local_file)
    assert local_file.exists()
    upload = conversations_file(tmp_path / "upload", 2)
    run = services.run_import(start_import(upload, uploaded=True, file_name="mine.jsonl").pk)
    assert (run.file_name, run.added) == ("mine.jsonl", 1)
    assert not upload.exists()


def test_the_number_of_stored_refusals_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk_size(monkeypatch, 2)
    monkeypatch.setattr(services, "REFUSALS_KEPT", 3)
    bad = [conversation(number, prompt="no turns") for number in range(2, 9)]
    run = services.run_import(start_import(conversations_file(tmp_path / "own.jsonl", conversation(1), *bad)).pk)
    assert counts(run) == {"rows": 8, "added": 1, "same": 0, "refused": 7}
    assert ImportRefusal.objects.count() == 3


def test_private_data_is_kept_apart_from_the_content(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    record = SourceRecord.objects.get()
    assert record.private == {"canary": CANARY}
    assert CANARY not in str(record.content)
    assert "private" in sources_queries.records(source).get().get_deferred_fields()


def test_recipes_do_not_see_private_data() -> None:
    batch = drafts(1)
    SourceRecord.objects.update(private={"canary": CANARY})
    assert CANARY not in repr(batches_queries.draft_value(Draft.objects.get(batch=batch)))


def test_reports_are_read_from_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"""patient_uid,patient,age,gender\n1-1,"{report(1)["patient"]}","[[60.0, 'year']]",M\n""")
    source = import_file(path, "own-reports", "pmc-patients")
    assert Import.objects.get().layout == "csv-v1"
    record = SourceRecord.objects.get(source=source)
    assert (record.external_id, record.content["kind"]) == ("1-1", "report")
    assert record.content["text"] == report(1)["patient"]
