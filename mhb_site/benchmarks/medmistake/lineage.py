"""What the pages of a draft, a sample and a batch show of how mistakes were found."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from mhb_site.benchmarks.medmistake import conversation
from mhb_site.benchmarks.medmistake.dimensions import all_dimensions
from mhb_site.benchmarks.medmistake.review import SPEAKERS
from review.rules.blocks import Block, Dialogue, Table, Turn


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """The conversation with the mistake's turns marked, the low scores of both judges, what was merged, what was tried."""
    blocks: list[Block] = []
    mistake = data.get("mistake", {})
    if data.get("conversation"):
        at = set(mistake.get("turns", ()))
        turns = tuple(
            Turn(SPEAKERS.get(turn["role"], turn["role"]), turn["text"], mark=_("Mistake") if number in at else "")
            for number, turn in enumerate(data["conversation"], 1)
        )
        blocks.append(Dialogue(_("Conversation"), turns))
    if mistake:
        rows = (
            (_("Title"), mistake["title"]),
            (_("Description"), mistake["description"]),
            (_("Category"), mistake.get("category", "")),
            (_("Probable reason"), mistake.get("reason", "")),
            (_("Tags"), ", ".join(mistake.get("tags", ()))),
            (_("Risk (model)"), mistake.get("risk", "")),
        )
        blocks.append(Table(_("Mistake"), (_("Field"), _("Value")), rows))
    if len(members := mistake.get("members", ())) > 1:
        blocks.append(
            Table(
                _("Merged mistakes"),
                (_("Conversation"), _("Doctor"), _("Title")),
                tuple((each["conversation"], each["doctor"], each["title"]) for each in members),
            )
        )
    low = conversation.findings(data, {**conversation.SETTINGS, **data.get("rule", {})})
    if low:
        # Two columns, so that the notes can be read on a telephone.
        noted = tuple((each["dimension"], _noted(each)) for each in low)
        blocks.append(Table(_("Low scores"), (_("Dimension"), _("Judge, score, turns and note")), noted))
    if unscored := [(judge, ", ".join(keys)) for judge, keys in data.get("unscored", {}).items() if keys]:
        blocks.append(Table(_("Dimensions without a score"), (_("Judge"), _("Dimensions")), tuple(unscored)))
    if attempts := data.get("attempts"):
        blocks.append(Table(_("Scenarios tried"), (_("Scenario"), _("Gives away"), _("Repeated by")), _tried(attempts)))
    return blocks


def _noted(found: Mapping[str, Any]) -> str:
    score = "–" if found["score"] is None else str(found["score"])
    turns = f" ({', '.join(map(str, found['turns']))})" if found["turns"] else ""
    return f"{found['judge']}: {score}{turns} {found['note']}".strip()


def _tried(attempts: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            attempt["scenario"],
            ", ".join(str(each["text"]) for each in attempt["gives_away"]) or "–",
            ", ".join(str(each["model"]) for each in attempt["results"] if each["same_mistake_happened"]) or "–",
        )
        for attempt in attempts
    )


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Mistakes by doctor, category and risk; how often the two judges agreed, over conversations, each once. Streamed."""
    by_doctor: Counter[str] = Counter()
    merged: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    risks: Counter[str] = Counter()
    scores: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])  # both scored, equal, sum of differences, unscored
    talks: set[int] = set()
    for data in drafts:
        mistake = data.get("mistake")
        if mistake:
            categories[mistake.get("category", "")] += 1
            risks[mistake.get("risk", "")] += 1
            by_doctor[data.get("doctor", "")] += 1
            for member in mistake.get("members", ()):
                merged[member["doctor"]] += 1
        talk = hash((data.get("doctor"), *(turn["text"] for turn in data.get("conversation", ()))))
        if talk not in talks:
            talks.add(talk)
            _count_agreement(data.get("scores", {}), scores)
    if not categories and not scores:
        return []
    blocks: list[Block] = [
        Table(
            _("Mistakes by doctor"),
            (_("Doctor"), _("Mistakes found"), _("Different mistakes")),
            tuple((name, str(merged[name]), str(by_doctor[name])) for name in sorted(merged | by_doctor)),
        ),
        Table(_("Mistakes by category"), (_("Category"), _("Different mistakes")), _rows(categories)),
        Table(_("Mistakes by risk (model)"), (_("Risk"), _("Different mistakes")), _rows(risks)),
    ]
    if scores:
        blocks.append(
            Table(
                _("Agreement of the two judges"),
                (_("Dimension"), _("Scored by both"), _("Equal"), _("Mean difference"), _("Not scored")),
                tuple(
                    (
                        each.key,
                        str(scores[each.key][0]),
                        str(scores[each.key][1]),
                        f"{scores[each.key][2] / scores[each.key][0]:.2f}" if scores[each.key][0] else "–",
                        str(scores[each.key][3]),
                    )
                    for each in all_dimensions()
                    if each.key in scores
                ),
            )
        )
    return blocks


def _count_agreement(given: Mapping[str, Mapping[str, Any]], counts: dict[str, list[int]]) -> None:
    one, other = (given.get(judge, {}) for judge in conversation.JUDGES)
    if not (one or other):
        return
    for dimension in all_dimensions():
        pair = [each.get(dimension.key) for each in (one, other)]
        values = [each["score"] for each in pair if each is not None and each["score"] is not None]
        found = counts[dimension.key]
        found[3] += sum(each is None for each in pair)
        if len(values) == len(pair):
            found[0] += 1
            found[1] += values[0] == values[1]
            found[2] += abs(values[0] - values[1])


def _rows(counts: Counter[str]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, str(n)) for name, n in counts.most_common())
