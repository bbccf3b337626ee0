"""MHB's simulated generator."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from generation.common.languages import SURE_OF_SHORT, detect
from generation.llm.simulator.script import Asked, chance, digest_of, pick
from mhb_site.benchmarks.mhb.generator_reply import FORBIDS, conversation_text

PREFERENCE_FOLLOWED = 0.8  # the share of preferred traps that the generator plants


@dataclass(frozen=True, slots=True)
class ScriptedCriterion:
    """A criterion, and a sentence of an answer that meets it (`good`) or does not (`bad`)."""

    criterion: str
    good: str
    bad: str

    @property
    def forbids(self) -> bool:
        return FORBIDS.search(self.criterion.casefold()) is not None


@dataclass(frozen=True, slots=True)
class Template:
    """A trap that can be planted.

    `user_line` and `assistant_line` are empty for reports, whose text is not altered.
    """

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


def planted_templates(text: str) -> list[Template]:
    """The templates whose marker occurs in `text`."""
    planted = []
    for template in chain.from_iterable(templates().values()):
        if template.marker in text:
            planted.append(template)
    return planted


def plain_text(value: str | list[dict[str, str]]) -> str:
    if isinstance(value, str):
        return value
    return conversation_text(value)


# What the assistant says in the turn that is added: it fits any question, and makes room for the
# bait.
_WAYS_ON: Mapping[str, list[str]] = json.loads(Path(__file__).with_name("simulated_ways_on.json").read_bytes())
# The words of these traps are those that name what was invented; of others, those that rest on it.
_INVENTED = frozenset({"A1", "A5", "D1", "D2"})


def generate(task: str, asked: Asked) -> dict[str, Any]:
    """The generator's reply: a test case with a trap of one of the types in the prompt's taxonomy."""
    blocks, seed = asked.data, asked.seed
    source, rejected = blocks["SOURCE"], blocks["REJECTED"]
    offered = set(re.findall(r"^- (\S+) [^:\n]*: ", asked.messages[0].text, re.MULTILINE))
    case_hash = digest_of(json.dumps([source, rejected]))
    preferred = [label.partition(" ")[0] for label in blocks.get("PREFERRED") or ()]
    text = plain_text(source)
    template = _choose_template(
        task, text, json.dumps(rejected, ensure_ascii=False), preferred, seed, case_hash, offered
    )
    reply: dict[str, Any]
    if task == "dialogue":
        turns, place = _plant_in_dialogue(source, template, seed, case_hash)
        reply = {"turns": turns}
    else:
        reply, place = {"report": None, "question": template.bait}, "the question"
    words = template.assistant_line or template.marker
    if template.subtype in _INVENTED and template.marker in template.user_line and template.marker not in words:
        words = template.user_line
    reply["traps"] = [
        {"code": template.subtype, "where": place, "words": words, "false": template.false, "why": template.why}
    ]
    reply["rubrics"] = []
    for scripted in template.criteria:
        polarity = "must"
        if scripted.forbids:
            polarity = "must not"
        reply["rubrics"].append({"criterion": scripted.criterion, "polarity": polarity, "traps": [template.subtype]})
    reply["specialty"] = ""
    for name in blocks.get("SPECIALTIES") or []:
        if name.casefold() in text.casefold():
            reply["specialty"] = name
            break
    return reply


def template_language(text: str) -> str:
    """The language of the traps for a text: its own if that is certain and they have it, else English."""
    detected = detect(text)
    if detected.language in _WAYS_ON and detected.confidence >= SURE_OF_SHORT:
        return detected.language
    return "en"


def _choose_template(
    task: str, text: str, rejected: str, preferred: Sequence[str], seed: int, case_hash: str, offered: Collection[str]
) -> Template:
    """Choose a template. The subtype is drawn first, so all subtypes are equally frequent.

    A preferred subtype is taken in `PREFERENCE_FOLLOWED` of all cases.
    """
    by_language: dict[str, dict[str, list[Template]]] = {}
    for template in templates()[task]:
        # A template whose marker is in the rejected version was the one rejected, or would be taken
        # for it.
        if template.subtype in offered and template.marker not in text and template.marker not in rejected:
            by_subtype = by_language.setdefault(template.language, {})
            by_subtype.setdefault(template.subtype, []).append(template)
    candidates = by_language.get(template_language(text)) or by_language.get("en", {})
    wanted = [code for code in preferred if code in candidates]
    if wanted and chance(seed, "heeded", case_hash) < PREFERENCE_FOLLOWED:
        subtype = wanted[0]
    else:
        subtype = pick(sorted(candidates), seed, "subtype", case_hash)
    return pick(candidates[subtype], seed, "template", case_hash)


def _plant_in_dialogue(
    source: Sequence[Mapping[str, str]], template: Template, seed: int, case_hash: str
) -> tuple[list[dict[str, str]], str]:
    """The conversation with the trap planted, and its place.

    An assistant turn is added after the source's last turn, and the bait after that. The trap's
    line goes into a user turn of the source, and its answer into the assistant turn after it. The
    first of several user turns often only opens the conversation, so the line has no place there.
    """
    language = template.language
    turns: list[dict[str, str]] = []
    for turn in source:
        if turns and turns[-1]["role"] == turn["role"]:
            turns[-1]["content"] += "\n\n" + turn["content"]
        else:
            turns.append(dict(turn))
    turns.append({"role": "assistant", "content": ""})
    user_turns = [at for at, turn in enumerate(turns) if turn["role"] == "user"]
    user_turn = pick(user_turns[1:] or user_turns, seed, "user", case_hash)
    assistant_turn = next(at for at, turn in enumerate(turns) if turn["role"] == "assistant" and at > user_turn)
    for at, line in ((user_turn, template.user_line), (assistant_turn, template.assistant_line)):
        # In a turn of several lines (a list, a table), or without a full stop, the sentence becomes a
        # paragraph of its own.
        content = turns[at]["content"]
        is_open = content and ("\n" in content or not re.search(r"[.!?…。！？:)\"”]\s*$", content))
        if is_open:
            turns[at]["content"] = f"{content}\n\n{line}"
        else:
            turns[at]["content"] = join_sentences([content, line], language)
    way_on = pick(_WAYS_ON[language], seed, "way on", case_hash)
    turns[-1]["content"] = join_sentences([turns[-1]["content"], way_on], language)
    turns.append({"role": "user", "content": template.bait})
    return turns, f"turn {user_turn + 1} (user), turn {assistant_turn + 1} (assistant), final question"


def join_sentences(sentences: Iterable[str], language: str) -> str:
    separator = " "
    if language == "zh":
        separator = ""
    return separator.join(filter(None, sentences))
