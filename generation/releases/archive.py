"""A release as one file to download: the same release and format give the same bytes."""

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import IO

from generation.models import Release
from generation.releases import export

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can name
PLAIN_FILE = 0o644 << 16  # the permissions, where zip keeps them
UNIX = 3


def zipped_release(release: Release, format_name: str) -> IO[bytes]:
    """An open, unnamed temporary file, at its beginning, that vanishes when it is closed.

    Raises UnknownExportFormat for an unknown format.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the sender closes it
    try:
        with tempfile.TemporaryDirectory() as folder:
            export.export_release(release, format_name, Path(folder))
            _zip(Path(folder), f"{release.name}-v{release.version}", file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _zip(folder: Path, top: str, file: IO[bytes]) -> None:
    """All files of `folder` under the folder `top`, in the order of their names, without the times they were made at."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{top}/{path.relative_to(folder).as_posix()}", EPOCH)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, UNIX, PLAIN_FILE
            entry.file_size = path.stat().st_size  # lets files beyond 4 GiB get the longer header they need
            with path.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target)
