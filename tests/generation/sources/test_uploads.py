"""Imports can be cancelled, fail when the file is at fault, and leave no file behind."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, TemporaryUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.common import chunks
from generation.engine.task_queue import take
from generation.models import Import, ImportStatus, SourceRecord
from generation.sources import importers, reading, uploads
from generation.sources import services as sources_services
from mhb_site.server.sweeping import sweep
from review.models import User
from review.rules.text import is_storable
from tests.api.conftest import Api, api
from tests.conftest import Clock
from tests.engine import conversation, conversations_file
from tests.generation.rows import pair

__all__ = ["api"]
pytestmark = pytest.mark.django_db
Status = ImportStatus


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    """The folder of uploaded files during a test."""
    settings.MEDIA_ROOT = tmp_path / "uploads"
    return tmp_path / "uploads"


def upload(content: bytes, actor: User, *, format_name: str = "healthbench", name: str = "own") -> Import:
    return uploads.start_import(
        SimpleUploadedFile("mine.jsonl", content), format_name=format_name, name=name, actor=actor
    )


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def conversation_lines(count: int) -> bytes:
    return lines(*(conversation(number) for number in range(count)))


def queued_import(actor: User) -> Import:
    return upload(conversation_lines(6), actor)


# Cancelled


def test_a_queued_import_is_cancelled_and_its_file_removed(
    adela: User, folder: Path, django_capture_on_commit_callbacks: Any
) -> None:
    run = queued_import(adela)
    with django_capture_on_commit_callbacks(execute=True):
        assert sources_services.cancel_import(run.pk).status == Status.CANCELLED
    assert not list(folder.iterdir())
    assert sources_services.sweep() == []
    assert sources_services.run_import(run.pk).status == Status.CANCELLED
    assert sources_services.cancel_import(run.pk).status == Status.CANCELLED, "cancelling twice does no harm"
    assert SourceRecord.objects.count() == 0


def test_a_running_import_stops_when_cancelled_and_keeps_what_it_added(
    adela: User, folder: Path, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 2)
    run = queued_import(adela)
    open_file = reading.open_file
    numbers_read = []

    def open_with_cancellation(*arguments: Any) -> Any:
        layout, rows = open_file(*arguments)

        def rows_with_cancellation() -> Iterator[Any]:
            for number, row in enumerate(rows):
                if number == 3:
                    with django_capture_on_commit_callbacks(execute=True):
                        sources_services.cancel_import(run.pk)
                numbers_read.append(number)
                yield row

        return layout, rows_with_cancellation()

    monkeypatch.setattr(reading, "open_file", open_with_cancellation)
    run = sources_services.run_import(run.pk)
    assert (run.status, run.rows, run.added, run.token) == (Status.CANCELLED, 2, 2, None)
    assert run.finished_at is not None
    assert numbers_read == [0, 1, 2, 3]
    assert SourceRecord.objects.count() == 2
    assert not list(folder.iterdir())


def test_an_import_that_has_ended_cannot_be_cancelled(adela: User) -> None:
    run = sources_services.run_import(queued_import(adela).pk)
    with pytest.raises(errors.ImportOver):
        sources_services.cancel_import(run.pk)
    with pytest.raises(errors.UnknownImport):
        sources_services.cancel_import(run.pk + 1)
    run.refresh_from_db()
    assert run.status == Status.DONE


def test_an_import_is_cancelled_from_the_page(client: Client, adela: User) -> None:
    client.force_login(adela)
    run = queued_import(adela)
    address = reverse("generation:import-cancel", args=[run.pk])
    page = client.get(reverse("generation:source", args=["own"])).content.decode()
    assert f'action="{address}"' in page
    shown = client.post(address, follow=True).content.decode()
    assert "cancelled" in shown
    assert f'action="{address}"' not in shown
    assert client.post(reverse("generation:import-cancel", args=[run.pk + 1])).status_code == 404


@pytest.mark.parametrize("name", importers.available())
def test_a_refusal_that_quotes_what_is_no_text_can_be_shown_and_stored(api: Api, adela: User, name: str) -> None:
    for content in (b"\xff,a\n1,2\n", b"\xed\xa0\x80", b"id,id\0\xff,id\0\xff\n1,2,3\n"):
        file = SimpleUploadedFile("odd.csv", content)
        posted = {"name": "odd", "format": name, "file": file}
        answer = api(adela).post(reverse("api:imports"), posted, format="multipart")
        assert answer.status_code in (202, 422)
        assert is_storable(answer.json())


def test_an_import_is_cancelled_over_the_api(api: Api, adela: User) -> None:
    run = queued_import(adela)
    address = reverse("api:import-cancel", args=[run.pk])
    assert api(adela).post(address).json()["status"] == "cancelled"
    Import.objects.update(status=Status.DONE)
    assert api(adela).post(address).status_code == 409
    assert api(adela).post(reverse("api:import-cancel", args=[run.pk + 1])).status_code == 404


def test_an_import_is_cancelled_from_the_shell(adela: User, capsys: pytest.CaptureFixture[str]) -> None:
    run = queued_import(adela)
    call_command("cancel_import", "--json")
    assert [row["import"] for row in json.loads(capsys.readouterr().out)["imports"]] == [run.pk]
    call_command("cancel_import", str(run.pk), "--json")
    assert json.loads(capsys.readouterr().out)["status"] == "cancelled"
    with pytest.raises(CommandError):
        call_command("cancel_import", str(run.pk + 1))


# At fault


def test_a_file_that_exhausts_its_reader_fails_the_import_at_once(
    adela: User, folder: Path, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "bomb"
    pq.write_table(pa.Table.from_pylist([pair(), pair(Question="x" * 2**26)]), path, compression="zstd")
    settings.MHB_READER_MEMORY = 300 * 2**20
    run = sources_services.run_import(upload(path.read_bytes(), adela, format_name="medhallu").pk)
    assert (run.status, run.tries, run.error) == (Status.FAILED, 1, "LimitsExceeded"), run.detail
    assert "mine.jsonl" in run.detail
    assert "300 MB of memory" in run.detail
    assert not list(folder.iterdir())


def test_a_file_that_kills_its_worker_fails_the_import_after_three_attempts(
    adela: User, folder: Path, clock: Clock
) -> None:
    run = queued_import(adela)
    for _time in range(3):
        assert take(Import.objects.order_by("pk"), 1)
        clock.advance(minutes=2)
        sources_services.sweep()
    run = sources_services.run_import(run.pk)
    assert (run.status, run.error) == (Status.FAILED, "GivenUp")
    assert "started 3 times" in run.detail
    assert not list(folder.iterdir())


def test_an_import_that_runs_out_of_memory_says_so(adela: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_memory_error(*_args: Any, **_options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(sources_services, "_add_records", raise_memory_error)
    run = sources_services.run_import(queued_import(adela).pk)
    assert (run.status, run.detail) == (Status.FAILED, "mine.jsonl: The worker ran out of memory.")


def test_long_records_are_stored_in_small_chunks(adela: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_services, "CHUNK_SIZE", 5000)
    add, sizes = sources_services._add_records, []

    def record_size(source: Any, rows: Any, **options: Any) -> Any:
        sizes.append(len(rows))
        return add(source, rows, **options)

    monkeypatch.setattr(sources_services, "_add_records", record_size)
    long_prompt = [{"role": "user", "content": "x" * 3000}]
    sources_services.run_import(upload(lines(*(conversation(n, prompt=long_prompt) for n in range(6))), adela).pk)
    assert sizes == [2, 2, 2]


def test_slow_records_are_stored_before_the_lease_expires(
    adela: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """Otherwise other workers would read the file, too, and the import would fail after three."""
    settings.MHB_LEASE_SECONDS = 0
    sizes = []

    def record_size(_source: Any, rows: Any, **_options: Any) -> Any:
        sizes.append(len(rows))
        return 0, []

    monkeypatch.setattr(sources_services, "_add_records", record_size)
    sources_services.run_import(upload(lines(*(conversation(n) for n in range(3))), adela).pk)
    assert sizes == [1, 1, 1]


@pytest.mark.parametrize(
    "bad",
    [
        rb'"\ud800"',
        rb'"a\u0000b"',
        rb'{"a\ud800": 1}',
        rb'{"\u0000": 1}',
        b"[1e999]",
        b"-1e999",
        rb'["\udc00\ud800"]',
    ],
)
def test_values_that_a_database_cannot_hold_spoil_only_their_record(adela: User, bad: bytes) -> None:
    run = sources_services.run_import(
        upload(
            lines(conversation(1), conversation(2)).replace(b'"canary": ', b'"canary": ' + bad + b', "was": ', 1), adela
        ).pk
    )
    assert (run.status, run.added, run.refused) == (Status.DONE, 1, 1), run.detail


# Left behind


def test_a_full_disk_leaves_no_file(adela: User, folder: Path) -> None:
    class Full(SimpleUploadedFile):
        def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
            yield b"half of it"
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        uploads.start_import(Full("own.jsonl", b"{}"), format_name="healthbench", name="own", actor=adela)
    assert not list(folder.iterdir())


def test_a_large_upload_is_moved_and_not_copied(adela: User, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of megabytes would be written again while the request waits."""
    monkeypatch.setattr(TemporaryUploadedFile, "chunks", None)
    with TemporaryUploadedFile("own.jsonl", "application/jsonl", 0, None) as file:
        file.write(conversation_lines(3))
        file.seek(0)
        run = uploads.start_import(file, format_name="healthbench", name="own", actor=adela)
        assert not Path(file.temporary_file_path()).exists()
    assert Path(run.path).parent == folder
    assert sources_services.run_import(run.pk).added == 3


