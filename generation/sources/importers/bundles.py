"""Data sets of questions about images: a folder, a zip archive, or one file beside its images.

Nothing in them is trusted: no name may lead out of the folder or archive, and unpacking is bounded.
"""

import hashlib
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generation.sources.importers.base import LimitsExceeded, Malformed, RecordImage, WrongFormat

# Bytes; images are checked again when decoded (generation.images.checks).
MAX_IMAGE_FILE = 32 * 2**20
MAX_UNPACKED = 4 * 2**30  # bytes of all tables and lists in an archive, unpacked
MAX_DATA_FILES = 10_000  # tables and lists in an archive
MAX_FILES = 1_000_000  # in a folder or an archive
MAX_RATIO = 500  # unpacked to packed, of a table or list
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
# Raised when reading a damaged, encrypted or unknown archive. zlib.error is not a ValueError.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows: its name inside the data set, and the path to read it from."""

    name: str
    path: Path

    @property
    def folder(self) -> str:
        parent = str(PurePosixPath(self.name).parent)
        return "" if parent == "." else parent


class Bundle:
    """The files of a data set.

    `data`: its files of rows, sorted by name. `kind`: used in messages.
    """

    kind = "folder"

    def __init__(self, data: list[DataFile], read: Callable[[str], bytes | None], names: Callable[[], Iterator[str]]):
        self.data = data
        self._read = read
        self._names = names
        self._by_name: dict[str, list[str]] | None = None
        self._has_images = False  # not looked yet

    def picture(self, name: str, *folders: str) -> RecordImage:
        """The image that a row names: in one of `folders`, in `images` there, or anywhere.

        Raises Malformed if the name leads out of the data set, WrongFormat if it has no image.
        """
        if not name or len(name) > 300 or not name.isprintable():
            raise Malformed("An image's name is empty, or contains what a file name cannot contain.")
        safe_name = _safe_path(name)
        if safe_name is None:
            raise Malformed("An image's name points outside the data set.")
        if not self._has_images:
            self._require_images(name)
            self._has_images = True
        return RecordImage(name, lambda: self._image(safe_name, folders), safe_name)

    def _require_images(self, name: str) -> None:
        """Say once that there is no image at all, instead of refusing every row."""
        if not any(path.casefold().endswith((*ENDINGS, "images.zip")) for path in self._names()):
            where = "A zip archive needs" if self.kind == "zip archive" else "Beside the rows there must be"
            raise WrongFormat(
                f"The images are missing: its rows name {name!r} and others. {where} a folder images/, or images.zip."
            )

    def _image(self, name: str, folders: tuple[str, ...]) -> bytes:
        endings = ("",) if name.lower().endswith(ENDINGS) else ("", *ENDINGS)
        for folder in dict.fromkeys((*folders, "")):
            for place in (f"{folder}/", f"{folder}/images/"):
                for ending in endings:
                    data = self._read(f"{place}{name}{ending}".lstrip("/"))
                    if data is not None:
                        return data
        for ending in endings:
            for paths in self._paths_named(PurePosixPath(name + ending).name):
                # Of several files with this name, take the one whose path shares most with the
                # row's.
                data = self._read(max(paths, key=lambda path: _shared_parts(path, folders)))
                if data is not None:
                    return data
        raise Malformed("The file is missing.")

    def _paths_named(self, name: str) -> list[list[str]]:
        if self._by_name is None:
            self._by_name = {}
            for number, path in enumerate(self._names()):
                if number >= MAX_FILES:
                    raise Malformed(
                        f"It is not where it should be, and the data set has more than {MAX_FILES:,} files."
                    )
                self._by_name.setdefault(PurePosixPath(path).name.casefold(), []).append(path)
        paths = self._by_name.get(name.casefold())
        return [paths] if paths else []


def inline_picture(name: str, data: bytes | None) -> RecordImage:
    """An image embedded in the row."""

    def read() -> bytes:
        if data is None:
            raise Malformed("It is missing.")
        return data

    return RecordImage(name, read, hashlib.sha256(data).hexdigest() if data else "")


@contextmanager
def open_bundle(path: Path, is_rows: Callable[[str], bool], original_name: str = "") -> Iterator[Bundle]:
    """Open the data set at a path. Raises WrongFormat, OSError.

    Args:
        is_rows: whether a file with this name (relative, with slashes) holds rows. Not called if
            `path` is a single data file.
        original_name: the original name of such a file (`Layout.file`).
    """
    if path.is_dir():
        yield _open_folder(path, is_rows)
    elif _is_zip(path):
        with tempfile.TemporaryDirectory() as folder, open_archive(path) as archive:
            bundle = _open_zip(archive, Path(folder), is_rows)
            bundle.kind = "zip archive"
            yield bundle
    else:
        bundle = _open_folder(path.parent, None, [DataFile(PurePosixPath(original_name).name or path.name, path)])
        bundle.kind = "file"
        yield bundle


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in _ZIP


