"""Reads releases."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import Count, Exists, F, Func, JSONField, Max, OuterRef, Q, QuerySet, Value
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.models import Batch, Freeze, Release, ReleasedRubric, ReleasedSample, Rubric, SampleVersion, Source
from generation.recipes import registry
from generation.releases.exporters.base import RUBRIC
from generation.releases.freezing.card_fields import CARD_FIELDS
from generation.releases.freezing.content import FacetCache, FacetCounts
from generation.samples import funnel
from generation.samples.funnel import FunnelReport
from generation.samples.queries import term_label, terms, visible_to
from generation.samples.validity import Validity
from generation.sources import importers
from review.rules.permissions import Can, require
from review.rules.state_machine import Ground
from review.rules.text import whole_number

READ = 250  # samples in one query
STREAMED = 2_000  # rubrics in memory at a time


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The numbers of samples and rubrics with a taxonomy term; `cluster`: its parent's label."""

    label: str
    cluster: str
    samples: int
    rubrics: int


def term_counts(benchmark: str, counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[TermCounts]:
    """The taxonomy's terms that have a parent, with their `counts`.

    `counts`: facet -> value -> {"samples", "rubrics"}. In a taxonomy of one level, all terms. Terms
    without samples are included with 0, because missing ones are what makers look for.
    """
    by_code: dict[str, Mapping[str, int]] = {}
    for values in counts.values():
        by_code |= values
    taxonomy = terms(benchmark)
    labels = {term.code: gettext(term.label) for term in taxonomy}
    zero = {"samples": 0, "rubrics": 0}
    subtypes = [term for term in taxonomy if term.parent]
    rows = []
    for term in subtypes or taxonomy:
        cluster = f"{term.parent} {labels.get(term.parent, '')}".strip()
        rows.append(
            TermCounts(label=term_label(term.code, term.label), cluster=cluster, **by_code.get(term.code, zero))
        )
    return rows


def composition(batch: Batch) -> dict[str, dict[str, dict[str, int]]]:
    """A batch's composition so far, counted as in a release.

    As facet -> value -> {"samples", "rubrics"}. Counts the current version of each sample (in
    review or approved). One query besides the taxonomy's, which reads only those fields of their
    content that the benchmark counts by.
    """
    cache, counts = FacetCache(batch.benchmark, terms(batch.benchmark)), FacetCounts()
    fields = registry.facet_fields(batch.benchmark)
    if fields is None:
        columns = ["version__content"]
    else:
        columns = [_field(name) for name in fields]
    current = (SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED)
    rows = Rubric.objects.filter(version__sample__batch=batch, version__status__in=current).order_by("version")
    read = rows.values_list("version", "version__sample__task", "traps", *columns).iterator(chunk_size=STREAMED)
    for (_version, task), group in groupby(read, itemgetter(0, 1)):
        rubrics = list(group)
        values = rubrics[0][3:]
        if fields is None:
            content = values[0]
        else:
            content = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        per_rubric = [(traps, "") for _version, _task, traps, *_values in rubrics]
        counts.add(task, cache.of_sample(task, content, per_rubric))
    return counts.counts()


def _field(name: str) -> Any:
    """A field of a rubric's sample. SQLite gives texts unquoted: "4" would be read as a number."""
    if connection.vendor != "sqlite":
        return KeyTransform(name, "version__content")
    read = Func(F("version__content"), Value(f'$."{name}"'), function="JSON_EXTRACT", output_field=JSONField())
    return Func(read, function="JSON_QUOTE", output_field=JSONField())


def task_shares(release: Release) -> dict[str, float]:
    """The share of each task among the samples of a release."""
    counts = {task: count["samples"] for task, count in release.counts.get("task", {}).items()}
    return shares_of(counts)


def shares_of(counts: Mapping[str, int]) -> dict[str, float]:
    """The share of each count in their sum, rounded to four digits."""
    total = sum(counts.values())
    if total:
        return {name: round(n / total, 4) for name, n in counts.items()}
    return {}


def releases(*, text: str = "", benchmark: str = "") -> QuerySet[Release]:
    """All releases, newest first. `text`: part of the name."""
    rows = Release.objects.select_related("created_by").filter(name__icontains=text).order_by("-pk")
    if benchmark:
        return rows.filter(benchmark=benchmark)
    return rows


def freezes() -> QuerySet[Freeze]:
    """All freezes, newest first."""
    return Freeze.objects.select_related("release", "created_by").order_by("-pk")


def shown_freezes() -> list[Freeze]:
    """Unfinished freezes, and those that failed within a day; others are releases."""
    unfinished = Q(status__in=[Freeze.Status.QUEUED, Freeze.Status.RUNNING])
    failed = Q(status=Freeze.Status.FAILED, finished_at__gte=timezone.now() - timedelta(days=1))
    return list(freezes().filter(unfinished | failed)[:20])


def approved_counts() -> dict[str, tuple[int, int]]:
    """Benchmark -> the numbers of approved samples, and of those that no physician reviewed."""
    approved = SampleVersion.objects.filter(status=SampleVersion.Status.APPROVED).order_by("sample__benchmark")
    unreviewed_count = Count("pk", filter=Q(case__ground=Ground.UNREVIEWED))
    rows = approved.values_list("sample__benchmark").annotate(n=Count("pk"), aside=unreviewed_count)
    return {benchmark: (n, unreviewed) for benchmark, n, unreviewed in rows}


def readable_split(reader: Any, split: str) -> str:
    """A split of a release. Raises NotAllowed if it is the held-out one and `reader` no admin."""
    if split != ReleasedSample.Split.PUBLIC:
        require(reader, Can.PRODUCE, reading=True)
    return split


def released_samples(
    release: Release, reader: object, *, text: str = "", task: str = "", facet: str = "", split: str = ""
) -> QuerySet[ReleasedSample]:
    """The samples of a release that `reader` may see, in its order, with the title of each.

    `text` is searched in keys, titles and criteria; `facet`: NAME=VALUE.
    """
    rows = visible_to(reader, ReleasedSample.objects.filter(release=release))
    rows = rows.annotate(title=F("version__title")).order_by("pk")
    if task:
        rows = rows.filter(task=task)
    if split:
        rows = rows.filter(split=split)
    rubrics = ReleasedRubric.objects.filter(sample=OuterRef("pk"))
    if facet:
        name, _equals, value = facet.partition("=")
        rows = rows.filter(Exists(rubrics.filter(facets__name=name, facets__value=value)))
    if text:
        in_criteria = Exists(rubrics.filter(criterion__icontains=text))
        rows = rows.filter(Q(key__icontains=text) | Q(version__title__icontains=text) | in_criteria)
    return rows


def in_order(release: Release, split: str, *columns: str) -> Iterator[list[tuple[Any, ...]]]:
    """Columns of the samples of one split of a release ("": of all), in order, in chunks.

    Each chunk is read by its positions. For a cursor outside of a transaction, PostgreSQL would
    write down the whole result before it returns the first row. And for a LIMIT it would sort all
    remaining rows for each chunk, as long as it does not know how large a release is.
    """
    rows = ReleasedSample.objects.filter(release=release).order_by("position")
    selected = rows.values_list(*columns)
    if split:
        selected = selected.filter(split=split)
    end = rows.aggregate(end=Max("position") + 1)["end"] or 0
    for start in range(0, end, READ):
        if chunk := list(selected.filter(position__range=(start, start + READ - 1))):
            yield chunk


def rubrics_of(samples: Collection[int]) -> Mapping[int, list[dict[str, Any]]]:
    """Sample -> its rubrics in the release, as they are exported."""
    rubrics: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in ReleasedRubric.objects.filter(sample__in=samples).order_by("pk").values("sample_id", *RUBRIC):
        rubrics[row.pop("sample_id")].append(row)
    return rubrics


def exported_samples(release: Release, split: str = ReleasedSample.Split.PUBLIC) -> Iterator[dict[str, Any]]:
    """The export objects of one split of a release, in order, streamed."""
    for chunk in in_order(release, split, "pk", "exported"):
        rubrics = rubrics_of([pk for pk, _exported in chunk])
        for pk, exported in chunk:
            for rubric in rubrics[pk]:
                if not rubric["polarity"]:
                    del rubric["polarity"]  # absent if frozen without one
            # Samples frozen before citations or canaries were introduced have none.
            split_field = {}
            if "canary" in exported:
                split_field = {"split": split}
            yield {"citations": [], **exported, **split_field, "rubrics": rubrics[pk]}


def release(name: str, version: int | None = None) -> Release:
    """A release by name, in the given version (also as ``name@3``), or the latest.

    Raises UnknownRelease.
    """
    name, _, number = name.partition("@")
    if number and (version := whole_number(number, 9)) is None:
        raise errors.UnknownRelease(f"{name}@{number[:20]}")
    versions = releases().filter(name=name).order_by("-version")
    if version is not None:
        name = f"{name} v{version}"
        versions = versions.filter(version=version)
    match = versions.first()
    if match is None:
        raise errors.UnknownRelease(name)
    return match


def card_texts(release: Release) -> list[tuple[str, str]]:
    """(label, text) of every field of the data card that its makers fill; '' where they did not."""
    texts = release.about.get("card", {})
    return [(str(label), texts.get(name, "")) for name, (label, _help) in CARD_FIELDS.items()]


def funnel_of(release: Release) -> FunnelReport | None:
    """How its batches came to these samples; None if it was frozen before this was stored."""
    stored = release.about.get("funnel")
    if stored:
        return funnel.from_json(stored)
    return None


def judgments(release: Release) -> list[Validity]:
    """The physicians' judgments on the batches of a release, as stored at the freeze."""
    return [Validity(**line) for line in release.about.get("judgments", [])]


def withheld_sources(release: Release) -> list[str]:
    """The labels of sources whose text must not be published (see export by reference)."""
    restricted = {source["name"]: source["label"] for source in release.sources if source["restrictions"]}
    if not restricted:
        return []
    formats = dict(Source.objects.filter(name__in=restricted).values_list("name", "format"))
    # Load only the importers in use: loading all of them takes a tenth of a second.
    known = set(importers.available()).intersection(formats.values())
    withheld = {name for name in known if getattr(importers.load(name), "withheld", False)}
    return [label for name, label in restricted.items() if formats.get(name) in withheld]