def test_the_same_file_uploaded_twice_leaves_no_file(adela: User, folder: Path) -> None:
    runs = [queued_import(adela), queued_import(adela)]
    assert len(list(folder.iterdir())) == 2
    assert [sources_services.run_import(run.pk).added for run in runs] == [6, 0]
    assert not list(folder.iterdir())


def test_the_sweeper_removes_files_that_no_import_waits_for(adela: User, folder: Path) -> None:
    """A crash can leave a file without a row, or a file whose import has ended."""
    waiting = Path(queued_import(adela).path)
    local = folder / "put-there-by-somebody.jsonl"
    fresh, crashed, incomplete = folder / ("a" * 32), folder / ("b" * 32), folder / "tmpabc.upload"
    for path in (local, fresh, crashed, incomplete):
        path.write_bytes(b"x")
    for path in (waiting, local, crashed, incomplete):
        os.utime(path, (0, 0))
    sweep()
    assert sorted(folder.iterdir()) == sorted([waiting, local, fresh])
    Import.objects.update(status=Status.FAILED)
    sweep()
    assert sorted(folder.iterdir()) == sorted([local, fresh])


def test_incomplete_uploads_are_stored_where_the_sweeper_looks(settings: Any) -> None:
    from django.core.files.uploadedfile import TemporaryUploadedFile

    settings.MEDIA_ROOT.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = settings.MEDIA_ROOT
    upload = TemporaryUploadedFile("own.jsonl", "application/json", 1, None)
    assert uploads._UPLOAD_NAME.fullmatch(Path(upload.temporary_file_path()).name)
    upload.close()


def test_cancelling_an_import_keeps_a_local_file(tmp_path: Path) -> None:
    run = sources_services.start_import(
        conversations_file(tmp_path / "own.jsonl", 2), format_name="healthbench", name="own"
    )
    assert sources_services.cancel_import(run.pk).status == Status.CANCELLED
    assert (tmp_path / "own.jsonl").exists(), "only uploaded files are deleted"
