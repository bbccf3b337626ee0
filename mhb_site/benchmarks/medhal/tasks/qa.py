"""Question answering: a question with its right option is a factual statement, with one wrong option another that is not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.draw import drawn
from mhb_site.benchmarks.medhal.tasks.pair import Pair
from mhb_site.benchmarks.medhal.tasks.sentences import last_question, sentences

KIND = "mcq"
_ABOVE = re.compile(
    r"\b(?:all|none|both|any|either|neither)\b.{0,20}\b(?:above|these|them|the options)\b|\bthe above\b", re.IGNORECASE
)
_TRUTH = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)
_EXCEPT = re.compile(r"\b(?:except|not|false|incorrect|least)\b", re.IGNORECASE)
_ANSWER = re.compile(
    r"^\s*\(?ans(?:wer)?\b[\s.:\-–is]*\(?[a-d](?![a-z])\)?\s*[.:)\-–,]*\s*(?:i\.?e\.?\s*[,.:]*)?\s*", re.IGNORECASE
)


def pairs(content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]) -> Sequence[Pair]:
    """The one pair of a question, or the reason why there is none."""
    if reason := left_out(content, settings["qa_filters"]):
        return [Pair("qa", out=reason)]
    context, question = _asked(content["question"], settings["qa_context"])
    answer = content["answer"]
    wrong = [
        letter for letter, text in content["options"].items() if _plain(text) != _plain(content["options"][answer])
    ]
    if not wrong:
        return [Pair("qa", out="no-wrong-option")]
    letter = wrong[drawn(len(wrong), settings["seed"], "option", external_id)]
    return [
        Pair(
            "qa",
            context=context,
            question=question,
            right=content["options"][answer],
            wrong=content["options"][letter],
            option=letter,
            source_explanation=explanation(content["explanation"]),
        )
    ]


def left_out(content: Mapping[str, Any], filters: str) -> str:
    """Why a question is not taken: a code of `REASONS`; "" where it is. `filters`: none, released or stricter."""
    options, question = list(content["options"].values()), content["question"]
    match filters:
        case "released":
            return _released(content["dataset"], question, options)
        case "stricter":
            if any(map(_ABOVE.search, options)):
                return "the-above"
            if content.get("choice") == "multi" or _EXCEPT.search(_asked(question, "split")[1]):
                return "negated"
            return "true-false" if any(map(_TRUTH.search, options)) else ""
    return ""


def _released(dataset: str, question: str, options: Sequence[str]) -> str:
    """As the released code has it: only the last option is looked at for 'the above', and 'except' only in small letters."""
    if dataset == "medqa":
        return "" if last_question(question)[1] else "no-question"
    if "the above" in options[-1]:
        return "the-above"
    if "except" in question:
        return "negated"
    return "true-false" if any("true" in text.lower() or "false" in text.lower() for text in options) else ""


def _asked(question: str, how: str) -> tuple[str, str]:
    """The context of a question, and the question itself."""
    if how != "split":
        return "", question
    before, asked = last_question(question)
    if asked:
        return before, asked
    found = sentences(question)
    return (question[: found[-1].start].strip(), found[-1].text) if len(found) > 1 else ("", question)


def explanation(text: str) -> str:
    """The data set's explanation without the letter of the answer before it ('Ans. b …')."""
    return _ANSWER.sub("", text).strip()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
