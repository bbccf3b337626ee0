"""Streamed zip archives are complete, stop with their reader, and fail instead of ending early."""

import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from generation.releases import archive

pytestmark = pytest.mark.plain
NOISE = random.Random(1).randbytes(6 * archive.BLOCK)  # incompressible


def files(folder: Path) -> Iterator[Path]:
    for name, content in (("a/noise.bin", NOISE), ("b.txt", b"Short."), ("c.bin", NOISE)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        yield path


def test_an_archive_is_complete_and_the_same_each_time() -> None:
    [first, second] = [b"".join(archive.zipped("top", files)) for _ in range(2)]
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as archive_file:
        assert archive_file.testzip() is None
        assert archive_file.namelist() == ["top/a/noise.bin", "top/b.txt", "top/c.bin"]
        assert archive_file.read("top/c.bin") == NOISE


def test_little_is_buffered_for_a_slow_reader() -> None:
    blocks = archive.zipped("top", files)
    assert max(len(block) for block in blocks) <= 2 * archive.BLOCK


def test_an_error_while_packing_reaches_the_reader() -> None:
    def failing_files(folder: Path) -> Iterator[Path]:
        yield from files(folder)
        raise OSError("no space left")

    def vanishing_files(folder: Path) -> Iterator[Path]:
        for path in files(folder):
            path.unlink()
            yield path

    with pytest.raises(OSError, match="no space left"):
        list(archive.zipped("top", failing_files))
    with pytest.raises(FileNotFoundError):
        list(archive.zipped("top", vanishing_files))
