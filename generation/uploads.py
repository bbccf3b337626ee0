"""Files that come in over HTTP: kept under a name of ours until they have been read."""

import uuid
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from generation import services
from generation.models import Import
from review.models import User


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
    with path.open("xb") as file:
        for chunk in upload.chunks():
            file.write(chunk)
    return path
