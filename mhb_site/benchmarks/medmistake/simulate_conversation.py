"""MedMistake's simulated models up to the mistake: patient, doctors with known rates of mistakes, judges, extractor.

`planted.json` is the table of mistakes: the sentence of a doctor who makes one and of one who does not, what a judge notes, and
three wordings in which the extractor reports it. A visit has `OPPORTUNITIES` of them, chosen by what the patient says first; at
each, a doctor makes the mistake at the rate of its model (`RATES`). A judge knows a mistake by its sentence, and overlooks some
(`OVERLOOKS`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.medmistake import conversation
from mhb_site.benchmarks.medmistake.dimensions import all_dimensions

PATIENT, EXTRACTOR = "sim-patient", "sim-extractor"
RATES: Mapping[str, float] = {"sim-careful": 0.10, "sim-average": 0.35, "sim-reckless": 0.65}
OVERLOOKS: Mapping[str, float] = {"sim-judge": 0.05, "sim-critic": 0.10}
LEAVES_OUT = 0.05  # the chance that a judge leaves out a dimension of the first call
OPPORTUNITIES = 4


class Planted(BaseModel):
    """One mistake of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    dimension: str
    risk: str
    wrong: str
    right: str
    note: str
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def category(self) -> str:
        return next(each.category for each in all_dimensions() if each.key == self.dimension)


@cache
def planted() -> tuple[Planted, ...]:
    """The table."""
    return TypeAdapter(tuple[Planted, ...]).validate_json((Path(__file__).parent / "planted.json").read_bytes())


def opportunities(first: str, seed: int) -> tuple[Planted, ...]:
    """The mistakes that a doctor may make in a visit that the patient begins with these words, in their order."""
    return tuple(sorted(planted(), key=lambda each: chance(seed, "opportunity", first, each.key)))[:OPPORTUNITIES]


def is_made(model: str, first: str, mistake: Planted, seed: int) -> bool:
    """Whether a doctor makes a mistake in such a visit."""
    return chance(seed, "makes", model, first, mistake.key) < RATES[model]


def key_of(title: str) -> str:
    """The key of the planted mistake that is reported under this title; "" for none."""
    return next((each.key for each in planted() if title in each.titles), "")


_HEADINGS = {prompt.turns[0][1].partition("\n")[0]: name for name, prompt in conversation.SETS[""].items()}


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """What a model says to the prompts of this half; None: not ours."""
    match _HEADINGS.get(messages[0].text.partition("\n")[0]):
        case "patient" if model == PATIENT:
            return _patient(read_data(messages[1].text)["CASE"], [each.text for each in messages[2:]])
        case "doctor" if model in RATES:
            return _doctor(model, messages[1:], seed)
        case "committee" if model in OVERLOOKS:
            return json.dumps(_scores(model, read_data(messages[1].text), seed))
        case "extract" if model == EXTRACTOR:
            return json.dumps(_mistakes(read_data(messages[1].text), seed))
    return None


def _patient(case: Mapping[str, Any], said: Sequence[str]) -> str:
    """Why it came, its goals one by one, then goodbye. `said`: the turns so far, its own first."""
    own = (len(said) + 1) // 2
    if not own:
        return f"Hello doctor. {case['encounter_reason']} {case['persona']}"
    if own >= OPPORTUNITIES:
        return "Thank you, that is all I wanted to know.\n[END]"
    goals = case["goals"]
    return f"I see. What I would also like: {goals[(own - 1) % len(goals)]} I have had this for {own + 1} weeks."


def _doctor(model: str, turns: Sequence[Message], seed: int) -> str:
    first = turns[0].text
    place = sum(turn.role == "assistant" for turn in turns)
    mistakes = opportunities(first, seed)
    if place >= len(mistakes):
        return "Is there anything else that you would like to ask?"
    mistake = mistakes[place]
    sentence = mistake.wrong if is_made(model, first, mistake, seed) else mistake.right
    return f"Thank you for telling me. {sentence} Does that make sense to you?"


def _scores(model: str, data: Mapping[str, Any], seed: int) -> dict[str, Any]:
    turns = data["CONVERSATION"]
    story = turns[0]["text"]
    found: dict[str, tuple[int, Planted]] = {}
    for mistake in planted():
        for turn in turns:
            if mistake.wrong in turn["text"] and chance(seed, "sees", model, story, mistake.key) >= OVERLOOKS[model]:
                found[mistake.dimension] = (turn["turn"], mistake)
    asked = data["DIMENSIONS"]
    left_out = asked[-1]["key"] if len(asked) > 1 and chance(seed, "leaves", model, story) < LEAVES_OUT else ""
    scores: list[dict[str, Any]] = []
    for dimension in asked:
        key = dimension["key"]
        if key == left_out and key not in found:
            continue
        if key in found:
            turn, mistake = found[key]
            score = 1 + int(chance(seed, "score", model, story, key) < 0.5)
            scores.append({"dimension": key, "score": score, "turns": [turn], "note": mistake.note})
        else:
            applies = chance(seed, "applies", story, key) < 0.8
            scores.append({"dimension": key, "score": 4 if applies else None, "turns": [], "note": ""})
    return {"scores": scores}


def _mistakes(data: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Each mistake that is noted, once, in one of its wordings."""
    story = "\n".join(turn["text"] for turn in data["CONVERSATION"])
    made = []
    for mistake in planted():
        turns = sorted({turn for note in data["NOTES"] if note["note"] == mistake.note for turn in note["turns"]})
        if turns:
            words = [
                some[int(chance(seed, what, story, mistake.key) * len(some))]
                for what, some in (("title", mistake.titles), ("text", mistake.texts))
            ]
            made.append(
                {
                    "title": words[0],
                    "description": words[1],
                    "category": mistake.category,
                    "reason": "It answered at once instead of asking first.",
                    "tags": list(mistake.tags),
                    "risk": mistake.risk,
                    "turns": turns,
                }
            )
    return {"mistakes": made}
