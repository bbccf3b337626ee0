"""ClinHallu's simulated models for generation: a generator that sees, a judge, and a reporter.

They recognise an image by its SHA-256. The true answer is in no prompt to the generator: it comes
from `simulate_answers.LABELS`, which the demo and tests fill. The chances of the generator's
mistakes are published here, so that a test can check whether the recipe finds them all.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.clinhallu import reference
from mhb_site.benchmarks.clinhallu.simulate_answers import LABELS, WRONG_ANSWER, WRONG_STAGES
from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, REASONING, STAGES, VISUAL, write_stages

GENERATOR, JUDGE = "sim-generator", "sim-judge"
# The shares of candidates without stages, with a wrong answer, and contradicting their right
# answer.
MALFORMED, WRONG, CONFLICTING = 0.06, 0.08, 0.05
UNREAD = 0.02  # the share of the judge's replies on answers that stay unreadable when asked again
CONFLICT = "This rules out the answer given below."


def _heading(text: str) -> str:
    return text.partition("\n")[0]


_TASKS = {
    _heading(prompt.turns[0][1]): name
    for name, prompt in (
        ("trace", reference.REFERENCE),
        ("report", reference.REPORT),
        ("answer", reference.CHECK_ANSWER),
        ("consistency", reference.CHECK_TRACE),
    )
}


def expected_shares(*, consistency: bool, local: bool, tries: int = 1) -> dict[str, float]:
    """The average shares of candidates by status; of questions, if `tries` is above 1."""
    formed = 1 - MALFORMED**tries
    read = 1.0 if local else 1 - UNREAD
    conflicts = CONFLICTING if consistency else 0.0
    return {
        reference.INVALID: 1 - formed,
        reference.WRONG: formed * WRONG * read,
        reference.UNJUDGED: formed * (1 - read),
        reference.INCONSISTENT: formed * (1 - WRONG) * read * conflicts,
        reference.KEPT: formed * (1 - WRONG) * read * (1 - conflicts),
    }


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """The reply to a prompt of the recipe, recognised by its first line; None for other prompts."""
    task = _TASKS.get(_heading(messages[0].text))
    if task is None:
        return None
    user_turn = next((message for message in messages if message.role == "user"), messages[-1])
    data = read_data(user_turn.text)
    if task == "trace" and model == GENERATOR:
        return _trace(data, user_turn, seed)
    if model != JUDGE:
        return None
    if task == "report":
        return _report(data, user_turn)
    return _check(task, data, user_turn, seed)


def _trace(data: Mapping[str, Any], user_turn: Message, seed: int) -> str:
    images = [image.sha256 for image in user_turn.images]
    question = str(data["QUESTION"])
    draw = (question, *images, json.dumps(data["REJECTED"], sort_keys=True))
    if chance(seed, "malformed", *draw) < MALFORMED:
        return "The image shows nothing unusual, so the answer is no."
    truth = LABELS.get((question, images[0] if images else ""))
    wrong = truth is None or chance(seed, "wrong", *draw) < WRONG
    conflicts = chance(seed, "conflict", *draw) < CONFLICTING
    stages = {
        VISUAL: f"Seen: {', '.join(sha256[:12] for sha256 in images)}, without anything else of note.",
        KNOWLEDGE: "This is how the textbooks have it.",
        REASONING: CONFLICT if conflicts else "Findings and knowledge lead to this answer.",
    }
    return f"{write_stages(**stages).strip()}\n[Answer] {WRONG_ANSWER if wrong else truth}"


def _report(data: Mapping[str, Any], user_turn: Message) -> str:
    known = "; ".join(f"{pair['question']} {pair['answer']}" for pair in data["KNOWN"])
    seen = ", ".join(image.sha256[:12] for image in user_turn.images)
    return f"[Modality & Region] {seen}\n[Findings] {known}\n[Interpretation] As the answers say."


def _normalised_answer(text: str) -> str:
    """An answer without its letter, case and full stop."""
    letter = reference.letter_of(text)
    text_only = text[text.find(letter) + 1 :].lstrip(").: ") if letter and len(text) > 1 else text
    return " ".join(text_only.casefold().split()).strip(" .")


def _check(task: str, data: Mapping[str, Any], user_turn: Message, seed: int) -> str:
    if task == "consistency":
        trace = data["TRACE"]
        conflicts = CONFLICT in trace["reasoning"] or any(WRONG_STAGES[stage] in trace[stage] for stage in STAGES)
        seen = all(image.sha256[:12] in trace["visual"] for image in user_turn.images)
        return json.dumps({"reason": "Read stage by stage.", "consistent": int(not conflicts and seen)})
    if chance(seed, "unread", str(data["QUESTION"]), *(str(data[name]) for name in ("TRUTH", "PREDICTED"))) < UNREAD:
        return "I would say so, yes."
    is_right = _normalised_answer(str(data["PREDICTED"])) == _normalised_answer(str(data["TRUTH"]))
    return json.dumps({"answer_reasoning": "Compared word for word.", "answer_correct": int(is_right)})
