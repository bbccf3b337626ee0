"""The manifest, for anyone to check an export's completeness: `manifest.json`, `SHA256SUMS`."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"


class Checksums:
    """The checksums of an export's files; a file may be removed once it was added."""

    def __init__(self, folder: Path, files: Iterable[Path] = ()) -> None:
        self._folder = folder
        self._entries: dict[str, dict[str, Any]] = {}
        for path in files:
            self.add(path)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """{"path", "bytes", "sha256"} of the files added so far, by path."""
        return [self._entries[name] for name in sorted(self._entries)]

    def add(self, path: Path) -> Path:
        """Add a file of the export, and return it.

        Its path is kept relative to the folder, with '/'. Raises ValueError for a file outside.
        """
        name = path.relative_to(self._folder).as_posix()
        self._entries[name] = {"path": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
        return path

    def write(self, about: Mapping[str, Any] | None = None) -> list[Path]:
        """Write `manifest.json` and `SHA256SUMS`; return both paths.

        The manifest covers all files, and the checksums cover these and the manifest. Check them
        with `sha256sum -c SHA256SUMS` in the folder. `about`: further entries of the manifest,
        before the files.
        """
        manifest_path, sums_path = self._folder / MANIFEST, self._folder / SUMS
        text = json.dumps({**(about or {}), "files": self.entries}, indent=2, ensure_ascii=False) + "\n"
        manifest_path.write_text(text, encoding="utf-8", newline="\n")
        lines = [f"{entry['sha256']}  {entry['path']}\n" for entry in self.entries]
        lines.append(f"{sha256_of(manifest_path)}  {MANIFEST}\n")
        sums_path.write_text("".join(lines), encoding="utf-8", newline="\n")
        return [manifest_path, sums_path]


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
