"""Images are checked, stripped of metadata and stored once; other files are refused."""

import hashlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from generation.images import checks, files
from generation.models import StoredImage
from tests.generation.images.drawing import picture, png_header, store_image

SECRET = b"Jane Doe, born 1970"


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.MHB_IMAGES = tmp_path
    return tmp_path


def pixels(data: bytes) -> list[object]:
    with Image.open(io.BytesIO(data)) as image:
        return [image.convert("RGB").tobytes()]


def exif(orientation: int = 1) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112], tags[0x010E] = orientation, SECRET.decode()
    return tags


def several_frames(format_name: str) -> bytes:
    out = io.BytesIO()
    frames = [Image.new("L", (8, 8), shade) for shade in (0, 128, 255)]
    frames[0].save(out, format_name, save_all=True, append_images=frames[1:])
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a JPEG"),
        (b"%PDF-1.7", "not a JPEG"),
        (picture("TIFF"), "not a JPEG"),
        (b"\x00" * 128 + b"DICM" + b"\x02\x00", "DICOM"),
        (picture("PNG")[:-30], "cut off"),
        (picture("JPEG")[: len(picture("JPEG")) // 2], "cut off"),
        (png_header(60_000, 60_000), "pixels"),
        (png_header(8_000, 8_000), "pixels"),
        (png_header(30_000, 10), "wider"),
        (png_header(5_000, 5_000), "cut off"),
        (picture(size=(1, 1)), "narrower"),
        (several_frames("GIF"), "frames"),
        (several_frames("PNG"), "frames"),
        (several_frames("WEBP"), "frames"),
    ],
)
def test_an_unsuitable_image_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(checks.BadImage, match=reason):
        checks.clean(data)


def jpeg_with_scans(count: int, size: tuple[int, int] = (64, 64)) -> bytes:
    """A progressive JPEG whose last scan is repeated, so that it has this many."""
    data = picture("JPEG", size=size, progressive=True)
    last = data.rfind(b"\xff\xda")
    missing = count - data.count(b"\xff\xda")
    return data[:-2] + data[last:-2] * missing + data[-2:]


def png_with_chunks(count: int) -> bytes:
    data, chunk = picture("PNG"), b"zzZz"
    return data[:33] + (struct.pack(">I", 0) + chunk + struct.pack(">I", zlib.crc32(chunk))) * count + data[33:]


def png_with_text(size: int) -> bytes:
    data, chunk = picture("PNG"), b"zTXtwords\0\0" + zlib.compress(bytes(size))
    packed = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return data[:33] + packed + data[33:]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (jpeg_with_scans(101), "101 scans"),
        (jpeg_with_scans(3000), "3,000 scans"),
        (jpeg_with_scans(90, (4000, 3000)), "90 scans: more than 100, or too many for its size"),
        (png_with_chunks(20_001), "more than 20,000 chunks"),
        (png_with_text(2**26), "cut off or broken"),
    ],
)
def test_an_image_that_would_keep_the_decoder_busy_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(checks.BadImage, match=reason):
        checks.clean(data)


def test_a_progressive_jpeg_is_encoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    data = jpeg_with_scans(100)
    cleaned = checks.clean(data)
    assert (cleaned.media_type, pixels(cleaned.data)) == ("image/png", pixels(data))
    assert b"\xff\xda" not in cleaned.data
    noise = io.BytesIO()
    Image.effect_noise((200, 200), 80).save(noise, "JPEG", quality=50, progressive=True)
    monkeypatch.setattr(checks, "QUALITY", 60)  # of a photograph, any quality is smaller than a PNG
    monkeypatch.setattr(checks, "MAX_STORED", len(checks.clean(noise.getvalue()).data) - 1)
    smaller = checks.clean(noise.getvalue())
    assert (smaller.media_type, smaller.data.count(b"\xff\xda")) == ("image/jpeg", 1)


