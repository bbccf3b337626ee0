"""Where files are kept: in the data folder, or in S3-compatible storage that all hosts share."""

import contextlib
import os
import shutil
import socket
import uuid
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage

UPLOADS, IMAGES = "uploads", "images"


class MissingFile(FileNotFoundError):
    """A file that another host has stored cannot be seen from here."""


class Folder(FileSystemStorage):
    """Files in a folder, written under their own name so that readers never see a part of one."""

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: File[bytes]) -> str:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(self.path(f".{uuid.uuid4().hex}"))  # where `uploads.remove_orphans` looks
        try:
            with temporary.open("wb") as file:
                shutil.copyfileobj(content, file)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
        return name


def store(kind: str) -> Storage:
    """The store of uploads or images."""
    if not settings.MHB_S3:
        return Folder(location=settings.MEDIA_ROOT if kind == UPLOADS else settings.MHB_IMAGES)
    return _bucket(kind, tuple(sorted(settings.MHB_S3.items())))


@cache
def _bucket(kind: str, options: tuple[tuple[str, Any], ...]) -> Storage:
    """The folder of a bucket; kept, as each new one reads descriptions and connects anew."""
    from storages.backends.s3 import S3Storage  # takes a second, and most sites need none

    return cast(Storage, S3Storage(**dict(options), location=kind, file_overwrite=True, default_acl=None))


def _upload_name(path: Path) -> str:
    return path.relative_to(settings.MEDIA_ROOT).as_posix()


def share(path: Path) -> None:
    """Let other hosts read an upload that lies in this host's folder."""
    if settings.MHB_S3:
        with path.open("rb") as file:
            store(UPLOADS).save(_upload_name(path), File(file))


def fetch(path: Path) -> Path:
    """The upload, brought to this host if it lies in the shared storage. Raises MissingFile."""
    if path.exists():
        return path
    if settings.MHB_S3:
        with contextlib.suppress(FileNotFoundError), store(UPLOADS).open(_upload_name(path)) as file:
            copy(file, path)
            return path
    raise MissingFile(
        f"{path} is not on this host ({socket.gethostname()}): web and workers need one shared MHB_DATA_DIR, or "
        "MHB_S3_BUCKET"
    )


def discard(path: Path) -> None:
    """Remove an upload here and from the shared storage."""
    path.unlink(missing_ok=True)
    if settings.MHB_S3:
        store(UPLOADS).delete(_upload_name(path))


def copy(source: IO[bytes] | File[bytes], target: Path) -> None:
    """Write what a file holds to a path, whole or not at all."""
    Folder(location=target.parent).save(target.name, File(source))
