"""ClinHallu's simulated models for generation: a generator that sees, a judge, and a reporter.

They recognise an image by its SHA-256. The true answer is in no prompt to the generator: it comes
from `simulate_answers.LABELS`, which the demo and tests fill. The chances of the generator's
mistakes are published here, so that a test can check whether the recipe finds them all.
"""

import json
import re
from typing import Any

from generation.common.medical_text import is_same_text
from generation.llm.simulator.script import Asked, PromptTable, chance
from mhb_site.benchmarks.clinhallu import reference
from mhb_site.benchmarks.clinhallu.simulate_answers import (
    LABELS,
    WRONG_ANSWER,
    WRONG_STAGES,
    correct_stage,
    film,
    label_key,
)
from mhb_site.benchmarks.clinhallu.trace_text import REASONING, STAGES, write_stages

GENERATOR, JUDGE = "sim-generator", "sim-judge"
# The shares of candidates without stages, with a wrong answer, and contradicting their right
# answer.
MALFORMED, WRONG, CONFLICTING = 0.06, 0.08, 0.05
UNREAD = 0.02  # the share of the judge's replies on answers that stay unreadable when asked again
CONFLICT = "This rules out the answer given below."


def _trace(asked: Asked) -> str:
    data, seed = asked.data, asked.seed
    images = [image.sha256 for image in asked.turn.images]
    question = str(data["QUESTION"])
    draw = (question, *images, json.dumps(data["REJECTED"], sort_keys=True))
    if chance(seed, "malformed", *draw) < MALFORMED:
        return "The image shows nothing unusual, so the answer is no."
    answer = LABELS.get(label_key(question, images))
    if answer is None or chance(seed, "wrong", *draw) < WRONG:
        answer = WRONG_ANSWER
    stages = {stage: correct_stage(stage, images) for stage in STAGES}
    if chance(seed, "conflict", *draw) < CONFLICTING:
        stages[REASONING] = CONFLICT
    return f"{write_stages(**stages).strip()}\n[Answer] {answer}"


def _report(asked: Asked) -> str:
    known = "; ".join(f"{pair['question']} {pair['answer']}" for pair in asked.data["KNOWN"])
    seen = ", ".join(film(image.sha256) for image in asked.turn.images)
    return f"[Modality & Region] {seen}\n[Findings] {known}\n[Interpretation] As the answers say."


_LETTER = re.compile(r"\A\s*+\(?[A-Za-z][).:]\s*+(?=\S)")


def _check_trace(asked: Asked) -> dict[str, Any]:
    trace = asked.data["TRACE"]
    conflicts = CONFLICT in trace["reasoning"] or any(WRONG_STAGES[stage] in trace[stage] for stage in STAGES)
    seen = all(film(image.sha256) in trace["visual"] for image in asked.turn.images)
    return {"reason": "Read stage by stage.", "consistent": int(not conflicts and seen)}


def _check_answer(asked: Asked) -> str | dict[str, Any]:
    question, truth, predicted = str(asked.data["QUESTION"]), str(asked.data["TRUTH"]), str(asked.data["PREDICTED"])
    if chance(asked.seed, "unread", question, truth, predicted) < UNREAD:
        return "I would say so, yes."
    is_right = is_same_text(_LETTER.sub("", predicted, count=1), _LETTER.sub("", truth, count=1))
    return {"answer_reasoning": "Compared word for word.", "answer_correct": int(is_right)}


SCRIPT = PromptTable(
    {
        reference.REFERENCE.heading: ((GENERATOR,), _trace),
        reference.REPORT.heading: ((JUDGE,), _report),
        reference.CHECK_ANSWER.heading: ((JUDGE,), _check_answer),
        reference.CHECK_TRACE.heading: ((JUDGE,), _check_trace),
    }
)
