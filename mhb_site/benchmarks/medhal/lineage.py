"""What drafts' data shows: of one pair how it was made; of a batch what was left out and why, and the share that is kept.

Everything here is made when a page is read, so that titles and cells are in the reader's language. What models wrote is text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from mhb_site.benchmarks.medhal.pair_steps import FACTUAL, NON_FACTUAL, REASONS
from mhb_site.benchmarks.medhal.taxonomy import SOURCES
from review.rules.blocks import Block, Table

# Table 3 of the paper: the percentage of samples that the filter kept.
PAPER = {"sumpubmed": 99.30, "acn": 82.00, "medmcqa": 96.87, "medqa": 99.44, "mednli": 100.00}


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """What the pair was made of, both statements, and what the filter said."""
    if data.get("published"):
        return (Table(_("Origin"), (_("Origin"),), ((_("Published sample, used unchanged"),),)),)
    said = {True: _("factual"), False: _("not factual"), None: _("neither YES nor NO")}
    blocks: list[Block] = []
    if data.get("right"):
        rows = [
            (_("Question"), data.get("question", "")),
            (_("Category and concept"), " / ".join(filter(None, (data.get("category"), data.get("concept"))))),
            (_("True"), data["right"]),
            (_("Drawn in its place"), data.get("wrong", "")),
        ]
        blocks.append(Table(_("Made of"), (_("Part"), _("Text")), tuple(row for row in rows if row[1])))
    if "true" in data:
        both = ((_("factual"), data["true"]), (_("non-factual"), data["false"]))
        cells = tuple((label, each["statement"], each["explanation"]) for label, each in both)
        blocks.append(Table(_("Pair"), (_("Label"), _("Statement"), _("Explanation")), cells))
    if "judged" in data:
        names = {FACTUAL: _("factual"), NON_FACTUAL: _("non-factual")}
        judged = tuple((names[label], said[factual]) for label, factual in data["judged"].items())
        blocks.append(Table(_("Filter"), (_("Label"), _("Judged")), judged))
    if reason := data.get("out"):
        blocks.append(Table(_("Left out"), (_("Reason"),), ((_(REASONS.get(reason, reason)),),)))
    return blocks


def analysis(batch: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """The share kept by the filter for each source, beside the paper's; and what was left out, by reason.

    Of a pair that became two samples each counts for its own statement.
    """
    judged: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    left: Counter[tuple[str, str]] = Counter()
    for data in batch:
        source = str(data.get("source", ""))
        if data.get("out"):
            left[source, data["out"]] += 1
        if "judged" not in data:
            continue
        weight = 1 if "label" in data else 2
        judged[source] += weight
        kept[source] += 0 if data.get("out") else weight
    labels = {name: _(label) for name, label in SOURCES}
    blocks: list[Block] = []
    if judged:
        rows = tuple(
            (
                labels.get(source, source),
                f"{n:,}",
                f"{kept[source]:,}",
                f"{100 * kept[source] / n:.2f} %",
                f"{PAPER[source]:.2f} %" if source in PAPER else "",
            )
            for source, n in sorted(judged.items())
        )
        columns = (_("Source"), _("Statements judged"), _("Kept"), _("Share kept"), _("In the paper"))
        blocks.append(Table(_("Kept by the filter"), columns, rows))
    if left:
        rows_left = tuple(
            (labels.get(source, source), _(REASONS.get(reason, reason)), f"{n:,}")
            for (source, reason), n in sorted(left.items(), key=lambda each: (each[0][0], -each[1], each[0][1]))
        )
        blocks.append(Table(_("Left out"), (_("Source"), _("Reason"), _("Records and pairs")), rows_left))
    return blocks