def test_decoding_ends_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment of a GIF takes time that grows with the square of its length."""
    monkeypatch.setattr(checks, "SECONDS", 0.2)
    data = picture("GIF")
    end_of_palette = data.index(b"\x2c")
    comment = b"\x21\xfe" + (b"\x01" + b"x") * 4_000_000 + b"\x00"
    with pytest.raises(checks.BadImage, match=r"longer than 0\.2 seconds"):
        checks.clean(data[:end_of_palette] + comment + data[end_of_palette:])


def test_a_file_that_is_too_large_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_BYTES", 50)
    with pytest.raises(checks.BadImage, match="larger than 50"):
        checks.clean(picture())


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_the_pixels_are_unchanged(format_name: str) -> None:
    options: dict[str, Any] = {"lossless": True} if format_name == "WEBP" else {}
    data = picture(format_name, **options)
    cleaned = checks.clean(data)
    assert (cleaned.width, cleaned.height) == (40, 30)
    assert pixels(cleaned.data) == pixels(data)
    assert cleaned.media_type == ("image/jpeg" if format_name == "JPEG" else "image/png")


def test_metadata_and_trailing_bytes_are_removed() -> None:
    png_text = PngInfo()
    png_text.add_text("Patient", SECRET.decode())
    for data in (
        picture("PNG", pnginfo=png_text, exif=exif()),
        picture("JPEG", exif=exif(), comment=SECRET, icc_profile=SECRET) + SECRET,
        picture("JPEG", exif=exif(), progressive=True),
        picture("WEBP", exif=exif(), lossless=True),
    ):
        assert SECRET in data
        cleaned = checks.clean(data)
        assert SECRET not in cleaned.data + cleaned.thumbnail
        assert pixels(cleaned.data) == pixels(data)


def test_a_rotated_image_is_turned_upright() -> None:
    data = picture("JPEG", exif=exif(orientation=6))
    cleaned = checks.clean(data)
    assert (cleaned.width, cleaned.height, cleaned.media_type) == (30, 40, "image/png")
    with Image.open(io.BytesIO(cleaned.data)) as upright:
        assert (
            upright.convert("L").crop((29, 0, 30, 1)).tobytes()[0] > 200
        )  # the bright corner moved from left to right


def test_sixteen_bits_palettes_and_transparency_are_kept() -> None:
    deep, palette = io.BytesIO(), io.BytesIO()
    Image.new("I;16", (20, 20), 40_000).save(deep, "PNG")
    Image.new("RGBA", (20, 20), (9, 8, 7, 60)).quantize().save(palette, "PNG")
    with Image.open(io.BytesIO(checks.clean(deep.getvalue()).data)) as decoded:
        assert decoded.getpixel((0, 0)) == 40_000
    with Image.open(io.BytesIO(checks.clean(palette.getvalue()).data)) as decoded:
        assert decoded.mode == "RGBA"


@pytest.mark.django_db
def test_an_image_is_stored_once_and_opened_by_its_digest(folder: Path) -> None:
    first = store_image(picture("PNG", size=(900, 600)))
    again = store_image(picture("PNG", size=(900, 600)))
    same_pixels = store_image(picture("BMP", size=(900, 600)))
    assert first == again == same_pixels
    assert StoredImage.objects.count() == 1
    media_type, data = files.open_image(first.sha256)
    assert (media_type, hashlib.sha256(data).hexdigest(), len(data)) == ("image/png", first.sha256, first.size)
    assert (first.width, first.height) == (900, 600)
    with Image.open(io.BytesIO(files.open_image(first.sha256, thumbnail=True)[1])) as small:
        assert max(small.size) == checks.THUMBNAIL
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 2


@pytest.mark.django_db
def test_a_lost_file_is_restored_by_the_next_import(folder: Path) -> None:
    image = store_image(picture())
    (folder / files.image_name(image.sha256)).unlink()
    with pytest.raises(files.NoImage):
        files.open_image(image.sha256)
    assert store_image(picture()) == image
    assert files.open_image(image.sha256)


@pytest.mark.django_db
def test_changed_files_and_names_that_are_no_digest_are_not_opened(folder: Path) -> None:
    image = store_image(picture())
    (folder / files.image_name(image.sha256)).write_bytes(picture(shade=10))
    for name in (image.sha256, "../../etc/passwd", "0" * 64, ""):
        with pytest.raises(files.NoImage):
            files.open_image(name)
