"""What physicians found of the samples of a batch that were drawn for review."""

from collections import Counter
from collections.abc import Sequence

from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext

from generation.models import Batch, SampleVersion
from generation.recipes import registry
from generation.recipes.recipe import DRAWN
from generation.samples.validity import validity
from review.rules.blocks import Block, Table
from review.rules.wilson_interval import wilson

STREAMED = 200


def blocks(batch: Batch) -> tuple[Block, ...]:
    """What physicians found of a batch: of what was drawn for review, and judgment by judgment."""
    return (*_drawn(batch), *judgments(batch))


def judgments(batch: Batch) -> tuple[Block, ...]:
    """How many samples they found valid, where a benchmark asks for linked judgments: two queries."""
    found = validity(batch.benchmark, SampleVersion.objects.filter(sample__batch=batch))
    if not found:
        return ()
    rows = tuple(
        (gettext(line.judgment), line.in_words, str(line.valid), str(line.decided), gettext(line.counted))
        for line in found
    )
    columns = (
        gettext("Judgment"),
        gettext("Share valid (95% CI)"),
        gettext("Valid"),
        gettext("Decided"),
        gettext("Counted"),
    )
    return (Table(gettext("Found valid by physicians"), columns, rows),)


def _drawn(batch: Batch) -> tuple[Block, ...]:
    """What they found of the samples that were drawn for review, by stratum: one query. Nothing where none was drawn.

    What is still in review is not counted among the decided, nor is what was withdrawn.
    """
    draw = registry.recipe(batch.benchmark).drawn
    if draw is None:
        return ()
    read = [KeyTransform(key, "content") for key in draw.strata]
    made = SampleVersion.objects.filter(sample__batch=batch, made__review=DRAWN).order_by()
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for *stratum, status in made.values_list(*read, "status").iterator(chunk_size=STREAMED):
        counts.setdefault(tuple(map(str, stratum)), Counter())[status] += 1
    if not counts:
        return ()
    totals: dict[tuple[str, ...], Counter[str]] = {}
    for key, cell in counts.items():
        totals.setdefault((key[0], *("" for _part in key[1:])), Counter()).update(cell)
    rows = tuple(_row(draw.strata, key, cell) for key, cell in sorted({**counts, **totals}.items()))
    columns = (*(gettext("Task") if key == "task" else gettext("Label") for key in draw.strata), *_columns())
    return (Table(gettext("Sampled for review"), columns, rows),)


def _columns() -> tuple[str, ...]:
    return gettext("Drawn"), gettext("Decided"), gettext("Approved"), gettext("Share approved (95% CI)")


def _name(field: str, value: str) -> str:
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
    names = tuple(_name(field, value) for field, value in zip(strata, key, strict=True))
    return (*names, str(cell.total()), str(decided), str(approved), share)
