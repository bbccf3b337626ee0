"""Exports releases as files."""

import contextlib
import json
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from django.db.models import Exists, OuterRef, QuerySet

from generation import errors
from generation.common import formats
from generation.common.temporary import temporary_folder
from generation.images.files import open_image
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Sample, SourceRecord
from generation.recipes import registry
from generation.releases import audit_bundle, exporters, queries, ratings
from generation.releases.data_card import data_card, responsible_use
from generation.releases.exporters import jsonl, references, supervision
from generation.releases.exporters.croissant import croissant
from generation.releases.exporters.manifest import MANIFEST, SUMS, Checksums, manifest, sha256_of
from generation.releases.exporters.programs import restore_release, verify_release
from generation.releases.exporters.programs.verify_release import COLUMNS
from generation.sources import queries as sources_queries
from review.audit import exports
from review.quality import agreement

MAX_NAMED = 10  # samples that an error message names
RUBRIC_FIELDS = ("key", "criterion", "traps", "severity", "polarity")


def exported_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> Iterator[dict[str, Any]]:
    """The export objects of one split of a release, in order, streamed."""
    for chunk in queries.in_order(release, split, "pk", "exported"):
        rubrics: dict[int, list[dict[str, Any]]] = defaultdict(list)
        rows = ReleasedRubric.objects.filter(sample__in=[pk for pk, _exported in chunk]).order_by("pk")
        for sample, *values in rows.values_list("sample_id", *RUBRIC_FIELDS):
            rubric = dict(zip(RUBRIC_FIELDS, values, strict=True))
            if not rubric["polarity"]:
                del rubric["polarity"]  # absent if frozen without one
            rubrics[sample].append(rubric)
        for pk, exported in chunk:
            # Samples frozen before citations or canaries were introduced have none.
            split_field = {"split": split} if "canary" in exported else {}
            yield {"citations": [], **exported, **split_field, "rubrics": rubrics[pk]}


def exporter_of(format_name: str) -> exporters.Exporter:
    """The exporter of a format. Raises UnknownExportFormat."""
    try:
        return exporters.load(format_name)
    except formats.UnknownFormat as error:
        raise errors.UnknownExportFormat(f"{format_name!r}; known: {', '.join(exporters.available())}") from error


def check_fits(
    release: Release, format_name: str, *, by_reference: bool = False, stages: str = ""
) -> exporters.Exporter:
    """Check that a format can hold the release, and return its exporter.

    Raises UnknownExportFormat, FormatDoesNotFit, UntrainedFormat, NotByReference, NoSupervision,
    WrongStages.
    """
    exporter = exporter_of(format_name)
    if by_reference and not exporter.lines:
        raise errors.NotByReference(format_name)
    if exporter.supervises:
        _supervision(release, stages)
    elif stages:
        raise errors.WrongStages(f"{format_name} has none.")
    if exporter.asks:
        first = ReleasedSample.objects.filter(release=release).order_by("position").first()
        if first is not None and _messages(release, first.exported, first.key, first.task) is None:
            raise errors.FormatDoesNotFit(format_name)
    if exporter.judges and registry.judging(release.benchmark) is None:
        raise errors.FormatDoesNotFit(format_name)
    if exporter.trains:
        first = ReleasedSample.objects.filter(release=release).order_by("position").first()
        if first is not None and _training(release, first.exported, first.key, first.task) is None:
            raise errors.UntrainedFormat(format_name)
    return exporter


def check_samples(
    release: Release, format_name: str, *, by_reference: bool = False, stages: str = ""
) -> exporters.Exporter:
    """Check a format against all samples of the release, and return its exporter.

    Raises what `check_fits` raises, and NoPositivePoints, which names samples.
    """
    exporter = check_fits(release, format_name, by_reference=by_reference, stages=stages)
    if exporter.earns:
        facet = registry.points_facet(release.benchmark)
        earning: QuerySet[Any] = ReleasedRubric.objects.filter(sample=OuterRef("pk"))
        if facet:
            values = Facet.objects.filter(rubric__sample=OuterRef("pk"), name=facet)
            earning = values.exclude(value__startswith="-").exclude(value="0")
        without = ReleasedSample.objects.filter(~Exists(earning), release=release).order_by("position")
        if keys := list(without.values_list("key", flat=True)[: MAX_NAMED + 1]):
            raise errors.NoPositivePoints(", ".join(keys[:MAX_NAMED]) + (", …" if len(keys) > MAX_NAMED else ""))
    return exporter


