"""A release's audit trail: its samples' events up to the freeze, and a program to check them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from generation.models import Release, ReleasedSample
from generation.releases import queries
from generation.releases.exporters.base import canonical, open_text, replace_files
from generation.releases.programs import verify_trail
from review.audit import publishing, verification

FORMAT = 1


def write(release: Release, folder: Path, split: str = ReleasedSample.Split.PUBLIC) -> list[Path]:
    """Write `audit.jsonl` and `verify_trail.py` into the existing `folder`; return the two paths.

    docs/audit.md describes the format. The same release gives the same bytes: events never change,
    and those after the freeze are left out.
    """
    path, checker = folder / "audit.jsonl", folder / "verify_trail.py"
    with replace_files(path) as [temporary], open_text(temporary) as file:
        file.writelines(_lines(release, split))
    shutil.copyfile(verify_trail.__file__, checker)
    return [path, checker]


def _lines(release: Release, split: str) -> Iterator[str]:
    """A header line; then for each sample, in release order, a line that names it, its events."""
    chosen = ReleasedSample.objects.filter(release=release, split=split)
    header = {
        "trail": FORMAT,
        "release": release.name,
        "release_version": release.version,
        "samples": chosen.count(),
        "end": {"sequence": release.trail_end, "hash": verification.hash_at(release.trail_end)},
    }
    yield f"{canonical(header)}\n"
    secret = verification.pseudonym_key()
    for chunk in queries.in_order(release, split, "key", "version__number"):
        trails = publishing.trails([sample for sample, _version in chunk], key=secret, upto=release.trail_end)
        for key, version in chunk:
            yield f"{canonical({'sample': key, 'version': version, 'events': len(trails[key])})}\n"
            yield from trails[key]
