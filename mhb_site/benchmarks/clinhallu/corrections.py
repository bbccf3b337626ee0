"""Stages that physicians corrected: their text becomes the next version as it is, and no model is asked."""

import re
from collections.abc import Mapping, Sequence

from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, REASONING, VISUAL, stage_fault

# The labels of the review's questions about stages, by which the engine begins a reason.
LABELS: Mapping[str, str] = {
    VISUAL: "Visual recognition",
    KNOWLEDGE: "Knowledge recall",
    REASONING: "Reasoning",
}
_STAGE_OF = {label: stage for stage, label in LABELS.items()}
_REASON = re.compile(rf"({'|'.join(map(re.escape, LABELS.values()))}): (.*)", re.DOTALL)
_CORRECTED = re.compile(
    r"(?:^|\n|(?<=[\s.;:!?。；]))(?:Corrected|Corrected text|更正|更正后)\s*[:：]\s*(.+)\Z", re.DOTALL
)


def corrected(reasons: Sequence[str]) -> dict[str, str]:
    """Stage -> the text that a physician wrote for it, after 'Corrected:' in the note. Of several, the last counts.

    Empty where a stage was found wrong and nobody wrote what it should be: then the generator has to.
    """
    found: dict[str, str] = {}
    objected = set()
    for reason in reasons:
        if (about := _REASON.fullmatch(reason)) is None:
            continue
        stage = _STAGE_OF[about[1]]
        objected.add(stage)
        text = _CORRECTED.search(about[2])
        if text and not stage_fault(stage, text[1]):
            found[stage] = text[1].strip()
    return found if objected == set(found) else {}
