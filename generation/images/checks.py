"""What an image must be to be kept, and its copy without metadata. Files are untrusted: only what decodes is believed."""

import hashlib
import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generation.images import jpeg_segments

if TYPE_CHECKING:  # Pillow takes a while to import: late
    from PIL import Image as Pillow

MAX_BYTES = 32 * 2**20  # of a file that comes in
MAX_KEPT = 10 * 2**20  # of what is kept: more than that cannot be sent to a model (generation.llm.types.MAX_IMAGE)
MAX_PIXELS = 50_000_000
MAX_SIDE = 20_000
MIN_SIDE = 2
THUMBNAIL = 320  # pixels, the longer side
ORIENTATION = 0x0112  # the EXIF tag
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")

JPEG, PNG = "image/jpeg", "image/png"


class BadImage(ValueError):
    """The file is not kept; the text says why in one sentence, without anything of its content."""


@dataclass(frozen=True, slots=True)
class CleanImage:
    """An image as it is kept: JPEG or PNG, upright, without metadata. `thumbnail`: a small JPEG or PNG of it."""

    data: bytes
    media_type: str
    width: int
    height: int
    thumbnail: bytes

    @property
    def sha256(self) -> str:
        """Its name here."""
        return hashlib.sha256(self.data).hexdigest()


def clean(data: bytes) -> CleanImage:
    """The copy of an image that may be kept, shown and sent: the same pixels, nothing else.

    A JPEG keeps its compressed data without the segments that hold metadata; one that lies on its side, and every other
    format, becomes a PNG.

    Raises:
        BadImage: it is no JPEG, PNG, WebP, GIF or BMP by its content, too large, cut off, broken, or has several frames.
    """
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    _check_kind(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            warnings.filterwarnings("ignore", category=UserWarning)  # of metadata, which goes away
            with Pillow.open(io.BytesIO(data), formats=FORMATS) as opened:
                _check_size(opened)
                jpeg = opened.format in ("JPEG", "MPO")
                if not jpeg and getattr(opened, "n_frames", 1) > 1:
                    raise BadImage("It has several frames (an animation): only single images are kept.")
                opened.load()
                turned = opened.getexif().get(ORIENTATION, 1) != 1
                return _cleaned(opened, data, keep=jpeg and not turned and opened.mode in ("L", "RGB"))
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage("It is not a JPEG, PNG, WebP, GIF or BMP image.") from None
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise BadImage(f"It has more than {MAX_PIXELS:,} pixels.") from None
    except Exception:  # decoders raise anything: OSError, SyntaxError, ValueError, struct.error, EOFError, MemoryError
        raise BadImage("It cannot be decoded: the file is cut off or broken.") from None


def _check_kind(data: bytes) -> None:
    if not data:
        raise BadImage("The file is empty.")
    if len(data) > MAX_BYTES:
        raise BadImage(f"The file is larger than {MAX_BYTES:,} bytes.")
    if data[128:132] == b"DICM":
        raise BadImage("It is a DICOM file, which may name its patient: export it as PNG or JPEG first.")


def _check_size(image: "Pillow.Image") -> None:
    """Before anything is decoded: width and height are in the header."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise BadImage(f"It has more than {MAX_PIXELS:,} pixels.")
    if max(width, height) > MAX_SIDE:
        raise BadImage(f"It is wider or higher than {MAX_SIDE:,} pixels.")
    if min(width, height) < MIN_SIDE:
        raise BadImage(f"It is narrower or lower than {MIN_SIDE} pixels.")


def _cleaned(image: "Pillow.Image", data: bytes, *, keep: bool) -> CleanImage:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    kept = jpeg_segments.without_metadata(data) if keep else None
    media_type = JPEG
    if kept is None:
        if upright.mode not in ("1", "L", "LA", "RGB", "RGBA", "I;16"):
            alpha = "transparency" in upright.info or upright.mode in ("PA", "RGBa", "La")
            upright = upright.convert("RGBA" if alpha else "RGB")
        kept, media_type = _png(upright), PNG
    if len(kept) > MAX_KEPT:
        raise BadImage(f"Its copy without metadata is larger than {MAX_KEPT:,} bytes.")
    small = upright.copy()
    if small.mode == "I;16":
        small = small.point(lambda value: value / 256).convert("L")
    elif small.mode == "1":
        small = small.convert("L")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return CleanImage(kept, media_type, *upright.size, _thumbnail(small))


def _png(image: "Pillow.Image") -> bytes:
    """Its pixels and nothing else: a new image, as encoders write out what `info` holds."""
    bare = image.copy()
    bare.info = {}
    out = io.BytesIO()
    bare.save(out, "PNG", optimize=False)
    return out.getvalue()


def _thumbnail(image: "Pillow.Image") -> bytes:
    if image.mode in ("LA", "RGBA"):
        return _png(image)
    bare = image.copy()
    bare.info = {}
    out = io.BytesIO()
    bare.save(out, "JPEG", quality=85)
    return out.getvalue()
