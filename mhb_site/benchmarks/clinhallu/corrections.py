"""Stages corrected by physicians: their text becomes the next version, without a model."""

import re
from collections.abc import Sequence

from mhb_site.benchmarks.clinhallu.review import FORM
from mhb_site.benchmarks.clinhallu.trace_text import STAGE_LABELS, stage_fault

# The review form's questions on stages have their labels; the engine starts a reason with the label.
_STAGE_OF = {label: stage for stage, label in STAGE_LABELS.items()}
_REASON = re.compile(rf"({'|'.join(map(re.escape, _STAGE_OF))}): (.*)", re.DOTALL)
# The field for the right text of each stage.
_FIELDS = {
    f"{question.label}: ": question.key.removesuffix("-corrected")
    for question in FORM.questions
    if question.key.endswith("-corrected")
}
# Cases that were opened before there were such fields ask for it in the note.
_CORRECTED = re.compile(
    r"(?:^|\n|(?<=[\s.;:!?。；]))(?:Corrected|Corrected text|更正|更正后)\s*[:：]\s*(.+)\Z", re.DOTALL
)


def corrected_stages(reasons: Sequence[str]) -> dict[str, str]:
    """Stage -> the text that a physician wrote for it.

    Of several texts, the last counts. Empty if any stage was rejected without a corrected text:
    then the generator has to write a new trace.
    """
    corrections: dict[str, str] = {}
    rejected = set()
    for reason in reasons:
        for label, stage in _FIELDS.items():
            text = reason.removeprefix(label)
            if text != reason and not stage_fault(stage, text):
                corrections[stage] = text.strip()
        match = _REASON.fullmatch(reason)
        if match is None:
            continue
        stage = _STAGE_OF[match[1]]
        rejected.add(stage)
        note = _CORRECTED.search(match[2])
        if note and not stage_fault(stage, note[1]):
            corrections[stage] = note[1].strip()
    if rejected == set(corrections):
        return corrections
    return {}
