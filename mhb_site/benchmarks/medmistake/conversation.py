"""From a case to mistakes: conversation, committee, extraction (MMI-1 to MMI-3).

A draft's data after each step: ``case`` (the record's content), ``conversation`` [{role: 'patient' | 'doctor', text}],
``doctor`` (the name of its model), ``ended`` ('patient' | 'limit' | 'published'); ``scores`` {judge: {dimension: {score,
turns, note}}}, ``unscored`` {judge: [dimension]}, ``rounds`` {judge: calls}, ``rule`` (the settings by which a score is low);
then, one draft a mistake, ``mistake`` {title, description, category, reason, tags, risk, turns}. Turns are numbered from 1, the
patient's included.

A record of kind `conversation` (MedPI) was held by others: it is judged as it is, unless it brings scores of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request, Role
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, Step
from mhb_site.benchmarks.medmistake.dimensions import Dimension, all_dimensions, as_json
from mhb_site.benchmarks.medmistake.replication import MADE
from mhb_site.benchmarks.medmistake.taxonomy import NAMES, code_of

SETS = read_prompts(Path(__file__).parent / "prompts", "patient", "doctor", "committee", "extract")

CASE, HELD = "case", "conversation"
JUDGES = ("judge_1", "judge_2")
END = re.compile(r"\s*^\s*\[END\]\s*\Z", re.MULTILINE)
MAX_TURN = 8_000  # characters
MOST_TAGS = 10
ESTIMATED_TURNS = 12  # by how many a launch is estimated

# Settings of these steps. most_turns: the limit of a conversation, the patient's turns included. scale: the best score. low:
# up to here a score is a finding. pooling: whose scores count. dimensions_per_call, judge_calls: how many dimensions a judge is
# asked for at once, and how often at most until all are accounted for.
SETTINGS: Mapping[str, Any] = {
    "most_turns": 24,
    "scale": 4,
    "low": 3,
    "pooling": "either",
    "dimensions_per_call": 40,
    "judge_calls": 3,
}
CHOICES: Mapping[str, tuple[str | None, ...]] = {"pooling": ("either", "both", "mean")}

_CASES = frozenset({CASE})
ROLES: tuple[ModelRole, ...] = (
    ModelRole("patient", _("Patient: plays the person of the case"), kinds=_CASES),
    ModelRole("doctor", _("Doctor: the models whose mistakes are looked for"), kinds=_CASES, several=True),
    ModelRole("judge_1", _("Judge 1: scores the doctor on all dimensions"), kinds=MADE),
    ModelRole("judge_2", _("Judge 2: scores the doctor on all dimensions"), default="judge_1", kinds=MADE),
    ModelRole("extractor", _("Extractor: turns low scores into mistakes"), default="judge_1", kinds=MADE),
)


# The docstrings of the shapes go to the models, as descriptions in the JSON schema of their reply.
class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Score(_Strict):
    """One dimension: a whole number, or null where it does not apply; the doctor's turns; a note."""

    dimension: str
    score: int | None
    turns: tuple[int, ...] = ()
    note: str = ""


class Scores(_Strict):
    """One entry for each dimension."""

    scores: tuple[Score, ...]


class Mistake(_Strict):
    """One mistake of the doctor."""

    title: str
    description: str
    category: str
    reason: str
    tags: tuple[str, ...] = ()
    risk: Literal["low", "medium", "high", "critical"]
    turns: tuple[int, ...]


class Mistakes(_Strict):
    """All mistakes of the conversation, each once."""

    mistakes: tuple[Mistake, ...]


def settings(draft: Draft) -> Mapping[str, Any]:
    """The values that a draft was launched with; those of this module where it has none."""
    return {**SETTINGS, **draft.settings}


def _prompt(draft: Draft, name: str) -> Prompt:
    return SETS.get(draft.prompts, SETS[""])[name]


def is_case(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == CASE)


def is_held(draft: Draft) -> bool:
    return bool(draft.record.content.get("kind") == HELD)


def is_made(draft: Draft) -> bool:
    return draft.record.content.get("kind") in MADE


# -------------------------------------------------------------------------------------------------------- conversation


async def converse(draft: Draft, models: Models) -> Sequence[Draft]:
    """One turn more: the patient's, then the doctor's."""
    turns = list(draft.data.get("conversation", ()))
    data: dict[str, Any] = {
        "case": {key: value for key, value in draft.record.content.items() if key != "kind"},
        "doctor": models.model("doctor"),
        **draft.data,
    }
    role = "doctor" if turns and turns[-1]["role"] == "patient" else "patient"
    prompt = _prompt(draft, role)
    asked = prompt.messages(case=as_data(data["case"])) if role == "patient" else prompt.messages()
    history = [Message(_seen_by(role, turn["role"]), turn["text"]) for turn in turns]
    said = (await models.ask(role, Request((*asked, *history), prompt=prompt.label))).text.strip()
    text = END.sub("", said).strip() if role == "patient" else said
    if text:
        turns.append({"role": role, "text": text[:MAX_TURN]})
    if role == "patient" and END.search(said):
        data["ended"] = "patient"
    elif len(turns) >= max(2, settings(draft)["most_turns"]):
        data["ended"] = "limit"
    if "ended" in data and not any(turn["role"] == "doctor" for turn in turns):
        raise Dropped("The patient ended the visit before the doctor had said anything.")
    return [replace(draft, data={**data, "conversation": turns})]


