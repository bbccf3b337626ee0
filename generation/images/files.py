"""Image files in the data folder, each stored once under its SHA-256."""

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
    """No image is stored under this SHA-256, or its file was changed."""


def image_path(sha256: str, *, thumbnail: bool = False) -> Path:
    """The path of the image with this digest, existing or not. Raises NoImage for other text."""
    if not _SHA256.fullmatch(sha256):
        raise NoImage(sha256)
    return Path(settings.MHB_IMAGES) / sha256[:2] / (sha256 + (".thumbnail" if thumbnail else ""))


def open_image(sha256: str, *, thumbnail: bool = False) -> tuple[str, bytes]:
    """Media type and bytes of a stored image. Raises NoImage, also if its file was changed."""
    try:
        data = image_path(sha256, thumbnail=thumbnail).read_bytes()
    except OSError:
        raise NoImage(sha256) from None
    if not thumbnail and hashlib.sha256(data).hexdigest() != sha256:
        raise NoImage(sha256)
    return PNG if data.startswith(b"\x89PNG") else JPEG, data


def write_image(sha256: str, data: bytes, *, thumbnail: bool = False) -> None:
    """Write an image file atomically, so that concurrent readers never see a part of it."""
    path = image_path(sha256, thumbnail=thumbnail)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
