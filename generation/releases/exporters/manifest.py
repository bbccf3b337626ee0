"""What is in an export, so that anyone can check that it arrived whole: `manifest.json` and `SHA256SUMS`."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def manifest(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """{"files": [{"path", "bytes", "sha256"}]}, sorted by path; paths are relative to `folder` with '/'.

    Raises ValueError for a file outside `folder`.
    """
    entries = ((path.relative_to(folder).as_posix(), path) for path in files)
    return {
        "files": [
            {"path": name, "bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in sorted(entries)
        ]
    }


def write_checksums(folder: Path, files: Iterable[Path], about: Mapping[str, Any] | None = None) -> list[Path]:
    """Write `manifest.json` over `files`, and `SHA256SUMS` over `files` and the manifest, for `sha256sum -c SHA256SUMS`
    in `folder`. Returns the two. `about`: what else the manifest says, before the files."""
    content = {**(about or {}), **manifest(folder, files)}
    manifest_path, sums_path = folder / "manifest.json", folder / "SHA256SUMS"
    manifest_path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    sums = [(entry["sha256"], entry["path"]) for entry in content["files"]]
    sums.append((_sha256(manifest_path), manifest_path.name))
    lines = "".join(f"{digest}  {name}\n" for digest, name in sums)
    sums_path.write_text(lines, encoding="utf-8", newline="\n")
    return [manifest_path, sums_path]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
