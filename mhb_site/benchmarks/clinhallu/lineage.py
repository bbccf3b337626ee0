"""Reference traces: the candidates of a sample or draft, and the shares kept in a batch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from mhb_site.benchmarks.clinhallu.trace_text import HEADERS, STAGES
from review.rules.blocks import Block, Table, Text, share_table

STATUSES = ("kept", "invalid", "wrong", "inconsistent", "unjudged")


def _status_label(status: str) -> str:
    return {
        "": _("not checked yet"),
        "kept": _("kept"),
        "invalid": _("rejected: invalid trace"),
        "wrong": _("rejected: wrong answer"),
        "inconsistent": _("rejected: trace does not support the answer"),
        "unjudged": _("rejected: the judge's reply could not be read"),
    }.get(status, status)


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Blocks with the candidates, their results, and the report given to the judge."""
    blocks: list[Block] = []
    final = data.get("final")
    if final and final["origin"] == "corrected":
        stages = ", ".join(HEADERS[stage] for stage in final["stages"])
        blocks.append(Text(_("Origin"), _("Previous version, corrected by physicians: %s") % stages))
    if final and final["origin"] == "published":
        blocks.append(Text(_("Origin"), _("Published sample, used unchanged")))
    candidates = list(data.get("candidates", ()))
    if candidates:
        columns = (_("Candidate"), _("Answer"), _("Checked by"), _("Result"), _("Reason"))
        rows = [_candidate_row(candidate) for candidate in candidates]
        blocks.append(Table(_("Candidates"), columns, tuple(rows)))
        for candidate in candidates:
            if candidate["status"] != "kept":
                blocks.append(_rejected_candidate(candidate))
    if data.get("report"):
        blocks.append(Text(_("Report on the image, given to the judge"), data["report"]))
    return blocks


def _checkers() -> dict[str, str]:
    return {"letter": _("option letter"), "judge": _("judge"), "text": _("text comparison")}


def _candidate_row(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    checked_by = ""
    if "answer" in candidate:
        checked_by = _checkers().get(candidate["answer"]["by"], "")
    answer, result = candidate["trace"]["answer"], _status_label(candidate["status"])
    return str(candidate["number"]), answer, checked_by, result, candidate["why"]


def _rejected_candidate(candidate: Mapping[str, Any]) -> Block:
    """A rejected candidate, as stored with its draft."""
    title = _("Rejected candidate %s") % candidate["number"]
    if candidate["text"]:
        return Text(title, candidate["text"])
    stages = [(HEADERS[stage].strip("[]"), candidate["trace"][stage]) for stage in STAGES]
    return Table(title, (_("Stage"), _("Text")), (*stages, (_("Answer"), candidate["trace"]["answer"])))


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Blocks with the numbers of candidates by result, of questions, of checkers and of origins."""
    candidates: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    questions = rejected = 0
    for data in drafts:
        draft_statuses = set()
        for candidate in data.get("candidates", ()):
            draft_statuses.add(candidate["status"])
            candidates[candidate["status"]] += 1
            if "answer" in candidate:
                checked[candidate["answer"]["by"]] += 1
        final = data.get("final")
        if final:
            origins[final["origin"]] += 1
        if draft_statuses:
            questions += 1
            rejected += final is None and draft_statuses.isdisjoint({"", "kept"})
    blocks: list[Block] = []
    if candidates:
        counts = [(_("All"), candidates.total())]
        counts += [(_status_label(status), candidates[status]) for status in STATUSES]
        columns = (_("Result"), _("Candidates"), _("Share"))
        blocks.append(share_table(_("Candidates"), columns, counts, candidates.total()))
        totals = ((_("Questions with a kept trace"), questions - rejected), (_("Questions without"), rejected))
        blocks.append(share_table(_("Questions"), (_("Result"), _("Questions"), _("Share")), totals, questions))
    if checked:
        counts = [(label, checked[name]) for name, label in _checkers().items()]
        columns = (_("Checked by"), _("Candidates"), _("Share"))
        blocks.append(share_table(_("Answers checked by"), columns, counts, checked.total()))
    if origins:
        labels = {"made": _("made here"), "published": _("published"), "corrected": _("corrected by physicians")}
        counts = [(labels[name], count) for name, count in sorted(origins.items())]
        blocks.append(share_table(_("Origin"), (_("Origin"), _("Samples"), _("Share")), counts, origins.total()))
    return blocks
