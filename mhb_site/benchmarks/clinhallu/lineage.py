"""How a reference trace came to be, for the pages of samples and drafts, and what was kept and rejected in a batch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from mhb_site.benchmarks.clinhallu.trace_text import HEADERS, STAGES
from review.rules.blocks import Block, Table, Text

STATUSES = ("kept", "invalid", "wrong", "inconsistent", "unjudged")


def _status(status: str) -> str:
    return {
        "": _("not checked yet"),
        "kept": _("kept"),
        "invalid": _("rejected: invalid trace"),
        "wrong": _("rejected: wrong answer"),
        "inconsistent": _("rejected: trace does not support the answer"),
        "unjudged": _("rejected: the judge's reply could not be read"),
    }.get(status, status)


def _by(answer: Mapping[str, Any]) -> str:
    return {"letter": _("option letter"), "judge": _("judge"), "text": _("text comparison")}.get(answer["by"], "")


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """The candidates with what was found of them, and the report that the judge was given."""
    blocks: list[Block] = []
    final = data.get("final")
    if final and final["origin"] == "corrected":
        stages = ", ".join(HEADERS[stage] for stage in final["stages"])
        blocks.append(Text(_("Origin"), _("Previous version, corrected by physicians: %s") % stages))
    if final and final["origin"] == "published":
        blocks.append(Text(_("Origin"), _("Published sample, used unchanged")))
    made = list(data.get("candidates", ()))
    if made:
        rows = tuple(
            (
                str(each["number"]),
                each["trace"]["answer"],
                _by(each["answer"]) if "answer" in each else "",
                _status(each["status"]),
                each["why"],
            )
            for each in made
        )
        columns = (_("Candidate"), _("Answer"), _("Checked by"), _("Result"), _("Reason"))
        blocks.append(Table(_("Candidates"), columns, rows))
        blocks += [_stages(each) for each in made if each["status"] != "kept"]
    if data.get("report"):
        blocks.append(Text(_("Report on the image, given to the judge"), data["report"]))
    return blocks


def _stages(made: Mapping[str, Any]) -> Block:
    """A rejected candidate, which is kept with its draft."""
    title = _("Rejected candidate %s") % made["number"]
    if made["text"]:
        return Text(title, made["text"])
    stages = [(HEADERS[stage].strip("[]"), made["trace"][stage]) for stage in STAGES]
    return Table(title, (_("Stage"), _("Text")), (*stages, (_("Answer"), made["trace"]["answer"])))


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """How many candidates there were, how many of them were rejected and why, and by what answers were checked."""
    candidates: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    questions = rejected = 0
    for data in drafts:
        made = data.get("candidates", ())
        candidates.update(each["status"] for each in made)
        checked.update(each["answer"]["by"] for each in made if "answer" in each)
        final = data.get("final")
        if final:
            origins[final["origin"]] += 1
        if made:
            questions += 1
            rejected += final is None and all(each["status"] not in ("", "kept") for each in made)
    blocks: list[Block] = []
    if candidates:
        rows = [(_("All"), str(candidates.total()), "100.0 %")]
        rows += [
            (_status(status), str(candidates[status]), _share(candidates[status], candidates.total()))
            for status in STATUSES
        ]
        blocks.append(Table(_("Candidates"), (_("Result"), _("Candidates"), _("Share")), tuple(rows)))
        told = ((_("Questions with a kept trace"), questions - rejected), (_("Questions without"), rejected))
        rows = [(label, str(count), _share(count, questions)) for label, count in told]
        blocks.append(Table(_("Questions"), (_("Result"), _("Questions"), _("Share")), tuple(rows)))
    if checked:
        names = (("letter", _("option letter")), ("judge", _("judge")), ("text", _("text comparison")))
        rows = [(label, str(checked[name]), _share(checked[name], checked.total())) for name, label in names]
        blocks.append(Table(_("Answers checked by"), (_("Checked by"), _("Candidates"), _("Share")), tuple(rows)))
    if origins:
        words = {"made": _("made here"), "published": _("published"), "corrected": _("corrected by physicians")}
        rows = [(words[name], str(count), _share(count, origins.total())) for name, count in sorted(origins.items())]
        blocks.append(Table(_("Origin"), (_("Origin"), _("Samples"), _("Share")), tuple(rows)))
    return blocks


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
