"""Backups, by the commands: into the other kind of database and back, and what is refused."""

import gzip
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from mhb_site.backup import services
from tests.processes import Site, running_site
from tests.profile import installed

pytestmark = pytest.mark.processes

# Rows that a move could damage: beside cases and their chain, microseconds, decimals, numbers in
# JSON, null in it, bytes, text with signs, an image, an upload, and a number that was given up.
FILL = """
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db.models import JSONField, Value
from django.utils import timezone
from knox.models import AuthToken
from bench.seed import fill
from generation.images.checks import clean
from generation.images.files import store_clean_image
from generation.models import Endpoint, Import, SentImage, Source
from review.audit.acts import Kind, record_act
from review.audit.trail import recording_events
from review.models import User
from tests.generation.images.drawing import picture

fill(3)
exact = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
numbers = {"b": 1.10, "a": 12345678901234567890, "1": 1e300, "small": -1e-7, "zero": -0.0, "null": None, "ü": "\\"\\\\ \\n 药"}
ends = dict(url="http://127.0.0.1:9/v1", model="m", key_env="MHB_KEY_TEST")
Endpoint.objects.create(name="one", price_in=Decimal("0.1000"), price_out=Decimal("12345.0001"), extra_body=numbers, **ends)
Endpoint.objects.create(name="two", last_test=Value(None, JSONField()), **ends)
image = store_clean_image(clean(picture()))
SentImage.objects.create(digest=image.sha256, media_type=image.media_type, data=b"\\x00\\xff" * 9)
source = Source.objects.create(name="notes", format="table", created_at=exact)
path = Path(settings.MEDIA_ROOT) / ("0" * 32)
path.write_text("id,text\\n1,fever\\n")
Import.objects.create(source=source, path=str(path), file_name="notes.csv", uploaded=True, created_at=exact)
for name in ("kept", "removed"):
    group = Group.objects.create(name=name)
group.delete()
AuthToken.objects.create(User.objects.create_user("nia"))
Session.objects.create(session_key="k" * 32, session_data="x", expire_date=exact)
with recording_events():
    record_act(Kind.JOB, "paused", "a run", reason="药 \\u2028 é")
"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site, Site]]:
    """An embedded site with rows, and one of each kind without."""
    with installed(), ExitStack() as stack:
        kinds = ("embedded", "production", "embedded")
        made = [stack.enter_context(running_site(kind, tmp_path_factory.mktemp(kind))) for kind in kinds]
        filled = made[0].manage("shell", "-v0", "-c", FILL)
        assert filled.returncode == 0, filled.stderr
        yield made[0], made[1], made[2]


@pytest.fixture(scope="module")
def first(sites: tuple[Site, Site, Site], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the filled site."""
    folder = tmp_path_factory.mktemp("first") / "backup"
    result = sites[0].manage("backup", str(folder))
    assert result.returncode == 0, result.stderr
    return folder


def parsed(value: Any) -> Any:
    """JSON as what it says: PostgreSQL writes it in an order and with numbers of its own."""
    if not isinstance(value, str) or value[:1] not in "{[":
        return value
    try:
        return json.loads(value, parse_float=Decimal)
    except ValueError:
        return value


def content(folder: Path) -> dict[str, list[Any]]:
    """The rows of a backup."""
    return {
        path.name: [
            [parsed(value) for value in json.loads(line)]
            for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
        ]
        for path in (folder / "tables").iterdir()
    }


def test_a_site_moves_to_postgresql_and_back(sites: tuple[Site, Site, Site], first: Path, tmp_path: Path) -> None:
    embedded, production, other = sites
    refused = production.manage("restore", str(first))  # this site has another key
    assert (refused.returncode, "has no SEAL of this site's MHB_SECRET_KEY" in refused.stderr) == (1, True)
    forth = production.json("restore", str(first), "--unsealed")
    assert forth["sealed"] is False
    assert forth["faults"] == 0
    assert forth["chain"] == json.loads((first / "manifest.json").read_text())["chain"]
    assert forth["secrets"] == ["MHB_SECRET_KEY", "MHB_KEY_TEST"]
    second = tmp_path / "second"
    assert production.json("backup", str(second))["rows"] == forth["rows"]
    other.json("restore", str(second), "--unsealed")
    third = tmp_path / "third"
    other.json("backup", str(third))
    assert content(first) == content(second) == content(third)
    for table in ("review_event", "review_personevent"):
        query = f"SELECT sequence, previous, hash FROM {table} ORDER BY id"
        assert embedded.sql(query) == production.sql(query) == other.sql(query) != []
    assert other.sql("SELECT last_test FROM generation_endpoint WHERE name = 'two'") == [("null",)]
    assert other.sql("SELECT last_test FROM generation_endpoint WHERE name = 'one'") == [(None,)]
    assert {other.number(f"SELECT count(*) FROM {table}") for table in ("django_session", "knox_authtoken")} == {0}
    for site in (production, other):
        assert site.json("verify_audit")["intact"]
        data = Path(site.environment["MHB_DATA_DIR"])
        assert (data / "uploads" / ("0" * 32)).read_text().startswith("id,text")
        images = [path for path in (data / "images").rglob("*") if path.is_file() and path.name != "last_backup.json"]
        assert len(images) == 2
        # What goes on there: protected tables, free numbers, the import of the upload.
        change = site.manage("shell", "-v0", "-c", "from review.models import Event\nEvent.objects.update(kind='x')")
        assert "append-only" in change.stderr
        code = "from django.contrib.auth.models import Group\nprint(Group.objects.create(name='new').pk)"
        assert site.manage("shell", "-v0", "-c", code).stdout.strip() == "3"
        code = "from generation.models import Import\nprint(Import.objects.get().file.is_file())"
        assert site.manage("shell", "-v0", "-c", code).stdout.strip() == "True"


