"""Freezes approved samples into releases."""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet
from django.utils import timezone

from generation import errors
from generation.models import (
    BatchRole,
    Facet,
    Release,
    ReleasedRubric,
    ReleasedSample,
    Rubric,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.recipes import registry
from generation.recipes.recipe import Term
from generation.releases.exporters import jsonl
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries
from review.audit import verification
from review.models import User
from review.rules.state_machine import NOT_SAMPLED, Ground

CHUNK = 200
# Of a comparison's two samples of one record only the first is released: they are alike by design.
_SECOND_OF_A_PAIR = Q(
    Exists(
        SampleVersion.objects.filter(
            status=SampleVersion.Status.APPROVED,
            sample__record=OuterRef("sample__record"),
            sample__batch__comparison=OuterRef("sample__batch__comparison"),
            sample__batch__arm="A",
        )
    ),
    sample__batch__arm="B",
)
_COUNTED = Q(case__reviews__retraction__isnull=True)
_SIMULATED = _COUNTED & Q(case__reviews__physician__simulated=True)


def preview(name: str, *, benchmark: str) -> "FreezePreview":
    """What `freeze_release` would freeze now. Raises as it does, but NothingNew: that takes writing everything out."""
    latest = _latest(name, benchmark)
    grounds = Counter(_chosen(benchmark).order_by().values_list("case__ground", flat=True))
    if not grounds:
        raise errors.NothingApproved(benchmark)
    left = SampleVersion.objects.filter(sample__benchmark=benchmark).order_by().values_list("status")
    others = dict(left.exclude(status=SampleVersion.Status.APPROVED).annotate(n=Count("pk")))
    pairs = SampleVersion.objects.filter(_SECOND_OF_A_PAIR, status=SampleVersion.Status.APPROVED)
    return FreezePreview(
        release=f"{name} v{latest.version + 1 if latest else 1}",
        approved=grounds.total() - grounds[Ground.UNREVIEWED],
        not_sampled=grounds[Ground.UNREVIEWED],
        grounds=dict(sorted(grounds.items())),
        simulated=_chosen(benchmark).filter(simulated=True).count(),
        before=latest.samples_count if latest else 0,
        in_review=others.get(SampleVersion.Status.IN_REVIEW, 0),
        second_of_a_pair=pairs.filter(sample__benchmark=benchmark).count(),
    )


@dataclass(frozen=True, slots=True)
class FreezePreview:
    """What would go into a release, by status, and what would not (yet). `before`: samples of the version before it."""

    release: str
    approved: int
    not_sampled: int
    grounds: Mapping[str, int]
    simulated: int
    before: int
    in_review: int
    second_of_a_pair: int

    @property
    def seen(self) -> str:
        """The counts as a form sends them back: another string means that something has changed since."""
        return f"{self.approved}+{self.not_sampled}"


def _latest(name: str, benchmark: str) -> Release | None:
    """The version before the one to be frozen. Raises OtherBenchmark, ValidationError, UnknownBenchmark."""
    registry.recipe(benchmark)
    Release._meta.get_field("name").clean(name, None)
    latest = Release.objects.filter(name=name).order_by("-version").first()
    if latest is not None and latest.benchmark != benchmark:
        raise errors.OtherBenchmark(latest.benchmark)
    return latest


def _chosen(benchmark: str) -> QuerySet[SampleVersion]:
    rows = SampleVersion.objects.filter(
        status=SampleVersion.Status.APPROVED, sample__benchmark=benchmark, sample__arm="trap"
    )
    return rows.exclude(_SECOND_OF_A_PAIR)


@transaction.atomic
def freeze_release(name: str, *, benchmark: str, actor: User | None = None) -> Release:
    """Freeze all approved samples of a benchmark as the next version of the release `name`.

    Raises:
        NothingApproved: there is none. NothingNew: they are exactly those of the latest version. OtherBenchmark: the name
        is taken by a release of another benchmark. ValidationError: `name` is no name for a release.
    """
    latest = _latest(name, benchmark)
    # Chosen once: an approval that arrives while we write belongs to the next version.
    ids = list(_chosen(benchmark).order_by("sample_id").values_list("pk", flat=True))
    if not ids:
        raise errors.NothingApproved(benchmark)
    terms = samples_queries.terms(benchmark)
    tally = _Tally(benchmark, terms)
    with tempfile.TemporaryDirectory() as folder:
        [path] = jsonl.write(tally.over(sample for _, sample in _approved(ids, terms)), Path(folder))
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    if latest is not None and latest.sha256 == digest:
        raise errors.NothingNew(str(latest))
    release = Release.objects.create(
        name=name,
        version=latest.version + 1 if latest else 1,
        benchmark=benchmark,
        samples_count=tally.samples,
        rubrics_count=tally.rubrics,
        counts=tally.counts(),
        sources=_sources(ids),
        generators=_generators(ids),
        made=tally.made(),
        grounds=dict(sorted(tally.grounds.items())),
        reviewers={**_reviewers(ids), "simulated_samples": tally.simulated_reviews},
        simulated=tally.simulated,
        sha256=digest,
        created_by=actor,
        created_at=timezone.now(),
        trail_end=verification.end(),
    )
    entries = enumerate(_approved(ids, terms))
    while chunk := list(islice(entries, CHUNK)):
        _store(release, chunk, terms)
    return release


def _approved(ids: list[int], terms: tuple[Term, ...]) -> Iterator[tuple[SampleVersion, dict[str, Any]]]:
    """Each version with its export object, in the order of `ids`; rows are read `CHUNK` at a time."""
    for start in range(0, len(ids), CHUNK):
        rows = (
            SampleVersion.objects.filter(pk__in=ids[start : start + CHUNK])
            .select_related("sample__record__source", "case")
            .prefetch_related(Prefetch("rubrics", Rubric.objects.order_by("pk")))
            .annotate(reviews_count=Count("case__reviews__physician", filter=_COUNTED, distinct=True))
            .annotate(simulated_count=Count("case__reviews__physician", filter=_SIMULATED, distinct=True))
            .order_by("sample_id")
        )
        for version in rows:
            yield version, _exported(version, terms)


def _exported(version: SampleVersion, terms: tuple[Term, ...]) -> dict[str, Any]:
    sample, source = version.sample, version.sample.record.source
    simulated = getattr(version, "simulated_count", 0)
    rubrics = [
        {"key": r.key, "criterion": r.approved or r.criterion, "traps": r.traps, "severity": r.severity}
        for r in version.rubrics.all()
        if not r.removed
    ]
    facets: dict[str, list[str]] = {}
    for rubric in rubrics:
        for name, values in _facets(sample.benchmark, sample.task, rubric, version.content, terms).items():
            facets[name] = sorted({*facets.get(name, []), *values})
    return {
        "sample_id": sample.key,
        "version": version.number,
        "benchmark": sample.benchmark,
        "task": sample.task,
        "simulated": version.simulated,
        "source": {
            "dataset": source.name,
            "format": source.format,
            "id": sample.record.external_id,
            "licence": source.licence,
        },
        "content": version.content,
        "facets": facets,
        "citations": version.citations,
        "made": version.made,
        "review": {"ground": version.case.ground, "physicians": getattr(version, "reviews_count", 0)}
        # Named only where it is so: samples that people reviewed keep their bytes.
        | ({"status": NOT_SAMPLED} if version.case.ground == Ground.UNREVIEWED else {})
        | ({"simulated_physicians": simulated} if simulated else {}),
        "rubrics": rubrics,
    }


def _facets(
    benchmark: str, task: str, rubric: Mapping[str, Any], content: Mapping[str, Any], terms: tuple[Term, ...]
) -> dict[str, list[str]]:
    """Under which values a rubric is counted, by its traps and the content of its sample: the benchmark's own facets, and the
    severity where physicians gave one."""
    harm = {"severity": [rubric["severity"]]} if rubric["severity"] else {}
    return {**registry.facets(benchmark, task, rubric["traps"], terms, content), **harm}


class _Tally:
    """Counts what passes by: samples and rubrics per task and per value of each facet, how samples were made and approved."""

    def __init__(self, benchmark: str, terms: tuple[Term, ...]) -> None:
        self._benchmark, self._terms = benchmark, terms
        self.samples = self.rubrics = self.simulated_reviews = 0
        self.simulated = False
        self.grounds: Counter[str] = Counter()
        self._made: dict[str, Counter[str]] = defaultdict(Counter)
        self._counts: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)

    def over(self, exported: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for sample in exported:
            self.samples += 1
            self.rubrics += len(sample["rubrics"])
            self.simulated |= sample["simulated"]
            self.simulated_reviews += "simulated_physicians" in sample["review"]
            self.grounds[sample["review"]["ground"]] += 1
            for name, value in sample["made"].items():
                self._made[name][value] += 1
            self._add("task", sample["task"], 1, len(sample["rubrics"]))
            for name, values in sample["facets"].items():
                for value in values:
                    self._add(name, value, 1, 0)
            for rubric in sample["rubrics"]:
                facets = _facets(self._benchmark, sample["task"], rubric, sample["content"], self._terms)
                for name, values in facets.items():
                    for value in values:
                        self._add(name, value, 0, 1)
            yield sample

    def _add(self, facet: str, value: str, samples: int, rubrics: int) -> None:
        cell = self._counts[facet].setdefault(value, {"samples": 0, "rubrics": 0})
        cell["samples"] += samples
        cell["rubrics"] += rubrics

    def made(self) -> dict[str, dict[str, int]]:
        return {name: dict(sorted(values.items())) for name, values in sorted(self._made.items())}

    def counts(self) -> dict[str, dict[str, dict[str, int]]]:
        return {name: dict(sorted(values.items())) for name, values in sorted(self._counts.items())}


def _sources(ids: list[int]) -> list[dict[str, Any]]:
    """The sources of the samples, and those whose records were joined with theirs when they were made, with how many samples
    each had a part in."""
    found: dict[int, int] = defaultdict(int)
    joined: dict[int, int] = defaultdict(int)
    for start in range(0, len(ids), CHUNK):
        part = SampleVersion.objects.filter(pk__in=ids[start : start + CHUNK]).order_by()
        for source_id, n in part.values_list("sample__record__source").annotate(n=Count("pk")):
            found[source_id] += n
        made = list(part.values_list("sample__record", "created_at"))
        records = SourceRecord.objects.only("pk").filter(samples__versions__in=part).distinct()
        partners = sources_queries.partners(list(records))
        for record_id, at in made:
            near = {one.source_id for one in partners[record_id] if one.source.created_at <= at}
            for source_id in near:
                joined[source_id] += 1
    own, joined_to = [_as_released(found, joined=False), _as_released(joined, joined=True)]
    return [*own, *(source for source in joined_to if source["name"] not in {one["name"] for one in own})]


def _as_released(found: Mapping[int, int], *, joined: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": source.name,
            "label": source.label,
            "licence": source.licence,
            "citation": source.citation,
            "restrictions": source.restrictions,
            "samples": found[source.pk],
            "joined": joined,
        }
        for source in Source.objects.filter(pk__in=found).order_by("name")
    ]


