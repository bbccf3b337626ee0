"""Stores images."""

import hashlib

from django.utils import timezone

from generation.images import checks, files
from generation.models import StoredImage


def store_image(data: bytes) -> StoredImage:
    """Store an image once: checked, upright, without metadata, with a thumbnail.

    It is identified by the SHA-256 of the stored copy. Raises checks.BadImage.
    """
    original = hashlib.sha256(data).hexdigest()
    known = StoredImage.objects.filter(original=original).order_by("pk").first()
    if known is not None and _has_files(known.sha256):
        return known
    image = checks.clean(data)
    sha256 = image.sha256
    files.write_image(sha256, image.data)
    files.write_image(sha256, image.thumbnail, thumbnail=True)
    stored, _ = StoredImage.objects.get_or_create(
        sha256=sha256,
        defaults={
            "original": original,
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
