"""Reads samples and their versions."""

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Count, Exists, Model, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils.translation import gettext

from generation.models import Batch, Call, Draft, ReleasedSample, Rubric, Sample, SampleVersion, TaxonomyTerm
from generation.recipes import registry
from generation.recipes.recipe import Term
from review.rules.blocks import Block
from review.rules.permissions import Can, may_read
from review.rules.state_machine import NOT_SAMPLED, Ground
from review.rules.text import whole_number

Row = TypeVar("Row", bound=Model)


def terms(benchmark: str) -> tuple[Term, ...]:
    """The taxonomy in force: the benchmark's own terms and those that admins added."""
    added = TaxonomyTerm.objects.filter(benchmark=benchmark).order_by("code")
    own = [Term(term.code, term.label, term.parent, term.definition) for term in added]
    return (*registry.built_in_terms(benchmark), *own)


def term_labels(benchmark: str) -> dict[str, str]:
    """The code of each of these terms -> its label."""
    return {term.code: term.label for term in terms(benchmark)}


def term_label(code: str, label: str) -> str:
    """Code and translated label of a term; the label alone if the code repeats it."""
    repeats = not code or code.replace("-", " ") == label.casefold().replace("-", " ")
    if repeats:
        return gettext(label)
    return f"{code} {gettext(label)}"


def sees_held_out(reader: object) -> bool:
    """Whether `reader` sees held-out samples: the people who make samples, and auditors."""
    return may_read(reader, Can.PRODUCE)


def visible_to(reader: object, rows: QuerySet[Row], sample: str = "") -> QuerySet[Row]:
    """Those of `rows` whose released sample `reader` may see.

    Every page, API and command that shows released samples, or rows about them, selects them here.
    `sample`: the lookup of a row's released sample; '' if the rows are released samples.
    """
    if sees_held_out(reader):
        return rows
    split = "split"
    if sample:
        split = f"{sample}__split"
    return rows.filter(**{split: ReleasedSample.Split.PUBLIC})


def prefetch_rubrics(version: SampleVersion) -> dict[str, Any]:
    """A version's content with its rubrics, which the physicians' reasons refer to by key."""
    rubrics = version.rubrics.order_by("pk").values("key", "criterion", "traps")
    return {**version.content, "rubrics": list(rubrics)}


# The approved version of a sample that was not sampled for review.
_UNREVIEWED = SampleVersion.objects.filter(
    sample=OuterRef("pk"), status=SampleVersion.Status.APPROVED, case__ground=Ground.UNREVIEWED
)


def samples(
    *, benchmark: str = "", status: str = "", task: str = "", text: str = "", batch: Batch | int | None = None
) -> QuerySet[Sample]:
    """Samples, newest first, with `versions_count`, `unreviewed` and `case`.

    `unreviewed`: not sampled for review. `case`: the id of the newest version's case.

    `status` is a sample status or NOT_SAMPLED; samples not sampled for review are not among the
    approved. `text` is searched in the record's title, its id and the number at the end of the
    sample's key.
    """
    rows = Sample.objects.select_related("record").defer("record__private", "record__content").order_by("-pk")
    newest = SampleVersion.objects.filter(sample=OuterRef("pk")).order_by("-number").values("case")[:1]
    rows = rows.annotate(versions_count=Count("versions"), unreviewed=Exists(_UNREVIEWED), case=Subquery(newest))
    if benchmark:
        rows = rows.filter(benchmark=benchmark)
    if status == NOT_SAMPLED:
        rows = rows.filter(unreviewed=True)
    elif status:
        rows = rows.filter(status=status, unreviewed=False)
    if task:
        rows = rows.filter(task=task)
    if text:
        numbered = Q(pk=whole_number(text.rpartition("-")[2]) or 0)
        rows = rows.filter(Q(record__title__icontains=text) | Q(record__external_id__icontains=text) | numbered)
    if batch:
        rows = rows.filter(batch=batch)
    return rows


def newest_case(sample_id: int) -> int:
    """The case of a sample's newest version."""
    versions = SampleVersion.objects.filter(sample=sample_id).order_by("-number")
    return int(versions.values_list("case", flat=True)[0])


def sample_tasks() -> list[str]:
    """The tasks of all samples."""
    return list(Sample.objects.order_by("task").values_list("task", flat=True).distinct())


def versions(sample: Sample) -> list[SampleVersion]:
    """All versions of a sample in order, each with its case, draft and rubrics: two queries."""
    rubrics = Prefetch("rubrics", Rubric.objects.order_by("pk"))
    rows = SampleVersion.objects.filter(sample=sample).select_related("case", "draft").prefetch_related(rubrics)
    return list(rows.order_by("number"))


def calls_by_subject(subjects: Iterable[str]) -> dict[str, list[Call]]:
    """The calls of each subject in order, without the text that was sent: one query."""
    grouped: dict[str, list[Call]] = {subject: [] for subject in subjects}
    calls = Call.objects.filter(subject__in=grouped).select_related("endpoint").defer("request", "reasoning")
    for call in calls.order_by("pk"):
        grouped[call.subject].append(call)
    return grouped


def lineage(benchmark: str, draft: Draft) -> tuple[Block, ...]:
    """The recipe's blocks on how a draft was made; empty if the recipe offers none."""
    describe = registry.recipe(benchmark).lineage
    if describe is not None and draft.data:
        return tuple(describe(draft.data))
    return ()
