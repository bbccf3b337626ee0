"""A release as one zip file to download, sent as it is made.

The same release and format give the same bytes.
"""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from django.http.response import HttpResponseBase

from generation.common.temporary import temporary_folder
from generation.models import Release, ReleasedSample
from generation.releases import export
from review.common import decorators

ZIP = "application/zip"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
PLAIN_FILE = 0o644 << 16  # permissions, at their position in a zip entry's attributes
UNIX = 3
BLOCK = 1 << 20
LEVEL = 1  # takes a third of the time of the default level, for a tenth more bytes


class _Outbox:
    """A write-only file from which the bytes are taken as they come."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def write(self, block: bytes) -> int:
        self._blocks.append(bytes(block))
        return len(block)

    def flush(self) -> None:
        """Do nothing: `zipfile` needs the method, and nothing is buffered."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def take(self) -> Iterator[bytes]:
        yield from self._blocks
        self._blocks.clear()


def stream(
    release: Release,
    format_name: str,
    *,
    split: str = ReleasedSample.Split.PUBLIC,
    by_reference: bool = False,
    stages: str = "",
) -> Iterator[bytes]:
    """The zip, block by block. Each file is sent once it is written, and removed.

    Raises like `export.check_samples`.
    """
    # Check now: an error must not come up when half of the file has been sent.
    export.check_samples(release, format_name, by_reference=by_reference, stages=stages)
    return zipped(
        f"{release.name}-v{release.version}",
        lambda folder: export.files_of(
            release, format_name, folder, split=split, by_reference=by_reference, stages=stages
        ),
    )


def download(
    release: Release, format_name: str, *, split: str, by_reference: bool = False, stages: str = ""
) -> HttpResponseBase:
    """The response that sends a split of a release as a zip. Raises like `export.check_samples`."""
    stages = stages.replace(" ", "+")  # an unquoted + in an address is a space
    part = "" if split == ReleasedSample.Split.PUBLIC else f"-{split}"
    suffix = f"{'-by-reference' if by_reference else ''}{f'-{stages}' if stages else ''}"
    blocks = stream(release, format_name, split=split, by_reference=by_reference, stages=stages)
    return decorators.download(blocks, f"{release.name}-v{release.version}{part}-{format_name}{suffix}.zip", ZIP)


def zipped(top: str, files_of: Callable[[Path], Iterator[Path]]) -> Iterator[bytes]:
    """A zip with one folder `top`, block by block.

    `files_of` writes files into a folder, one after the other; each is removed once it is packed.
    """
    outbox = _Outbox()
    with temporary_folder() as folder:
        with zipfile.ZipFile(outbox, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
            for path in files_of(folder):
                entry = zipfile.ZipInfo(f"{top}/{path.relative_to(folder).as_posix()}", EPOCH)
                entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, UNIX, PLAIN_FILE
                entry.file_size = path.stat().st_size  # files beyond 4 GiB need a longer header
                with path.open("rb") as source, archive.open(entry, "w") as target:
                    while block := source.read(BLOCK):
                        target.write(block)
                        yield from outbox.take()
                path.unlink()
        yield from outbox.take()
