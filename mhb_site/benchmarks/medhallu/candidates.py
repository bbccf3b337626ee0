"""A hallucinated answer in the making: what is asked of the generator and the critic, and what is refused of their replies."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompts
from generation.recipes.recipe import Draft, Models, Term
from mhb_site.benchmarks.medhallu import presets

PROMPTS = Path(__file__).parent / "prompts"
SETS = read_prompts(PROMPTS, "generate", "regenerate", "vote", "critique", "rewrite", "entail")

MAX_JUSTIFICATION = 2_000  # characters; keeps a runaway reply from physicians
MAX_GROWTH = 4  # times the length of the true answer, where no other limit is set


# The docstrings of the shapes go to the models, as descriptions in the JSON schema of their reply.
class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Candidate(_Strict):
    """A hallucinated answer, what is wrong in it and what is true instead, and the code of its category."""

    answer: str
    justification: str
    category: str


class Feedback(_Strict):
    """What gives a hallucinated answer away in wording and structure, and what to change."""

    wording: str
    structure: str
    advice: str


# ------------------------------------------------------------------------------------------------------------ measures


def drawn(*parts: object) -> float:
    """A number in [0, 1) that is a function of `parts`: the same draft draws the same again after a crash."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def temperature_of(draft: Draft, number: int) -> float:
    """The generator's temperature for the answer of this number, evenly between the two ends of the setting."""
    low, high = presets.settings(draft)["temperature"]
    share = drawn("temperature", draft.record.external_id, draft.version, number)
    return round(float(low + (high - low) * share), 3)


_WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")


def count_words(text: str) -> int:
    """Words by white space; of Chinese, characters."""
    return sum(any(sign.isalnum() for sign in word) for word in _WORD.findall(text))


def bounds(truth: str, share: float) -> tuple[int, int]:
    """The fewest and the most words allowed. Rounded outward, as a true answer of 5 words would allow no other length."""
    count = count_words(truth)
    return math.floor(round(count * (1 - share), 6)), math.ceil(round(count * (1 + share), 6))


# ------------------------------------------------------------------------------------------------------------- refusals

