"""Everything that is read of samples and their versions."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from generation.models import Batch, Call, Draft, Rubric, Sample, SampleVersion, TaxonomyTerm
from generation.recipes import registry
from generation.recipes.recipe import Term
from review.rules.blocks import Block
from review.rules.state_machine import NOT_SAMPLED, Ground


def terms(benchmark: str) -> tuple[Term, ...]:
    """The taxonomy in force: what the benchmark ships and what admins added."""
    added = TaxonomyTerm.objects.filter(benchmark=benchmark).order_by("code")
    return (
        *registry.built_in_terms(benchmark),
        *(Term(term.code, term.label, term.parent, term.definition) for term in added),
    )


def prefetch_rubrics(version: SampleVersion) -> dict[str, Any]:
    """A version's content with its rubrics: physicians' reasons name them by key."""
    rubrics = version.rubrics.order_by("pk").values("key", "criterion", "traps")
    return {**version.content, "rubrics": list(rubrics)}


# The approved version of a sample that no physician was asked about.
_UNREVIEWED = SampleVersion.objects.filter(
    sample=OuterRef("pk"), status=SampleVersion.Status.APPROVED, case__ground=Ground.UNREVIEWED
)


def samples(
    *, benchmark: str = "", status: str = "", task: str = "", text: str = "", batch: Batch | None = None
) -> QuerySet[Sample]:
    """Samples, newest first, with the number of their versions and whether nobody was asked to review them (`unreviewed`).

    `status` is one of a sample's or NOT_SAMPLED: what nobody reviewed is not among the approved.

    `text` is looked for in the record's title, its id and the number at the end of the sample's key.
    """
    found = Sample.objects.select_related("record").defer("record__private", "record__content").order_by("-pk")
    found = found.annotate(versions_count=Count("versions"), unreviewed=Exists(_UNREVIEWED))
    if benchmark:
        found = found.filter(benchmark=benchmark)
    if status == NOT_SAMPLED:
        found = found.filter(unreviewed=True)
    elif status:
        found = found.filter(status=status, unreviewed=False)
    if task:
        found = found.filter(task=task)
    if text:
        number = text.rpartition("-")[2]
        numbered = Q(pk=int(number)) if number.isdecimal() and len(number) < 19 else Q()
        found = found.filter(Q(record__title__icontains=text) | Q(record__external_id__icontains=text) | numbered)
    if batch:
        found = found.filter(batch=batch)
    return found


def newest_case(sample_id: int) -> int:
    """The case of a sample's newest version."""
    versions = SampleVersion.objects.filter(sample=sample_id).order_by("-number")
    return int(versions.values_list("case", flat=True)[0])


def sample_tasks() -> list[str]:
    """The tasks that samples are of."""
    return list(Sample.objects.order_by("task").values_list("task", flat=True).distinct())


def versions(sample: Sample) -> list[SampleVersion]:
    """All versions of a sample in order, each with its case, draft and rubrics: two queries."""
    rubrics = Prefetch("rubrics", Rubric.objects.order_by("pk"))
    found = SampleVersion.objects.filter(sample=sample).select_related("case", "draft").prefetch_related(rubrics)
    return list(found.order_by("number"))


def calls_by_subject(subjects: Iterable[str]) -> dict[str, list[Call]]:
    """What models said to each of `subjects`, in order, without what was sent: one query."""
    found: dict[str, list[Call]] = {subject: [] for subject in subjects}
    calls = Call.objects.filter(subject__in=found).select_related("endpoint").defer("sent", "reasoning")
    for call in calls.order_by("pk"):
        found[call.subject].append(call)
    return found


def lineage(benchmark: str, draft: Draft) -> tuple[Block, ...]:
    """What a draft's data shows of how it was made, where the recipe has something to say of it."""
    shows = registry.recipe(benchmark).lineage
    return tuple(shows(draft.data)) if shows is not None and draft.data else ()
