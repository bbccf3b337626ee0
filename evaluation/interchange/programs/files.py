"""The files of a bundle: their checksums, and reading them."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def faults(folder: Path) -> list[str]:
    """The files that were altered, removed or added."""
    problems, listed = [], {SUMS}
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        listed.add(name)
        path = folder / name
        if not path.is_file():
            problems.append(f"{name}: missing")
        elif sha256(path) != expected:
            problems.append(f"{name}: altered")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in listed and "__pycache__" not in path.parts:
            problems.append(f"{name}: not part of the bundle")
    return problems


def document(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path: Path) -> Iterator[Any]:
    """The values in a file of JSON Lines."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
