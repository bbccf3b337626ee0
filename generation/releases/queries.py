"""Everything that is read of releases."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.models import Batch, Freeze, Release, ReleasedSample, Rubric, SampleVersion
from generation.recipes import registry
from generation.recipes.recipe import NewRubric, NewSample
from generation.samples.queries import terms
from review.rules.state_machine import Ground


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
            label=f"{term.code} {labels[term.code]}",
            cluster=f"{term.parent} {labels.get(term.parent, '')}".strip(),
            **by_code.get(term.code, nothing),
        )
        for term in [term for term in in_force if term.parent] or in_force
    ]


def composition(batch: Batch) -> dict[str, dict[str, dict[str, int]]]:
    """What a batch has come to so far, counted as a release counts: facet -> value -> {"samples", "rubrics"}.

    Of each sample its living version counts (in review or approved). One query besides the taxonomy's, streamed.
    """
    alive = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    rubrics = Rubric.objects.filter(version__sample__batch=batch, version__status__in=alive).order_by("version_id")
    in_force = terms(batch.benchmark)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    seen: set[tuple[int, str, str]] = set()
    columns = ("version_id", "version__sample__task", "traps", "version__content")
    for version, task, traps, content in rubrics.values_list(*columns).iterator():
        facets = registry.facets(batch.benchmark, task, traps, in_force, content)
        for facet, values in {"task": [task], **facets}.items():
            for value in values:
                cell = counts.setdefault(facet, {}).setdefault(value, {"samples": 0, "rubrics": 0})
                cell["rubrics"] += 1
                cell["samples"] += (version, facet, value) not in seen
                seen.add((version, facet, value))
    return counts


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


def new_sample(version: SampleVersion) -> NewSample:
    """A stored version as the recipe made it, with the rubrics that stand, in the wording physicians settled on if they did."""
    return NewSample(
        task=version.sample.task,
        title=version.title,
        language=version.case.language,
        specialty=version.case.specialty,
        content=version.content,
        rubrics=tuple(
            NewRubric(rubric.key, rubric.approved or rubric.criterion, tuple(rubric.traps))
            for rubric in sorted(version.rubrics.all(), key=lambda rubric: rubric.pk)
            if not rubric.removed
        ),
    )


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
