"""Writes releases out as files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.db.models import Prefetch

from generation import errors
from generation.common import formats
from generation.models import Release, ReleasedRubric, ReleasedSample
from generation.releases import audit_bundle, exporters
from generation.releases.data_card import data_card
from generation.releases.exporters import jsonl
from generation.releases.exporters.manifest import manifest, write_checksums
from generation.releases.services import CHUNK


def exported_samples(release: Release) -> Iterator[dict[str, Any]]:
    """The export objects of a release, in order, streamed."""
    rows = (
        ReleasedSample.objects.filter(release=release)
        .prefetch_related(Prefetch("rubrics", ReleasedRubric.objects.order_by("pk")))
        .order_by("position")
    )
    for sample in rows.iterator(chunk_size=CHUNK):
        rubrics = [
            {"key": r.key, "criterion": r.criterion, "traps": r.traps, "severity": r.severity}
            for r in sample.rubrics.all()
        ]
        yield {
            "citations": [],
            **sample.exported,
            "rubrics": rubrics,
        }  # frozen before there were citations: it has none


def export_release(release: Release, format_name: str, folder: Path) -> dict[str, Any]:
    """Write a release into `folder` (made if absent): data, `DATACARD.md`, the trail of its samples,
    `manifest.json`, `SHA256SUMS`.

    The same release gives the same bytes. Returns the manifest. Raises UnknownExportFormat for an unknown format.
    """
    try:
        exporter = exporters.load(format_name)
    except formats.UnknownFormat as error:
        raise errors.UnknownExportFormat(f"{format_name!r}; known: {', '.join(exporters.available())}") from error
    folder.mkdir(parents=True, exist_ok=True)
    files = exporter.write(exported_samples(release), folder)
    card = folder / "DATACARD.md"
    card.write_text(data_card(release), encoding="utf-8", newline="\n")
    files += [card, *audit_bundle.write(release, folder)]
    # A release that was frozen before it was counted keeps its bytes.
    about = {"made": release.made, "grounds": release.grounds} if release.grounds else {}
    about |= {"reviewers": release.reviewers} if release.simulated_samples else {}
    write_checksums(folder, files, about)
    return {"release": release.name, "version": release.version, "format": format_name, **manifest(folder, files)}


def open_samples(release: Release) -> IO[bytes]:
    """The JSON Lines of a release, open at their beginning; the file vanishes when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        [path] = jsonl.write(exported_samples(release), Path(folder))
        return path.open("rb")
