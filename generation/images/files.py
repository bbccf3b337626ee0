"""Image files, each stored once under its SHA-256."""

import hashlib
import re
from collections.abc import Iterable

from django.core.files.base import ContentFile
from django.utils import timezone

from generation.common.storage import IMAGES, store
from generation.images.checks import JPEG, PNG, CleanImage
from generation.models import StoredImage

EXPORTED = "images"  # the folder in exports

_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoImage(LookupError):
    """No image is stored under this SHA-256, or its file was changed."""


def image_name(sha256: str, *, thumbnail: bool = False) -> str:
    """The name in the store of the image with this digest. Raises NoImage for other text."""
    if not _SHA256.fullmatch(sha256):
        raise NoImage(sha256)
    name = f"{sha256[:2]}/{sha256}"
    if thumbnail:
        name += ".thumbnail"
    return name


def open_image(sha256: str, *, thumbnail: bool = False) -> tuple[str, bytes]:
    """Media type and bytes of a stored image. Raises NoImage, also if its file was changed."""
    name = image_name(sha256, thumbnail=thumbnail)
    try:
        with store(IMAGES).open(name) as file:
            data: bytes = file.read()
    except OSError:
        raise NoImage(sha256) from None
    if not thumbnail and hashlib.sha256(data).hexdigest() != sha256:
        raise NoImage(sha256)
    if data.startswith(b"\x89PNG"):
        return PNG, data
    return JPEG, data


def write_image(sha256: str, data: bytes, *, thumbnail: bool = False) -> None:
    """Store an image file unless it is there."""
    name, images = image_name(sha256, thumbnail=thumbnail), store(IMAGES)
    if not images.exists(name):
        images.save(name, ContentFile(data))


def store_clean_image(image: CleanImage) -> StoredImage:
    """Store an image that was checked, with its thumbnail."""
    sha256 = image.sha256
    write_image(sha256, image.data)
    write_image(sha256, image.thumbnail, thumbnail=True)
    values = {
        "original": image.original,
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "size": len(image.data),
        "created_at": timezone.now(),
    }
    return StoredImage.objects.get_or_create(sha256=sha256, defaults=values)[0]


def delete_image(sha256: str) -> None:
    """Delete an image file and its thumbnail, if they are there."""
    for thumbnail in (False, True):
        store(IMAGES).delete(image_name(sha256, thumbnail=thumbnail))


def exported_paths(digests: Iterable[str]) -> dict[str, str]:
    """SHA-256 -> path of the image in an export; images that are not stored are left out."""
    rows = StoredImage.objects.filter(sha256__in=set(digests)).values_list("sha256", "media_type")
    return {sha256: f"{EXPORTED}/{sha256}.{media_type.rpartition('/')[2]}" for sha256, media_type in rows}
