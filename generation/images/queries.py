"""Reading what is kept of images."""

from collections.abc import Iterable

from generation.models import StoredImage

FOLDER = "images"  # in exports


def exported_paths(digests: Iterable[str]) -> dict[str, str]:
    """SHA-256 -> where the image lies in an export. An image that is not kept is not among them."""
    rows = StoredImage.objects.filter(sha256__in=set(digests)).values_list("sha256", "media_type")
    return {sha256: f"{FOLDER}/{sha256}.{media_type.rpartition('/')[2]}" for sha256, media_type in rows}
