"""The manifest of a backup is read strictly: somebody may have changed it, and its checksum."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage

from generation.common.storage import Folder
from mhb_site.backup import services

pytestmark = pytest.mark.plain
GOOD = {"backup": 1, "migrations": [], "tables": {}, "files": [], "secrets": [], "secret_key": "", "commit": ""}


def write(folder: Path, manifest: Any) -> None:
    text = json.dumps(manifest)
    (folder / "manifest.json").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  manifest.json\n")


def test_what_backup_writes_is_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert services.check(tmp_path) == GOOD


def test_the_folder_may_be_named_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, elsewhere = tmp_path / "backup", tmp_path / "elsewhere"
    for new in (folder, elsewhere):
        new.mkdir()
    (folder / "picture").write_bytes(b"1")
    entry = {"path": "picture", "bytes": 1, "sha256": hashlib.sha256(b"1").hexdigest()}
    write(folder, {**GOOD, "files": [entry]})
    monkeypatch.chdir(elsewhere)
    assert services.check(Path("../backup"))["files"] == [entry]


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        "text",
        {**GOOD, "backup": 2},
        {**GOOD, "files": None},
        {**GOOD, "files": ["x"]},
        {**GOOD, "files": [{"path": "images/../manifest.json", "bytes": 1, "sha256": ""}]},
        {**GOOD, "files": [{"path": "/etc/hostname", "bytes": 1, "sha256": ""}]},
        {**GOOD, "migrations": [["review"]]},
        {**GOOD, "tables": {"review_user": {"rows": "many", "last": 0}}},
        {**GOOD, "tables": {"review_user": {"rows": 1, "last": 10**40}}},
        {**GOOD, "files": [{"path": "images//name", "bytes": 1, "sha256": ""}]},
        {**GOOD, "files": [{"path": f"images/{'x' * 300}", "bytes": 1, "sha256": ""}]},
        {**GOOD, "files": [{"path": "manifest.json", "bytes": "1", "sha256": ""}]},
        {**GOOD, "tables": {"review_user": {"rows": "1", "last": 0}}},
        {**GOOD, "tables": {"review_user": {"rows": 1, "last": True}}},
        {**GOOD, "secrets": ["\ud800"]},
        {**GOOD, "secrets": 5},
        {**GOOD, "secret_key": None},
    ],
    ids=str,
)
def test_anything_else_is_refused_in_a_sentence(tmp_path: Path, manifest: Any) -> None:
    write(tmp_path, manifest)
    with pytest.raises(services.BackupError):
        services.check(tmp_path)


def test_what_a_refused_restore_left_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Folder(location=tmp_path / "site")
    monkeypatch.setattr(services, "store", lambda _kind: kept)
    kept.save("picture", ContentFile(b"another"))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "picture").write_bytes(b"1")
    entry = {"path": "images/picture", "bytes": 1, "sha256": hashlib.sha256(b"1").hexdigest()}
    services._restore_files(tmp_path, {"files": [entry]})
    assert kept.open("picture").read() == b"1"


def test_a_manifest_without_end_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(services.BackupError, match="is not a complete backup"):
        services.check(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '"text"', '{"at": 5}', '{"at": "yesterday"}', '{"at": "2026-11-28T02:15:00"}', "[" * 100_000],
    ids=len,
)
def test_a_record_that_somebody_wrote_to_is_no_backup(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """And neither `/metrics` nor *System* fails by it."""
    kept = InMemoryStorage()
    monkeypatch.setattr(services, "store", lambda _kind: kept)
    kept.save("last_backup.json", ContentFile(text.encode()))
    assert services.last_backup() is None


def test_the_record_of_the_last_backup_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = InMemoryStorage()
    monkeypatch.setattr(services, "store", lambda _kind: kept)
    kept.save("last_backup.json", ContentFile(b'{"at": "2026-11-28T02:15:00+00:00"}'))
    assert services.last_backup() == datetime(2026, 11, 28, 2, 15, tzinfo=UTC)
