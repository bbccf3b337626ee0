"""The ensemble: voters are asked, without the context, which of two answers is the more accurate (MHU-4)."""

import re
from collections.abc import Mapping
from typing import Any

from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipe import Draft, Models
from mhb_site.benchmarks.medhallu import presets
from mhb_site.benchmarks.medhallu.candidates import drawn, prompt_of
from mhb_site.benchmarks.medhallu.together import together

VOTERS = ("voter_1", "voter_2", "voter_3")
TRUTH, HALLUCINATED = "truth", "hallucinated"

_STRICT = re.compile(r"[\s\"'`*_.()\[\]]*([12])[\s\"'`*_.()\[\]]*")
MAX_REPLY = 500  # characters of a reply that are kept


def chosen(reply: str) -> int | None:
    """The answer, 1 or 2, that a reply names; None unless that digit is all it says, marks aside."""
    found = _STRICT.fullmatch(reply)
    return int(found[1]) if found else None


def difficulty(fooled: int, voters: int) -> str:
    """'hard' where all were fooled, 'medium' where several, 'easy' where one; '' where none."""
    if not fooled:
        return ""
    if fooled == voters:
        return "hard"
    return "medium" if fooled > 1 else "easy"


async def voted(draft: Draft, models: Models, candidate: Mapping[str, Any], number: str) -> list[dict[str, Any]]:
    """One vote of each voter on a candidate; `number` tells the candidates of a draft apart ("3.1").

    A vote: {role, first: which answer was shown first, reply, chosen: 1 | 2 | None, fooled, broken}. A reply that cannot be
    read has not been fooled.
    """
    return await together(*(_vote(draft, models, candidate, number, at, role) for at, role in enumerate(VOTERS)))


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
    reply = (await models.ask(role, request)).text
    choice = chosen(reply)
    if settings["reading"] == "contains-2":
        choice = 2 if "2" in reply else 1
    return {
        "role": role,
        "first": first,
        "reply": reply[:MAX_REPLY],
        "chosen": choice,
        "fooled": choice is not None and (choice == 1) == (first == HALLUCINATED),
        "broken": choice is None,
    }


def _first(draft: Draft, number: str, role: str) -> str:
    if presets.settings(draft)["order"] == "truth-first":
        return TRUTH
    share = drawn("order", draft.record.external_id, draft.version, number, role)
    return TRUTH if share < 0.5 else HALLUCINATED
