"""Checks the files of a bundle by their checksums; part of verify_run.py. Needs only Python 3.9."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def faults(folder: Path) -> list[str]:
    """The files that were altered, removed or added."""
    problems, listed = [], set()
    for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        listed.add(name)
        path = folder / name
        if not path.is_file():
            problems.append(f"{name}: missing")
        elif sha256(path) != expected:
            problems.append(f"{name}: altered")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in listed and name != "SHA256SUMS" and "__pycache__" not in path.parts:
            problems.append(f"{name}: not part of the bundle")
    return problems
