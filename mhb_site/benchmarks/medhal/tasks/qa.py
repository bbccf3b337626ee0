"""Question answering: the question with its right option makes a factual statement.

The question with a wrong option makes the non-factual one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mhb_site.benchmarks.medhal.tasks.draw import draw_index
from mhb_site.benchmarks.medhal.tasks.pair import Pair
from mhb_site.benchmarks.medhal.tasks.sentences import last_question, sentences

KIND = "mcq"
_REFERS_TO_OPTIONS = re.compile(
    r"\b(?:all|none|both|any|either|neither)\b.{0,20}\b(?:above|these|them|the options)\b|\bthe above\b", re.IGNORECASE
)
_TRUTH = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)
_EXCEPT = re.compile(r"\b(?:except|not|false|incorrect|least)\b", re.IGNORECASE)
_ANSWER = re.compile(
    r"^\s*\(?ans(?:wer)?\b[\s.:\-–is]*\(?[a-d](?![a-z])\)?\s*[.:)\-–,]*\s*(?:i\.?e\.?\s*[,.:]*)?\s*", re.IGNORECASE
)


def pairs(content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]) -> Sequence[Pair]:
    """The pair of a question, or the reason why there is none."""
    if reason := exclusion_reason(content, settings["qa_filters"]):
        return [Pair("qa", out=reason)]
    context, question = _context_and_question(content["question"], settings["qa_context"])
    answer = content["answer"]
    wrong_letters = [
        letter
        for letter, text in content["options"].items()
        if _normalised(text) != _normalised(content["options"][answer])
    ]
    if not wrong_letters:
        return [Pair("qa", out="no-wrong-option")]
    letter = wrong_letters[draw_index(len(wrong_letters), settings["seed"], "option", external_id)]
    return [
        Pair(
            "qa",
            context=context,
            question=question,
            right=content["options"][answer],
            wrong=content["options"][letter],
            option=letter,
            source_explanation=clean_explanation(content["explanation"]),
        )
    ]


def exclusion_reason(content: Mapping[str, Any], filters: str) -> str:
    """Why a question is left out, a code of `REASONS`; '' if it is used.

    `filters` is 'none', 'released' or 'stricter'.
    """
    options, question = list(content["options"].values()), content["question"]
    match filters:
        case "released":
            return _released_exclusion(content["dataset"], question, options)
        case "stricter":
            if any(map(_REFERS_TO_OPTIONS.search, options)):
                return "the-above"
            if content.get("choice") == "multi" or _EXCEPT.search(_context_and_question(question, "split")[1]):
                return "negated"
            return "true-false" if any(map(_TRUTH.search, options)) else ""
    return ""


def _released_exclusion(dataset: str, question: str, options: Sequence[str]) -> str:
    """The reason by the rules of the released code.

    It looks for 'the above' only in the last option, and for 'except' only in lower case.
    """
    if dataset == "medqa":
        return "" if last_question(question)[1] else "no-question"
    if "the above" in options[-1]:
        return "the-above"
    if "except" in question:
        return "negated"
    return "true-false" if any("true" in text.lower() or "false" in text.lower() for text in options) else ""


def _context_and_question(question: str, mode: str) -> tuple[str, str]:
    """The context of a question and the question itself."""
    if mode != "split":
        return "", question
    before, last = last_question(question)
    if last:
        return before, last
    parts = sentences(question)
    return (question[: parts[-1].start].strip(), parts[-1].text) if len(parts) > 1 else ("", question)


def clean_explanation(text: str) -> str:
    """The data set's explanation without a leading letter of the answer ('Ans. b …')."""
    return _ANSWER.sub("", text).strip()


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