def _reviewers(ids: list[int]) -> dict[str, int]:
    """How many accounts reviewed these samples, and how many of them are simulated."""
    found: dict[int, bool] = {}
    for start in range(0, len(ids), CHUNK):
        part = SampleVersion.objects.filter(_COUNTED, pk__in=ids[start : start + CHUNK]).order_by()
        who = part.values_list("case__reviews__physician", "case__reviews__physician__simulated")
        found.update((key, simulated) for key, simulated in who.distinct() if key is not None)
    return {"physicians": len(found), "simulated": sum(found.values())}


def _generators(ids: list[int]) -> list[str]:
    """The models that made these samples, as `model (endpoint)`: named with the release, so that the card cannot drift."""
    bound: set[str] = set()
    for start in range(0, len(ids), CHUNK):
        part = BatchRole.objects.filter(batch__samples__versions__in=ids[start : start + CHUNK])
        bound.update(f"{model} ({name})" for model, name in part.values_list("endpoint__model", "endpoint__name"))
    return sorted(bound)


def _store(
    release: Release, chunk: list[tuple[int, tuple[SampleVersion, dict[str, Any]]]], terms: tuple[Term, ...]
) -> None:
    samples = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release,
            position=position,
            version=version,
            key=exported["sample_id"],
            task=exported["task"],
            exported={name: value for name, value in exported.items() if name != "rubrics"},
        )
        for position, (version, exported) in chunk
    )
    told = [
        (sample, rubric, exported["content"])
        for sample, (_position, (_version, exported)) in zip(samples, chunk, strict=True)
        for rubric in exported["rubrics"]
    ]
    rubrics = ReleasedRubric.objects.bulk_create(ReleasedRubric(sample=sample, **rubric) for sample, rubric, _ in told)
    Facet.objects.bulk_create(
        Facet(rubric=row, name=name, value=value)
        for row, (sample, rubric, content) in zip(rubrics, told, strict=True)
        for name, values in _facets(release.benchmark, sample.task, rubric, content, terms).items()
        for value in values
    )
