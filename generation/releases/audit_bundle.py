"""The trail of a release: what happened to each of its samples, up to the moment it was frozen, and a program to check it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from generation.models import Release, ReleasedSample
from generation.releases import queries, verify_trail
from generation.releases.exporters.base import canonical, opened, replacing
from review.audit import publishing, verification
from review.common.sql import ahead

FORMAT = 1


def write(release: Release, folder: Path, split: str = ReleasedSample.Split.PUBLIC) -> list[Path]:
    """Write `audit.jsonl` and `verify_trail.py` into the existing `folder`; returns the two. docs/audit.md has the format.

    The same release gives the same bytes: events are written once, and later ones than the release are left out.
    """
    path, checker = folder / "audit.jsonl", folder / "verify_trail.py"
    with replacing(path) as [temporary], opened(temporary) as file:
        file.writelines(_lines(release, split))
    shutil.copyfile(verify_trail.__file__, checker)
    return [path, checker]


def _lines(release: Release, split: str) -> Iterator[str]:
    """What the file is of; then for each sample, in the order of the release, which it is and its events."""
    chosen = ReleasedSample.objects.filter(release=release, split=split)
    about = {
        "trail": FORMAT,
        "release": release.name,
        "release_version": release.version,
        "samples": chosen.count(),
        "end": {"sequence": release.trail_end, "hash": verification.hash_at(release.trail_end)},
    }
    yield f"{canonical(about)}\n"
    chunks = queries.in_order(release, split, "key", "version__number")
    request = publishing.trails(key=verification.pseudonym_key(), upto=release.trail_end)
    for chunk, read in ahead((chunk, request([sample for sample, _version in chunk])) for chunk in chunks):
        trails = read()
        for key, version in chunk:
            yield f"{canonical({'sample': key, 'version': version, 'events': len(trails[key])})}\n"
            yield from trails[key]
