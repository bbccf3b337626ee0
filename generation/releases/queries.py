"""Everything that is read of releases."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, F, Max, Q, QuerySet
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.models import Batch, Freeze, Release, ReleasedSample, SampleVersion, Source
from generation.recipes import registry
from generation.recipes.recipe import Term
from generation.samples.queries import terms
from generation.samples.validity import Validity
from generation.sources import importers
from review.common.sql import ahead, between, repeated
from review.rules.state_machine import Ground

READ = 250  # samples that are read together: while they are written, as many more wait


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How many samples and rubrics a taxonomy term has; `cluster` is the label of its parent."""

    label: str
    cluster: str
    samples: int
    rubrics: int


def term_counts(benchmark: str, counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[TermCounts]:
    """The taxonomy's terms that have a parent, with their `counts` (facet -> value -> {"samples", "rubrics"}).

    Of a taxonomy of one level, all of them. Terms without any sample are there, with 0: what is missing is what a maker looks
    for.
    """
    by_code = {code: cell for values in counts.values() for code, cell in values.items()}
    in_force = terms(benchmark)
    labels = {term.code: gettext(term.label) for term in in_force}
    nothing = {"samples": 0, "rubrics": 0}
    return [
        TermCounts(
            label=_named(term, labels[term.code]),
            cluster=f"{term.parent} {labels.get(term.parent, '')}".strip(),
            **by_code.get(term.code, nothing),
        )
        for term in [term for term in in_force if term.parent] or in_force
    ]


def _named(term: Term, label: str) -> str:
    """Code and label of a term; the label alone where the code only repeats it."""
    return label if term.code.replace("-", " ") == term.label.casefold().replace("-", " ") else f"{term.code} {label}"


def composition(batch: Batch) -> dict[str, dict[str, dict[str, int]]]:
    """What a batch has come to so far, counted as a release counts: facet -> value -> {"samples", "rubrics"}.

    Of each sample its living version counts (in review or approved). One query besides the taxonomy's: samples that count
    alike are one row of it, and of their content only what the benchmark counts by is read.
    """
    in_force = terms(batch.benchmark)
    declared = registry.facet_fields(batch.benchmark)
    fields = declared if declared is not None else ("content",)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for task, number, traps, *values in _alike(batch, declared):
        read = {name: json.loads(value) for name, value in zip(fields, values, strict=True) if value is not None}
        content = read if declared is not None else read["content"]
        times: Counter[tuple[str, str]] = Counter()  # rubrics of one of these samples, by facet and value
        for of_rubric, rubrics in Counter(tuple(each) for each in json.loads(f"[{traps}]")).items():
            facets = registry.facets(batch.benchmark, task, list(of_rubric), in_force, content)
            for facet, found in {"task": [task], **facets}.items():
                times.update({(facet, value): rubrics for value in found})
        for (facet, value), rubrics in times.items():
            cell = counts.setdefault(facet, {}).setdefault(value, {"samples": 0, "rubrics": 0})
            cell["rubrics"] += rubrics * number
            cell["samples"] += number
    return counts


def _alike(batch: Batch, fields: Sequence[str] | None) -> list[tuple[Any, ...]]:
    """The task, how many samples of it, the traps of each of their rubrics, and each field of their content as JSON.

    fields: None means the whole content.
    """
    postgres = connection.vendor == "postgresql"
    join = "STRING_AGG(r.traps::text, ',' ORDER BY r.id)" if postgres else "GROUP_CONCAT(r.traps, ',')"
    read = "(v.content -> %s)::text" if postgres else "JSON_QUOTE(JSON_EXTRACT(v.content, '$.' || %s))"
    if fields is None:
        picked, names, fields = (", v.content::text AS whole" if postgres else ", v.content AS whole"), ", whole", ()
    else:
        picked = "".join(f", {read} AS field_{number}" for number in range(len(fields)))
        names = "".join(f", field_{number}" for number in range(len(fields)))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT task, COUNT(*), traps{names} FROM (SELECT s.task, v.id, j.traps{picked} FROM generation_sample s"  # noqa: S608
            " JOIN generation_sampleversion v ON v.sample_id = s.id AND v.status IN ('in-review', 'approved')"
            f" JOIN (SELECT r.version_id, {join} AS traps FROM generation_rubric r"
            " JOIN generation_sampleversion w ON w.id = r.version_id JOIN generation_sample t ON t.id = w.sample_id"
            " WHERE t.batch_id = %s GROUP BY r.version_id) j ON j.version_id = v.id"
            f" WHERE s.batch_id = %s) alike GROUP BY task, traps{names}",
            [*fields, batch.pk, batch.pk],
        )
        return list(cursor.fetchall())


def task_shares(release: Release) -> dict[str, float]:
    """The share of each task among the samples of a release."""
    counts = {task: count["samples"] for task, count in release.counts.get("task", {}).items()}
    return shares_of(counts)


def shares_of(counts: Mapping[str, int]) -> dict[str, float]:
    """The share of each among all, to four digits."""
    whole = sum(counts.values())
    return {name: round(n / whole, 4) for name, n in counts.items()} if whole else {}


def releases() -> QuerySet[Release]:
    """All releases, newest first."""
    return Release.objects.select_related("created_by").order_by("-pk")


def freezes() -> QuerySet[Freeze]:
    """All freezes, newest first."""
    return Freeze.objects.select_related("release", "created_by").order_by("-pk")


def shown_freezes() -> list[Freeze]:
    """Those that are not over, and those that failed within a day: everything else is a release."""
    unfinished = Q(status__in=[Freeze.Status.QUEUED, Freeze.Status.RUNNING])
    failed = Q(status=Freeze.Status.FAILED, finished_at__gte=timezone.now() - timedelta(days=1))
    return list(freezes().filter(unfinished | failed)[:20])


def approved_counts() -> dict[str, tuple[int, int]]:
    """Benchmark -> how many samples stand as approved now, and how many of them no physician has reviewed."""
    approved = SampleVersion.objects.filter(status=SampleVersion.Status.APPROVED).order_by("sample__benchmark")
    aside = Count("pk", filter=Q(case__ground=Ground.UNREVIEWED))
    rows = approved.values_list("sample__benchmark").annotate(n=Count("pk"), aside=aside)
    return {benchmark: (n, unreviewed) for benchmark, n, unreviewed in rows}


def released_samples(release: Release, *, with_held_out: bool) -> QuerySet[ReleasedSample]:
    """The samples of a release in its order, with the title of each."""
    rows = ReleasedSample.objects.filter(release=release).annotate(title=F("version__title")).order_by("pk")
    return rows if with_held_out else rows.filter(split=ReleasedSample.Split.PUBLIC)


def in_order(release: Release, split: str, *columns: str | Cast) -> Iterator[list[tuple[Any, ...]]]:
    """These columns of the samples of one part of a release, a chunk at a time.

    Each chunk is found by its positions: what a cursor outside of a transaction finds, PostgreSQL writes down as a whole
    before it gives out the first row. Where it does not know yet how large a release is, it would sort all that is left for
    each chunk, if it was asked for the next so many.
    """
    rows = ReleasedSample.objects.filter(release=release).order_by("position")
    found = rows.filter(split=split).values_list(*columns)
    request = repeated(lambda first, last: found.filter(between("position", first, last)), values=2)
    end = rows.aggregate(end=Max("position") + 1)["end"] or 0
    for read in ahead(request(start, start + READ - 1) for start in range(0, end, READ)):
        if chunk := read():
            yield chunk


def release(name: str, version: int | None = None) -> Release:
    """A release by name, the latest version unless one is given (also as ``name@3``). Raises UnknownRelease."""
    name, _, number = name.partition("@")
    if number and not number.isdecimal():
        raise errors.UnknownRelease(f"{name}@{number}")
    version = int(number) if number else version
    found = Release.objects.filter(name=name).order_by("-version")
    chosen = found.first() if version is None else found.filter(version=version).first()
    if chosen is None:
        raise errors.UnknownRelease(name if version is None else f"{name} v{version}")
    return chosen


def judgments(release: Release) -> list[Validity]:
    """How many samples physicians found valid in the batches that a release is from, as it was when the release was frozen."""
    return [Validity(**line) for line in release.about.get("judgments", [])]


def withheld_sources(release: Release) -> list[str]:
    """The labels of its sources whose text must not be published: an export by reference leaves it out."""
    restricted = {source["name"]: source["label"] for source in release.sources if source["restrictions"]}
    if not restricted:
        return []
    formats = dict(Source.objects.filter(name__in=restricted).values_list("name", "format"))
    known = set(importers.available()).intersection(formats.values())  # loading all others takes a tenth of a second
    withheld = {name for name in known if getattr(importers.load(name), "withheld", False)}
    return [label for name, label in restricted.items() if formats.get(name) in withheld]
