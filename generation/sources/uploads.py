"""Uploaded files: stored under a generated name until they have been imported."""

import contextlib
import logging
import re
import time
import uuid
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile

from generation.models import Import, ImportStatus
from generation.sources import services
from review.models import User

log = logging.getLogger(__name__)

# Seconds without a write after which a file that no import needs is removed. A file still being
# received is written to.
ORPHAN_AGE = 60 * 60
# The second is Django's for files being received.
_UPLOAD_NAME = re.compile(r"[0-9a-f]{32}|.*\.upload(\..*)?")


def start_import(
    upload: "UploadedFile[bytes]", *, format_name: str, name: str, updates: bool = False, actor: User
) -> Import:
    """Store `upload` and queue its import into the source `name`.

    Raises what `services.start_import` raises; then the file is removed.
    """
    path = store_file(upload, Path(settings.MEDIA_ROOT))
    try:
        return services.start_import(
            path,
            format_name=format_name,
            name=name,
            file_name=upload.name or "",
            uploaded=True,
            updates=updates,
            actor=actor,
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


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
    folder = Path(settings.MEDIA_ROOT)
    cutoff = time.time() - ORPHAN_AGE
    old = [path for path in folder.glob("*") if _UPLOAD_NAME.fullmatch(path.name) and _last_write(path) < cutoff]
    if not old:
        return 0
    unfinished = Import.objects.filter(status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    needed = {Path(path).name for path in unfinished.values_list("path", flat=True)}
    orphans = [path for path in old if path.name not in needed]
    for path in orphans:
        path.unlink(missing_ok=True)
        log.info("removed %s: no import needs it", path.name)
    return len(orphans)


def _last_write(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
