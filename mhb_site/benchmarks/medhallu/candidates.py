"""Candidates: the requests to generator and critic, and the checks that refuse an invalid reply."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from generation.common.medical_text import is_same_text, words
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import check_explained
from generation.llm.types import Message, Request
from generation.recipes.prompts import read_prompts
from generation.recipes.recipe import Draft, Models, ReplyShape, Term
from generation.recipes.review_sampling import draw_fraction
from mhb_site.benchmarks.medhallu import presets

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "generate", "regenerate", "vote", "critique", "rewrite", "entail", "reword")

MAX_JUSTIFICATION = 2_000  # characters; keeps a runaway reply from physicians
MAX_GROWTH = 4  # times the length of the true answer, if no other limit is set


class Candidate(ReplyShape):
    """A hallucinated answer, what is wrong in it and what is true instead, and the code of its category."""

    answer: str
    justification: str
    category: str


class Feedback(ReplyShape):
    """What gives a hallucinated answer away in wording and structure, and what to change."""

    wording: str
    structure: str
    advice: str


# ----------------------------------------------------------------------------------------- measures


def temperature_of(draft: Draft, number: int) -> float:
    """The generator's temperature for candidate `number`, drawn evenly from the setting's range."""
    low, high = presets.settings(draft)["temperature"]
    share = draw_fraction("temperature", draft.record.external_id, draft.version, number)
    return round(float(low + (high - low) * share), 3)


_WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")
_ALPHANUMERIC = re.compile(r"[^\W_]")


def count_words(text: str) -> int:
    """The number of words, separated by white space; each Chinese character counts as a word."""
    return sum(_ALPHANUMERIC.search(word) is not None for word in _WORD.findall(text))


def length_bounds(truth: str, share: float) -> tuple[int, int]:
    """The minimum and maximum number of words allowed.

    Rounded outward: otherwise a true answer of 5 words would allow no other length.
    """
    count = count_words(truth)
    return math.floor(round(count * (1 - share), 6)), math.ceil(round(count * (1 + share), 6))


# ----------------------------------------------------------------------------------------- refusals

# Phrases that tell the reader that the answer is hallucinated. Hallucination is also a symptom, so
# no single word is enough.
_GIVEAWAYS = re.compile(
    r"#\s*hallucinated"
    r"|\bhallucinated\s+(?:answer|response|version|statement)\b"
    r"|\bground[\s-]+truth\b"
    r"|\b(?:this|the\s+above|my)\s+(?:answer|response|statement|claim|version)\s+is\s+(?:\w+ly\s+)?"
    r"(?:false|incorrect|wrong|untrue|fabricated|fictitious|invented|made\s+up|a\s+hallucination|hallucinated)\b"
    r"|\b(?:deliberately|intentionally|purposely|purposefully)\s+(?:false|incorrect|wrong|inaccurate|misleading|fabricated)\b"
    r"|\b(?:not|isn't)\s+the\s+(?:true|correct|real)\s+answer\b"
    r"|幻觉(?:答案|回答)|(?:这|本|该)(?:个|一)?(?:答案|回答|说法)是(?:错误|虚构|不正确|假)的?|(?:故意|有意)(?:错误|误导|虚构)",
    re.IGNORECASE,
)


def check_candidate(candidate: Candidate, *, truth: str, question: str, terms: Sequence[Term]) -> None:
    """Raises BrokenReply with all faults but the length, in sentences for the generator."""
    BrokenReply.refuse(_faults(candidate, truth, question, terms))


def _faults(candidate: Candidate, truth: str, question: str, terms: Sequence[Term]) -> Iterator[str]:
    codes = [term.code for term in terms]
    if candidate.category not in codes:
        yield f"The category {candidate.category[:20]!r} is unknown; the categories are {', '.join(codes)}."
    if not words(candidate.answer):
        yield "The answer is empty."
    elif is_same_text(candidate.answer, truth):
        yield "The answer is the true answer: it has to be wrong."
    elif count_words(candidate.answer) > MAX_GROWTH * max(count_words(truth), 25):
        yield f"The answer is more than {MAX_GROWTH} times as long as the true one."
    if giveaway := giveaway_in(candidate.answer, truth, question):
        yield f"The answer tells that it is hallucinated ({giveaway!r}); nothing in it may say so."
    if not candidate.justification.strip():
        yield "The justification is empty."
    elif len(candidate.justification) > MAX_JUSTIFICATION:
        yield f"The justification is longer than {MAX_JUSTIFICATION} characters."


def giveaway_in(answer: str, truth: str, question: str) -> str:
    """The words of an answer that tell that it is wrong or a test; "" if none do."""
    giveaway = _GIVEAWAYS.search(answer)
    if giveaway is None or _GIVEAWAYS.search(truth) or _GIVEAWAYS.search(question):
        return ""
    return giveaway[0]


# ----------------------------------------------------------------------------------------- requests


def case_data(draft: Draft) -> dict[str, Any]:
    """What generator and critic are told of the question and of rejected versions."""
    content = draft.record.content
    return {
        "question": content["question"],
        "knowledge": list(content["contexts"]),
        "truth": presets.truth_of(draft),
        "rejected": draft.rejected("hallucinated", "justification", "category"),
    }


def rules(draft: Draft) -> dict[str, str]:
    """The categories, and the length limits: ±10 % if none is enforced."""
    truth = presets.truth_of(draft)
    low, high = length_bounds(truth, presets.settings(draft)["length"] or 0.1)
    categories = "\n".join(f"- {term.code} {term.label}: {term.definition}" for term in draft.terms)
    return {"categories": categories, "low": str(low), "high": str(high), "count": str(count_words(truth))}


def all_of(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The candidates of all tries of a draft with this data."""
    candidates: list[Mapping[str, Any]] = []
    for attempt in data.get("tries", ()):
        candidates += attempt["candidates"]
    return candidates


