"""Imports of results are work rows: progress is stored, and an import is restarted after a kill."""

import json
import os
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from evaluation.interchange import importing, services
from evaluation.models import Judgment, ResultsImport, Run
from generation.models import Release
from generation.models.work import Work
from mhb_site.server.sweeping import sweep
from review.models import User
from tests.engine import bare_release

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
KEY = "mhb-dialogue-000000"


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"], ["A3"]]))


@pytest.fixture
def queued_import(release: Release, adela: User, tmp_path: Path, settings: Any) -> ResultsImport:
    """An import of three verdicts that no worker has started."""
    settings.MEDIA_ROOT = tmp_path
    lines = ({"sample": KEY, "rubric": f"R{n}", "model": "m", "met": True} for n in (1, 2, 3))
    upload = SimpleUploadedFile("study.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    return services.start_import(upload, release=release, study="s", actor=adela)


def test_a_killed_import_is_restarted(queued_import: ResultsImport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 1)
    store, stored_rows = importing._Importer.store, list[int]()

    def store_and_die(self: Any, chunk: Any, on_chunk: Any) -> None:
        store(self, chunk, on_chunk)
        stored_rows.append(ResultsImport.objects.get().rows)
        if len(stored_rows) == 2:
            raise SystemExit  # as after kill -9, no code of ours runs

    monkeypatch.setattr(importing._Importer, "store", store_and_die)
    with pytest.raises(SystemExit):
        services.run_import(queued_import.pk)
    assert stored_rows == [1, 2]
    assert (ResultsImport.objects.get().status, Judgment.objects.count()) == (Status.RUNNING, 2)
    monkeypatch.setattr(importing._Importer, "store", store)
    assert services.run_import(queued_import.pk).status == Status.RUNNING, "the lease has not expired yet"
    ResultsImport.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert sweep()["imports"] == 1
    result = services.run_import(queued_import.pk)
    assert (result.status, result.rows, result.added, result.known, result.run) == (
        Status.DONE,
        3,
        3,
        0,
        Run.objects.get(),
    )
    assert (result.run and result.run.rubrics_total, Judgment.objects.count()) == (3, 3)
    assert not Path(result.path).exists()


def test_a_worker_that_lost_its_lease_stores_nothing_more(
    queued_import: ResultsImport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 1)
    store = importing._Importer.store

    def store_and_lose_lease(self: Any, chunk: Any, on_chunk: Any) -> None:
        store(self, chunk, on_chunk)
        ResultsImport.objects.update(token=uuid.uuid4())  # another worker has taken over

    monkeypatch.setattr(importing._Importer, "store", store_and_lose_lease)
    assert services.run_import(queued_import.pk).status == Status.RUNNING
    assert Judgment.objects.count() == 1
    assert Path(queued_import.path).exists()


def test_an_import_that_kills_every_worker_is_given_up(queued_import: ResultsImport) -> None:
    ResultsImport.objects.update(tries=services.IMPORT_TRIES)
    result = services.run_import(queued_import.pk)
    assert (result.status, result.error) == (Status.FAILED, "GivenUp")
    assert not Path(queued_import.path).exists()


def test_files_without_an_import_are_removed(queued_import: ResultsImport) -> None:
    orphan = Path(queued_import.path).with_name(uuid.uuid4().hex)
    orphan.write_text("{}")
    for path in (orphan, Path(queued_import.path)):
        os.utime(path, (0, 0))
    sweep()
    assert (orphan.exists(), Path(queued_import.path).exists()) == (False, True)
