"""Reference traces: requests to generator and judge, and the rules for keeping one (CLI-2)."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.reply_reading import check_whole
from generation.llm.types import Message, Request
from generation.recipes.prompts import Prompt, read_prompt
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.clinhallu import presets
from mhb_site.benchmarks.clinhallu.judging import PROMPTS, AnswerVerdict, ZeroOrOne, option_lines, true_answer
from mhb_site.benchmarks.clinhallu.trace_text import Trace, read_trace, with_images

REFERENCE, REPORT, CHECK_ANSWER, CHECK_TRACE = (
    read_prompt(PROMPTS / f"{name}.md") for name in ("reference", "report", "check_answer", "check_trace")
)
KEPT, INVALID, WRONG, INCONSISTENT, UNJUDGED = "kept", "invalid", "wrong", "inconsistent", "unjudged"
SAME_TEXT_SHARE = (
    0.8  # Dice coefficient of letter pairs from which two answers count as equal, if no judge could be read
)
MAX_PAIRS = 40  # questions and answers about an image that go into its report
MAX_STAGE = 6_000  # characters; keeps a runaway reply from physicians


class Consistency(BaseModel):
    """Whether a trace supports the true answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    consistent: ZeroOrOne


def _messages_with_images(prompt: Prompt, images: Sequence[str], **data: str) -> tuple[Message, ...]:
    [*before, last] = prompt.messages(**data)
    return (*before, with_images(last, images))


def generation_request(draft: Draft, number: int) -> Request:
    """The request for candidate `number`, from 1."""
    content, settings = draft.record.content, presets.settings(draft)
    messages = _messages_with_images(
        REFERENCE,
        content["images"],
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        rejected=as_data(draft.rejected("trace")),
    )
    return Request(
        messages,
        prompt=REFERENCE.label,
        temperature=settings["temperature"],
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        repeat=number - 1,
    )


async def generate_candidate(draft: Draft, models: Models, number: int) -> dict[str, Any]:
    """Ask the generator for a candidate and check its format."""
    try:
        reply = check_whole(await models.ask("generator", generation_request(draft, number)))
        text = reply.text
    except BrokenReply as error:
        return {"number": number, "text": "", "trace": asdict(Trace()), "status": INVALID, "why": error.detail}
    trace = read_trace(text)
    fault = trace.fault() or _length_fault(trace)
    candidate = {"number": number, "trace": asdict(trace), "status": INVALID if fault else "", "why": fault}
    return {**candidate, "text": text[:MAX_STAGE] if fault else ""}


def _length_fault(trace: Trace) -> str:
    longest = max(len(text) for text in asdict(trace).values())
    return f"A stage has {longest} characters; at most {MAX_STAGE} are kept." if longest > MAX_STAGE else ""


# ------------------------------------------------------------------------------------------- report


def known_pairs(draft: Draft) -> list[dict[str, str]]:
    """The questions and answers about the record's images, its own and those of other records."""
    content = draft.record.content
    joined = [other for record in draft.record.joined.values() for other in record]
    same_images = [other for other in joined if list(other.get("images", ())) == list(content["images"])]
    pairs = {(record["question"], true_answer(record)) for record in [content, *same_images]}
    # Sorted, so that all records about the image make the same request and its report is paid for
    # once.
    return [{"question": question, "answer": answer} for question, answer in sorted(pairs)[:MAX_PAIRS]]


async def write_report(draft: Draft, models: Models) -> str:
    """Ask for a report on the record's images; '' if no reply could be read."""
    messages = _messages_with_images(REPORT, draft.record.content["images"], known=as_data(known_pairs(draft)))
    temperature = presets.settings(draft)["judge_temperature"]
    try:
        request = Request(messages, prompt=REPORT.label, temperature=temperature)
        reply = check_whole(await models.ask("reporter", request))
    except BrokenReply:
        return ""
    return reply.text.strip()[:MAX_STAGE]


# ------------------------------------------------------------------------------------------- checks


def letter_of(answer: str) -> str:
    """The option letter that an answer chooses ('B. Text', '(b)', 'b'); '' if it names none."""
    match = re.match(r"\s*\(?([A-Za-z])(?:[).:\s]|$)", answer)
    return match[1].upper() if match else ""


def is_same_text(first: str, second: str) -> bool:
    """Whether two answers are the same text: equal, one in the other, or similar letter pairs."""
    left, right = (
        " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .") for text in (first, second)
    )
    if not left or not right:
        return False
    if left in right or right in left:
        return True
    left_pairs, right_pairs = (
        Counter(text[start : start + 2] for start in range(len(text) - 1)) for text in (left, right)
    )
    total = left_pairs.total() + right_pairs.total()
    return bool(total) and 2 * (left_pairs & right_pairs).total() / total >= SAME_TEXT_SHARE


async def check_answer(draft: Draft, models: Models, candidate: Mapping[str, Any], report: str) -> dict[str, Any]:
    """Whether a candidate's answer is right: ``{correct, by, reason}``.

    `by` is 'letter', 'judge' or 'text'; '' if the judge's reply could not be read.
    """
    content, settings = draft.record.content, presets.settings(draft)
    predicted = candidate["trace"]["answer"]
    if settings["letters"] and content["letter"] and letter_of(predicted) == content["letter"]:
        return {"correct": True, "by": "letter", "reason": ""}
    messages = CHECK_ANSWER.messages(
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        predicted=as_data(predicted),
        report=as_data(report or None),
    )
    request = Request(messages, prompt=CHECK_ANSWER.label, temperature=settings["judge_temperature"])
    try:
        verdict = await models.ask_structured("judge", request, AnswerVerdict)
    except BrokenReply as error:
        if settings["local"]:
            return {"correct": is_same_text(predicted, content["answer"]), "by": "text", "reason": error.detail}
        return {"correct": False, "by": "", "reason": error.detail}
    return {"correct": bool(verdict.answer_correct), "by": "judge", "reason": verdict.answer_reasoning[:MAX_STAGE]}


async def check_trace(draft: Draft, models: Models, candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the whole trace supports the true answer (eq. 4): ``{consistent, reason}``.

    `consistent` is None if the judge's reply could not be read.
    """
    content = draft.record.content
    messages = _messages_with_images(
        CHECK_TRACE,
        content["images"],
        question=as_data(content["question"]),
        options=as_data(option_lines(content)),
        truth=as_data(true_answer(content)),
        trace=as_data(candidate["trace"]),
    )
    temperature = presets.settings(draft)["judge_temperature"]
    try:
        verdict = await models.ask_structured(
            "judge", Request(messages, prompt=CHECK_TRACE.label, temperature=temperature), Consistency
        )
    except BrokenReply as error:
        return {"consistent": None, "reason": error.detail}
    return {"consistent": bool(verdict.consistent), "reason": verdict.reason[:MAX_STAGE]}


async def check_candidate(draft: Draft, models: Models, candidate: Mapping[str, Any], report: str) -> dict[str, Any]:
    """Put a candidate of valid format to the judge, and decide whether it is kept."""
    answer = await check_answer(draft, models, candidate, report)
    checked: dict[str, Any] = {**candidate, "answer": answer}
    if not answer["correct"]:
        return {**checked, "status": WRONG if answer["by"] else UNJUDGED, "why": answer["reason"]}
    if presets.settings(draft)["consistency"]:
        trace = await check_trace(draft, models, candidate)
        checked["consistency"] = trace
        if not trace["consistent"]:
            status = UNJUDGED if trace["consistent"] is None else INCONSISTENT
            return {**checked, "status": status, "why": trace["reason"]}
    return {**checked, "status": KEPT}