def stages_of(release: Release, format_name: str) -> tuple[str, ...]:
    """The stages of reasoning that this format offers, the default last; empty if it has none."""
    supervision_module = registry.supervision(release.benchmark)
    offered = supervision_module is not None and exporter_of(format_name).supervises
    return tuple(supervision_module.STAGES) if supervision_module is not None and offered else ()


def _supervision(release: Release, stages: str) -> tuple[ModuleType, str]:
    """The module that makes examples of the benchmark's samples, and the name of the stages.

    Raises NoSupervision, WrongStages.
    """
    supervision_module = registry.supervision(release.benchmark)
    samples = ReleasedSample.objects.filter(release=release, exported__content__split__in=supervision.SPLITS)
    if supervision_module is None or not samples.exists():
        raise errors.NoSupervision
    chosen = stages or list(supervision_module.STAGES)[-1]
    if chosen not in supervision_module.STAGES:
        raise errors.WrongStages(f"{chosen!r}; known: {', '.join(supervision_module.STAGES)}")
    return supervision_module, chosen


def _with_supervision(release: Release, samples: Iterator[dict[str, Any]], stages: str) -> Iterator[dict[str, Any]]:
    """Add to each sample its example of supervision."""
    supervision_module, chosen = _supervision(release, stages)
    for sample in samples:
        yield {**sample, "training": supervision_module.example(sample["content"], chosen)}


def _collect_images(
    samples: Iterator[dict[str, Any]], images: dict[str, None], splits: Collection[str] | None
) -> Iterator[dict[str, Any]]:
    """Pass the samples on and collect the names of their images in `images`.

    `splits`: only those of samples from these splits; None for all.
    """
    for sample in samples:
        content = sample["content"]
        if splits is None or content.get("split") in splits:
            images.update(dict.fromkeys(content.get("image_files", ())))
        yield sample


def _write_images(names: Iterable[str], folder: Path) -> Iterator[Path]:
    """Write these images into the folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(open_image(path.stem)[1])
        yield path


def fitting_formats(release: Release, *, by_reference: bool = False) -> list[tuple[str, str]]:
    """The formats that can hold this release, with their labels."""
    choices = []
    for name in exporters.available():
        with contextlib.suppress(errors.FormatDoesNotFit, errors.NotByReference, errors.NoSupervision):
            choices.append((name, check_fits(release, name, by_reference=by_reference).label))
    return choices


def _messages(release: Release, exported: Mapping[str, Any], key: str, task: str) -> list[dict[str, str]] | None:
    return registry.question_messages(release.benchmark, key, task, exported["content"])


def _training(release: Release, exported: Mapping[str, Any], key: str, task: str) -> dict[str, Any] | None:
    return registry.training_example(release.benchmark, key, task, exported["content"])


def _with_training(release: Release, samples: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add to each sample what a model is trained on."""
    for sample in samples:
        training = _training(release, sample, sample["sample_id"], sample["task"])
        if training is None:
            raise errors.FormatDoesNotFit(sample["sample_id"])
        yield {**sample, "training": training}


def _with_messages(
    release: Release, samples: Iterator[dict[str, Any]], *, judges: bool, required: bool
) -> Iterator[dict[str, Any]]:
    """Add to each sample what a model under test is sent, and with `judges` a judge."""
    for sample in samples:
        messages = _messages(release, sample, sample["sample_id"], sample["task"])
        if messages is None and required:
            raise errors.FormatDoesNotFit(sample["sample_id"])
        identity = sample["sample_id"], sample["task"], sample["content"]
        judging = registry.judge_messages(release.benchmark, *identity) if judges else []
        if judging is None:
            raise errors.FormatDoesNotFit(sample["sample_id"])
        yield {**sample, "messages": messages or [], **({"judging": judging} if judges else {})}


