"""A reference trace in the making: what is asked of the generator and the judge, and when a candidate is kept (CLI-2)."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompt
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.clinhallu import presets
from mhb_site.benchmarks.clinhallu.judging import PROMPTS, AnswerVerdict, option_lines, true_answer
from mhb_site.benchmarks.clinhallu.trace_text import Trace, read_trace

REFERENCE, REPORT, CHECK_ANSWER, CHECK_TRACE = (
    read_prompt(PROMPTS / f"{name}.md") for name in ("reference", "report", "check_answer", "check_trace")
)
KEPT, INVALID, WRONG, INCONSISTENT, UNJUDGED = "kept", "invalid", "wrong", "inconsistent", "unjudged"
ALIKE = 0.8  # Dice's coefficient of pairs of letters, from which two answers count as one where no judge could be read
MOST_PAIRS = 40  # questions and answers of one image that a report is written from
MAX_STAGE = 6_000  # characters; keeps a runaway reply from physicians


class Consistency(BaseModel):
    """Whether a trace supports the true answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    consistent: Literal[0, 1]


def _showing(prompt: Prompt, images: Sequence[str], **data: str) -> tuple[Message, ...]:
    [*before, last] = prompt.messages(**data)
    return (*before, Message.showing(last.role, last.text, images))


def rejected(draft: Draft) -> dict[str, Any] | None:
    """The version before and why physicians rejected it; None for a first version."""
    if draft.previous is None:
        return None
    return {"trace": draft.previous.get("trace"), "reasons": list(draft.reasons)}


def generation(draft: Draft, number: int) -> Request:
    """What asks the generator for its candidate of this number, from 1."""
    content, settings = draft.record.content, presets.settings(draft)
    messages = _showing(
        REFERENCE,
        content["images"],
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        rejected=as_data(rejected(draft)),
    )
    return Request(
        messages,
        prompt=REFERENCE.label,
        temperature=settings["temperature"],
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        repeat=number - 1,
    )


async def candidate(draft: Draft, models: Models, number: int) -> dict[str, Any]:
    """A candidate of the generator's, its format checked by code."""
    try:
        reply = await models.ask("generator", generation(draft, number))
        text = reply.text
    except BrokenReply as error:
        return {"number": number, "text": "", "trace": asdict(Trace()), "status": INVALID, "why": error.detail}
    trace = read_trace(text)
    fault = trace.fault() or _too_long(trace)
    made = {"number": number, "trace": asdict(trace), "status": INVALID if fault else "", "why": fault}
    return {**made, "text": text[:MAX_STAGE] if fault else ""}


def _too_long(trace: Trace) -> str:
    longest = max(len(text) for text in asdict(trace).values())
    return f"A stage has {longest} characters; at most {MAX_STAGE} are kept." if longest > MAX_STAGE else ""


# --------------------------------------------------------------------------------------------------------------- report


def known_of(draft: Draft) -> list[dict[str, str]]:
    """What is known of the record's images: its own question and answer, and those of other records about the same."""
    content = draft.record.content
    others = [other for each in draft.record.joined.values() for other in each]
    same = [other for other in others if list(other.get("images", ())) == list(content["images"])]
    pairs = {(each["question"], true_answer(each)) for each in [content, *same]}
    # Sorted: one request for all records about the image, so that its report is paid for once.
    return [{"question": question, "answer": answer} for question, answer in sorted(pairs)[:MOST_PAIRS]]


async def report(draft: Draft, models: Models) -> str:
    """A report on the record's images. '' where no reply could be read."""
    messages = _showing(REPORT, draft.record.content["images"], known=as_data(known_of(draft)))
    temperature = presets.settings(draft)["judge_temperature"]
    try:
        reply = await models.ask("reporter", Request(messages, prompt=REPORT.label, temperature=temperature))
    except BrokenReply:
        return ""
    return reply.text.strip()[:MAX_STAGE]


# --------------------------------------------------------------------------------------------------------------- checks


def letter_of(answer: str) -> str:
    """The letter with which an answer chooses an option ('B. Text', '(b)', 'b'); '' where it names none."""
    found = re.match(r"\s*\(?([A-Za-z])(?:[).:\s]|$)", answer)
    return found[1].upper() if found else ""


def alike(one: str, other: str) -> bool:
    """Whether two answers are the same text: equal, one within the other, or most of their pairs of letters shared."""
    left, right = (
        " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .") for text in (one, other)
    )
    if not left or not right:
        return False
    if left in right or right in left:
        return True
    first, second = (Counter(text[at : at + 2] for at in range(len(text) - 1)) for text in (left, right))
    whole = first.total() + second.total()
    return bool(whole) and 2 * (first & second).total() / whole >= ALIKE


async def check_answer(draft: Draft, models: Models, made: Mapping[str, Any], known: str) -> dict[str, Any]:
    """Whether a candidate's answer is right: ``{correct, by: 'letter' | 'judge' | 'text' | '', reason}``; by nobody: unread."""
    content, settings = draft.record.content, presets.settings(draft)
    predicted = made["trace"]["answer"]
    if settings["letters"] and content["letter"] and letter_of(predicted) == content["letter"]:
        return {"correct": True, "by": "letter", "reason": ""}
    messages = CHECK_ANSWER.messages(
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        predicted=as_data(predicted),
        report=as_data(known or None),
    )
    request = Request(messages, prompt=CHECK_ANSWER.label, temperature=settings["judge_temperature"])
    try:
        said = await models.ask_structured("judge", request, AnswerVerdict)
    except BrokenReply as error:
        if settings["local"]:
            return {"correct": alike(predicted, content["answer"]), "by": "text", "reason": error.detail}
        return {"correct": False, "by": "", "reason": error.detail}
    return {"correct": bool(said.answer_correct), "by": "judge", "reason": said.answer_reasoning[:MAX_STAGE]}


async def check_trace(draft: Draft, models: Models, made: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the whole trace supports the true answer (eq. 4): ``{consistent, reason}``; consistent None: unread."""
    content = draft.record.content
    messages = _showing(
        CHECK_TRACE,
        content["images"],
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        trace=as_data(made["trace"]),
    )
    temperature = presets.settings(draft)["judge_temperature"]
    try:
        said = await models.ask_structured(
            "judge", Request(messages, prompt=CHECK_TRACE.label, temperature=temperature), Consistency
        )
    except BrokenReply as error:
        return {"consistent": None, "reason": error.detail}
    return {"consistent": bool(said.consistent), "reason": said.reason[:MAX_STAGE]}


async def checked(draft: Draft, models: Models, made: Mapping[str, Any], known: str) -> dict[str, Any]:
    """A candidate of valid format with what the judge found, and whether it is kept."""
    answer = await check_answer(draft, models, made, known)
    found: dict[str, Any] = {**made, "answer": answer}
    if not answer["correct"]:
        return {**found, "status": WRONG if answer["by"] else UNJUDGED, "why": answer["reason"]}
    if presets.settings(draft)["consistency"]:
        trace = await check_trace(draft, models, made)
        found["consistency"] = trace
        if not trace["consistent"]:
            status = UNJUDGED if trace["consistent"] is None else INCONSISTENT
            return {**found, "status": status, "why": trace["reason"]}
    return {**found, "status": KEPT}
