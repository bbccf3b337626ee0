"""A zip on its way: whole behind a slow reader, ended with its reader, never half a zip that looks whole."""

import io
import random
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from generation.releases import archive

pytestmark = pytest.mark.plain
NOISE = random.Random(1).randbytes(3 * archive.MAX_PENDING)  # does not get smaller: more than may wait


def files(folder: Path) -> Iterator[Path]:
    for name, content in (("a/noise.bin", NOISE), ("b.txt", b"Short."), ("c.bin", NOISE)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        yield path


def packers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_what_comes_out_is_whole_and_the_same_each_time() -> None:
    [one, other] = [b"".join(archive.zipped("top", files)) for _ in range(2)]
    assert one == other
    with zipfile.ZipFile(io.BytesIO(one)) as found:
        assert found.testzip() is None
        assert found.namelist() == ["top/a/noise.bin", "top/b.txt", "top/c.bin"]
        assert found.read("top/c.bin") == NOISE


def test_no_more_waits_for_a_slow_reader_than_is_meant_to() -> None:
    blocks = archive.zipped("top", files)
    assert max(len(block) for block in blocks) < archive.MAX_PENDING + 2 * archive.BLOCK


def test_a_reader_that_leaves_ends_it() -> None:
    before = packers()
    blocks = archive.zipped("top", files)
    next(blocks)
    del blocks  # as a web server does
    assert packers() == before


def test_an_error_half_way_reaches_the_reader() -> None:
    def broken(folder: Path) -> Iterator[Path]:
        yield from files(folder)
        raise OSError("no space left")

    def vanished(folder: Path) -> Iterator[Path]:
        for path in files(folder):
            path.unlink()
            yield path

    before = packers()
    with pytest.raises(OSError, match="no space left"):
        list(archive.zipped("top", broken))
    with pytest.raises(FileNotFoundError):
        list(archive.zipped("top", vanished))
    assert packers() == before
