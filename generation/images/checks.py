"""Checks of untrusted image files, and their copies without metadata.

Only what the decoder reads is believed.
"""

import base64
import hashlib
import io
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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
MAX_SCANS = 100  # of a JPEG; published ones have up to a dozen
MAX_WORK = 10**9  # scans times pixels: the decoder passes over the whole picture for each scan
MAX_CHUNKS = 20_000  # of a PNG
SECONDS = 10  # of computing, for one image
QUALITY = 95  # of a JPEG that is encoded anew because a PNG of it would be too large
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")

JPEG, PNG = "image/jpeg", "image/png"
PNG_START, START_OF_SCAN = b"\x89PNG\r\n\x1a\n", b"\xff\xda"


class BadImage(ValueError):
    """The file is refused; the text says why in one sentence and quotes nothing of its content."""


@dataclass(frozen=True, slots=True)
class CleanImage:
    """An image to store: JPEG or PNG, upright, without metadata.

    `thumbnail`: a small JPEG or PNG. `original`: SHA-256 of the file it was made from.
    """

    data: bytes
    media_type: str
    width: int
    height: int
    thumbnail: bytes
    original: str

    @property
    def sha256(self) -> str:
        """The digest by which the image is stored."""
        return hashlib.sha256(self.data).hexdigest()


def as_json(image: CleanImage) -> dict[str, Any]:
    """An image as JSON, for `from_json`."""
    value: dict[str, Any] = asdict(image)
    for name in ("data", "thumbnail"):
        value[name] = base64.b64encode(value[name]).decode()
    return value


def from_json(value: dict[str, Any]) -> CleanImage:
    """The image that `as_json` wrote."""
    decoded = {name: base64.b64decode(value[name]) for name in ("data", "thumbnail")}
    return CleanImage(**{**value, **decoded})


def clean(data: bytes) -> CleanImage:
    """Copy an image so that it can be stored, shown and sent: the same pixels and nothing else.

    A JPEG keeps its compressed data, without the segments that hold metadata. A rotated or
    progressive JPEG, and every other format, becomes a PNG; if that would be too large, a JPEG
    becomes one without scans.

    Decoders are native code, and some files make them work for minutes: call it in a process with
    limits (`generation.common.limited`). What such files have in common is refused here by name.

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
            with _limited_time(), Pillow.open(io.BytesIO(data), formats=FORMATS) as image_file:
                _check_size(image_file)
                jpeg = image_file.format in ("JPEG", "MPO")
                if jpeg:
                    _check_scans(image_file, data)
                elif getattr(image_file, "is_animated", False):
                    raise BadImage("It has several frames (an animation): only single images are kept.")
                image_file.load()
                is_rotated = image_file.getexif().get(ORIENTATION, 1) != 1
                is_progressive = bool(image_file.info.get("progressive"))
                keep = not is_rotated and not is_progressive and image_file.mode in ("L", "RGB")
                return _clean_image(image_file, data, is_jpeg=jpeg, keep_jpeg=jpeg and keep)
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
    if data.startswith(PNG_START):
        _check_chunks(data)


def _check_chunks(data: bytes) -> None:
    """Count the chunks of a PNG, each of which takes as much work as it likes."""
    at, count = len(PNG_START), 0
    while at + 8 <= len(data):
        at += 12 + int.from_bytes(data[at : at + 4], "big")
        count += 1
        if count > MAX_CHUNKS:
            raise BadImage(f"It has more than {MAX_CHUNKS:,} chunks.")


def _check_scans(image: "Pillow.Image", data: bytes) -> None:
    """Count the scans of a JPEG before they are decoded."""
    scans = data.count(START_OF_SCAN)  # in compressed data, these bytes begin nothing else
    if scans > MAX_SCANS or scans * image.width * image.height > MAX_WORK:
        raise BadImage(f"It has {scans:,} scans: more than {MAX_SCANS}, or too many for its size.")


@contextmanager
def _limited_time() -> Iterator[None]:
    """Raise BadImage once decoding has taken SECONDS, as soon as the decoder returns.

    Only in the main thread, which is the only one where images are decoded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_signal: object) -> None:
        raise BadImage(f"It takes longer than {SECONDS} seconds to decode.")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _check_size(image: "Pillow.Image") -> None:
    """Check width and height, which are in the header, before anything is decoded."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise BadImage(f"It has more than {MAX_PIXELS:,} pixels.")
    if max(width, height) > MAX_SIDE:
        raise BadImage(f"It is wider or higher than {MAX_SIDE:,} pixels.")
    if min(width, height) < MIN_SIDE:
        raise BadImage(f"It is narrower or lower than {MIN_SIDE} pixels.")


def _clean_image(image: "Pillow.Image", data: bytes, *, is_jpeg: bool, keep_jpeg: bool) -> CleanImage:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    copy = None
    if keep_jpeg:
        copy = jpeg_segments.without_metadata(data)
    media_type = JPEG
    if copy is None:
        if upright.mode not in ("1", "L", "LA", "RGB", "RGBA", "I;16"):
            alpha = "transparency" in upright.info or upright.mode in ("PA", "RGBa", "La")
            mode = "RGB"
            if alpha:
                mode = "RGBA"
            upright = upright.convert(mode)
        copy, media_type = _png(upright), PNG
        if is_jpeg and len(copy) > MAX_STORED:
            copy, media_type = _jpeg(upright, QUALITY), JPEG
    if len(copy) > MAX_STORED:
        raise BadImage(f"Its copy without metadata is larger than {MAX_STORED:,} bytes.")
    size, small = upright.size, upright  # reduced in place: a large image needs much memory
    if small.mode == "I;16":
        small = small.point(lambda value: value / 256).convert("L")
    elif small.mode == "1":
        small = small.convert("L")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return CleanImage(copy, media_type, *size, _thumbnail(small), hashlib.sha256(data).hexdigest())


def _png(image: "Pillow.Image") -> bytes:
    """Encode only the pixels: encoders write out what is in `info`."""
    image.info = {}
    out = io.BytesIO()
    image.save(out, "PNG", optimize=False)
    return out.getvalue()


def _thumbnail(image: "Pillow.Image") -> bytes:
    if image.mode in ("LA", "RGBA"):
        return _png(image)
    return _jpeg(image, 85)


def _jpeg(image: "Pillow.Image", quality: int) -> bytes:
    image.info = {}
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()
