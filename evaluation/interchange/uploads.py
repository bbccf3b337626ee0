"""Uploaded files of results, stored under a generated name until they have been read."""

from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from evaluation.interchange import services
from evaluation.models import ResultsImport
from generation.common.storage import discard, share
from generation.models import Release
from generation.sources.uploads import store_file
from review.models import User


def start_import(
    upload: "UploadedFile[bytes]",
    *,
    release: Release,
    study: str,
    sha256: str = "",
    models: Iterable[str] = (),
    actor: User | None = None,
) -> ResultsImport:
    """Store `upload` and queue its import.

    Raises the errors of `services.start_import`; the file is then removed.
    """
    path = store_file(upload, Path(settings.MEDIA_ROOT) / ResultsImport.FOLDER)
    try:
        share(path)
        return services.start_import(
            path,
            release=release,
            study=study,
            sha256=sha256,
            models=models,
            file_name=upload.name or "",
            actor=actor,
        )
    except BaseException:
        discard(path)
        raise
