"""Uploaded files: stored under a generated name until they have been imported."""

import contextlib
import logging
import os
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.db.models import QuerySet

from generation import errors
from generation.common.storage import discard, fetch, share
from generation.models import Import, ImportStatus
from generation.sources import own_tables, reading, services
from generation.sources.importers import LimitsExceeded, WrongFormat
from generation.sources.importers.table_mapping import TableMapping
from generation.sources.own_tables import OwnTable
from generation.sources.reading import TablePreview
from review.common.waking import wake_after_commit
from review.models import User

log = logging.getLogger(__name__)

# Seconds without a write after which a file that no import needs is removed. A file still being
# received is written to.
ORPHAN_AGE = 60 * 60
_SALT = "generation.sources.uploads"
# With a dot: `storage.Folder` was writing it. The second is Django's for files being received.
_UPLOAD_NAME = re.compile(r"\.?[0-9a-f]{32}|.*\.upload(\..*)?")


def start_import(
    upload: "UploadedFile[bytes] | KeptUpload",
    *,
    format_name: str,
    name: str,
    updates: bool = False,
    table: OwnTable | None = None,
    actor: User,
) -> Import:
    """Store `upload` and queue its import into the source `name`.

    Raises what `services.start_import` raises; then the file is removed, unless it is kept.
    """
    if isinstance(upload, KeptUpload):
        stored = upload
    else:
        stored = keep(upload)
    try:
        run = services.start_import(
            stored.path,
            format_name=format_name,
            name=name,
            file_name=stored.name,
            uploaded=True,
            updates=updates,
            table=table,
            actor=actor,
        )
        wake_after_commit("generation.tasks.run_import", run.pk)
        return run
    except BaseException:
        if stored is not upload:
            discard(stored.path)
        raise


@dataclass(frozen=True, slots=True)
class KeptUpload:
    """An uploaded file that waits for its mapping; nothing but its signed address names it."""

    path: Path
    name: str

    @property
    def token(self) -> str:
        return signing.dumps([self.path.name, self.name], salt=_SALT, compress=True)


def preview_table(upload: "UploadedFile[bytes]", mapping: TableMapping | None) -> TablePreview:
    """What a table was recognised as; the upload is removed. Raises WrongFile."""
    path = store_file(upload, Path(settings.MEDIA_ROOT))
    try:
        return own_tables.preview(path, "", mapping)
    except (WrongFormat, LimitsExceeded, OSError) as error:
        raise errors.WrongFile(f"{upload.name}: {error}") from error
    finally:
        path.unlink(missing_ok=True)


def keep(upload: "UploadedFile[bytes]") -> KeptUpload:
    """Keep an upload until it is imported, or `remove_orphans` finds it unused for an hour."""
    path = store_file(upload, Path(settings.MEDIA_ROOT))
    share(path)
    return KeptUpload(path, (upload.name or "")[:300])


def recognised_format(upload: KeptUpload) -> str:
    """The format that the beginning of an upload shows. Raises UnrecognisedFormat."""
    fitting = reading.looks_like(upload.path)
    if len(fitting) != 1:
        raise errors.UnrecognisedFormat()
    return fitting[0]


def kept(token: str) -> KeptUpload:
    """The upload of a token. Raises UnknownUpload once it is imported or removed."""
    try:
        stored_name, name = signing.loads(token, salt=_SALT)
        upload = KeptUpload(Path(settings.MEDIA_ROOT) / stored_name, name)
        os.utime(fetch(upload.path))  # it is in use
    except (signing.BadSignature, OSError) as error:
        raise errors.UnknownUpload() from error
    if Import.objects.filter(path=str(upload.path.resolve())).exists():
        raise errors.UnknownUpload()
    return upload


def store_file(upload: "UploadedFile[bytes]", folder: Path) -> Path:
    """Keep an upload in `folder`; one that is already a file there, or beside it, is only moved."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / uuid.uuid4().hex  # never the sender's name: it is untrusted
    with contextlib.suppress(OSError):  # another file system, or gone
        if isinstance(upload, TemporaryUploadedFile):
            Path(upload.temporary_file_path()).rename(path)
            return path
    try:
        with path.open("xb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
    except BaseException:  # for example, the disk is full
        path.unlink(missing_ok=True)
        raise
    return path


def remove_orphans() -> int:
    """Remove files that no import needs, left behind by killed processes; returns their number."""
    unfinished = Import.objects.filter(status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    return sum(remove_unneeded(folder, unfinished) for folder in (settings.MEDIA_ROOT, settings.MHB_IMAGES))


def remove_unneeded(folder: Path, unfinished: QuerySet[Any]) -> int:
    """Remove the old files of a folder that none of these imports needs; returns their number."""
    cutoff = time.time() - ORPHAN_AGE
    old = []
    for path in Path(folder).glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if _UPLOAD_NAME.fullmatch(path.name) and path.stat().st_mtime < cutoff:
                old.append(path)
    needed = set()
    if old:
        needed = {Path(path).name for path in unfinished.values_list("path", flat=True)}
    orphans = [path for path in old if path.name not in needed]
    for path in orphans:
        path.unlink(missing_ok=True)
        log.info("removed %s: no import needs it", path.name)
    return len(orphans)
