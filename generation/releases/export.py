"""Exports releases as files."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.db.models import Exists, OuterRef, QuerySet
from pydantic import Field

from generation import errors
from generation.common.temporary import temporary_folder
from generation.images.files import open_image
from generation.jobs.settings import Settings
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Sample, SourceRecord
from generation.recipes import registry
from generation.releases import audit_bundle, exporters, integrity, queries, ratings
from generation.releases.data_card import data_card, responsible_use, shown_frozen_probes
from generation.releases.exporters import jsonl, references, supervision
from generation.releases.exporters.croissant import croissant
from generation.releases.exporters.manifest import MANIFEST, Checksums, sha256_of
from generation.releases.programs import restore_release, verify_release
from generation.releases.programs.verify_release import COLUMNS
from generation.releases.queries import exported_samples
from generation.sources import queries as sources_queries
from review.audit import exports
from review.quality import agreement

MAX_NAMED = 10  # samples that an error message names


class ExportSettings(Settings):
    """What an export of a release takes, beside its format."""

    split: ReleasedSample.Split = Field(
        ReleasedSample.Split.PUBLIC, description="Held-out samples are for admins only."
    )
    stages: str = Field(
        "",
        description="Stages of reasoning, for the format supervision: answer, V, K, V+K, V+K+R.",
        max_length=40,
    )
    by_reference: bool = Field(
        False,
        description="Leave out the text of the sources; restore_release.py, beside it, puts it back from their original"
        " files.",
    )


def stages_of(release: Release, format_name: str) -> tuple[str, ...]:
    """The stages of reasoning that this format offers, the default last; empty if it has none."""
    supervised = None
    if exporters.load(format_name).supervises:
        supervised = registry.supervision(release.benchmark)
    if supervised is not None:
        return tuple(supervised.STAGES)
    return ()


def fitting_formats(release: Release, *, by_reference: bool = False) -> list[tuple[str, str]]:
    """The formats that can hold this release, with their labels."""
    choices = []
    for name in exporters.available():
        with contextlib.suppress(errors.FormatDoesNotFit, errors.NotByReference, errors.NoSupervision):
            choices.append((name, Export(release, name, by_reference=by_reference).check_fit().label))
    return choices


@dataclass(frozen=True, slots=True)
class Export:
    """One split of a release in a format.

    `by_reference`: leave out the text of the sources; `restore_release.py` puts it back from their
    original files. `stages`: of reasoning, for a training format; empty: its default.
    """

    release: Release
    format_name: str
    split: str = ReleasedSample.Split.PUBLIC
    by_reference: bool = False
    stages: str = ""

    def check_fit(self) -> exporters.Exporter:
        """Check that the format can hold the release, and return its exporter.

        Raises UnknownExportFormat, FormatDoesNotFit, UntrainedFormat, NotByReference,
        NoSupervision, WrongStages.
        """
        exporter, benchmark = exporters.load(self.format_name), self.release.benchmark
        if self.by_reference and not exporter.lines:
            raise errors.NotByReference(self.format_name)
        if exporter.supervises:
            known = stages_of(self.release, self.format_name)
            samples = ReleasedSample.objects.filter(
                release=self.release, exported__content__split__in=supervision.SPLITS
            )
            if not known or not samples.exists():
                raise errors.NoSupervision
            if self.stages and self.stages not in known:
                raise errors.WrongStages(f"{self.stages!r}; known: {', '.join(known)}")
        elif self.stages:
            raise errors.WrongStages(f"{self.format_name} has none.")
        if exporter.judges and registry.judging(benchmark) is None:
            raise errors.FormatDoesNotFit(self.format_name)
        if exporter.asks or exporter.trains:
            first = ReleasedSample.objects.filter(release=self.release).earliest("position")
            identity = (benchmark, first.key, first.task, first.exported["content"])
            if exporter.asks and registry.question_messages(*identity) is None:
                raise errors.FormatDoesNotFit(self.format_name)
            if exporter.trains and registry.training_example(*identity) is None:
                raise errors.UntrainedFormat(self.format_name)
        return exporter

    def check_samples(self) -> None:
        """Check the format against the samples of the split.

        Raises what `check_fit` raises, ReleaseAltered, and NoPositivePoints, which names samples.
        """
        integrity.check_release(self.release)
        if not self.check_fit().earns:
            return
        earning: QuerySet[Any] = ReleasedRubric.objects.filter(sample=OuterRef("pk"))
        if facet := registry.points_facet(self.release.benchmark):
            values = Facet.objects.filter(rubric__sample=OuterRef("pk"), name=facet)
            earning = values.exclude(value__startswith="-").exclude(value="0")
        samples = ReleasedSample.objects.filter(release=self.release, split=self.split).order_by("position")
        keys = list(samples.filter(~Exists(earning)).values_list("key", flat=True)[: MAX_NAMED + 1])
        if not keys:
            return
        named = ", ".join(keys[:MAX_NAMED])
        if len(keys) > MAX_NAMED:
            named += ", …"
        raise errors.NoPositivePoints(named)

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the files into `folder` (created if absent), and return the manifest.

        The files are data, `DATACARD.md`, the audit trail of its samples, ratings, programs,
        `manifest.json` and `SHA256SUMS`. The same release gives the same bytes. Raises like
        `check_samples`.
        """
        self.check_samples()
        folder.mkdir(parents=True, exist_ok=True)
        for _path in self.files(folder):
            pass
        header = {"release": self.release.name, "version": self.release.version, "format": self.format_name}
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return {**header, "split": self.split, "files": manifest["files"]}

    def files(self, folder: Path) -> Iterator[Path]:
        """Write the files into the existing `folder`; each may be removed once yielded."""
        release, split, sums = self.release, self.split, Checksums(folder)
        exporter, about = exporters.load(self.format_name), metadata(release, split)

        def written(name: str, text: str) -> Path:
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
            return sums.add(folder / name)

        trains = exporter.trains or exporter.supervises
        if trains:
            about["description"] = about["description"].partition(" Canary: ")[0]
            about["rai"]["dataUseCases"] = ["Training models; not for measuring models that were trained on it."]
        card = data_card(release, by_reference=self.by_reference, trains=trains)
        yield written("DATACARD.md", card)
        if readme := exporter.readme(card, about):
            yield written("README.md", readme)
        images: dict[str, None] = {}
        reference_entry: dict[str, Any] = {}
        for data_path in exporter.write(self._samples(exporter, images), folder, about):
            path = data_path
            if self.by_reference and path.name == exporter.lines:
                path, reference_entry["by_reference"] = _write_references(release, split, path)
            yield sums.add(path)
        if not self.by_reference:  # images come from the sources
            for name in images:
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(open_image(path.stem)[1])
                yield sums.add(path)
        yield from map(sums.add, audit_bundle.write(release, folder, split))
        yield from map(sums.add, ratings.write(release, split, folder, quoted=not self.by_reference))
        if "agreement" in release.about:
            figures = json.dumps(release.about["agreement"][split], indent=1, sort_keys=True)
            yield written("agreement.json", f"{figures}\n")
        if (probes := shown_frozen_probes(release)) is not None:
            yield written("probes.json", f"{json.dumps(probes, indent=1, ensure_ascii=False)}\n")
        restoring = {}
        if self.by_reference:
            restoring = {"restore_release": restore_release}
        programs = {"verify_release": verify_release, **restoring, "review/quality/agreement": agreement}
        for name, module in programs.items():
            path = folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(module.__file__), path)
            yield sums.add(path)
        tables = {"ratings": COLUMNS, "highlights": ratings.HIGHLIGHT_COLUMNS}
        described = json.dumps(croissant(about, sums.entries, tables), indent=1, ensure_ascii=False)
        yield written("croissant.json", f"{described}\n")
        last = sums.write(_manifest_header(release, split) | reference_entry)
        exports.anchor(folder, verify_release.title(about))
        yield from last

    def _samples(self, exporter: exporters.Exporter, images: dict[str, None]) -> Iterator[dict[str, Any]]:
        """The samples with what the format needs beside them.

        The names of their images are collected in `images`. Raises FormatDoesNotFit.
        """
        benchmark = self.release.benchmark
        supervised = None
        if exporter.supervises:
            supervised = registry.supervision(benchmark)
        stages = self.stages
        if supervised is not None and not stages:
            stages = list(supervised.STAGES)[-1]
        facet = ""
        if exporter.weighs or exporter.judges:
            facet = registry.points_facet(benchmark)
        for sample in exported_samples(self.release, self.split):
            content, needed = sample["content"], dict[str, Any]()
            identity = (benchmark, sample["sample_id"], sample["task"], content)
            if exporter.asks:
                needed["messages"] = registry.question_messages(*identity)
            if exporter.may_ask:
                needed["messages"] = registry.question_messages(*identity) or []
            if exporter.judges:
                needed["judging"] = registry.judge_messages(*identity)
            if exporter.trains:
                needed["training"] = registry.training_example(*identity)
            if supervised is not None:
                needed["training"] = supervised.example(content, stages)
            if facet:  # the facet with the points of the criteria is replaced by `points`
                needed["points"] = []
                for rubric in sample["rubrics"]:
                    facets = registry.facets(benchmark, sample["task"], rubric["traps"], (), content)
                    needed["points"].append(json.loads(facets[facet][0]))
                needed["facets"] = {name: values for name, values in sample["facets"].items() if name != facet}
            if None in needed.values():
                raise errors.FormatDoesNotFit(sample["sample_id"])
            if supervised is None or content.get("split") in supervision.SPLITS:
                images.update(dict.fromkeys(content.get("image_files", ())))
            yield sample | needed