def _seen_by(role: str, speaker: str) -> Role:
    """A model hears the other one as its user."""
    return "assistant" if speaker == role else "user"


def _goes_on(draft: Draft) -> bool:
    return "ended" not in draft.data


def _asks_of_turns(draft: Draft) -> Sequence[tuple[str, str]]:
    patient, doctor = _prompt(draft, "patient").label, _prompt(draft, "doctor").label
    return [("patient", patient), ("doctor", doctor)] * (min(ESTIMATED_TURNS, settings(draft)["most_turns"]) // 2)


async def take_conversation(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A conversation that others held; with its scores, if it has some, as those of one judge."""
    content = draft.record.content
    data: dict[str, Any] = {
        "case": {"patient": content.get("patient", {}), "encounter": content.get("encounter", {})},
        "conversation": list(content["conversation"]),
        "doctor": content.get("doctor", ""),
        "ended": "published",
    }
    if content.get("scores"):
        data["published"] = [
            {"dimension": each["dimension"], "category": each["category"], "score": each["score"], "note": each["note"]}
            for each in content["scores"]
        ]
    return [replace(draft, data=data)]


# ----------------------------------------------------------------------------------------------------------- committee


async def _judge(draft: Draft, models: Models, *, judge: str) -> Sequence[Draft]:
    """One call of a judge: for the dimensions that it has not accounted for yet."""
    values, turns = settings(draft), draft.data["conversation"]
    scored = dict(draft.data.get("scores", {}).get(judge, {}))
    left = tuple(each for each in all_dimensions() if each.key not in scored)
    asked = left[: max(1, values["dimensions_per_call"])]
    calls = draft.data.get("rounds", {}).get(judge, 0)
    prompt = _prompt(draft, "committee")
    messages = prompt.messages(
        scale=str(values["scale"]),
        low=str(values["low"]),
        case=as_data(draft.data["case"]),
        conversation=as_data(numbered(turns)),
        dimensions=as_data(as_json(asked)),
    )
    # Two judges of one model, or a judge asked again: the number keeps their replies apart.
    request = Request(messages, prompt=prompt.label, repeat=JUDGES.index(judge) + len(JUDGES) * calls)
    found = await models.ask_structured(
        judge,
        request,
        Scores,
        check=partial(_check_scores, asked=asked, turns=turns, scale=values["scale"], low=values["low"]),
    )
    for each in found.scores:
        scored[each.dimension] = {"score": each.score, "turns": sorted(set(each.turns)), "note": each.note.strip()}
    missing = [each.key for each in all_dimensions() if each.key not in scored]
    data = {
        **draft.data,
        "scores": {**draft.data.get("scores", {}), judge: scored},
        "rounds": {**draft.data.get("rounds", {}), judge: calls + 1},
        "unscored": {**draft.data.get("unscored", {}), judge: missing},
        "rule": {name: values[name] for name in ("scale", "low", "pooling")},
    }
    return [replace(draft, data=data)]


def _check_scores(
    found: Scores, *, asked: Sequence[Dimension], turns: Sequence[Mapping[str, str]], scale: int, low: int
) -> None:
    """Raises BrokenReply with what is wrong. Dimensions that were left out are asked for again."""
    known, seen = {each.key for each in asked}, set[str]()
    for each in found.scores:
        if each.dimension not in known:
            raise BrokenReply(f"There is no dimension {each.dimension[:60]!r} in DIMENSIONS.")
        if each.dimension in seen:
            raise BrokenReply(f"The dimension {each.dimension!r} is there twice.")
        seen.add(each.dimension)
        if each.score is None:
            continue
        if not 1 <= each.score <= scale:
            raise BrokenReply(f"The score of {each.dimension!r} is not from 1 to {scale}.")
        if each.score <= low and not each.note.strip():
            raise BrokenReply(f"{each.dimension!r} has a score of {each.score} and no note.")
        _check_turns(each.turns, turns, f"the dimension {each.dimension!r}", needed=each.score <= low)
    if not seen:
        raise BrokenReply("No dimension was scored.")


def _check_turns(named: Sequence[int], turns: Sequence[Mapping[str, str]], of: str, *, needed: bool) -> None:
    of_doctor = {number for number, turn in enumerate(turns, 1) if turn["role"] == "doctor"}
    if wrong := sorted(set(named) - of_doctor):
        raise BrokenReply(f"Turn {wrong[0]} of {of} is no turn of the doctor.")
    if needed and not named:
        raise BrokenReply(f"Name the doctor's turns of {of}.")


def _is_unfinished(draft: Draft, *, judge: str) -> bool:
    data = draft.data
    calls = (
        -(-len(all_dimensions()) // max(1, settings(draft)["dimensions_per_call"])) - 1 + settings(draft)["judge_calls"]
    )
    return bool(data["unscored"][judge]) and data["rounds"][judge] < calls


def _is_judged(draft: Draft) -> bool:
    return is_made(draft) and not draft.data.get("published")


def _asks_of_judge(draft: Draft, *, judge: str) -> Sequence[tuple[str, str]]:
    calls = -(-len(all_dimensions()) // max(1, settings(draft)["dimensions_per_call"]))
    return [(judge, _prompt(draft, "committee").label)] * calls


def numbered(turns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """A conversation with the numbers of its turns, as prompts show it."""
    return [{"turn": number, "speaker": turn["role"], "text": turn["text"]} for number, turn in enumerate(turns, 1)]


# ---------------------------------------------------------------------------------------------------------- extraction


def findings(data: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The judges' entries for the dimensions that were scored low, both judges' where they disagree."""
    if data.get("published"):
        low = [each for each in data["published"] if each["score"] is not None and each["score"] <= values["low"]]
        return [{**each, "judge": "published", "turns": []} for each in low]
    return list(_findings(data.get("scores", {}), values))


def _findings(scores: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for dimension in all_dimensions():
        there = {judge: scores[judge][dimension.key] for judge in scores if dimension.key in scores[judge]}
        known = [each["score"] for each in there.values() if each["score"] is not None]
        if not known:
            continue
        lowest = [score <= values["low"] for score in known]
        match values["pooling"]:
            case "both":
                is_low = all(lowest)
            case "mean":
                is_low = sum(known) / len(known) <= values["low"]
            case _:
                is_low = any(lowest)
        if is_low:
            for judge, each in there.items():
                yield {"dimension": dimension.key, "category": dimension.category, "judge": judge, **each}


async def extract(draft: Draft, models: Models) -> Sequence[Draft]:
    """One draft for each mistake. Raises Dropped where nothing was scored low, or the extractor finds no mistake in it."""
    values = settings(draft)
    notes = findings(draft.data, values)
    if not notes:
        raise Dropped(f"No dimension was scored {values['low']} or less.")
    turns, prompt = draft.data["conversation"], _prompt(draft, "extract")
    messages = prompt.messages(
        case=as_data(draft.data["case"]),
        conversation=as_data(numbered(turns)),
        notes=as_data(notes),
        categories=as_data(list(NAMES)),
    )
    found = await models.ask_structured(
        "extractor", Request(messages, prompt=prompt.label), Mistakes, check=partial(_check_mistakes, turns=turns)
    )
    if not found.mistakes:
        raise Dropped("The extractor found no clinically significant mistake.")
    return [replace(draft, data={**draft.data, "mistake": _mistake(each)}) for each in found.mistakes]


def _mistake(found: Mistake) -> dict[str, Any]:
    return {
        "title": found.title.strip(),
        "description": found.description.strip(),
        "category": code_of(found.category),
        "reason": found.reason.strip(),
        "tags": list(dict.fromkeys(tag.strip() for tag in found.tags if tag.strip())),
        "risk": found.risk,
        "turns": sorted(set(found.turns)),
    }


def _check_mistakes(found: Mistakes, *, turns: Sequence[Mapping[str, str]]) -> None:
    """Raises BrokenReply with what is wrong."""
    known = {code_of(name) for name in NAMES}
    for number, each in enumerate(found.mistakes, 1):
        for name in ("title", "description"):
            if not getattr(each, name).strip():
                raise BrokenReply(f"The {name} of mistake {number} is empty.")
        if code_of(each.category) not in known:
            raise BrokenReply(f"The category of mistake {number}, {each.category[:60]!r}, is none of CATEGORIES.")
        if len(each.tags) > MOST_TAGS:
            raise BrokenReply(f"Mistake {number} has more than {MOST_TAGS} tags.")
        _check_turns(each.turns, turns, f"mistake {number}", needed=True)
    if len({each.title.strip().casefold() for each in found.mistakes}) < len(found.mistakes):
        raise BrokenReply("Two mistakes have the same title: group them.")


def _asks_of_extraction(draft: Draft) -> Sequence[tuple[str, str]]:
    return [("extractor", _prompt(draft, "extract").label)]


STEPS: tuple[Step, ...] = (
    Step("converse", converse, is_case, _asks_of_turns, again=_goes_on),
    Step("take_conversation", take_conversation, is_held),
    *(
        Step(
            judge,
            partial(_judge, judge=judge),
            _is_judged,
            partial(_asks_of_judge, judge=judge),
            again=partial(_is_unfinished, judge=judge),
        )
        for judge in JUDGES
    ),
    Step("extract", extract, is_made, _asks_of_extraction),
)
