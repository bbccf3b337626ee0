"""The ensemble: voters choose the more accurate of two answers, without the context."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from generation.llm.types import Message
from generation.recipes.recipe import Draft, Models
from generation.recipes.review_sampling import draw_fraction
from mhb_site.benchmarks.medhallu import presets
from mhb_site.benchmarks.medhallu.candidates import SETS
from mhb_site.benchmarks.medhallu.concurrency import gather_all
from mhb_site.benchmarks.medhallu.parsing import DIGIT, DOUBT, FILLER, decisions_in, text_lines

VOTERS = ("voter_1", "voter_2", "voter_3")
TRUTH, HALLUCINATED = "truth", "hallucinated"

MAX_REPLY = 500  # characters of a reply that are kept
RETRY_MESSAGE = "Your last reply cannot be used. Reply with the single digit 1 or 2, and nothing else."

# The prompt calls them FIRST and SECOND.
_CHOICE = re.compile(
    DIGIT.format("12") + r"|(?P<first>\bfirst\b|第一[个種种项]?)|(?P<second>\bsecond\b|第二[个種种项]?)"
)
# Words allowed around a choice, besides those allowed around any decision.
_FILLER = re.compile(
    FILLER
    + r"|\b(?:more|most|factually|medically|accurate|correct|better|best|one|number|no|vote|choose|pick|select)\b"
    r"|更为?|准确|正确|较?好|号|个|我?选择?|认为"
)
# A choice stated in the explanation. 'Answer 1 claims ...' is not one: a comparison has to name
# both.
_STATED_CHOICE = re.compile(
    r"(?:\b(?:answer|option|choice|vote|verdict|decision|one)\s*(?:\bis\b|[:=])|\b(?:choose|pick|select|vote\s+for)\b"
    r"|(?:答案|选项|结论|判断)\s*(?:是|为|[:=])|我选择?)"
    r"[\s*\"'`]*(?:(?:the|answer|option|number)\b[\s*\"'`]*)*"
)


def read_vote(reply: str) -> int | None:
    """The answer, 1 or 2, that a reply chooses; None unless it chooses exactly one.

    The whole reply, or its first or last line, has to be a choice, and nothing else in the reply
    may choose otherwise or doubt it. `reply` is the model's text without its reasoning.
    """
    by_line: list[set[int]] = []
    other_lines: list[str] = []
    for line in text_lines(reply):
        numbers = {_number(choice) for choice in decisions_in(line, _CHOICE, _FILLER)}
        by_line.append(numbers)
        if not numbers:
            other_lines.append(line)
    chosen = set[int]().union(*by_line)
    if len(chosen) != 1 or not (by_line[0] or by_line[-1]):
        return None
    prose = "\n".join(other_lines)
    for label in _STATED_CHOICE.finditer(prose):
        choice = _CHOICE.match(prose, label.end())
        if choice:
            chosen.add(_number(choice))
    if len(chosen) == 1 and not DOUBT.search(prose):
        return chosen.pop()
    return None


def _number(choice: re.Match[str]) -> int:
    if choice["digit"]:
        return int(choice["digit"])
    if choice["first"]:
        return 1
    return 2


def difficulty(fooled: int, voters: int) -> str:
    """'hard' if all voters were fooled, 'medium' if several, 'easy' if one, '' if none."""
    if not fooled:
        return ""
    if fooled == voters:
        return "hard"
    if fooled > 1:
        return "medium"
    return "easy"


async def collect_votes(
    draft: Draft, models: Models, candidate: Mapping[str, Any], number: str
) -> list[dict[str, Any]]:
    """One vote of each voter on a candidate.

    `number` ("3.1") distinguishes the candidates of a draft.

    Returns:
        Votes {role, first, reply, unread, chosen: 1 | 2 | None, fooled, broken}. `first` is the
        answer shown first, `unread` an unreadable first reply, after which the voter was asked once
        more. `broken`: the second reply is unreadable too; such a vote is neither fooled nor not.
    """
    asked = []
    for position, role in enumerate(VOTERS):
        asked.append(_ask_voter(draft, models, candidate, number, position, role))
    return await gather_all(*asked)


def all_readable(ballots: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all votes could be read; otherwise the number of fooled voters is unknown."""
    return not any(vote["broken"] for vote in ballots)


async def _ask_voter(
    draft: Draft, models: Models, candidate: Mapping[str, Any], number: str, position: int, role: str
) -> dict[str, Any]:
    content, settings = draft.record.content, presets.settings(draft)
    share = draw_fraction("order", draft.record.external_id, draft.version, number, role)
    first = HALLUCINATED
    if settings["order"] == "truth-first" or share < 0.5:
        first = TRUTH
    text, truth = candidate["answer"], presets.truth_of(draft)
    if settings["vote_justification"]:
        text = f"{text}\n{candidate['justification']}"
    if first == TRUTH:
        shown = [truth, text]
    else:
        shown = [text, truth]
    request = SETS[draft.prompts]["vote"].request(
        {"question": content["question"], "first": shown[0], "second": shown[1]},
        temperature=settings["vote_temperature"],
        max_tokens=settings["vote_max_tokens"],
        repeat=position,  # two voters at one endpoint are two votes
    )
    reply, unread = (await models.ask(role, request)).text, ""
    if settings["reading"] == "contains-2":
        choice: int | None = 1
        if "2" in reply:
            choice = 2
    elif (choice := read_vote(reply)) is None:
        unread = reply
        retry = (Message("assistant", reply), Message("user", RETRY_MESSAGE))
        reply = (await models.ask(role, replace(request, messages=(*request.messages, *retry)))).text
        choice = read_vote(reply)
    return {
        "role": role,
        "first": first,
        "reply": reply[:MAX_REPLY],
        "unread": unread[:MAX_REPLY],
        "chosen": choice,
        "fooled": choice is not None and (choice == 1) == (first == HALLUCINATED),
        "broken": choice is None,
    }
