"""Stores images."""

import hashlib
from tempfile import NamedTemporaryFile

from django.utils import timezone

from generation.common import limited
from generation.images import checks, files
from generation.models import StoredImage


def store_image(data: bytes) -> StoredImage:
    """Store an image once: checked in a process with limits, upright, without metadata.

    It is identified by the SHA-256 of the stored copy. Raises checks.BadImage, limited.Exhausting.
    """
    known = StoredImage.objects.filter(original=hashlib.sha256(data).hexdigest()).order_by("pk").first()
    if known is not None and _has_files(known.sha256):
        return known
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        [image] = limited.stream(checks.clean_file, file.name, raises=[checks.BadImage])
    return store_clean_image(checks.from_json(image))


def store_clean_image(image: checks.CleanImage) -> StoredImage:
    """Store an image that was checked, with its thumbnail."""
    sha256 = image.sha256
    files.write_image(sha256, image.data)
    files.write_image(sha256, image.thumbnail, thumbnail=True)
    stored, _ = StoredImage.objects.get_or_create(
        sha256=sha256,
        defaults={
            "original": image.original,
            "media_type": image.media_type,
            "width": image.width,
            "height": image.height,
            "size": len(image.data),
            "created_at": timezone.now(),
        },
    )
    return stored


def _has_files(sha256: str) -> bool:
    return files.image_path(sha256).exists() and files.image_path(sha256, thumbnail=True).exists()
