"""Writes releases out as files."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from generation import errors
from generation.common import formats
from generation.common.chunks import CHUNK, chunked
from generation.models import Release, ReleasedRubric, ReleasedSample
from generation.recipes import registry
from generation.releases import audit_bundle, exporters, ratings
from generation.releases.data_card import data_card
from generation.releases.exporters import jsonl
from generation.releases.exporters.croissant import croissant
from generation.releases.exporters.manifest import MANIFEST, SUMS, Checksums, manifest
from generation.releases.exporters.programs import verify_release

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


def check_fits(release: Release, format_name: str) -> exporters.Exporter:
    """The exporter. Raises UnknownExportFormat, UnfitFormat."""
    exporter = exporter_of(format_name)
    if getattr(exporter, "asks", False):
        first = ReleasedSample.objects.filter(release=release).order_by("position").first()
        if first is not None and _messages(release, first.exported, first.key, first.task) is None:
            raise errors.UnfitFormat(format_name)
    return exporter


def fitting(release: Release) -> list[tuple[str, str]]:
    """The formats that can hold this release, with their labels."""
    found = []
    for name in exporters.available():
        with contextlib.suppress(errors.UnfitFormat):
            found.append((name, check_fits(release, name).label))
    return found


def _messages(release: Release, exported: Mapping[str, Any], key: str, task: str) -> list[dict[str, str]] | None:
    return registry.messages(release.benchmark, key, task, exported["content"])


def _asked(release: Release, samples: Iterator[dict[str, Any]], *, judges: bool) -> Iterator[dict[str, Any]]:
    """The samples with what a model under test is sent, and a judge if wanted."""
    for sample in samples:
        messages = _messages(release, sample, sample["sample_id"], sample["task"])
        if messages is None:
            raise errors.UnfitFormat(sample["sample_id"])
        about = sample["sample_id"], sample["task"], sample["content"]
        more = {"judging": registry.judging(release.benchmark, *about) or []} if judges else {}
        yield {**sample, "messages": messages, **more}


def export_release(
    release: Release, format_name: str, folder: Path, *, split: str = ReleasedSample.Split.PUBLIC
) -> dict[str, Any]:
    """Write a release into `folder` (made if absent): data, `DATACARD.md`, the trail of its samples,
    `manifest.json`, `SHA256SUMS`.

    The same release gives the same bytes. Returns the manifest. Raises UnknownExportFormat for an unknown format.
    """
    check_fits(release, format_name)
    folder.mkdir(parents=True, exist_ok=True)
    files = list(files_of(release, format_name, folder, split=split))
    listed = [path for path in files if path.name not in (MANIFEST, SUMS)]
    about = {"release": release.name, "version": release.version, "format": format_name, "split": split}
    return {**about, **manifest(folder, listed)}


def files_of(
    release: Release, format_name: str, folder: Path, *, split: str = ReleasedSample.Split.PUBLIC
) -> Iterator[Path]:
    """Write the files into the existing `folder`, one after the other; each may be removed once it was handed out."""
    sums = Checksums(folder)
    card = folder / "DATACARD.md"
    text = data_card(release)
    card.write_text(text, encoding="utf-8", newline="\n")
    yield sums.add(card)
    exporter = check_fits(release, format_name)
    if readme := getattr(exporter, "readme", None):
        path = folder / "README.md"
        path.write_text(readme(text, _about(release)), encoding="utf-8", newline="\n")
        yield sums.add(path)
    samples = exported_samples(release, split)
    if getattr(exporter, "asks", False):
        samples = _asked(release, samples, judges=getattr(exporter, "judges", False))
    for path in exporter.write(samples, folder):
        yield sums.add(path)
    for path in audit_bundle.write(release, folder, split):
        yield sums.add(path)
    yield sums.add(ratings.write(release, split, folder))
    if "agreement" in release.about:
        path = folder / "agreement.json"
        lines = json.dumps(release.about["agreement"][split], indent=1, sort_keys=True)
        path.write_text(lines + "\n", encoding="utf-8", newline="\n")
        yield sums.add(path)
    checker = folder / "verify_release.py"
    shutil.copyfile(verify_release.__file__, checker)
    yield sums.add(checker)
    path = folder / "croissant.json"
    described = json.dumps(croissant(_about(release), sums.entries), indent=1, ensure_ascii=False)
    path.write_text(described + "\n", encoding="utf-8", newline="\n")
    yield sums.add(path)
    # A release that was frozen before it was counted keeps its bytes.
    about = {"made": release.made, "grounds": release.grounds} if release.grounds else {}
    about |= {"reviewers": release.reviewers} if release.simulated_samples else {}
    if release.canary:
        digest = release.sha256 if split == ReleasedSample.Split.PUBLIC else release.held_out_sha256
        about |= {"split": split, "sha256": digest, "canary": release.canary}
    yield from sums.write(about)


def _about(release: Release) -> dict[str, Any]:
    """What the hub's metadata say."""
    return {
        "name": release.name,
        "version": f"{release.version}.0.0",
        "date": release.created_at.date().isoformat(),
        "description": f"A release of the benchmark {release.benchmark}: {release.samples_count} samples."
        + (f" Canary: {release.canary}" if release.canary else ""),
        "citation": " ".join(source["citation"] for source in release.sources),
        "languages": list(release.about.get("counts", {}).get("language", {})),
        "samples": release.samples_count,
        "licence": "; ".join(sorted({source["licence"] for source in release.sources})) or "unknown",
    }


def open_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> IO[bytes]:
    """The JSON Lines of a release, open at their beginning; the file vanishes when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        [path] = jsonl.write(exported_samples(release, split), Path(folder))
        return path.open("rb")
