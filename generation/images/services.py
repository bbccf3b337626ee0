"""Stores images."""

from django.utils import timezone

from generation.images import checks, files
from generation.models import StoredImage
from review.rules.shown_values import shown


def store_clean_image(image: checks.CleanImage) -> StoredImage:
    """Store an image that was checked, with its thumbnail."""
    sha256 = image.sha256
    files.write_image(sha256, image.data)
    files.write_image(sha256, image.thumbnail, thumbnail=True)
    stored, _ = StoredImage.objects.get_or_create(
        sha256=sha256,
        defaults={
            **shown(image, "original media_type width height"),
            "size": len(image.data),
            "created_at": timezone.now(),
        },
    )
    return stored
