"""Uploaded files of results, stored under a generated name until they have been read."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from evaluation.interchange import services
from evaluation.models import ResultsImport
from generation.common.storage import discard, share
from generation.sources.uploads import store_file
from review.common.waking import wake_after_commit


def start_import(upload: "UploadedFile[bytes]", **study: Any) -> ResultsImport:
    """Store `upload` and queue its import, with the arguments of `services.start_import`.

    Raises the errors of that; the file is then removed.
    """
    path = store_file(upload, Path(settings.MEDIA_ROOT) / ResultsImport.FOLDER)
    try:
        share(path)
        row = services.start_import(path, file_name=upload.name or "", **study)
        wake_after_commit("evaluation.tasks.import_results", row.pk)
        return row
    except BaseException:
        discard(path)
        raise
