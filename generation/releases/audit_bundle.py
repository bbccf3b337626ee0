"""The trail of a release: what happened to each of its samples, up to the moment it was frozen, and a program to check it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from generation.models import Release, ReleasedSample
from generation.releases import queries, verify_trail
from generation.releases.exporters.base import canonical, replacing
from review.audit import verification
from review.common.sql import ahead

FORMAT = 1


def write(release: Release, folder: Path, split: str = ReleasedSample.Split.PUBLIC) -> list[Path]:
    """Write `audit.jsonl` and `verify_trail.py` into the existing `folder`; returns the two. docs/audit.md has the format.

    The same release gives the same bytes: events are written once, and later ones than the release are left out.
    """
    path, checker = folder / "audit.jsonl", folder / "verify_trail.py"
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{canonical(line)}\n" for line in _lines(release, split))
    shutil.copyfile(verify_trail.__file__, checker)
    return [path, checker]


def _lines(release: Release, split: str) -> Iterator[dict[str, Any]]:
    """What the file is of; then for each sample, in the order of the release, which it is and its events."""
    chosen = ReleasedSample.objects.filter(release=release, split=split)
    yield {
        "trail": FORMAT,
        "release": release.name,
        "release_version": release.version,
        "samples": chosen.count(),
        "end": {"sequence": release.trail_end, "hash": verification.hash_at(release.trail_end)},
    }
    chunks = queries.in_order(release, split, "key", "version__number")
    secret = verification.pseudonym_key()
    for chunk, read in ahead((chunk, _trails(release, chunk, secret)) for chunk in chunks):
        trails = read()
        for key, version in chunk:
            yield {"sample": key, "version": version, "events": len(trails[key])}
            yield from trails[key]


def _trails(release: Release, chunk: list[tuple[Any, ...]], key: str) -> Callable[[], dict[str, list[dict[str, Any]]]]:
    return verification.published([sample for sample, _version in chunk], key=key, upto=release.trail_end)
