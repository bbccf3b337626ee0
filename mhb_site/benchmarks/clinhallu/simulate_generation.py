"""ClinHallu's simulated models of the making side: a generator that sees, a judge, and a reporter.

They see an image by its SHA-256, and know what is true of it from `simulate_answers.LABELS`, which the demo and tests fill: the
true answer is in no prompt to the generator. The chances of its mistakes are published here, so that a test can ask whether the
recipe finds them all.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.clinhallu import reference
from mhb_site.benchmarks.clinhallu.simulate_answers import LABELS, SLIPS, WRONG_ANSWER
from mhb_site.benchmarks.clinhallu.trace_text import KNOWLEDGE, REASONING, STAGES, VISUAL, write_stages

GENERATOR, JUDGE = "sim-generator", "sim-judge"
# Of the generator's candidates, so many have no stages, end in a wrong answer, or contradict their right answer.
MALFORMED, WRONG, CONFLICTING = 0.06, 0.08, 0.05
UNREAD = 0.02  # of the judge's replies about answers, even when it is asked again
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


def expected(*, consistency: bool, local: bool, tries: int = 1) -> dict[str, float]:
    """The shares of candidates that are kept or rejected on average, by status, where `tries` is 1."""
    formed = 1 - MALFORMED**tries if tries > 1 else 1 - MALFORMED
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
    """What a model says to one of the prompts of the recipe, known by its first line; None: not ours."""
    task = _TASKS.get(_heading(messages[0].text))
    if task is None:
        return None
    asked = next((each for each in messages if each.role == "user"), messages[-1])
    data = read_data(asked.text)
    if task == "trace" and model == GENERATOR:
        return _trace(data, asked, seed)
    if model != JUDGE:
        return None
    if task == "report":
        return _report(data, asked)
    return _checked(task, data, asked, seed)


def _trace(data: Mapping[str, Any], asked: Message, seed: int) -> str:
    images = [image.sha256 for image in asked.images]
    question = str(data["QUESTION"])
    dice = (question, *images, json.dumps(data["REJECTED"], sort_keys=True))
    if chance(seed, "malformed", *dice) < MALFORMED:
        return "The image shows nothing unusual, so the answer is no."
    truth = LABELS.get((question, images[0] if images else ""))
    wrong = truth is None or chance(seed, "wrong", *dice) < WRONG
    conflicts = chance(seed, "conflict", *dice) < CONFLICTING
    stages = {
        VISUAL: f"Seen: {', '.join(sha256[:12] for sha256 in images)}, without anything else of note.",
        KNOWLEDGE: "This is how the textbooks have it.",
        REASONING: CONFLICT if conflicts else "Findings and knowledge lead to this answer.",
    }
    return f"{write_stages(**stages).strip()}\n[Answer] {WRONG_ANSWER if wrong else truth}"


def _report(data: Mapping[str, Any], asked: Message) -> str:
    known = "; ".join(f"{each['question']} {each['answer']}" for each in data["KNOWN"])
    seen = ", ".join(image.sha256[:12] for image in asked.images)
    return f"[Modality & Region] {seen}\n[Findings] {known}\n[Interpretation] As the answers say."


def _plain(text: str) -> str:
    """An answer without its letter, case and full stop."""
    letter = reference.letter_of(text)
    bare = text[text.find(letter) + 1 :].lstrip(").: ") if letter and len(text) > 1 else text
    return " ".join(bare.casefold().split()).strip(" .")


def _checked(task: str, data: Mapping[str, Any], asked: Message, seed: int) -> str:
    if task == "consistency":
        trace = data["TRACE"]
        conflicts = CONFLICT in trace["reasoning"] or any(SLIPS[stage] in trace[stage] for stage in STAGES)
        seen = all(image.sha256[:12] in trace["visual"] for image in asked.images)
        return json.dumps({"reason": "Read stage by stage.", "consistent": int(not conflicts and seen)})
    if chance(seed, "unread", str(data["QUESTION"]), *(str(data[name]) for name in ("TRUTH", "PREDICTED"))) < UNREAD:
        return "I would say so, yes."
    right = _plain(str(data["PREDICTED"])) == _plain(str(data["TRUTH"]))
    return json.dumps({"answer_reasoning": "Compared word for word.", "answer_correct": int(right)})
