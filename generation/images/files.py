"""Images on disk: each once, under its SHA-256, in the data folder."""

import contextlib
import hashlib
import os
import re
import uuid
from pathlib import Path

from django.conf import settings

from generation.images.checks import JPEG, PNG

_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoImage(LookupError):
    """No image is kept under this SHA-256, or its file is not what was kept."""


def image_path(sha256: str, *, thumbnail: bool = False) -> Path:
    """Where the image of this digest lies, whether or not it is there. NoImage where it is no digest."""
    if not _SHA256.fullmatch(sha256):
        raise NoImage(sha256)
    return Path(settings.MHB_IMAGES) / sha256[:2] / (sha256 + (".thumbnail" if thumbnail else ""))


def open_image(sha256: str, *, thumbnail: bool = False) -> tuple[str, bytes]:
    """Media type and bytes of a kept image. Raises NoImage, also where the file was changed."""
    try:
        data = image_path(sha256, thumbnail=thumbnail).read_bytes()
    except OSError:
        raise NoImage(sha256) from None
    if not thumbnail and hashlib.sha256(data).hexdigest() != sha256:
        raise NoImage(sha256)
    return PNG if data.startswith(b"\x89PNG") else JPEG, data


def write_image(sha256: str, data: bytes, *, thumbnail: bool = False) -> None:
    """Put a file in its place at once, even if others do the same: a reader sees all of it or nothing."""
    path = image_path(sha256, thumbnail=thumbnail)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
