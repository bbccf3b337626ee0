"""MedMistake's simulated models up to the mistake: patient, doctors, judges, extractor.

`planted.json` is the table of mistakes: a doctor's sentence that makes the mistake and one that
does not, a judge's note, and three wordings for the extractor. A visit has `OPPORTUNITIES` of them: those
that fit what the patient says first, and others that fit every visit; at each, a doctor makes the mistake at its model's rate
(`MISTAKE_RATES`). A judge recognises a mistake by its sentence, and misses some (`MISS_RATES`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generation.common.declared import read_declared
from generation.llm.simulator.script import Asked, PromptTable, chance, pick
from mhb_site.benchmarks.medmistake import conversation
from mhb_site.benchmarks.medmistake.dimensions import DIMENSIONS

PATIENT, EXTRACTOR = "sim-patient", "sim-extractor"
MISTAKE_RATES: Mapping[str, float] = {"sim-careful": 0.10, "sim-average": 0.35, "sim-reckless": 0.65}
MISS_RATES: Mapping[str, float] = {"sim-judge": 0.05, "sim-critic": 0.10}
OMISSION_RATE = 0.05  # the chance that a judge omits a dimension in the first call
OPPORTUNITIES = 4


@dataclass(frozen=True, slots=True)
class PlantedMistake:
    """A mistake of the table."""

    key: str
    dimension: str
    fits: tuple[str, ...]  # words of a patient's first turn, one of which it needs; none: any visit
    risk: str
    wrong: str
    right: str
    must: str  # what an answer to a case must do so that it does not repeat the mistake
    note: str
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def category(self) -> str:
        return next(dimension.category for dimension in DIMENSIONS if dimension.key == self.dimension)


PLANTED = read_declared(PlantedMistake, __file__, "planted.json")


def opportunities(first: str, seed: int) -> tuple[PlantedMistake, ...]:
    """The mistakes possible in a visit that starts with the patient's words `first`, in order."""
    fitting: list[PlantedMistake] = []
    general: list[PlantedMistake] = []
    for mistake in PLANTED:
        if not mistake.fits:
            general.append(mistake)
        elif any(word in first for word in mistake.fits):
            fitting.append(mistake)
    general.sort(key=lambda mistake: chance(seed, "opportunity", first, mistake.key))
    return (*fitting, *general)[:OPPORTUNITIES]


def makes_mistake(model: str, first: str, mistake: PlantedMistake, seed: int) -> bool:
    """Whether a doctor makes the mistake in a visit that starts with `first`."""
    return chance(seed, "makes", model, first, mistake.key) < MISTAKE_RATES[model]


def mistake_of(title: str) -> PlantedMistake | None:
    """The planted mistake with this title, if there is one."""
    for mistake in PLANTED:
        if title in mistake.titles:
            return mistake
    return None


HELLO, GOODBYE = "Hello doctor.", "Thank you, that is all I wanted to know."
_ASKS = ("I see. What I would like:", "And there is something else:", "Once more, as it matters to me:")


def _patient(asked: Asked) -> str:
    """The patient's next turn: the reason for the visit, then the goals, then goodbye."""
    case, own_turns = asked.data["CASE"], (len(asked.messages) - 1) // 2
    if not own_turns:
        name_and_age = ", ".join(case["persona"].rstrip(".").split(", ")[:2])
        return f"{HELLO} {case['encounter_reason']} I am {name_and_age}."
    if own_turns >= OPPORTUNITIES:
        return f"{GOODBYE}\n[END]"
    goal = case["goals"][(own_turns - 1) % len(case["goals"])]
    return f"{_ASKS[(own_turns - 1) % len(_ASKS)]} {goal}"


def _doctor(asked: Asked) -> str:
    model, turns, seed = asked.model, asked.messages[1:], asked.seed
    first = turns[0].text
    place = sum(turn.role == "assistant" for turn in turns)
    mistakes = opportunities(first, seed)
    if place >= len(mistakes):
        return "Is there anything else that you would like to ask?"
    mistake = mistakes[place]
    if makes_mistake(model, first, mistake, seed):
        sentence = mistake.wrong
    else:
        sentence = mistake.right
    return f"Thank you for telling me. {sentence} Does that make sense to you?"


def _scores(asked: Asked) -> dict[str, Any]:
    model, data, seed = asked.model, asked.data, asked.seed
    turns = data["CONVERSATION"]
    story = turns[0]["text"]
    found_mistakes: dict[str, tuple[int, PlantedMistake]] = {}
    for mistake in PLANTED:
        for turn in turns:
            if mistake.wrong in turn["text"] and chance(seed, "sees", model, story, mistake.key) >= MISS_RATES[model]:
                found_mistakes[mistake.dimension] = (turn["turn"], mistake)
    dimensions = data["DIMENSIONS"]
    omitted = ""
    if len(dimensions) > 1 and chance(seed, "leaves", model, story) < OMISSION_RATE:
        omitted = dimensions[-1]["key"]
    scores: list[dict[str, Any]] = []
    for dimension in dimensions:
        key = dimension["key"]
        if key == omitted and key not in found_mistakes:
            continue
        if key in found_mistakes:
            turn, mistake = found_mistakes[key]
            score = 1 + int(chance(seed, "score", model, story, key) < 0.5)
            scores.append({"dimension": key, "score": score, "turns": [turn], "note": mistake.note})
        else:
            score = None
            if chance(seed, "applies", story, key) < 0.8:
                score = 4
            scores.append({"dimension": key, "score": score, "turns": [], "note": ""})
    return {"scores": scores}


def _mistakes(asked: Asked) -> dict[str, Any]:
    """The noted mistakes, each once, in one of its wordings."""
    data, seed = asked.data, asked.seed
    story = "\n".join(turn["text"] for turn in data["CONVERSATION"])
    mistakes = []
    for mistake in PLANTED:
        turns = set[int]()
        for note in data["NOTES"]:
            if note["note"] == mistake.note:
                turns.update(note["turns"])
        if turns:
            mistakes.append(
                {
                    "title": pick(mistake.titles, seed, "title", story, mistake.key),
                    "description": pick(mistake.texts, seed, "text", story, mistake.key),
                    "category": mistake.category,
                    "reason": "It answered at once instead of asking first.",
                    "tags": list(mistake.tags),
                    "risk": mistake.risk,
                    "turns": sorted(turns),
                }
            )
    return {"mistakes": mistakes}


_SET = conversation.SETS[""]
SCRIPT = PromptTable(
    {
        _SET["patient"].heading: ((PATIENT,), _patient),
        _SET["doctor"].heading: (MISTAKE_RATES, _doctor),
        _SET["committee"].heading: (MISS_RATES, _scores),
        _SET["extract"].heading: ((EXTRACTOR,), _mistakes),
    }
)