def result_of(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a candidate, as shown to critic and generator."""
    voters = sum(not vote["broken"] for vote in candidate["votes"])
    return {"fooled": candidate["fooled"], "voters": voters, "says_the_same": bool(candidate["entailed"])}


def _content_of(candidate: Mapping[str, Any]) -> dict[str, str]:
    return {name: candidate[name] for name in ("answer", "justification", "category")}


def _generation_request(draft: Draft, number: int, last: Mapping[str, Any] | None) -> Request:
    """The request for candidate `number`.

    `last` is the candidate to improve on: ``{candidate, result, feedback}``.
    """
    prompts, settings = SETS[draft.prompts], presets.settings(draft)
    request = prompts["generate"].request(
        {**case_data(draft), "attempt": number},
        rules(draft),
        temperature=temperature_of(draft, number),
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        repeat=number,
    )
    if last is None:
        return request
    candidate = _content_of(last["candidate"])
    further = prompts["regenerate"].request({**last, "last": candidate})
    reply = Message("assistant", json.dumps(candidate, ensure_ascii=False))
    return replace(request, messages=(*request.messages, reply, *further.messages), prompt=further.prompt)


# ------------------------------------------------------------------------------------------- asking


async def generate(draft: Draft, models: Models, number: int, last: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A new candidate from the generator.

    Raises BrokenReply if neither of two replies can be used.
    """
    request = _generation_request(draft, number, last)
    candidate = await _ask_for_candidate(draft, models, "generator", request)
    method = "generate"
    if last is not None:
        method = "regenerate"
    return {**candidate, "by": method, "temperature": request.temperature}


async def criticise(
    draft: Draft, models: Models, candidate: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, str]:
    """The critic's feedback on what gives a candidate away: TextGrad's gradient, in words."""
    data = {**case_data(draft), "candidate": _content_of(candidate), "result": result}
    reply = await models.ask_structured("critic", SETS[draft.prompts]["critique"].request(data), Feedback)
    return {name: text.strip()[:MAX_JUSTIFICATION] for name, text in reply}


async def rewrite(
    draft: Draft, models: Models, candidate: Mapping[str, Any], feedback: Mapping[str, str]
) -> dict[str, Any]:
    """The candidate rewritten by the critic: TextGrad's step.

    Raises BrokenReply as `generate` does.
    """
    data = {**case_data(draft), "candidate": _content_of(candidate), "feedback": feedback}
    request = SETS[draft.prompts]["rewrite"].request(data, rules(draft))
    return {**await _ask_for_candidate(draft, models, "critic", request), "by": "rewrite", "temperature": None}


async def _ask_for_candidate(draft: Draft, models: Models, role: str, request: Request) -> dict[str, Any]:
    """Ask for a candidate.

    If its length is wrong, ask once more with the reason; if it still is, flag the candidate.
    """
    content, share = draft.record.content, presets.settings(draft)["length"]
    truth = presets.truth_of(draft)

    def check(candidate: Candidate) -> None:
        check_explained(request, [candidate.justification])
        check_candidate(candidate, truth=truth, question=content["question"], terms=draft.terms)

    candidate = await models.ask_structured(role, request, Candidate, check=check)
    replaced: list[str] = []
    flags: list[str] = []
    if share is not None and (reason := length_fault(candidate.answer, truth, share)):
        # Not in `check_candidate`: after a second answer of a wrong length there would be no
        # candidate.
        messages = (
            *request.messages,
            Message("assistant", candidate.model_dump_json()),
            Message(
                "user", f"Your last reply cannot be used. {reason} Answer again with one JSON object as asked for."
            ),
        )
        replaced = [candidate.answer.strip()]
        try:
            candidate = await models.ask_structured(role, replace(request, messages=messages), Candidate, check=check)
        except BrokenReply:
            replaced = []  # keep the first answer despite its length
        if length_fault(candidate.answer, truth, share):
            flags = ["length"]
    answer = candidate.answer.strip()
    return {
        "answer": answer,
        "justification": candidate.justification.strip(),
        "category": candidate.category,
        "words": count_words(answer),
        "replaced": replaced,
        "flags": flags,
        "prompt": request.prompt,
    }


def length_fault(answer: str, truth: str, share: float) -> str:
    """Why the length of an answer is wrong; empty if it is right."""
    low, high = length_bounds(truth, share)
    count = count_words(answer)
    if low <= count <= high:
        return ""
    return f"The answer has {count} words; it has to have between {low} and {high}, as the true one has {count_words(truth)}."
