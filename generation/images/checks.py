"""Checks of untrusted image files, and their copies without metadata.

Only what the decoder reads is believed.
"""

import hashlib
import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generation.images import jpeg_segments

if TYPE_CHECKING:  # Pillow takes a while to import, so it is imported late
    from PIL import Image as Pillow

MAX_BYTES = 32 * 2**20  # of an incoming file
MAX_STORED = 10 * 2**20  # of the copy: a larger one cannot be sent to a model (generation.llm.types.MAX_IMAGE)
MAX_PIXELS = 50_000_000
MAX_SIDE = 20_000
MIN_SIDE = 2
THUMBNAIL = 320  # pixels of the longer side
ORIENTATION = 0x0112  # the EXIF tag
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")

JPEG, PNG = "image/jpeg", "image/png"


class BadImage(ValueError):
    """The file is refused; the text says why in one sentence and quotes nothing of its content."""


@dataclass(frozen=True, slots=True)
class CleanImage:
    """An image to store: JPEG or PNG, upright, without metadata.

    `thumbnail`: a small JPEG or PNG.
    """

    data: bytes
    media_type: str
    width: int
    height: int
    thumbnail: bytes

    @property
    def sha256(self) -> str:
        """The digest by which the image is stored."""
        return hashlib.sha256(self.data).hexdigest()


def clean(data: bytes) -> CleanImage:
    """Copy an image so that it can be stored, shown and sent: the same pixels and nothing else.

    A JPEG keeps its compressed data, without the segments that hold metadata; a rotated JPEG, and
    every other format, becomes a PNG.

    Raises:
        BadImage: by its content it is not a JPEG, PNG, WebP, GIF or BMP, or it is too large,
            truncated, broken, or has several frames.
    """
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    _check_kind(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            warnings.filterwarnings("ignore", category=UserWarning)  # about metadata, which is dropped
            with Pillow.open(io.BytesIO(data), formats=FORMATS) as image_file:
                _check_size(image_file)
                jpeg = image_file.format in ("JPEG", "MPO")
                if not jpeg and getattr(image_file, "n_frames", 1) > 1:
                    raise BadImage("It has several frames (an animation): only single images are kept.")
                image_file.load()
                is_rotated = image_file.getexif().get(ORIENTATION, 1) != 1
                return _clean_image(
                    image_file, data, keep_jpeg=jpeg and not is_rotated and image_file.mode in ("L", "RGB")
                )
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage("It is not a JPEG, PNG, WebP, GIF or BMP image.") from None
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise BadImage(f"It has more than {MAX_PIXELS:,} pixels.") from None
    except Exception:  # decoders raise OSError, SyntaxError, ValueError, struct.error, EOFError, MemoryError ...
        raise BadImage("It cannot be decoded: the file is cut off or broken.") from None


def _check_kind(data: bytes) -> None:
    if not data:
        raise BadImage("The file is empty.")
    if len(data) > MAX_BYTES:
        raise BadImage(f"The file is larger than {MAX_BYTES:,} bytes.")
    if data[128:132] == b"DICM":
        raise BadImage("It is a DICOM file, which may name its patient: export it as PNG or JPEG first.")


def _check_size(image: "Pillow.Image") -> None:
    """Check width and height, which are in the header, before anything is decoded."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise BadImage(f"It has more than {MAX_PIXELS:,} pixels.")
    if max(width, height) > MAX_SIDE:
        raise BadImage(f"It is wider or higher than {MAX_SIDE:,} pixels.")
    if min(width, height) < MIN_SIDE:
        raise BadImage(f"It is narrower or lower than {MIN_SIDE} pixels.")


def _clean_image(image: "Pillow.Image", data: bytes, *, keep_jpeg: bool) -> CleanImage:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    copy = jpeg_segments.without_metadata(data) if keep_jpeg else None
    media_type = JPEG
    if copy is None:
        if upright.mode not in ("1", "L", "LA", "RGB", "RGBA", "I;16"):
            alpha = "transparency" in upright.info or upright.mode in ("PA", "RGBa", "La")
            upright = upright.convert("RGBA" if alpha else "RGB")
        copy, media_type = _png(upright), PNG
    if len(copy) > MAX_STORED:
        raise BadImage(f"Its copy without metadata is larger than {MAX_STORED:,} bytes.")
    small = upright.copy()
    if small.mode == "I;16":
        small = small.point(lambda value: value / 256).convert("L")
    elif small.mode == "1":
        small = small.convert("L")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return CleanImage(copy, media_type, *upright.size, _thumbnail(small))


def _png(image: "Pillow.Image") -> bytes:
    """Encode only the pixels, from a copy without `info`, as encoders write that out."""
    plain = image.copy()
    plain.info = {}
    out = io.BytesIO()
    plain.save(out, "PNG", optimize=False)
    return out.getvalue()


def _thumbnail(image: "Pillow.Image") -> bytes:
    if image.mode in ("LA", "RGBA"):
        return _png(image)
    plain = image.copy()
    plain.info = {}
    out = io.BytesIO()
    plain.save(out, "JPEG", quality=85)
    return out.getvalue()
