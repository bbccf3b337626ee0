"""The files of a bundle: their checksums, and reading them."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generation.releases.programs.verify_trail import Checker


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def faults(folder: Path) -> list[str]:
    """The files that were altered, removed or added. Raises FileNotFoundError: no bundle."""
    checker = Checker(folder)
    checker.checksums("bundle")
    return checker.faults


def document(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path: Path) -> Iterator[Any]:
    """The values in a file of JSON Lines."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
