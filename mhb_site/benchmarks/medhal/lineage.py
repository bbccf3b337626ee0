"""How pairs were made: the parts of a pair, and what a batch kept and left out, with reasons.

Blocks are built when a page is read, so that titles and cells are in the reader's language. Models'
own words are shown as they are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from mhb_site.benchmarks.medhal.pair_steps import FACTUAL, NON_FACTUAL, REASONS
from mhb_site.benchmarks.medhal.taxonomy import SOURCES
from review.rules.blocks import Block, Table

# Table 3 of the paper: the percentage of samples that the filter kept.
PAPER_SHARES = {"sumpubmed": 99.30, "acn": 82.00, "medmcqa": 96.87, "medqa": 99.44, "mednli": 100.00}


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Blocks with the parts of a pair, both statements, and the filter's verdicts."""
    if data.get("published"):
        return (Table(_("Origin"), (_("Origin"),), ((_("Published sample, used unchanged"),),)),)
    verdicts = {True: _("factual"), False: _("not factual"), None: _("neither YES nor NO")}
    blocks: list[Block] = []
    if data.get("right"):
        category_and_concept = " / ".join(filter(None, (data.get("category"), data.get("concept"))))
        parts = (
            (_("Question"), data.get("question", "")),
            (_("Category and concept"), category_and_concept),
            (_("True"), data["right"]),
            (_("Replacement value"), data.get("wrong", "")),
        )
        rows = [(label, text) for label, text in parts if text]
        blocks.append(Table(_("Made from"), (_("Part"), _("Text")), tuple(rows)))
    if "true" in data:
        true, false = data["true"], data["false"]
        pair = (
            (_("factual"), true["statement"], true["explanation"]),
            (_("non-factual"), false["statement"], false["explanation"]),
        )
        blocks.append(Table(_("Pair"), (_("Label"), _("Statement"), _("Explanation")), pair))
    if "judged" in data:
        names = {FACTUAL: _("factual"), NON_FACTUAL: _("non-factual")}
        judged = tuple((names[label], verdicts[factual]) for label, factual in data["judged"].items())
        blocks.append(Table(_("Filter"), (_("Label"), _("Judged")), judged))
    if reason := data.get("out"):
        blocks.append(Table(_("Left out"), (_("Reason"),), ((_(REASONS.get(reason, reason)),),)))
    return blocks


def analysis(batch: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Blocks with the share that the filter kept per source, and what was left out.

    The paper's shares are in the same table. A statement counts where a model judged it, and as
    kept where the judgment agrees with its label, also where its pair is left out for the other one.
    """
    judged: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    left_out: Counter[tuple[str, str]] = Counter()
    for data in batch:
        if data.get("out"):
            left_out[_source(data), data["out"]] += 1
        _count_judged(data, judged, kept)
    labels = {name: _(label) for name, label in SOURCES}
    blocks: list[Block] = []
    if judged:
        columns = (_("Source"), _("Statements judged"), _("Kept"), _("Share kept"), _("In the paper"))
        rows = []
        for source in sorted(judged):
            share, published = f"{100 * kept[source] / judged[source]:.2f} %", ""
            if source in PAPER_SHARES:
                published = f"{PAPER_SHARES[source]:.2f} %"
            rows.append((labels.get(source, source), f"{judged[source]:,}", f"{kept[source]:,}", share, published))
        blocks.append(Table(_("Kept by the filter"), columns, tuple(rows)))
    if left_out:
        lines = []
        for source, reason in sorted(left_out, key=lambda entry: (entry[0], -left_out[entry], entry[1])):
            number = f"{left_out[source, reason]:,}"
            lines.append((labels.get(source, source), _(REASONS.get(reason, reason)), number))
        blocks.append(Table(_("Left out"), (_("Source"), _("Reason"), _("Records and pairs")), tuple(lines)))
    return blocks


def shares(drafts: Iterable[Mapping[str, Any]]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """Table 3: by source, the statements that the filter kept, of all that it judged."""
    judged: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for data in drafts:
        _count_judged(data, judged, kept)
    return {"kept": {source: (kept[source], n) for source, n in judged.items()}}


def _count_judged(data: Mapping[str, Any], judged: Counter[str], kept: Counter[str]) -> None:
    source = _source(data)
    for label, factual in data.get("judged", {}).items():
        if data.get("label", label) == label:  # the drafts of a split pair carry the same judgments
            judged[source] += 1
            kept[source] += factual == (label == FACTUAL)


def _source(data: Mapping[str, Any]) -> str:
    return str(data.get("source", ""))
