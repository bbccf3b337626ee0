"""What a reply says of a statement: factual or not, and why. Strict: what is not said plainly is no decision.

The released script takes the first whole word 'yes' or 'no' anywhere in a reply. So an instruction that a model repeats
('YES or NO') is read as yes. Here only a decision in its place counts, and two that differ are none.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """`factual` is None where nothing was decided; `explanation` is empty where none was read."""

    factual: bool | None
    explanation: str = ""


UNREADABLE = Reading(None)
MARKS = r"[\s*_#`\"'\[\]()>-]*"  # of formatting
# 'Factual: YES' on a line of its own; in the released form the label is a heading, and the word on the next line.
_LABELLED = re.compile(rf"^{MARKS}factual{MARKS}[:=：]?{MARKS}\b(yes|no)\b{MARKS}[.。]?{MARKS}$", re.I | re.M)
_BARE = re.compile(rf"\A{MARKS}(yes|no)\b{MARKS}[.。,，]?{MARKS}$", re.I | re.M)
_EXPLANATION = re.compile(rf"^{MARKS}explanation{MARKS}(?:[:=：]|$)", re.I | re.M)
_PLACEHOLDERS = frozenset({"", "your explanation", "explanation", "the statement is factual"})

_RESULT = re.compile(r"\[RESULT\]\s*\(?\s*([0-9]+)\b(?![.,]\d)", re.I)
LEAST_FACTUAL = 4  # of five points: from 4, everything is supported

_CLAIM = re.compile(r"<\|(un)?supported\|>", re.I)
_EXPLAIN = re.compile(r"<\|explain\|>\s*<(.*?)>\s*<end\|\|explain>", re.I | re.S)


def read_plain(text: str) -> Reading:
    """A reply to the paper's prompt."""
    found = {match.group(1).casefold() for match in _LABELLED.finditer(text)}
    end = max((match.end() for match in _LABELLED.finditer(text)), default=0)
    if not found and (bare := _BARE.match(text)):
        found, end = {bare.group(1).casefold()}, bare.end()
    if len(found) != 1:
        return UNREADABLE
    label = next(_EXPLANATION.finditer(text, end), None)
    return Reading(found == {"yes"}, _explained(text[label.end() if label else end :]))


def read_prometheus(text: str) -> Reading:
    """Feedback, then [RESULT] and one integer from 1 to 5; 4 and 5 are factual."""
    found = {int(match.group(1)) for match in _RESULT.finditer(text) if len(match.group(1)) < 3}
    if len(found) != 1 or not 1 <= (score := found.pop()) <= 5:
        return UNREADABLE
    feedback = re.split(r"\[RESULT\]", text, maxsplit=1, flags=re.I)[0]
    return Reading(score >= LEAST_FACTUAL, _explained(re.sub(r"\A\W*feedback\s*:", "", feedback, flags=re.I)))


def read_halloumi(text: str) -> Reading:
    """Each claim is supported or not; a statement of which one claim is not supported is not factual."""
    found = [bool(match.group(1)) for match in _CLAIM.finditer(text)]
    if not found:
        return UNREADABLE
    said = []
    for segment in text.split("<end||r>"):
        marks = [bool(match.group(1)) for match in _CLAIM.finditer(segment)]
        if any(marks) == any(found):
            said += [match.group(1).strip() for match in _EXPLAIN.finditer(segment)]
    return Reading(not any(found), _explained(" ".join(said)))


def _explained(text: str) -> str:
    """An explanation without marks around it; empty where it says nothing."""
    text = " ".join(text.strip(" \t\r\n*_#`").split())
    return "" if text.strip(" .[]()<>").casefold() in _PLACEHOLDERS else text
