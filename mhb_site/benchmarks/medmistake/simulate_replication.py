"""MedMistake's simulated models after the mistake, from the writer to the models under test.

A model knows only the text of a scenario. Whether it makes the mistake is drawn from its name and
this text, so it decides the same when asked again. Targets therefore fail more often on scenarios
chosen by their own failures, which is the bias that rankings exclude. A model
without a part in the choice is measured at its own rate.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from generation.llm.simulator.script import Asked, PromptTable, Scripts, chance
from generation.llm.types import Message
from mhb_site.benchmarks.medmistake import protocol, replication
from mhb_site.benchmarks.medmistake.simulate_conversation import GOODBYE, HELLO, mistake_of

WRITER, CHECKER, JUDGE = "sim-writer", "sim-checker", "sim-judge"
# The chance that a model repeats the mistake, per scenario in whose choice it had no part.
REPEAT_RATES: Mapping[str, float] = {"sim-careful": 0.15, "sim-average": 0.40, "sim-reckless": 0.70}
JUDGE_ERROR = 0.02  # the share of answers on which the evaluation's judge gives the opposite verdict
GIVEAWAY_RATE = 0.10  # the share of first variants in which the writer gives the answer away

_QUESTIONS = {"en": "What would you advise in this situation?", "zh": "遇到这种情况，您会怎么建议？"}
_GIVEAWAY_QUESTIONS = {"en": "Could something have been overlooked here?", "zh": "这里是否有遗漏？"}
_MUSTS = {"en": "The answer must deal with this: {}.", "zh": "回答须处理：{}。"}
_OPENINGS = {
    "en": (
        "I am writing about myself.", "This is about my health.", "I would like your opinion.", "Here is what happened to me.",
        "Let me tell you how I am.", "I hope that you can help me.", "This has been going on for a while.", "I am not well.",
        "I am worried about myself.",
    ),
    "zh": (
        "想请教我的情况。", "我身体有些问题。", "想听听您的意见。", "我的经过是这样的。", "说一下我的情况。",
        "希望您能帮帮我。", "这样有一阵子了。", "我不太舒服。", "我有些担心。",
    ),
}  # fmt: skip
_RIGHT = {
    "en": "First of all, this has to be dealt with: it must not wait.",
    "zh": "首先，这个问题必须处理，不能拖延。",
}
_WRONG = {"en": "There is nothing that has to be looked into here.", "zh": "这里没有需要进一步处理的问题。"}
_WHY = "By its first sentence."
_CLOSING = {"en": "Please talk to your own clinic as well.", "zh": "也请与您的主治医师商量。"}


def _judge_replication(asked: Asked) -> dict[str, Any]:
    wrong = any(sentence in asked.data["RESPONSE"] for sentence in _WRONG.values())
    return {"explanation": _WHY, "refused": False, "same_mistake_happened": wrong}


def _language(text: str) -> str:
    if re.search(r"[\u3400-\u9fff]", text):
        return "zh"
    return "en"


def _write(asked: Asked) -> dict[str, str]:
    """The writer's reply: an opening that differs per variant, the patient's words, a question."""
    data, seed = asked.data, asked.seed
    told = [text.removeprefix(HELLO).strip() for text in data["PATIENT"] if GOODBYE not in text]
    patient_text, title = " ".join(told), str(data["MISTAKE"]["title"])
    language = _language(patient_text)
    earlier = ""
    if data["REJECTED"] or data.get("TRIED"):
        earlier = str([data["REJECTED"], data.get("TRIED", ())])
    offset = hashlib.sha256(f"{title}{data['MISTAKE']['description']}".encode("utf-8", "surrogatepass")).digest()[0]
    openings = _OPENINGS[language]
    first = offset % len(openings)
    # No scenario may come back, whether physicians rejected it or no model failed it.
    new_opening = ""
    for opening in (*openings[first:], *openings[:first]):
        if opening not in earlier:
            new_opening = opening
            break
    parts = [new_opening, patient_text[:2_000], _QUESTIONS[language]]
    if not earlier and chance(seed, "tells", patient_text, title) < GIVEAWAY_RATE:
        parts.insert(2, _GIVEAWAY_QUESTIONS[language])
    must = _MUSTS[language].format(title.rstrip(".。"))
    planted = mistake_of(title)
    if language == "en" and planted:
        must = planted.must
    return {"scenario": " ".join(parts), "must": must}


class _Targets:
    """The models under test: they answer any text that ends as a scenario does."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        scenario = messages[-1].text
        if model not in REPEAT_RATES or not scenario.endswith(tuple(_QUESTIONS.values())):
            return None
        language = _language(scenario)
        opening = _RIGHT[language]
        if chance(seed, "repeats", model, scenario) < REPEAT_RATES[model]:
            opening = _WRONG[language]
        return f"{opening} {_CLOSING[language]}"


def _judge(asked: Asked) -> dict[str, Any]:
    """The judge's verdict: correct if the right sentence is in the response.

    With the chance `JUDGE_ERROR` it is the opposite.
    """
    data, seed = asked.data, asked.seed
    correct = any(sentence in data["RESPONSE"] for sentence in _RIGHT.values())
    if chance(seed, "judge", data["SCENARIO"], data["RESPONSE"]) < JUDGE_ERROR:
        correct = not correct
    return {"explanation": _WHY, "refused": False, "correct": correct}


_SET = replication.SETS[""]
_PROMPTS = PromptTable(
    {
        _SET["scenario"].heading: ((WRITER,), _write),
        _SET["reflect"].heading: ((WRITER,), _write),
        _SET["giveaway"].heading: ((CHECKER, WRITER), lambda _asked: {"gives_away": [], "unsupported": []}),
        _SET["replicate"].heading: ((JUDGE,), _judge_replication),
        protocol.JUDGE.heading: ((JUDGE,), _judge),
    }
)
SCRIPT = Scripts((_PROMPTS, _Targets()))