def _with_points(release: Release, samples: Iterator[dict[str, Any]], facet: str) -> Iterator[dict[str, Any]]:
    """Replace each sample's facet `facet`, the points of its criteria, by `points`."""
    for sample in samples:
        identity = release.benchmark, sample["task"]
        rubric_facets = (
            registry.facets(*identity, rubric["traps"], (), sample["content"]) for rubric in sample["rubrics"]
        )
        other_facets = {name: values for name, values in sample["facets"].items() if name != facet}
        yield {**sample, "facets": other_facets, "points": [json.loads(facets[facet][0]) for facets in rubric_facets]}


def _source_texts(release: Release, split: str) -> Iterator[references.SourceTexts]:
    """The texts that each sample may quote: its source record's and those joined with it."""
    for chunk in queries.in_order(release, split, "version__sample__record"):
        records = SourceRecord.objects.select_related("source").defer("private").in_bulk({pk for (pk,) in chunk})
        joined = sources_queries.partners(list(records.values()))
        for (pk,) in chunk:
            quoted_records = (records[pk], *joined[pk])
            yield references.SourceTexts(
                ((record.source.name, record.external_id), record.content) for record in quoted_records
            )


def _write_references(release: Release, split: str, path: Path) -> tuple[Path, dict[str, str]]:
    """Replace a file with one sample on each line by one without the text of the sources.

    Returns the new file and its entry in the manifest.
    """
    target = path.with_name(f"{path.stem}.references.jsonl")
    with (
        path.open(encoding="utf-8", newline="\n") as lines,
        target.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(references.by_reference(lines, _source_texts(release, split)))
    entry = {"path": path.name, "references": target.name, "sha256": sha256_of(path)}
    path.unlink()
    return target, entry


def export_release(
    release: Release,
    format_name: str,
    folder: Path,
    *,
    split: str = ReleasedSample.Split.PUBLIC,
    by_reference: bool = False,
    stages: str = "",
) -> dict[str, Any]:
    """Write a release into `folder` (created if absent) and return the manifest.

    The files are data, `DATACARD.md`, the audit trail of its samples, ratings, programs,
    `manifest.json` and `SHA256SUMS`. The same release gives the same bytes. `by_reference`: leave
    out the text of the sources; `restore_release.py` puts it back from their original files.
    `stages`: of reasoning, for a training format. Raises like `check_samples`.
    """
    check_samples(release, format_name, by_reference=by_reference, stages=stages)
    folder.mkdir(parents=True, exist_ok=True)
    files = list(files_of(release, format_name, folder, split=split, by_reference=by_reference, stages=stages))
    manifest_files = [path for path in files if path.name not in (MANIFEST, SUMS)]
    header = {"release": release.name, "version": release.version, "format": format_name, "split": split}
    return {**header, **manifest(folder, manifest_files)}


def files_of(
    release: Release,
    format_name: str,
    folder: Path,
    *,
    split: str = ReleasedSample.Split.PUBLIC,
    by_reference: bool = False,
    stages: str = "",
) -> Iterator[Path]:
    """Write the files into the existing `folder` one by one; each may be removed once yielded."""
    sums = Checksums(folder)
    card = folder / "DATACARD.md"
    text = data_card(release, by_reference=by_reference)
    card.write_text(text, encoding="utf-8", newline="\n")
    yield sums.add(card)
    exporter = check_fits(release, format_name, stages=stages)
    about = metadata(release, split)
    if readme := exporter.readme(text, about):
        path = folder / "README.md"
        path.write_text(readme, encoding="utf-8", newline="\n")
        yield sums.add(path)
    images: dict[str, None] = {}
    splits = supervision.SPLITS if exporter.supervises else None
    samples = _collect_images(exported_samples(release, split), images, splits)
    reference_entry: dict[str, Any] = {}
    if exporter.asks or exporter.may_ask:
        samples = _with_messages(release, samples, judges=exporter.judges, required=exporter.asks)
    if (exporter.weighs or exporter.judges) and (facet := registry.points_facet(release.benchmark)):
        samples = _with_points(release, samples, facet)
    if exporter.supervises:
        samples = _with_supervision(release, samples, stages)
    if exporter.trains:
        samples = _with_training(release, samples)
    for data_path in exporter.write(samples, folder, about):
        path = data_path
        if by_reference and path.name == exporter.lines:
            path, reference_entry["by_reference"] = _write_references(release, split, path)
        yield sums.add(path)
    if not by_reference:  # images come from the sources, so they are left out then
        for path in _write_images(images, folder):
            yield sums.add(path)
    for path in audit_bundle.write(release, folder, split):
        yield sums.add(path)
    for path in ratings.write(release, split, folder, quoted=not by_reference):
        yield sums.add(path)
    if "agreement" in release.about:
        path = folder / "agreement.json"
        lines = json.dumps(release.about["agreement"][split], indent=1, sort_keys=True)
        path.write_text(lines + "\n", encoding="utf-8", newline="\n")
        yield sums.add(path)
    programs = {module.__name__.rpartition(".")[2]: module for module in (verify_release, restore_release)}
    if not by_reference:
        del programs["restore_release"]
    for name, module in {**programs, "review/quality/agreement": agreement}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(module.__file__), path)
        yield sums.add(path)
    path = folder / "croissant.json"
    tables = {"ratings": COLUMNS, "highlights": ratings.HIGHLIGHT_COLUMNS}
    described = json.dumps(croissant(about, sums.entries, tables), indent=1, ensure_ascii=False)
    path.write_text(described + "\n", encoding="utf-8", newline="\n")
    yield sums.add(path)
    # Releases frozen before these counts existed must keep their bytes.
    header = {"made": release.provenance, "grounds": release.grounds} if release.grounds else {}
    header |= {"reviewers": release.reviewers} if release.simulated_samples else {}
    if release.canary:
        digest = release.sha256 if split == ReleasedSample.Split.PUBLIC else release.held_out_sha256
        header |= {"split": split, "sha256": digest, "canary": release.canary}
    last = sums.write(header | reference_entry)
    exports.anchor(folder, verify_release.title(about))
    yield from last


