"""Writes releases out as files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from generation import errors
from generation.common import formats
from generation.common.chunks import CHUNK, chunked
from generation.models import Release, ReleasedRubric, ReleasedSample
from generation.releases import audit_bundle, exporters
from generation.releases.data_card import data_card
from generation.releases.exporters import jsonl
from generation.releases.exporters.manifest import MANIFEST, SUMS, Checksums, manifest

RUBRIC_FIELDS = ("key", "criterion", "traps", "severity")


def exported_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> Iterator[dict[str, Any]]:
    """The export objects of one part of a release, in order, streamed."""
    columns = ("pk", "exported")
    rows = ReleasedSample.objects.filter(release=release, split=split).order_by("position").values_list(*columns)
    for chunk in chunked(rows.iterator(chunk_size=CHUNK)):
        rubrics = _rubrics([pk for pk, _exported in chunk])
        for pk, exported in chunk:
            # Frozen before there were citations, or a canary: it has none.
            about = {"split": split} if "canary" in exported else {}
            yield {"citations": [], **exported, **about, "rubrics": rubrics.get(pk, [])}


def _rubrics(samples: list[int]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    rows = ReleasedRubric.objects.filter(sample__in=samples).order_by("pk")
    for sample, *values in rows.values_list("sample_id", *RUBRIC_FIELDS):
        found.setdefault(sample, []).append(dict(zip(RUBRIC_FIELDS, values, strict=True)))
    return found


def exporter_of(format_name: str) -> exporters.Exporter:
    """Raises UnknownExportFormat."""
    try:
        return exporters.load(format_name)
    except formats.UnknownFormat as error:
        raise errors.UnknownExportFormat(f"{format_name!r}; known: {', '.join(exporters.available())}") from error


def export_release(release: Release, format_name: str, folder: Path) -> dict[str, Any]:
    """Write a release into `folder` (made if absent): data, `DATACARD.md`, the trail of its samples,
    `manifest.json`, `SHA256SUMS`.

    The same release gives the same bytes. Returns the manifest. Raises UnknownExportFormat for an unknown format.
    """
    exporter_of(format_name)
    folder.mkdir(parents=True, exist_ok=True)
    files = list(files_of(release, format_name, folder))
    listed = [path for path in files if path.name not in (MANIFEST, SUMS)]
    return {"release": release.name, "version": release.version, "format": format_name, **manifest(folder, listed)}


def files_of(release: Release, format_name: str, folder: Path) -> Iterator[Path]:
    """Write the files into the existing `folder`, one after the other; each may be removed once it was handed out."""
    sums = Checksums(folder)
    card = folder / "DATACARD.md"
    card.write_text(data_card(release), encoding="utf-8", newline="\n")
    yield sums.add(card)
    for path in exporter_of(format_name).write(exported_samples(release), folder):
        yield sums.add(path)
    for path in audit_bundle.write(release, folder):
        yield sums.add(path)
    # A release that was frozen before it was counted keeps its bytes.
    about = {"made": release.made, "grounds": release.grounds} if release.grounds else {}
    about |= {"reviewers": release.reviewers} if release.simulated_samples else {}
    yield from sums.write(about)


def open_samples(release: Release) -> IO[bytes]:
    """The JSON Lines of a release, open at their beginning; the file vanishes when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        [path] = jsonl.write(exported_samples(release), Path(folder))
        return path.open("rb")
