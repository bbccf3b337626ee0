"""Strict parsing of replies: is the statement factual, and why?

The released script takes the first whole word 'yes' or 'no' anywhere in a reply, so it reads a
repeated instruction ('YES or NO') as yes. Here only a decision in its proper place counts, and two
different decisions count as none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """The decision and explanation in a reply.

    `factual` is None without a decision; `explanation` is empty if there is none.
    """

    factual: bool | None
    explanation: str = ""


UNREADABLE = Reading(None)
# Marks of formatting, over several lines and within one. Possessive, and at a line's beginning within
# it: models that fail repeat newlines by the thousand, which are then looked at once.
_FORMATTING = "*_#`\"'[]()>-"
MARKS = rf"[\s{re.escape(_FORMATTING)}]*+"
_LINE_MARKS = rf"(?:[^\S\n]|[{re.escape(_FORMATTING)}])*+"
# 'Factual: YES' on a line of its own. In the released format the label is a heading, with the word
# on the next line.
_LABELLED = re.compile(
    rf"^{_LINE_MARKS}factual{MARKS}[:=：]?{MARKS}\b(yes|no)\b{_LINE_MARKS}[.。]?{_LINE_MARKS}$",
    re.I | re.M,
)
_BARE = re.compile(rf"\A{MARKS}(yes|no)\b{_LINE_MARKS}[.。,，]?{_LINE_MARKS}$", re.I | re.M)
_EXPLANATION = re.compile(rf"^{_LINE_MARKS}explanation(?:{MARKS}[:=：]|{_LINE_MARKS}$)", re.I | re.M)
_PLACEHOLDERS = frozenset({"", "your explanation", "explanation", "the statement is factual"})

_RESULT = re.compile(r"\[RESULT\]\s*+\(?\s*+([0-9]++)\b(?![.,]\d)", re.I)
MIN_FACTUAL_SCORE = 4  # of five points; from 4, everything is supported

_CLAIM_MARK = re.compile(r"<\|(un)?supported\|>", re.I)
_EXPLAIN, _EXPLAIN_END = re.compile(r"<\|explain\|>", re.I), re.compile(r"<end\|\|explain>", re.I)


def read_plain(text: str) -> Reading:
    """Read a reply to the paper's prompt."""
    matches = list(_LABELLED.finditer(text))
    bare = _BARE.match(text)
    if bare and not matches:
        matches = [bare]
    decisions, end = set[str](), 0
    for match in matches:
        decisions.add(match[1].casefold())
        end = match.end()
    if len(decisions) != 1:
        return UNREADABLE
    label = _EXPLANATION.search(text, end)
    if label:
        end = label.end()
    return Reading(decisions == {"yes"}, _clean_explanation(text[end:]))


def read_prometheus(text: str) -> Reading:
    """Read a Prometheus-2 reply: feedback, then [RESULT] and an integer from 1 to 5.

    4 and 5 are factual.
    """
    scores = {int(digits) for digits in _RESULT.findall(text) if len(digits) < 3}
    if len(scores) != 1:
        return UNREADABLE
    [score] = scores
    if not 1 <= score <= 5:
        return UNREADABLE
    feedback = re.split(r"\[RESULT\]", text, maxsplit=1, flags=re.I)[0]
    feedback = re.sub(r"\A\W*feedback\s*:", "", feedback, flags=re.I)
    return Reading(score >= MIN_FACTUAL_SCORE, _clean_explanation(feedback))


def read_halloumi(text: str) -> Reading:
    """Read a HallOumi reply: a statement with an unsupported claim is not factual."""
    if not _CLAIM_MARK.search(text):
        return UNREADABLE
    is_factual = not _has_unsupported_claim(text)
    explanations: list[str] = []
    for segment in text.split("<end||r>"):
        if is_factual != _has_unsupported_claim(segment):
            explanations += _explanations(segment)
    return Reading(is_factual, _clean_explanation(" ".join(explanations)))


def _has_unsupported_claim(text: str) -> bool:
    return any(match[1] for match in _CLAIM_MARK.finditer(text))


def _explanations(segment: str) -> Iterator[str]:
    """The texts between the marks of an explanation, without the angle brackets around each."""
    for part in _EXPLAIN.split(segment)[1:]:
        if end := _EXPLAIN_END.search(part):
            inner = part[: end.start()].strip()
            if len(inner) > 1 and inner[0] == "<" and inner[-1] == ">":
                yield inner[1:-1].strip()


def _clean_explanation(text: str) -> str:
    """The explanation without surrounding marks; empty if it is only a placeholder."""
    text = " ".join(text.strip(" \t\r\n*_#`").split())
    if text.strip(" .[]()<>").casefold() in _PLACEHOLDERS:
        return ""
    return text
