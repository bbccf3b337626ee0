"""Tables of physicians' results on the samples of a batch."""

from collections import Counter
from collections.abc import Sequence

from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext

from generation.models import Batch, SampleVersion
from generation.recipes import registry
from generation.recipes.review_sampling import SAMPLED_FOR_REVIEW
from generation.samples.validity import validity
from review.rules.blocks import Block, Table
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
    rows = tuple(
        (gettext(line.judgment), line.in_words, str(line.valid), str(line.decided), gettext(line.counted))
        for line in lines
    )
    columns = (
        gettext("Judgment"),
        gettext("Share valid (95% CI)"),
        gettext("Valid"),
        gettext("Decided"),
        gettext("Counted"),
    )
    return (Table(gettext("Found valid by physicians"), columns, rows),)


def _draw_results(batch: Batch) -> tuple[Block, ...]:
    """Results on the samples drawn for review, by stratum: one query. Empty if none was drawn.

    Samples still in review, and withdrawn ones, are not counted as decided.
    """
    draw = registry.recipe(batch.benchmark).review_draw
    if draw is None:
        return ()
    transforms = [KeyTransform(key, "content") for key in draw.strata]
    drawn = SampleVersion.objects.filter(sample__batch=batch, provenance__review=SAMPLED_FOR_REVIEW).order_by()
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for *stratum, status in drawn.values_list(*transforms, "status").iterator(chunk_size=STREAMED):
        counts.setdefault(tuple(map(str, stratum)), Counter())[status] += 1
    if not counts:
        return ()
    totals: dict[tuple[str, ...], Counter[str]] = {}
    for key, cell in counts.items():
        totals.setdefault((key[0], *("" for _part in key[1:])), Counter()).update(cell)
    rows = tuple(_row(draw.strata, key, cell) for key, cell in sorted({**counts, **totals}.items()))
    columns = (
        *(gettext("Task") if key == "task" else gettext("Label") for key in draw.strata),
        *(gettext("Drawn"), gettext("Decided"), gettext("Approved"), gettext("Share approved (95% CI)")),
    )
    return (Table(gettext("Sampled for review"), columns, rows),)


def _stratum_label(field: str, value: str) -> str:
    if not value:
        return gettext("all")
    return gettext(registry.task_label(value) if field == "task" else value)


def _row(strata: Sequence[str], key: tuple[str, ...], cell: Counter[str]) -> tuple[str, ...]:
    approved = cell[SampleVersion.Status.APPROVED]
    decided = approved + cell[SampleVersion.Status.REJECTED]
    share = ""
    if decided:
        low, high = wilson(approved, decided)
        share = f"{approved / decided:.2f} ({low:.2f}–{high:.2f})"
    names = tuple(_stratum_label(field, value) for field, value in zip(strata, key, strict=True))
    return (*names, str(cell.total()), str(decided), str(approved), share)
