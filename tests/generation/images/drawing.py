"""Small images that tests draw."""

import io
import struct
import zlib
from typing import Any

from PIL import Image

from generation.images import checks, files
from generation.models import StoredImage


def picture(format_name: str = "PNG", size: tuple[int, int] = (40, 30), shade: int = 90, **options: Any) -> bytes:
    """A grey image with a brighter corner; `options` go to the encoder."""
    image = Image.new("L", size, shade)
    image.paste(230, (0, 0, size[0] // 4, size[1] // 4))
    out = io.BytesIO()
    image.save(out, format_name, **options)
    return out.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG whose header claims this size and whose data is far too short."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def store_image(data: bytes) -> StoredImage:
    """Store an image as an import does: checked, without metadata."""
    return files.store_clean_image(checks.clean(data))