def _safe_path(name: str) -> str | None:
    """Normalize a relative path to slashes without dots; None if it leads out."""
    if re.match(r"[A-Za-z]:|[/\\]", name):
        return None
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]
    return None if ".." in parts or not parts else "/".join(parts)


def _shared_parts(path: str, folders: tuple[str, ...]) -> int:
    parts = {part for folder in folders for part in PurePosixPath(folder).parts}
    return len(parts & set(PurePosixPath(path).parts))


def _open_folder(root: Path, is_rows: Callable[[str], bool] | None, data_files: list[DataFile] | None = None) -> Bundle:
    resolved_root = root.resolve()

    def names() -> Iterator[str]:
        for path in root.rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not _is_hidden(name):
                yield name

    def read(name: str) -> bytes | None:
        path = (resolved_root / name).resolve()
        if not path.is_relative_to(resolved_root):
            raise Malformed("It is a link that points outside the data set.")
        if not path.is_file():
            return archived(name)
        if path.stat().st_size > MAX_IMAGE_FILE:
            raise Malformed(f"The file is larger than {MAX_IMAGE_FILE:,} bytes.")
        return path.read_bytes()

    archives: list[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]] = []

    def archived(name: str) -> bytes | None:
        """Read from `images.zip` in the folder, where some data sets have their images."""
        if not archives and (resolved_root / "images.zip").is_file():
            archive = open_archive(resolved_root / "images.zip")
            archives.append((archive, archive_members(archive)))
        for archive, members in archives:
            for member in (name, name.removeprefix("images/"), f"images/{name}"):
                if member in members:
                    return _read_image(archive, members[member])
        return None

    data = data_files
    if data is None:
        # Sorted, so that on every machine a row has the same position in every import.
        chosen = sorted(name for name in names() if is_rows is not None and is_rows(name))
        data = [DataFile(name, root / name) for name in chosen]
    return Bundle(data, read, names)


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


def archive_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files in an archive by their normalized names, without those that lead out of it.

    What macOS and others add unseen is left out.
    """
    names = ((_safe_path(entry.filename), entry) for entry in archive.infolist() if not entry.is_dir())
    return {name: entry for name, entry in names if name and not _is_hidden(name)}


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _open_zip(archive: zipfile.ZipFile, folder: Path, is_rows: Callable[[str], bool]) -> Bundle:
    members = archive_members(archive)
    folded = {name.casefold(): entry for name, entry in members.items()}
    data: list[DataFile] = []
    chosen = sorted(name for name in members if is_rows(name))
    if len(chosen) > MAX_DATA_FILES:
        raise LimitsExceeded(f"The archive has more than {MAX_DATA_FILES:,} files of rows.")
    if sum(members[name].file_size for name in chosen) > MAX_UNPACKED:
        raise LimitsExceeded(f"The files of rows in the archive have more than {MAX_UNPACKED:,} bytes, unpacked.")
    for number, name in enumerate(chosen):
        unpacked = folder / f"{number}{PurePosixPath(name).suffix}"
        _unpack(archive, members[name], unpacked)
        data.append(DataFile(name, unpacked))

    def read(name: str) -> bytes | None:
        entry = members.get(name) or folded.get(name.casefold())
        return None if entry is None else _read_image(archive, entry)

    return Bundle(data, read, lambda: iter(members))


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """Unpack one file of rows from an archive. Raises WrongFormat if it exceeds the limits."""
    if entry.file_size > max(entry.compress_size, 1) * MAX_RATIO + 2**20:
        raise WrongFormat(f"{entry.filename} in the archive is larger than a file of rows may be.")
    try:
        # The library stops at the size that the archive declares, and checks the checksum.
        with archive.open(entry) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise WrongFormat(f"{entry.filename} in the archive cannot be unpacked: damaged, or with a password.") from None


def _read_image(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """An image in an archive. Raises Malformed."""
    if entry.file_size > MAX_IMAGE_FILE:
        raise Malformed(f"The file is larger than {MAX_IMAGE_FILE:,} bytes.")
    try:
        with archive.open(entry) as packed:
            return packed.read(MAX_IMAGE_FILE)  # the library reads no more than the declared size
    except UNREADABLE:
        raise Malformed("It cannot be unpacked: damaged, or with a password.") from None