def _manifest_header(release: Release, split: str) -> dict[str, Any]:
    """What the manifest says of the release.

    Releases frozen before these counts existed must keep their bytes.
    """
    header = {}
    if release.grounds:
        header = {"made": release.provenance, "grounds": release.grounds}
    if release.simulated_samples:
        header["reviewers"] = release.reviewers
    if release.canary:
        if split == ReleasedSample.Split.PUBLIC:
            digest = release.sha256
        else:
            digest = release.held_out_sha256
        header |= {"split": split, "sha256": digest, "canary": release.canary}
    return header


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


def metadata(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> dict[str, Any]:
    """What an exporter and the Croissant file say about the release."""
    samples = ReleasedSample.objects.filter(release=release, split=split)
    first = samples.order_by("position").first()
    judging = registry.judging(release.benchmark)
    if judging is not None:
        arms = set(samples.values_list("version__sample__arm", flat=True).distinct())
        if Sample.Arm.CONTROL not in arms:
            judging["rates"] = [rate for rate in judging["rates"] if rate["arm"] != Sample.Arm.CONTROL]
        judging |= {"benchmark": release.benchmark, "release": release.reference, "sha256": release.sha256}
    description = f"A release of the benchmark {release.benchmark}: {release.size}."
    if release.canary:
        description += f" Canary: {release.canary}"
    citations = [release.about.get("card", {}).get("citation", "")]
    citations += [source["citation"] for source in release.sources]
    columns: list[str] = []
    if first:
        columns = list(first.exported)
    return {
        "name": release.name,
        "version": f"{release.version}.0.0",
        "date": release.created_at.date().isoformat(),
        "description": description,
        "citation": " ".join(filter(None, citations)),
        "languages": list(release.about.get("counts", {}).get("language", {})),
        "samples": samples.count(),
        "columns": columns,
        "licences": sorted({source["licence"] for source in release.sources}),
        "judging": judging,
        "rai": responsible_use(release),
    }


def open_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> IO[bytes]:
    """Open the JSON Lines of a release for reading; the file disappears when it is closed.

    Raises ReleaseAltered.
    """
    integrity.check_release(release)
    with temporary_folder() as folder:
        [path] = jsonl.JsonLinesExporter().write(exported_samples(release, split), folder)
        return path.open("rb")
