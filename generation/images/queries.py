"""Queries on stored images."""

from collections.abc import Iterable

from generation.models import StoredImage

FOLDER = "images"  # in exports


def exported_paths(digests: Iterable[str]) -> dict[str, str]:
    """SHA-256 -> path of the image in an export; images that are not stored are left out."""
    rows = StoredImage.objects.filter(sha256__in=set(digests)).values_list("sha256", "media_type")
    return {sha256: f"{FOLDER}/{sha256}.{media_type.rpartition('/')[2]}" for sha256, media_type in rows}
