"""Reads the labelled answers of releases, sources and batches.

Above `MAX_CASES` a draw of records is read, by their digest: the same one each time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from django.db.models import QuerySet

from generation.models import Batch, Release, ReleasedSample, Sample, SampleVersion, Source
from generation.probes.measuring import ProbeCase
from generation.recipes import registry
from generation.recipes.labelled import LabelledAnswers, choice

MAX_CASES = 20_000
READ = 500
_RECORD = "version__sample__record"
_COLUMNS = (f"{_RECORD}__source__name", f"{_RECORD}__external_id", f"{_RECORD}__shares", "version__generator")


def is_drawn(record: str, total: int) -> bool:
    """Whether a record is among those that are read, of a set of so many cases."""
    if total <= MAX_CASES:
        return True
    return int.from_bytes(sha256(f"probes\n{record}".encode()).digest()[:8]) < MAX_CASES / total * 2**64


def has_labelled_answers(benchmark: str) -> bool:
    """Whether samples of a benchmark may have labelled answers."""
    return benchmark in registry.names() and registry.recipe(benchmark).labelled is not None


def case_of_sample(
    benchmark: str,
    key: str,
    content: Mapping[str, Any],
    source: str,
    external_id: str,
    shares: str,
    generator: str,
    **more: Any,
) -> ProbeCase | None:
    """A sample as a probe sees it; None if nothing in it is labelled.

    `shares`: of its record. `more`: further values of `ProbeCase`.
    """
    labelled = registry.recipe(benchmark).labelled
    answers = None
    if labelled is not None:
        answers = labelled(content)
    if answers is None:
        return None
    facets = {**answers.facets, "source": source}
    if generator:
        facets["generator"] = generator
    labelled_here = replace(_with_origins(answers, shares), facets=facets)
    return ProbeCase(key, f"{source}\n{external_id}", labelled_here, **more)


def _with_origins(answers: LabelledAnswers, shares: str) -> LabelledAnswers:
    """With what the record shares with others (an image, a document) among the origins."""
    return replace(answers, origins=(*answers.origins, *shares.split()))


def cases_of_release(release: Release) -> Iterator[ProbeCase]:
    """The labelled answers of a release, the held-out ones included, without withdrawn samples."""
    if not has_labelled_answers(release.benchmark):
        return
    standing = release.samples.exclude(version__sample__status=Sample.Status.WITHDRAWN)
    rows = standing.order_by("position")
    columns = ("key", "exported__content", "split", *_COLUMNS)
    for key, content, split, source, external_id, *about in _chunks(rows, columns):
        if is_drawn(f"{source}\n{external_id}", release.samples_count):
            held_out = split != ReleasedSample.Split.PUBLIC
            case = case_of_sample(release.benchmark, key, content, source, external_id, *about, held_out=held_out)
            if case is not None:
                yield case


def cases_of_batch(batch: Batch) -> Iterator[ProbeCase]:
    """The labelled answers of a batch: of each sample, the version in review or approved."""
    if not has_labelled_answers(batch.benchmark):
        return
    rows = batch_versions(batch).order_by("pk")
    total = rows.count()
    columns = ("sample_id", "sample__task", "content", *(name.removeprefix("version__") for name in _COLUMNS))
    for sample, task, content, source, external_id, *about in _chunks(rows, columns):
        if is_drawn(f"{source}\n{external_id}", total):
            key = f"{batch.benchmark}-{task}-{sample:06d}"
            case = case_of_sample(batch.benchmark, key, content, source, external_id, *about)
            if case is not None:
                yield case


def batch_versions(batch: Batch) -> QuerySet[SampleVersion]:
    """The current versions of a batch's samples."""
    current = (SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED)
    return SampleVersion.objects.filter(sample__batch=batch, status__in=current)


def cases_of_source(source: Source) -> Iterator[ProbeCase]:
    """The labelled answers of a source: those a benchmark knows, and questions with options."""
    rows = source.records.filter(latest=True).order_by("pk")
    total = rows.count()
    for external_id, content, shares in _chunks(rows, ("external_id", "content", "shares")):
        if is_drawn(f"{source.name}\n{external_id}", total):
            answers = labelled_record(content)
            if answers is not None:
                yield ProbeCase(external_id, f"{source.name}\n{external_id}", _with_origins(answers, shares))


def labelled_record(content: Mapping[str, Any]) -> LabelledAnswers | None:
    """The labelled answers of a record, if a benchmark that takes it knows any, or its options."""
    kind = content.get("kind")
    for benchmark in registry.names():
        recipe = registry.recipe(benchmark)
        if recipe.labelled is not None and kind in recipe.kinds:
            answers = recipe.labelled(content)
            if answers is not None:
                return answers
    return choice(content)


def _chunks(rows: QuerySet[Any], columns: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """The columns of rows, in chunks by key, so that no database keeps the whole result."""
    last = 0
    selected = rows.order_by("pk").values_list("pk", *columns)
    while chunk := list(selected.filter(pk__gt=last)[:READ]):
        last = chunk[-1][0]
        for _pk, *values in chunk:
            yield tuple(values)