def test_a_target_with_rows_is_refused(sites: tuple[Site, Site, Site], first: Path) -> None:
    result = sites[0].manage("restore", str(first))
    assert result.returncode == 1
    assert re.search(r"This database is in use \(\w+ has rows\): restore into an empty one\.", result.stderr)


def test_a_folder_with_files_is_not_written_to(sites: tuple[Site, Site, Site], first: Path) -> None:
    result = sites[0].manage("backup", str(first))
    assert (result.returncode, "is not empty" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("tables/review_event.jsonl.gz", lambda data: data[:-1] + b"x", "review_event.jsonl.gz was changed"),
        ("tables/review_event.jsonl.gz", None, "review_event.jsonl.gz is missing"),
        ("SHA256SUMS", None, "is not a complete backup"),
        ("manifest.json", lambda data: data.replace(b'"backup": 1', b'"backup":  1'), "manifest.json was changed"),
    ],
)
def test_a_changed_backup_is_refused(
    sites: tuple[Site, Site, Site], first: Path, name: str, change: Any, said: str
) -> None:
    path = first / name
    before = path.read_bytes()
    path.write_bytes(change(before)) if change else path.unlink()
    try:
        result = sites[2].manage("restore", str(first))
    finally:
        path.write_bytes(before)
    assert (result.returncode, said in result.stderr) == (1, True), result.stderr


def resealed(first: Path, folder: Path, **about: Any) -> Path:
    """A copy of a backup whose manifest says something else, with the right checksum."""
    from generation.releases.exporters.manifest import Checksums

    folder.mkdir()
    checksums = Checksums(folder)
    for path in sorted(path for path in first.rglob("*") if path.is_file() and path.parent != first):
        copy = folder / path.relative_to(first)
        copy.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, copy)
        checksums.add(copy)
    manifest = json.loads((first / "manifest.json").read_text())
    del manifest["files"]
    checksums.write({**manifest, **about})
    return folder


def test_a_backup_is_sealed_with_a_key_that_is_not_in_it(first: Path, tmp_path: Path) -> None:
    """Somebody who changes a row and writes all checksums again has no such key."""
    forged = resealed(first, tmp_path / "copy")
    with override_settings(SECRET_KEY="of-the-site"):
        services.seal(forged)
        assert services.is_sealed(forged)
        (forged / "SHA256SUMS").write_text("0  manifest.json\n")
        assert not services.is_sealed(forged), "other checksums"
        (forged / services.SEAL).unlink()
        assert not services.is_sealed(forged), "none"
        (forged / services.SEAL).write_bytes(b"\xff:x")
        assert not services.is_sealed(forged), "no text"
        services.seal(forged)
    with override_settings(SECRET_KEY="of-another-site"):
        assert not services.is_sealed(forged)
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["of-the-site"]):
        assert services.is_sealed(forged), "the key was changed since"


@pytest.mark.parametrize(("added", "said"), [(True, "newer version"), (False, "older version")])
def test_a_backup_of_another_version_is_refused(
    sites: tuple[Site, Site, Site], first: Path, tmp_path: Path, added: bool, said: str
) -> None:
    known = json.loads((first / "manifest.json").read_text())["migrations"]
    others = [*known, ["review", "9999_later"]] if added else [key for key in known if key[0] != "evaluation"]
    result = sites[2].manage("restore", str(resealed(first, tmp_path / "copy", migrations=others)))
    assert (result.returncode, said in result.stderr) == (1, True), result.stderr
