"""A full disk: a good backup is not taken for a failed one, and a failed one ends in a sentence."""

import errno
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from bench.rows import bare_release
from generation.common.storage import IMAGES, store
from generation.sources import services as sources_services
from mhb_site.backup import services
from mhb_site.env import WrongEnvironment
from mhb_site.observability import hooks
from mhb_site.web.errors import problem
from review.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite_only]


def no_space(*_args: Any, **_options: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_backup_is_good_though_the_data_folder_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = type(store(IMAGES))
    save = folder.save

    def save_elsewhere(self: Any, name: str, *more: Any, **options: Any) -> str:
        if name == "last_backup.json":
            no_space()
        return save(self, name, *more, **options)

    monkeypatch.setattr(folder, "save", save_elsewhere)
    out, err = StringIO(), StringIO()
    call_command("backup", str(tmp_path / "backup"), stdout=out, stderr=err)
    assert "The audit trail ends at" in out.getvalue()
    assert "The backup is complete" in err.getvalue()
    assert services.check(tmp_path / "backup")
    assert services.is_sealed(tmp_path / "backup")


def test_a_full_target_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_write_lines", no_space)
    sentence = r"holds no complete backup: a file could not be copied \(No space left on device\)\."
    with pytest.raises(CommandError, match=sentence):
        call_command("backup", str(tmp_path / "backup"))
    with pytest.raises(services.BackupError):
        services.check(tmp_path / "backup")


SENTENCE = "The site&#x27;s disk is full, and nothing was saved. Tell the operator, then try again."


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "x"), OSError(errno.EDQUOT, "x"), OperationalError("database or disk is full")]
)
def test_an_upload_to_a_full_disk_is_a_507_with_a_sentence(
    adela: User, client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise error

    client.force_login(adela)
    monkeypatch.setattr("django.core.files.storage.FileSystemStorage._save", refuse)
    monkeypatch.setattr(sources_services, "start_import", refuse)
    file = SimpleUploadedFile("own.csv", b"id,text\n1,fever\n")
    page = client.post(reverse("generation:sources"), {"file": file, "name": "own", "format": "healthbench"})
    assert (page.status_code, SENTENCE in page.content.decode()) == (507, True)


def test_an_upload_that_does_not_fit_before_the_view_is_a_507(
    adela: User, client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    client.force_login(adela)
    client.raise_request_exception = False
    monkeypatch.setattr("django.core.files.uploadhandler.TemporaryFileUploadHandler.receive_data_chunk", no_space)
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 1
    file = SimpleUploadedFile("own.csv", b"id,text\n1,fever\n")
    assert client.post(reverse("generation:sources"), {"file": file}).status_code == 507


def test_an_export_that_cannot_begin_is_a_507(adela: User, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first bytes are made before the status is sent."""
    release = bare_release(("dialogue", [["A1"]]))
    monkeypatch.setattr("generation.releases.archive.temporary_folder", no_space)
    client.force_login(adela)
    address = reverse("generation:release-export", args=[release.name, release.version, "jsonl"])
    page = client.get(address)
    assert (page.status_code, SENTENCE in page.content.decode()) == (507, True)


def test_a_missing_extra_is_a_sentence_at_start(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    def absent(_dsn: str) -> None:
        raise ImportError("No module named 'sentry_sdk'")

    monkeypatch.setattr(hooks, "_connect_sentry", absent)
    settings.ENV = SimpleNamespace(sentry_dsn="https://key@sentry.example/1", otel=False)
    with pytest.raises(WrongEnvironment, match=r"Wrong setting\. MHB_SENTRY_DSN .* need the extra 'observe'"):
        hooks.connect()


def test_the_api_says_it_as_a_problem() -> None:
    answer = problem(OSError(errno.ENOSPC, "x"), {})
    assert answer is not None
    assert (answer.status_code, answer.data["type"]) == (507, "urn:mhb:disk-full")