def metadata(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> dict[str, Any]:
    """What an exporter and the Croissant file say about the release."""
    samples = ReleasedSample.objects.filter(release=release, split=split)
    first = samples.order_by("position").first()
    judging = registry.judging(release.benchmark)
    if judging is not None:
        arms = set(samples.values_list("version__sample__arm", flat=True).distinct())
        judging["rates"] = [
            rate for rate in judging["rates"] if rate["arm"] != Sample.Arm.CONTROL or rate["arm"] in arms
        ]
        judging |= {"release": f"{release.name}@{release.version}", "sha256": release.sha256}
    return {
        "name": release.name,
        "version": f"{release.version}.0.0",
        "date": release.created_at.date().isoformat(),
        "description": f"A release of the benchmark {release.benchmark}: {release.samples_count} samples."
        + (f" Canary: {release.canary}" if release.canary else ""),
        "citation": " ".join(
            filter(None, (release.about.get("card", {}).get("citation"), *(s["citation"] for s in release.sources)))
        ),
        "languages": list(release.about.get("counts", {}).get("language", {})),
        "samples": release.samples_count,
        "split_samples": samples.count(),
        "columns": list(first.exported) if first else [],
        "licences": sorted({source["licence"] for source in release.sources}),
        "judging": judging,
        "rai": responsible_use(release),
    }


def open_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> IO[bytes]:
    """Open the JSON Lines of a release for reading; the file disappears when it is closed."""
    with temporary_folder() as folder:
        [path] = jsonl.JsonLinesExporter().write(exported_samples(release, split), folder)
        return path.open("rb")
