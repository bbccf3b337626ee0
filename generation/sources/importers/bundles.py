"""Data sets of several files: a folder, a zip archive, or one file beside its images.

Nothing in them is trusted: no name may lead out of the folder or archive, and unpacking is bounded.
"""

import hashlib
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from generation.sources.importers.base import (
    ZIP_ARCHIVE,
    LimitsExceeded,
    Malformed,
    RecordImage,
    WrongFormat,
    container_of,
)

# Bytes; images are checked again when decoded (generation.images.checks).
MAX_IMAGE_FILE = 32 * 2**20
MAX_UNPACKED = 4 * 2**30  # bytes of all tables and lists in an archive, unpacked
MAX_DATA_FILES = 10_000  # tables and lists in an archive
MAX_FILES = 1_000_000  # in a folder or an archive
MAX_RATIO = 500  # unpacked to packed, of a table or list
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
# Raised when reading a damaged, encrypted or unknown archive. zlib.error is not a ValueError.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)
_TOO_LARGE = "The file is larger than {:,} bytes."


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows: its name inside the data set, and the path to read it from."""

    name: str
    path: Path

    @property
    def folder(self) -> str:
        parent = str(PurePosixPath(self.name).parent)
        if parent == ".":
            return ""
        return parent


class DataFolder:
    """The files of a folder, with those of `images.zip` in it, where some data sets have images."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def names(self) -> Iterator[str]:
        """The names of its files, relative and with slashes."""
        for path in self._root.rglob("*"):
            name = path.relative_to(self._root).as_posix()
            if path.is_file() and not _is_hidden(name):
                yield name

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None if there is none. Raises Malformed."""
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root):
            raise Malformed("It is a link that points outside the data set.")
        if path.is_file():
            if path.stat().st_size > MAX_IMAGE_FILE:
                raise Malformed(_TOO_LARGE.format(MAX_IMAGE_FILE))
            return path.read_bytes()
        if (packed := self._packed) is None:
            return None
        for place in (name, name.removeprefix("images/"), f"images/{name}"):
            data = packed.read(place)
            if data is not None:
                return data
        return None

    @cached_property
    def _packed(self) -> "DataArchive | None":
        path = self._root / "images.zip"
        if path.is_file():
            return DataArchive(open_archive(path))
        return None


class DataArchive:
    """The files of an opened zip archive, without those that lead out of it.

    What macOS and others add unseen is left out.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.members: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            name = _safe_path(entry.filename)
            if name and not entry.is_dir() and not _is_hidden(name):
                self.members[name] = entry
        self._folded = {name.casefold(): entry for name, entry in self.members.items()}

    def names(self) -> Iterator[str]:
        """The names of its files, with slashes."""
        return iter(self.members)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, in whatever case; None if there is none. Raises Malformed."""
        entry = self.members.get(name) or self._folded.get(name.casefold())
        if entry is None:
            return None
        if entry.file_size > MAX_IMAGE_FILE:
            raise Malformed(_TOO_LARGE.format(MAX_IMAGE_FILE))
        try:
            with self._archive.open(entry) as packed:
                return packed.read(MAX_IMAGE_FILE)  # the library reads no more than the declared size
        except UNREADABLE:
            raise Malformed("It cannot be unpacked: damaged, or with a password.") from None

    def unpack(self, is_rows: Callable[[str], bool], folder: Path) -> list[DataFile]:
        """Unpack the files of rows into a folder. Raises WrongFormat, LimitsExceeded."""
        chosen = sorted(filter(is_rows, self.members))
        if len(chosen) > MAX_DATA_FILES:
            raise LimitsExceeded(f"The archive has more than {MAX_DATA_FILES:,} files of rows.")
        if sum(self.members[name].file_size for name in chosen) > MAX_UNPACKED:
            raise LimitsExceeded(f"The files of rows in the archive have more than {MAX_UNPACKED:,} bytes, unpacked.")
        data = [DataFile(name, folder / f"{n}{PurePosixPath(name).suffix}") for n, name in enumerate(chosen)]
        for file in data:
            self._unpack(self.members[file.name], file.path)
        return data

    def _unpack(self, entry: zipfile.ZipInfo, target: Path) -> None:
        if entry.file_size > max(entry.compress_size, 1) * MAX_RATIO + 2**20:
            raise WrongFormat(f"{entry.filename} in the archive is larger than a file of rows may be.")
        try:
            # The library stops at the size that the archive declares, and checks the checksum.
            with self._archive.open(entry) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except UNREADABLE as error:
            if isinstance(error, OSError) and error.errno:
                raise
            reason = f"{entry.filename} in the archive cannot be unpacked: damaged, or with a password."
            raise WrongFormat(reason) from None


@dataclass
class Bundle:
    """The files of a data set.

    `data`: its files of rows, sorted by name. `kind`: used in messages.
    """

    kind: str
    files: DataFolder | DataArchive
    data: list[DataFile]

    def picture(self, name: str, *folders: str) -> RecordImage:
        """The image that a row names: in one of `folders`, in `images` there, or anywhere.

        Raises Malformed if the name leads out of the data set, WrongFormat if it has no image.
        """
        if not name or len(name) > 300 or not name.isprintable():
            raise Malformed("An image's name is empty, or contains what a file name cannot contain.")
        safe_name = _safe_path(name)
        if safe_name is None:
            raise Malformed("An image's name points outside the data set.")
        if not self._has_images:  # said once, instead of refusing every row
            where = "Beside the rows there must be"
            if self.kind == "zip archive":
                where = "A zip archive needs"
            raise WrongFormat(
                f"The images are missing: its rows name {name!r} and others. {where} a folder images/, or images.zip."
            )
        return RecordImage(name, lambda: self._image(safe_name, folders), safe_name)

    @cached_property
    def _has_images(self) -> bool:
        return any(path.casefold().endswith((*ENDINGS, "images.zip")) for path in self.files.names())

    def _image(self, name: str, folders: tuple[str, ...]) -> bytes:
        endings: tuple[str, ...] = ("", *ENDINGS)
        if name.lower().endswith(ENDINGS):
            endings = ("",)
        for folder in dict.fromkeys((*folders, "")):
            for place in (f"{folder}/", f"{folder}/images/"):
                for ending in endings:
                    data = self.files.read(f"{place}{name}{ending}".lstrip("/"))
                    if data is not None:
                        return data
        wanted: set[str] = set()
        for folder in folders:
            wanted.update(PurePosixPath(folder).parts)

        def shared_parts(path: str) -> int:
            return len(wanted.intersection(PurePosixPath(path).parts))

        for ending in endings:
            if paths := self._by_name.get(PurePosixPath(name + ending).name.casefold()):
                # Of several files with this name, the one whose path shares most with the row's.
                data = self.files.read(max(paths, key=shared_parts))
                if data is not None:
                    return data
        raise Malformed("The file is missing.")

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        """The paths of files by their names without folders. Raises Malformed."""
        by_name: dict[str, list[str]] = {}
        for number, path in enumerate(self.files.names()):
            if number >= MAX_FILES:
                raise Malformed(f"It is not where it should be, and the data set has more than {MAX_FILES:,} files.")
            by_name.setdefault(PurePosixPath(path).name.casefold(), []).append(path)
        return by_name


def inline_picture(name: str, data: bytes | None) -> RecordImage:
    """An image embedded in the row."""

    def read() -> bytes:
        if data is None:
            raise Malformed("It is missing.")
        return data

    identity = ""
    if data:
        identity = hashlib.sha256(data).hexdigest()
    return RecordImage(name, read, identity)


@contextmanager
def open_bundle(path: Path, is_rows: Callable[[str], bool], original_name: str = "") -> Iterator[Bundle]:
    """Open the data set at a path. Raises WrongFormat, OSError.

    Args:
        is_rows: whether a file with this name (relative, with slashes) holds rows. Not called if
            `path` is a single data file.
        original_name: the original name of such a file (`Layout.file`).
    """
    if path.is_dir():
        files = DataFolder(path)
        # Sorted, so that on every machine a row has the same position in every import.
        yield Bundle("folder", files, [DataFile(name, path / name) for name in sorted(filter(is_rows, files.names()))])
    elif container_of(path) == ZIP_ARCHIVE:
        with tempfile.TemporaryDirectory() as folder, open_archive(path) as opened:
            archive = DataArchive(opened)
            yield Bundle("zip archive", archive, archive.unpack(is_rows, Path(folder)))
    else:
        yield Bundle("file", DataFolder(path.parent), [DataFile(PurePosixPath(original_name).name or path.name, path)])


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive of at most MAX_FILES. Raises WrongFormat."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise WrongFormat("It is a zip archive that cannot be read: it is damaged or not complete.") from None
    if len(archive.infolist()) > MAX_FILES:
        archive.close()
        raise WrongFormat(f"It is a zip archive of more than {MAX_FILES:,} files.")
    return archive


def _safe_path(name: str) -> str | None:
    """Normalize a relative path to slashes without dots; None if it leads out."""
    if re.match(r"[A-Za-z]:|[/\\]", name):
        return None
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]
    if ".." in parts or not parts:
        return None
    return "/".join(parts)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
