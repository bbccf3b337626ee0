"""Small images for tests, drawn here."""

import io
from typing import Any

from PIL import Image


def picture(format_name: str = "PNG", size: tuple[int, int] = (40, 30), shade: int = 90, **options: Any) -> bytes:
    """An image of one shade with a brighter corner, in grey; `options` go to the encoder."""
    image = Image.new("L", size, shade)
    image.paste(230, (0, 0, size[0] // 4, size[1] // 4))
    out = io.BytesIO()
    image.save(out, format_name, **options)
    return out.getvalue()
