"""How mistakes were found: blocks for the pages of a draft, a sample and a batch."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from mhb_site.benchmarks.medmistake import conversation, presets
from mhb_site.benchmarks.medmistake.committee_agreement import CommitteeAgreement
from mhb_site.benchmarks.medmistake.review import invented_values, marked_turns
from review.rules.blocks import Block, Dialogue, Table


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Blocks with the marked conversation, low scores, merged mistakes and tried scenarios."""
    blocks: list[Block] = []
    mistake = data.get("mistake", {})
    if data.get("conversation"):
        blocks.append(Dialogue(_("Conversation"), marked_turns(data["conversation"], mistake.get("turns", ()))))
        blocks += invented_values(data["conversation"])
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
        merged = tuple((member["conversation"], member["doctor"], member["title"]) for member in members)
        blocks.append(Table(_("Merged mistakes"), (_("Conversation"), _("Doctor"), _("Title")), merged))
    scores = conversation.low_scores(data, {**presets.DEFAULTS, **data.get("rule", {})})
    if scores:
        # Two columns, so that the notes can be read on a phone.
        score_rows = tuple((entry["dimension"], _note_cell(entry)) for entry in scores)
        blocks.append(Table(_("Low scores"), (_("Dimension"), _("Judge, score, turns and note")), score_rows))
    unscored = []
    for judge, keys in data.get("unscored", {}).items():
        if keys:
            unscored.append((judge, ", ".join(keys)))
    if unscored:
        blocks.append(Table(_("Dimensions without a score"), (_("Judge"), _("Dimensions")), tuple(unscored)))
    if attempts := data.get("attempts"):
        tried = []
        for attempt in attempts:
            hints = [str(hint["text"]) for hint in attempt["gives_away"]]
            tried.append((attempt["scenario"], _listed(hints), _listed(_repeaters(attempt))))
        blocks.append(Table(_("Scenarios tried"), (_("Scenario"), _("Gives away"), _("Repeated by")), tuple(tried)))
    return blocks


def _note_cell(score_entry: Mapping[str, Any]) -> str:
    if score_entry["score"] is None:
        score = "–"
    else:
        score = str(score_entry["score"])
    turns = ""
    if score_entry["turns"]:
        turns = f" ({', '.join(map(str, score_entry['turns']))})"
    return f"{score_entry['judge']}: {score}{turns} {score_entry['note']}".strip()


def _repeaters(attempt: Mapping[str, Any]) -> list[str]:
    """The models that repeated the mistake."""
    return [str(result["model"]) for result in attempt["results"] if result["same_mistake_happened"]]


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "–"


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Blocks with mistakes by doctor, category and risk, and the agreement of the two judges.

    Streamed. Each conversation counts once for the agreement.
    """
    by_doctor: Counter[str] = Counter()
    merged: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    risks: Counter[str] = Counter()
    scores: dict[str, CommitteeAgreement] = defaultdict(CommitteeAgreement)
    tested: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    seen_conversations: set[int] = set()
    for data in drafts:
        mistake = data.get("mistake")
        if mistake:
            categories[mistake.get("category", "")] += 1
            risks[mistake.get("risk", "")] += 1
            by_doctor[data.get("doctor", "")] += 1
            _count_repeated(data, tested, repeated)
            for member in mistake.get("members", ()):
                merged[member["doctor"]] += 1
        texts = [turn["text"] for turn in data.get("conversation", ())]
        conversation_hash = hash((data.get("doctor"), *texts))
        if conversation_hash not in seen_conversations:
            seen_conversations.add(conversation_hash)
            _count_agreement(data.get("scores", {}), scores)
    if not categories and not scores:
        return []
    doctors = [(name, str(merged[name]), str(by_doctor[name])) for name in sorted(merged | by_doctor)]
    blocks: list[Block] = [
        Table(_("Mistakes by doctor"), (_("Doctor"), _("Mistakes found"), _("Different mistakes")), tuple(doctors)),
        Table(_("Mistakes by category"), (_("Category"), _("Different mistakes")), _count_rows(categories)),
        Table(_("Mistakes by risk (model)"), (_("Risk"), _("Different mistakes")), _count_rows(risks)),
    ]
    if tested:
        blocks.append(_repeated_table(tested, repeated))
    if scores:
        blocks.append(_agreement_table(scores))
    return blocks


def _repeated_table(tested: Counter[str], repeated: Counter[str]) -> Table:
    counts = [(name, n, repeated[name]) for name, n in tested.most_common()]
    if len(counts) > 1:
        counts.append((_("all"), tested.total(), repeated.total()))
    rows = [(name, str(n), str(again), f"{100 * again / n:.1f} %") for name, n, again in counts]
    columns = (_("Category"), _("Different mistakes"), _("Repeated by a target"), _("Share"))
    return Table(_("Mistakes repeated by a target, by category (Figure 3)"), columns, tuple(rows))


def _agreement_table(scores: Mapping[str, CommitteeAgreement]) -> Table:
    columns = (
        _("Dimension"),
        _("Scored by both"),
        _("Equal"),
        _("Weighted kappa"),
        _("Mean difference"),
        _("Not scored"),
    )
    rows = [(name, *agreement.cells()) for name, agreement in scores.items()]
    pooled = sum(scores.values(), CommitteeAgreement())
    rows.append((_("all"), *pooled.cells()))
    return Table(_("Agreement of the two judges"), columns, tuple(rows))


def shares(drafts: Iterable[Mapping[str, Any]]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """Figure 3: by category, the mistakes that a target repeated, of all that were put to one."""
    tested: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    for data in drafts:
        _count_repeated(data, tested, repeated)
    return {"repeated": {category: (repeated[category], n) for category, n in tested.items()}}


def _count_repeated(data: Mapping[str, Any], tested: Counter[str], repeated: Counter[str]) -> None:
    attempts = data.get("attempts", ())
    if not data.get("mistake") or not any(attempt["results"] for attempt in attempts):
        return
    category = data["mistake"].get("category", "")
    tested[category] += 1
    repeated[category] += any(attempt["replicated"] for attempt in attempts)


def _count_agreement(scores: Mapping[str, Mapping[str, Any]], counts: dict[str, CommitteeAgreement]) -> None:
    one, other = [scores.get(judge, {}) for judge in conversation.JUDGES]
    for key in dict.fromkeys((*one, *other)):
        values, not_scored = [], 0
        for entry in (one.get(key), other.get(key)):
            if entry is None:
                not_scored += 1
            elif entry["score"] is not None:
                values.append(entry["score"])
        counts[key].add(values, not_scored=not_scored)


def _count_rows(counts: Counter[str]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, str(n)) for name, n in counts.most_common())
