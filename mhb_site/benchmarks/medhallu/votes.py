"""The ensemble: voters are asked, without the context, which of two answers is the more accurate (MHU-4)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import presets
from mhb_site.benchmarks.medhallu.candidates import drawn, prompt_of
from mhb_site.benchmarks.medhallu.concurrency import together
from mhb_site.benchmarks.medhallu.parsing import AROUND, DIGIT, DOUBT, decided, lines_of

VOTERS = ("voter_1", "voter_2", "voter_3")
TRUTH, HALLUCINATED = "truth", "hallucinated"

MAX_REPLY = 500  # characters of a reply that are kept
AGAIN = "Your last reply cannot be used. Reply with the single digit 1 or 2, and nothing else."

# The prompt calls them FIRST and SECOND.
_CHOICE = re.compile(
    DIGIT.format("12") + r"|(?P<first>\bfirst\b|第一[个種种项]?)|(?P<second>\bsecond\b|第二[个種种项]?)"
)
# What may stand around a choice without changing it, besides what may around any decision.
_AROUND = re.compile(
    AROUND
    + r"|\b(?:more|most|factually|medically|accurate|correct|better|best|one|number|no|vote|choose|pick|select)\b"
    r"|更为?|准确|正确|较?好|号|个|我?选择?|认为"
)
# Another choice in the explanation. 'Answer 1 claims ...' is none: who compares two answers has to name both.
_NAMED = re.compile(
    r"(?:\b(?:answer|option|choice|vote|verdict|decision|one)\s*(?:\bis\b|[:=])|\b(?:choose|pick|select|vote\s+for)\b"
    r"|(?:答案|选项|结论|判断)\s*(?:是|为|[:=])|我选择?)"
    r"[\s*\"'`]*(?:(?:the|answer|option|number)\b[\s*\"'`]*)*"
)


def chosen(reply: str) -> int | None:
    """The answer, 1 or 2, that a reply names; None unless it names one alone.

    The whole reply is a choice, or its first or last line, and nothing else in it chooses otherwise or doubts it. `reply` is
    what the model said, without its reasoning.
    """
    lines = lines_of(reply)
    found = [{_number(said) for said in decided(line, _CHOICE, _AROUND)} for line in lines]
    named = {number for numbers in found for number in numbers}
    if len(named) != 1 or not (found[0] or found[-1]):
        return None
    prose = "\n".join(line for line, numbers in zip(lines, found, strict=True) if not numbers)
    named |= {_number(said) for at in _NAMED.finditer(prose) if (said := _CHOICE.match(prose, at.end()))}
    return named.pop() if len(named) == 1 and not DOUBT.search(prose) else None


def _number(said: re.Match[str]) -> int:
    return int(said["digit"]) if said["digit"] else 1 if said["first"] else 2


def difficulty(fooled: int, voters: int) -> str:
    """'hard' where all were fooled, 'medium' where several, 'easy' where one; '' where none."""
    if not fooled:
        return ""
    if fooled == voters:
        return "hard"
    return "medium" if fooled > 1 else "easy"


async def voted(draft: Draft, models: Models, candidate: Mapping[str, Any], number: str) -> list[dict[str, Any]]:
    """One vote of each voter on a candidate; `number` tells the candidates of a draft apart ("3.1").

    A vote: {role, first: which answer was shown first, reply, unread: the reply before it, where that could not be read and the
    voter was asked once more, chosen: 1 | 2 | None, fooled, broken}. `broken`: the second reply cannot be read either. Such a
    vote is none, neither fooled nor not.
    """
    return await together(*(_vote(draft, models, candidate, number, at, role) for at, role in enumerate(VOTERS)))


def were_read(ballots: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all votes could be read. Where one could not it is not known how many are fooled, and so no difficulty."""
    return not any(each["broken"] for each in ballots)


async def _vote(
    draft: Draft, models: Models, candidate: Mapping[str, Any], number: str, at: int, role: str
) -> dict[str, Any]:
    content, settings = draft.record.content, presets.settings(draft)
    first = _first(draft, number, role)
    made = candidate["answer"]
    if settings["vote_justification"]:
        made = f"{made}\n{candidate['justification']}"
    shown = [content["answer"], made] if first == TRUTH else [made, content["answer"]]
    prompt = prompt_of(draft, "vote")
    request = Request(
        prompt.messages(question=as_data(content["question"]), first=as_data(shown[0]), second=as_data(shown[1])),
        prompt=prompt.label,
        temperature=settings["vote_temperature"],
        max_tokens=settings["vote_max_tokens"],
        repeat=at,  # two voters at one endpoint are two votes
    )
    reply, unread = (await models.ask(role, request)).text, ""
    if settings["reading"] == "contains-2":
        choice: int | None = 2 if "2" in reply else 1
    elif (choice := chosen(reply)) is None:
        unread = reply
        again = (Message("assistant", reply), Message("user", AGAIN))
        reply = (await models.ask(role, replace(request, messages=(*request.messages, *again)))).text
        choice = chosen(reply)
    return {
        "role": role,
        "first": first,
        "reply": reply[:MAX_REPLY],
        "unread": unread[:MAX_REPLY],
        "chosen": choice,
        "fooled": choice is not None and (choice == 1) == (first == HALLUCINATED),
        "broken": choice is None,
    }


def _first(draft: Draft, number: str, role: str) -> str:
    if presets.settings(draft)["order"] == "truth-first":
        return TRUTH
    share = drawn("order", draft.record.external_id, draft.version, number, role)
    return TRUTH if share < 0.5 else HALLUCINATED
