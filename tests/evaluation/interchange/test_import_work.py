"""Imports of results are work: progress is kept, a killed one is begun anew, and nothing is left behind."""

import json
import os
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evaluation.interchange import importing, services
from evaluation.models import Judgment, ResultsImport, Run
from generation.models import Release
from generation.models.work import Work
from mhb_site.server.sweeping import sweep
from tests.engine import bare_release

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
KEY = "mhb-dialogue-000000"


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"], ["A3"]]))


@pytest.fixture
def waiting(release: Release, tmp_path: Path, settings: Any) -> ResultsImport:
    """An import of three verdicts in chunks of one."""
    settings.MEDIA_ROOT = tmp_path
    (tmp_path / services.FOLDER).mkdir()
    path = tmp_path / services.FOLDER / uuid.uuid4().hex
    lines = ({"sample": KEY, "rubric": f"R{n}", "model": "m", "met": True} for n in (1, 2, 3))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return services.start_import(path, release=release, study="s")


def test_a_killed_import_is_begun_anew(waiting: ResultsImport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 1)
    store, seen = importing._Importer.store, list[int]()

    def killed(self: Any, chunk: Any, on_chunk: Any) -> None:
        store(self, chunk, on_chunk)
        seen.append(ResultsImport.objects.get().rows)
        if len(seen) == 2:
            raise SystemExit  # nothing of ours runs after kill -9 either

    monkeypatch.setattr(importing._Importer, "store", killed)
    with pytest.raises(SystemExit):
        services.run_import(waiting.pk)
    assert seen == [1, 2]
    assert (ResultsImport.objects.get().status, Judgment.objects.count()) == (Status.RUNNING, 2)
    monkeypatch.setattr(importing._Importer, "store", store)
    assert services.run_import(waiting.pk).status == Status.RUNNING, "its lease has not run out"
    ResultsImport.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert sweep()["imports"] == 1
    done = services.run_import(waiting.pk)
    assert (done.status, done.rows, done.added, done.known, done.run) == (Status.DONE, 3, 1, 2, Run.objects.get())
    assert (done.run and done.run.rubrics_total, Judgment.objects.count()) == (3, 3)
    assert not Path(done.path).exists()


def test_who_lost_the_lease_stores_nothing_more(waiting: ResultsImport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 1)
    store = importing._Importer.store

    def slow(self: Any, chunk: Any, on_chunk: Any) -> None:
        store(self, chunk, on_chunk)
        ResultsImport.objects.update(token=uuid.uuid4())  # somebody else reads it now

    monkeypatch.setattr(importing._Importer, "store", slow)
    assert services.run_import(waiting.pk).status == Status.RUNNING
    assert Judgment.objects.count() == 1
    assert Path(waiting.path).exists()


def test_what_kills_every_worker_is_given_up(waiting: ResultsImport) -> None:
    ResultsImport.objects.update(tries=services.IMPORT_TRIES)
    failed = services.run_import(waiting.pk)
    assert (failed.status, failed.error) == (Status.FAILED, "GivenUp")
    assert not Path(waiting.path).exists()


def test_files_that_no_import_waits_for_are_removed(waiting: ResultsImport) -> None:
    left = Path(waiting.path).with_name(uuid.uuid4().hex)
    left.write_text("{}")
    for path in (left, Path(waiting.path)):
        os.utime(path, (0, 0))
    sweep()
    assert (left.exists(), Path(waiting.path).exists()) == (False, True)
