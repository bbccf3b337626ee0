"""Files of results that come in over HTTP."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.files.uploadedfile import UploadedFile


@contextmanager
def kept(upload: "UploadedFile[bytes]") -> Iterator[Path]:
    """An upload as a file under a name of ours, for as long as it is read."""
    with tempfile.NamedTemporaryFile() as file:
        for block in upload.chunks():
            file.write(block)
        file.flush()
        yield Path(file.name)
