"""Files that come in over HTTP: kept under a name of ours until they have been read."""

import logging
import re
import time
import uuid
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from generation.models import Import, ImportStatus
from generation.sources import services
from review.models import User

log = logging.getLogger(__name__)

ORPHANED = 60 * 60  # seconds after which a file that no import waits for is left over; one that comes in is written to
_OURS = re.compile(r"[0-9a-f]{32}|.*\.upload(\..*)?")  # the second as Django calls those that still come in


def start_import(upload: "UploadedFile[bytes]", *, format_name: str, name: str, actor: User) -> Import:
    """Keep `upload` and queue its import into the source `name`; raises what `services.start_import` raises, and then
    nothing is kept."""
    path = _kept(upload)
    try:
        return services.start_import(
            path, format_name=format_name, name=name, file_name=upload.name or "", uploaded=True, actor=actor
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _kept(upload: "UploadedFile[bytes]") -> Path:
    folder = Path(settings.MEDIA_ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / uuid.uuid4().hex  # never the sender's name: it is untrusted
    try:
        with path.open("xb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
    except BaseException:  # the disk is full
        path.unlink(missing_ok=True)
        raise
    return path


def remove_orphans() -> int:
    """Remove what no import will read: the process died that received it, or that had read it. Returns how many files."""
    folder = Path(settings.MEDIA_ROOT)
    before = time.time() - ORPHANED
    old = [path for path in folder.glob("*") if _OURS.fullmatch(path.name) and _written(path) < before]
    if not old:
        return 0
    unfinished = Import.objects.filter(status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    wanted = {Path(path).name for path in unfinished.values_list("path", flat=True)}
    orphans = [path for path in old if path.name not in wanted]
    for path in orphans:
        path.unlink(missing_ok=True)
        log.info("removed %s: no import needs it", path.name)
    return len(orphans)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
