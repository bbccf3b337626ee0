"""Reference traces: requests to generator and judge, and the rules for keeping one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from generation.common.medical_text import chosen_letter, is_same_answer
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import check_explained, check_whole
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import Draft, Models, ReplyShape
from mhb_site.benchmarks.clinhallu import presets
from mhb_site.benchmarks.clinhallu.judging import PROMPTS, AnswerVerdict, ZeroOrOne, option_lines, true_answer
from mhb_site.benchmarks.clinhallu.trace_text import Trace, read_trace, request_with_images

REFERENCE, REPORT = read_prompt(PROMPTS / "reference.md"), read_prompt(PROMPTS / "report.md")
CHECK_ANSWER, CHECK_TRACE = read_prompt(PROMPTS / "check_answer.md"), read_prompt(PROMPTS / "check_trace.md")
KEPT, INVALID, WRONG, INCONSISTENT, UNJUDGED = "kept", "invalid", "wrong", "inconsistent", "unjudged"
MAX_PAIRS = 40  # questions and answers about an image that go into its report
MAX_STAGE = 6_000  # characters; keeps a runaway reply from physicians


class Consistency(ReplyShape):
    """Whether a trace supports the true answer."""

    reason: str
    consistent: ZeroOrOne


async def generate_candidate(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    """Ask the generator for a candidate and check its format."""
    content, settings = draft.record.content, presets.settings(draft)
    request = request_with_images(
        REFERENCE,
        content["images"],
        {"question": content["question"], "options": option_lines(content), "rejected": draft.rejected("trace")},
        temperature=settings["temperature"],
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        repeat=number - 1,
    )
    trace, text = Trace(), ""
    try:
        text = check_whole(await models.ask("generator", request)).text
        trace = read_trace(text)
        fault = trace.fault() or _length_fault(trace)
    except BrokenReply as error:
        fault = error.detail
    candidate = {"number": number, "trace": asdict(trace), "status": "", "why": fault, "text": ""}
    if fault:
        candidate |= {"status": INVALID, "text": text[:MAX_STAGE]}
    return [draft.extended(candidates=[*draft.data.get("candidates", ()), candidate])]


def _length_fault(trace: Trace) -> str:
    longest = max(len(text) for text in asdict(trace).values())
    if longest > MAX_STAGE:
        return f"A stage has {longest} characters; at most {MAX_STAGE} are kept."
    return ""


# ------------------------------------------------------------------------------------------- report


def known_pairs(draft: Draft) -> list[dict[str, str]]:
    """The questions and answers about the record's images, its own and those of other records."""
    content = draft.record.content
    pairs = {(content["question"], true_answer(content))}
    for other in chain.from_iterable(draft.record.joined.values()):
        if list(other.get("images", ())) == list(content["images"]):
            pairs.add((other["question"], true_answer(other)))
    # Sorted, so that all records about the image make the same request and its report is paid for
    # once.
    return [{"question": question, "answer": answer} for question, answer in sorted(pairs)[:MAX_PAIRS]]


async def write_report(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask for a report on the record's images, if a candidate can be checked.

    The report is '' if no reply could be read.
    """
    if all(candidate["status"] for candidate in draft.data.get("candidates", ())):
        return [draft]
    temperature = presets.settings(draft)["judge_temperature"]
    data = {"known": known_pairs(draft)}
    request = request_with_images(REPORT, draft.record.content["images"], data, temperature=temperature)
    try:
        report = check_whole(await models.ask("reporter", request)).text
    except BrokenReply:
        report = ""
    return [draft.extended(report=report.strip()[:MAX_STAGE])]


# ------------------------------------------------------------------------------------------- checks


async def check_answer(draft: Draft, models: Models, candidate: Mapping[str, Any], report: str) -> dict[str, Any]:
    """Whether a candidate's answer is right: ``{correct, by, reason}``.

    `by` is 'letter', 'judge' or 'text'; '' if the judge's reply could not be read.
    """
    content, settings = draft.record.content, presets.settings(draft)
    predicted = candidate["trace"]["answer"]
    letter = chosen_letter(predicted, dict(content["options"]))
    if settings["letters"] and letter and letter == content["letter"]:
        return {"correct": True, "by": "letter", "reason": ""}
    data = {**_question(draft), "predicted": predicted, "report": report or None}
    request = CHECK_ANSWER.request(data, temperature=settings["judge_temperature"])

    def check(verdict: AnswerVerdict) -> None:
        check_explained(request, [verdict.answer_reasoning])

    try:
        verdict = await models.ask_structured("judge", request, AnswerVerdict, check=check)
    except BrokenReply as error:
        if settings["local"]:
            is_right = not letter and is_same_answer(predicted, content["answer"])
            return {"correct": is_right, "by": "text", "reason": error.detail}
        return {"correct": False, "by": "", "reason": error.detail}
    return {"correct": bool(verdict.answer_correct), "by": "judge", "reason": verdict.answer_reasoning[:MAX_STAGE]}


async def check_trace(draft: Draft, models: Models, candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the whole trace supports the true answer (eq. 4): ``{consistent, reason}``.

    `consistent` is None if the judge's reply could not be read.
    """
    data = {**_question(draft), "trace": candidate["trace"]}
    temperature = presets.settings(draft)["judge_temperature"]
    request = request_with_images(CHECK_TRACE, draft.record.content["images"], data, temperature=temperature)

    def check(verdict: Consistency) -> None:
        check_explained(request, [verdict.reason])

    try:
        verdict = await models.ask_structured("judge", request, Consistency, check=check)
    except BrokenReply as error:
        return {"consistent": None, "reason": error.detail}
    return {"consistent": bool(verdict.consistent), "reason": verdict.reason[:MAX_STAGE]}


def _question(draft: Draft) -> dict[str, object]:
    """What the judge is told of the question."""
    content = draft.record.content
    return {"question": content["question"], "options": option_lines(content), "truth": true_answer(content)}


async def check_candidate(draft: Draft, models: Models, candidate: Mapping[str, Any], report: str) -> dict[str, Any]:
    """Put a candidate of valid format to the judge, and decide whether it is kept."""
    answer = await check_answer(draft, models, candidate, report)
    checked: dict[str, Any] = {**candidate, "answer": answer}
    if not answer["correct"]:
        status = UNJUDGED
        if answer["by"]:
            status = WRONG
        return {**checked, "status": status, "why": answer["reason"]}
    if presets.settings(draft)["consistency"]:
        trace = await check_trace(draft, models, candidate)
        checked["consistency"] = trace
        if not trace["consistent"]:
            status = INCONSISTENT
            if trace["consistent"] is None:
                status = UNJUDGED
            return {**checked, "status": status, "why": trace["reason"]}
    return {**checked, "status": KEPT}
