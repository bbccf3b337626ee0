"""Taking images in."""

import hashlib

from django.utils import timezone

from generation.images import checks, files
from generation.models import StoredImage


def take_in(data: bytes) -> StoredImage:
    """Keep an image, once however often it comes: checked, upright, without metadata, with a thumbnail.

    Its name here is the SHA-256 of the copy that is kept. Raises checks.BadImage.
    """
    original = hashlib.sha256(data).hexdigest()
    known = StoredImage.objects.filter(original=original).order_by("pk").first()
    if known is not None and _is_whole(known.sha256):
        return known
    image = checks.clean(data)
    sha256 = image.sha256
    files.write_image(sha256, image.data)
    files.write_image(sha256, image.thumbnail, thumbnail=True)
    kept, _ = StoredImage.objects.get_or_create(
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
    return kept


def _is_whole(sha256: str) -> bool:
    return files.image_path(sha256).exists() and files.image_path(sha256, thumbnail=True).exists()
