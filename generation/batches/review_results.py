"""Tables of physicians' results on the samples of a batch."""

from collections import Counter
from collections.abc import Sequence

from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext

from generation.models import Batch, SampleVersion
from generation.recipes import registry
from generation.recipes.review_sampling import SAMPLED_FOR_REVIEW
from generation.samples.validity import judgment_questions, rejected_judgments, validity
from review.rules.blocks import Block, Table
from review.rules.questions import Question
from review.rules.wilson_interval import wilson

STREAMED = 200


def blocks(batch: Batch) -> tuple[Block, ...]:
    """All results of a batch: on the samples drawn for review, and judgment by judgment."""
    return (*_draw_results(batch), *judgments(batch))


def judgments(batch: Batch) -> tuple[Block, ...]:
    """How many samples physicians found valid, if judgments are linked: two queries."""
    lines = validity(batch.benchmark, SampleVersion.objects.filter(sample__batch=batch))
    if not lines:
        return ()
    rows = []
    for line in lines:
        judgment, counted = gettext(line.judgment), gettext(line.counted)
        rows.append((judgment, line.in_words, str(line.valid), str(line.decided), counted))
    columns = (
        gettext("Judgment"),
        gettext("Share valid (95% CI)"),
        gettext("Valid"),
        gettext("Decided"),
        gettext("Counted"),
    )
    return (Table(gettext("Found valid by physicians"), columns, tuple(rows)),)


def batches_of_draw(batch: Batch) -> int:
    """How many batches share a draw with this one, itself included."""
    draw = registry.recipe(batch.benchmark).review_draw
    if draw:
        return max(1, int(batch.settings.get(draw.together, 1)))
    return 1


def drawn_together(batch: Batch) -> list[int]:
    """The batches that share its draw for review, by primary key, as far as they were launched.

    Of those with the same settings of the draw, in the order of their launch, as many as these say
    belong together, then as many again.
    """
    draw, count = registry.recipe(batch.benchmark).review_draw, batches_of_draw(batch)
    if draw is None or count == 1:
        return [batch.pk]
    same = {f"settings__{name}": batch.settings.get(name) for name in (draw.size, draw.seed, draw.together)}
    launched = list(Batch.objects.filter(benchmark=batch.benchmark, **same).order_by("pk").values_list("pk", flat=True))
    first = launched.index(batch.pk) // count * count
    return launched[first : first + count]


def _draw_results(batch: Batch) -> tuple[Block, ...]:
    """Results on the samples drawn for review, by stratum: three queries. Empty if none was drawn.

    Those of all batches that share the draw. Each question that can reject a sample has its share:
    a label may be right although the statement cannot be judged. Samples still in review, and
    withdrawn ones, are not counted as decided.
    """
    draw = registry.recipe(batch.benchmark).review_draw
    if draw is None:
        return ()
    transforms = [KeyTransform(key, "content") for key in draw.strata]
    batches = drawn_together(batch)
    in_batches = SampleVersion.objects.filter(sample__batch__in=batches, provenance__review=SAMPLED_FOR_REVIEW)
    drawn = in_batches.order_by()
    questions = judgment_questions(batch.benchmark)
    rejected = rejected_judgments(questions, drawn.filter(status=SampleVersion.Status.REJECTED))
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for *stratum, status, case in drawn.values_list(*transforms, "status", "case").iterator(chunk_size=STREAMED):
        cell = counts.setdefault(tuple(map(str, stratum)), Counter())
        cell[status] += 1
        for question in questions:
            if status == SampleVersion.Status.APPROVED or rejected.get(case, {}).get(question.key):
                cell[question.key] += 1
    if not counts:
        return ()
    totals: dict[tuple[str, ...], Counter[str]] = {}
    for key, cell in counts.items():
        all_of_first = (key[0], *[""] * len(key[1:]))
        totals.setdefault(all_of_first, Counter()).update(cell)
    rows = [_row(draw.strata, key, cell, questions) for key, cell in sorted({**counts, **totals}.items())]
    columns = []
    for field in draw.strata:
        if field == "task":
            columns.append(gettext("Task"))
        else:
            columns.append(gettext("Label"))
    columns += [gettext("Drawn"), gettext("Decided"), gettext("Approved")]
    for question in questions:
        columns.append(gettext("%(question)s (95%% CI)") % {"question": gettext(question.label)})
    title = gettext("Sampled for review")
    if len(batches) > 1:
        title = gettext("Sampled for review from batches %(batches)s") % {"batches": ", ".join(map(str, batches))}
    return (Table(title, tuple(columns), tuple(rows)),)


def _stratum_label(field: str, value: str) -> str:
    if not value:
        return gettext("all")
    if field == "task":
        value = registry.task_label(value)
    return gettext(value)


def _row(
    strata: Sequence[str], key: tuple[str, ...], cell: Counter[str], questions: Sequence[Question]
) -> tuple[str, ...]:
    drawn = sum(cell[status] for status in SampleVersion.Status)
    approved = cell[SampleVersion.Status.APPROVED]
    decided = approved + cell[SampleVersion.Status.REJECTED]
    names = [_stratum_label(field, value) for field, value in zip(strata, key, strict=True)]
    by_question = [_share(cell[question.key], decided) for question in questions]
    return (*names, str(drawn), str(decided), str(approved), *by_question)


def _share(hits: int, total: int) -> str:
    if not total:
        return ""
    low, high = wilson(hits, total)
    return f"{hits / total:.2f} ({low:.2f}–{high:.2f})"
