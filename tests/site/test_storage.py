"""Files in S3-compatible storage: hosts that share no folder, and backups between both kinds."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile
from moto.server import ThreadedMotoServer

from generation.common.storage import IMAGES, UPLOADS, MissingFile, discard, fetch, store
from generation.images import files
from generation.sources import services, uploads
from generation.sources.importers.table_mapping import TableMapping
from generation.sources.own_tables import OwnTable
from mhb_site.backup import services as backup
from mhb_site.server import retention
from review.rules.permissions import UserRole
from tests.generation.images.drawing import picture
from tests.review.factories import account

KEYS = {"access_key": "test", "secret_key": "test", "region_name": "us-east-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that speaks S3."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture
def bucket(server: str, settings: Any, tmp_path: Path) -> str:
    """A bucket that the site uses."""
    client = boto3.client(
        "s3", endpoint_url=server, aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )
    name = f"mhb-{abs(hash(str(tmp_path)))}"
    client.create_bucket(Bucket=name)
    settings.MHB_S3 = {"bucket_name": name, "endpoint_url": server, **KEYS}
    on_host(settings, tmp_path / "web")
    return name


def on_host(settings: Any, folder: Path) -> None:
    """Go on as a process on a host with a data folder of its own."""
    settings.MHB_IMAGES, settings.MEDIA_ROOT = folder / "images", folder / "uploads"
    settings.MEDIA_ROOT.mkdir(parents=True, exist_ok=True)


@pytest.mark.plain
def test_images_are_seen_by_every_host(bucket: str, settings: Any, tmp_path: Path) -> None:
    import hashlib

    data = picture()
    sha256 = hashlib.sha256(data).hexdigest()
    files.write_image(sha256, data)
    files.write_image(sha256, data)  # which it has
    on_host(settings, tmp_path / "worker")
    assert files.open_image(sha256) == ("image/png", data)
    with pytest.raises(files.NoImage):
        files.open_image("0" * 64)
    assert not (tmp_path / "web" / "images").exists()


@pytest.mark.django_db
def test_an_upload_is_imported_by_another_host(bucket: str, settings: Any, tmp_path: Path) -> None:
    kept = uploads.keep(SimpleUploadedFile("notes.csv", b"id,text\n1,Fever for two days.\n2,Cough.\n"))
    on_host(settings, tmp_path / "another-web")
    upload = uploads.kept(kept.token)
    mapping = TableMapping.model_validate({"columns": {"id": ["id"], "text": ["text"]}})
    run = uploads.start_import(
        upload, format_name="table", name="notes", table=OwnTable(mapping), actor=account("admin", UserRole.ADMIN)
    )
    on_host(settings, tmp_path / "worker")
    done = services.run_import(run.pk)
    assert (done.status, done.added) == ("done", 2), done.detail
    assert store(UPLOADS).listdir("")[1] == []
    assert not list(settings.MEDIA_ROOT.iterdir())


@pytest.mark.django_db
def test_a_folder_that_is_not_shared_is_named(settings: Any, tmp_path: Path) -> None:
    on_host(settings, tmp_path)
    with pytest.raises(MissingFile, match="web and workers need one shared MHB_DATA_DIR, or MHB_S3_BUCKET"):
        fetch(tmp_path / "uploads" / "gone")
    discard(tmp_path / "uploads" / "gone")


@pytest.mark.plain
def test_the_last_backup_is_known_to_every_host(bucket: str, settings: Any, tmp_path: Path) -> None:
    assert backup.last_backup() is None
    store(IMAGES).save(backup._LAST, ContentFile(json.dumps({"at": "2026-03-01T12:00:00+00:00"}).encode()))
    on_host(settings, tmp_path / "another")
    assert str(backup.last_backup()) == "2026-03-01 12:00:00+00:00"
    assert list(backup._names(store(IMAGES))) == [backup._LAST]


@pytest.mark.django_db
def test_an_upload_that_nobody_imports_is_forgotten(
    bucket: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads.keep(SimpleUploadedFile("notes.csv", b"id,text\n1,Fever for two days.\n"))
    store(UPLOADS).save("results/lost", ContentFile(b"{}"))
    assert retention.forget()["uploads"] == 0
    monkeypatch.setattr(retention, "ORPHAN_AGE", timedelta(0))
    mapping = TableMapping.model_validate({"columns": {"id": ["id"], "text": ["text"]}})
    run = uploads.start_import(
        SimpleUploadedFile("used.csv", b"id,text\n1,Cough.\n"),
        format_name="table",
        name="used",
        table=OwnTable(mapping),
        actor=account("admin", UserRole.ADMIN),
    )
    assert retention.forget()["uploads"] == 2
    assert (store(UPLOADS).listdir("")[1], store(UPLOADS).listdir("results")[1]) == ([run.file.name], [])
    settings.MHB_S3 = {**settings.MHB_S3, "bucket_name": "gone"}
    assert retention.forget()["uploads"] == 0, "the sweeper goes on without S3"
