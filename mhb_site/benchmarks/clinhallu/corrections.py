"""Stages corrected by physicians: their text becomes the next version, without a model."""

import re
from collections.abc import Mapping, Sequence

from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, REASONING, VISUAL, stage_fault

# The labels of the review form's questions on stages; the engine starts a reason with the label.
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


def corrected_stages(reasons: Sequence[str]) -> dict[str, str]:
    """Stage -> the text that a physician wrote for it after 'Corrected:' in the note.

    Of several texts, the last counts. Empty if any stage was rejected without a corrected text:
    then the generator has to write a new trace.
    """
    corrections: dict[str, str] = {}
    rejected = set()
    for reason in reasons:
        if (match := _REASON.fullmatch(reason)) is None:
            continue
        stage = _STAGE_OF[match[1]]
        rejected.add(stage)
        text = _CORRECTED.search(match[2])
        if text and not stage_fault(stage, text[1]):
            corrections[stage] = text[1].strip()
    return corrections if rejected == set(corrections) else {}