# What tells the reader that it is hallucinated. The symptom of that name is a subject like others, so no word alone does.
_TELLS = re.compile(
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


def check(made: Candidate, *, truth: str, question: str, terms: Sequence[Term]) -> None:
    """Raises BrokenReply with everything that is wrong with a candidate but its length, in sentences for the generator."""
    reasons = list(_faults(made, truth, question, terms))
    if reasons:
        raise BrokenReply(" ".join(reasons))


def _faults(made: Candidate, truth: str, question: str, terms: Sequence[Term]) -> Iterator[str]:
    known = [term.code for term in terms]
    if made.category not in known:
        yield f"The category {made.category[:20]!r} is unknown; the categories are {', '.join(known)}."
    if not _folded(made.answer):
        yield "The answer is empty."
    elif _folded(made.answer) == _folded(truth):
        yield "The answer is the true answer: it has to be wrong."
    elif count_words(made.answer) > MAX_GROWTH * max(count_words(truth), 25):
        yield f"The answer is more than {MAX_GROWTH} times as long as the true one."
    told = _TELLS.search(made.answer)
    if told and not (_TELLS.search(truth) or _TELLS.search(question)):
        yield f"The answer tells that it is hallucinated ({told[0]!r}); nothing in it may say so."
    if not made.justification.strip():
        yield "The justification is empty."
    elif len(made.justification) > MAX_JUSTIFICATION:
        yield f"The justification is longer than {MAX_JUSTIFICATION} characters."


def _folded(text: str) -> str:
    """`text` without regard to case, white space and punctuation."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


# ------------------------------------------------------------------------------------------------------------- requests


def prompt_of(draft: Draft, name: str) -> Prompt:
    """The prompt by the draft's set, which is the preset's where a launch named none."""
    return SETS[draft.prompts][name]


def _length(draft: Draft) -> dict[str, str]:
    """The limits that the prompts state; those of ten per cent where none is enforced."""
    truth = draft.record.content["answer"]
    low, high = bounds(truth, presets.settings(draft)["length"] or 0.1)
    return {"low": str(low), "high": str(high), "count": str(count_words(truth))}


def _categories(terms: Sequence[Term]) -> str:
    return "\n".join(f"- {term.code} {term.label}: {term.definition}" for term in terms)


def _rejected(draft: Draft) -> dict[str, Any] | None:
    if draft.previous is None:
        return None
    kept = {name: draft.previous.get(name) for name in ("hallucinated", "justification", "category")}
    return {"version": kept, "reasons": list(draft.reasons)}


def result_of(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a candidate, as critic and generator are told."""
    return {
        "fooled": candidate["fooled"],
        "voters": sum(not vote["broken"] for vote in candidate["votes"]),
        "says_the_same": bool(candidate["entailed"]),
    }


def _said(candidate: Mapping[str, Any]) -> dict[str, str]:
    return {name: candidate[name] for name in ("answer", "justification", "category")}


def _generation(draft: Draft, number: int, last: Mapping[str, Any] | None) -> Request:
    """What asks the generator for its answer of this number; `last`: ``{candidate, result, feedback}`` to improve on."""
    content, settings = draft.record.content, presets.settings(draft)
    prompt = prompt_of(draft, "generate")
    messages = prompt.messages(
        categories=_categories(draft.terms),
        question=as_data(content["question"]),
        knowledge=as_data(list(content["contexts"])),
        truth=as_data(content["answer"]),
        attempt=as_data(number),
        rejected=as_data(_rejected(draft)),
        **_length(draft),
    )
    if last is not None:
        prompt = prompt_of(draft, "regenerate")
        messages = (
            *messages,
            Message("assistant", json.dumps(_said(last["candidate"]), ensure_ascii=False)),
            *prompt.messages(
                last=as_data(_said(last["candidate"])),
                result=as_data(last["result"]),
                feedback=as_data(last["feedback"]),
            ),
        )
    return Request(
        messages,
        prompt=prompt.label,
        temperature=temperature_of(draft, number),
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        repeat=number,
    )


# --------------------------------------------------------------------------------------------------------------- asking


async def generate(draft: Draft, models: Models, number: int, last: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A new candidate of the generator's. Raises BrokenReply where neither of two replies can be used."""
    request = _generation(draft, number, last)
    made = await _asked(draft, models, "generator", request)
    return {**made, "by": "generate" if last is None else "regenerate", "temperature": request.temperature}


async def criticise(
    draft: Draft, models: Models, candidate: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, str]:
    """What gives a candidate away: the gradient of TextGrad, in words."""
    prompt = prompt_of(draft, "critique")
    messages = prompt.messages(
        question=as_data(draft.record.content["question"]),
        truth=as_data(draft.record.content["answer"]),
        candidate=as_data(_said(candidate)),
        result=as_data(result),
    )
    found = await models.ask_structured("critic", Request(messages, prompt=prompt.label), Feedback)
    return {name: text.strip()[:MAX_JUSTIFICATION] for name, text in found.model_dump().items()}


async def rewrite(
    draft: Draft, models: Models, candidate: Mapping[str, Any], feedback: Mapping[str, str]
) -> dict[str, Any]:
    """The candidate as the critic would have it: the step of TextGrad. Raises BrokenReply as `generate` does."""
    content = draft.record.content
    prompt = prompt_of(draft, "rewrite")
    messages = prompt.messages(
        categories=_categories(draft.terms),
        question=as_data(content["question"]),
        knowledge=as_data(list(content["contexts"])),
        truth=as_data(content["answer"]),
        candidate=as_data(_said(candidate)),
        feedback=as_data(feedback),
        rejected=as_data(_rejected(draft)),
        **_length(draft),
    )
    made = await _asked(draft, models, "critic", Request(messages, prompt=prompt.label))
    return {**made, "by": "rewrite", "temperature": None}


async def _asked(draft: Draft, models: Models, role: str, request: Request) -> dict[str, Any]:
    """A candidate; one of a wrong length is asked for once more with the reason, and then flagged where it still is."""
    content, share = draft.record.content, presets.settings(draft)["length"]
    truth = content["answer"]
    refused: Callable[[Candidate], None] = partial(check, truth=truth, question=content["question"], terms=draft.terms)
    made = await models.ask_structured(role, request, Candidate, check=refused)
    replaced: list[str] = []
    flags: list[str] = []
    if share is not None and (reason := _off(made.answer, truth, share)):
        # Not by `check`, which would leave no candidate at all after a second answer of a wrong length.
        again = (
            *request.messages,
            Message("assistant", made.model_dump_json()),
            Message(
                "user", f"Your last reply cannot be used. {reason} Answer again with one JSON object as asked for."
            ),
        )
        replaced = [made.answer.strip()]
        try:
            made = await models.ask_structured(role, replace(request, messages=again), Candidate, check=refused)
        except BrokenReply:
            replaced = []  # the first one stands, as too long or too short as it is
        if _off(made.answer, truth, share):
            flags = ["length"]
    answer = made.answer.strip()
    return {
        "answer": answer,
        "justification": made.justification.strip(),
        "category": made.category,
        "words": count_words(answer),
        "replaced": replaced,
        "flags": flags,
        "prompt": request.prompt,
    }


def _off(answer: str, truth: str, share: float) -> str:
    """Why the length of an answer is wrong; empty where it is not."""
    low, high = bounds(truth, share)
    count = count_words(answer)
    if low <= count <= high:
        return ""
    return f"The answer has {count} words; it has to have between {low} and {high}, as the true one has {count_words(truth)}."
