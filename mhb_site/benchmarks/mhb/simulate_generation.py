"""MHB's simulated generator."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from generation.common.languages import detect
from generation.llm.simulator.script import chance
from mhb_site.benchmarks.mhb.generator_reply import FORBIDS

T = TypeVar("T")

SECOND_TRAP = 0.3  # the share of conversations that get two traps
HEEDED = 0.8  # the share of preferred traps that the generator plants


@dataclass(frozen=True, slots=True)
class ScriptedCriterion:
    """A criterion, an answer's sentence that meets it, and one that does not."""

    criterion: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True)
class Template:
    """A trap that can be planted. `user_line` and `assistant_line` are empty where the text is not altered (reports)."""

    key: str
    subtype: str
    language: str
    marker: str
    bait: str
    false: str
    why: str
    criteria: tuple[ScriptedCriterion, ...]
    user_line: str = ""
    assistant_line: str = ""


@cache
def templates() -> Mapping[str, tuple[Template, ...]]:
    """All templates by task."""
    text = (Path(__file__).parent / "simulated_traps.json").read_bytes()
    return TypeAdapter(dict[str, tuple[Template, ...]]).validate_json(text)


def planted_in(text: str) -> list[Template]:
    """The templates whose marker stands in `text`."""
    return [template for some in templates().values() for template in some if template.marker in text]


def digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def pick(choices: Sequence[T], seed: int, *parts: str) -> T:
    return choices[int(chance(seed, *parts) * len(choices))]


def flat(value: str | list[dict[str, str]]) -> str:
    return value if isinstance(value, str) else "\n".join(turn["content"] for turn in value)


_LEAD_INS = {
    "en": (
        "Thank you for the details; they help me to see the whole picture.",
        "That is useful to know. I will keep it in mind for what comes next.",
        "I understand. Let us put together what we have so far.",
    ),
    "zh": (
        "谢谢您的说明，这些信息有助于了解整体情况。",
        "明白了，这一点我会在后面的讨论中考虑进去。",
        "好的，我们先把目前的情况梳理一下。",
    ),
}


def generate(task: str, blocks: Mapping[str, Any], seed: int, offered: Collection[str]) -> str:
    """A test case with traps of the types in `offered`."""
    source, rejected = blocks["SOURCE"], blocks["REJECTED"]
    dice = digest(json.dumps([source, rejected]))
    # A template whose marker is in the rejected version was the one rejected, or would be taken for it.
    preferred = [said.partition(" ")[0] for said in blocks.get("PREFERRED") or ()]
    chosen = _choose(task, flat(source), json.dumps(rejected, ensure_ascii=False), preferred, seed, dice, offered)
    made: dict[str, Any]
    if task == "dialogue":
        turns, places = _weave(source, chosen, seed, dice)
        made = {"turns": turns}
    else:
        made = {"report": None, "question": " ".join(template.bait for template in chosen)}
        places = ["the question"] * len(chosen)
    made["traps"] = [
        {"code": template.subtype, "where": place, "false": template.false, "why": template.why}
        for template, place in zip(chosen, places, strict=True)
    ]
    made["rubrics"] = [
        {
            "criterion": scripted.criterion,
            "polarity": "must not" if FORBIDS.search(scripted.criterion.casefold()) else "must",
            "traps": [template.subtype],
        }
        for template in chosen
        for scripted in template.criteria
    ]
    return json.dumps(made, ensure_ascii=False)


def planted_language(text: str) -> str:
    """In which language a text gets its traps."""
    return "zh" if detect(text).language == "zh" else "en"


def _choose(
    task: str, text: str, rejected: str, preferred: Sequence[str], seed: int, dice: str, offered: Collection[str]
) -> list[Template]:
    """One template, or two of different subtypes for a conversation. First a subtype: all are equally frequent.

    A preferred subtype is taken in `HEEDED` of all cases; a conversation then has as many traps as are preferred (at most 2).
    """
    # There are templates in Chinese and in English; English stands in for every other language.
    language = planted_language(text)
    free = [
        template
        for template in templates()[task]
        if template.language == language
        and template.subtype in offered
        and template.marker not in text
        and template.marker not in rejected
    ]
    chosen: list[Template] = []
    wanted = 2 if task == "dialogue" and chance(seed, "second", dice) < SECOND_TRAP else 1
    if preferred:
        wanted = min(2, len(preferred))
    for number in range(wanted):
        taken = {template.subtype for template in chosen}
        open_ = sorted({t.subtype for t in free} - taken)
        asked_for = [code for code in preferred if code in open_]
        heeded = asked_for and chance(seed, "heeded", dice, str(number)) < HEEDED
        subtype = asked_for[0] if heeded else pick(open_, seed, "subtype", dice, str(number))
        fitting = [template for template in free if template.subtype == subtype]
        chosen.append(pick(fitting, seed, "template", dice, str(number)))
    return chosen


def _weave(
    source: Sequence[Mapping[str, str]], chosen: Sequence[Template], seed: int, dice: str
) -> tuple[list[dict[str, str]], list[str]]:
    """The conversation with the traps in it, and where each was planted.

    An assistant turn is added after the source's last turn and the bait after that. Each trap's line goes into some user
    turn of the source and its answer into a later assistant turn.
    """
    language = chosen[0].language
    turns: list[dict[str, str]] = []
    for turn in source:
        if turns and turns[-1]["role"] == turn["role"]:
            turns[-1]["content"] += "\n\n" + turn["content"]
        else:
            turns.append(dict(turn))
    turns.append({"role": "assistant", "content": pick(_LEAD_INS[language], seed, "lead-in", dice)})
    places = []
    for template in chosen:
        asking = [at for at, turn in enumerate(turns) if turn["role"] == "user"]
        asked = pick(asking, seed, "user", dice, template.key)
        answering = [at for at, turn in enumerate(turns) if turn["role"] == "assistant" and at > asked]
        answered = pick(answering, seed, "assistant", dice, template.key)
        for at, line in ((asked, template.user_line), (answered, template.assistant_line)):
            # A turn with lines (a list, a table) gets the sentence as a paragraph of its own.
            said = turns[at]["content"]
            turns[at]["content"] = f"{said}\n\n{line}" if "\n" in said else joined([said, line], language)
        places.append(f"turn {asked + 1} (user), turn {answered + 1} (assistant), final question")
    turns.append({"role": "user", "content": joined([template.bait for template in chosen], language)})
    return turns, places


def joined(sentences: Iterable[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(sentences)
