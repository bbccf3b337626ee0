"""A release as one zip file to download, sent as it is made.

The same release and format give the same bytes.
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.http.response import HttpResponseBase

from generation.common.temporary import temporary_folder
from generation.models import ReleasedSample
from generation.releases.export import Export
from review.common import decorators

ZIP = "application/zip"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
PLAIN_FILE = 0o644 << 16  # permissions, at their position in a zip entry's attributes
UNIX = 3
BLOCK = 1 << 20
LEVEL = 1  # takes a third of the time of the default level, for a tenth more bytes


class _Outbox(io.RawIOBase):
    """A write-only file from which the bytes are taken as they come."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def write(self, block: Any) -> int:
        self._blocks.append(bytes(block))
        return len(block)

    def take(self) -> Iterator[bytes]:
        yield from self._blocks
        self._blocks.clear()


def stream(export: Export) -> Iterator[bytes]:
    """The zip, block by block. Each file is sent once it is written, and removed.

    Raises like `Export.check_samples`.
    """
    export.check_samples()  # an error must not come up when half of the file has been sent
    return zipped(f"{export.release.name}-v{export.release.version}", export.files)


def download(export: Export) -> HttpResponseBase:
    """The response that sends an export as a zip. Raises like `Export.check_samples`."""
    export = replace(export, stages=export.stages.replace(" ", "+"))  # an unquoted + in an address is a space
    parts = [f"{export.release.name}-v{export.release.version}"]
    if export.split != ReleasedSample.Split.PUBLIC:
        parts.append(export.split)
    parts.append(export.format_name)
    if export.by_reference:
        parts.append("by-reference")
    if export.stages:
        parts.append(export.stages)
    return decorators.download(stream(export), f"{'-'.join(parts)}.zip", ZIP)


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
