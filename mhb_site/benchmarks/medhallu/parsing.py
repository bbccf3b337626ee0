"""Strict parsing of replies to the detection prompt, in English and Chinese.

The released script looks for the character 1, 'not' or 'non' anywhere, then for 'not sure', 'pass',
'skip' or 2, and takes everything else for 'factual'. It therefore reads 'not sure' as hallucinated
and an empty reply as factual. Here a reply has a reading only if it makes one decision: the whole
text, or its first or last line, is a decision, and nothing in it states another.
"""

import re
import unicodedata
from enum import StrEnum


class Reading(StrEnum):
    """The decision in a reply; `UNPARSED` is no decision and never counts as one."""

    FACTUAL = "factual"
    HALLUCINATED = "hallucinated"
    UNSURE = "not sure"
    UNPARSED = "unparsed"


_DIGITS = {"0": Reading.FACTUAL, "1": Reading.HALLUCINATED, "2": Reading.UNSURE}

# Decisions in words. Longer phrases precede those that they contain: 'not factual' before
# 'factual'.
_INTENSIFIER = (
    r"(?:(?:at\s+all|entirely|completely|absolutely|totally|fully|quite|very|really|so|too|that|100\s*%|(?:a|one)\s+hundred"
    r"\s+percent|100\s+percent)\s+)?"
)
_FIELD = r"[\"'`*]*\s*[:=?]\s*[\"'`*]*"
_WHETHER = r"(?:是否|有无)?(?:存在|含有|属于|有)?"
_UNSURE_WORDS = (
    rf"\bnot\s+{_INTENSIFIER}(?:sure|certain)\b|\bunsure\b|\buncertain\b"
    r"|不太?确定|无法确定|不能确定|不清楚|拿不准"
)
_DECISION_WORDS = (
    (Reading.UNSURE, _UNSURE_WORDS),
    # Form-like replies: 'Hallucinated: no', '"factual": false'.
    (Reading.FACTUAL, rf"\bhallucinat(?:ed|ion){_FIELD}(?:no|false)\b|{_WHETHER}幻觉{_FIELD}(?:否|无|没有)"),
    (Reading.HALLUCINATED, rf"\bhallucinat(?:ed|ion){_FIELD}(?:yes|true)\b|{_WHETHER}幻觉{_FIELD}(?:是|有)"),
    (Reading.FACTUAL, rf"\bfactual{_FIELD}(?:yes|true)\b"),
    (Reading.HALLUCINATED, rf"\bfactual{_FIELD}(?:no|false)\b"),
    (Reading.FACTUAL, r"\b(?:not?|non|(?:is|was)n['’]?t)[\s-]+(?:an?\s+)?hallucinat(?:ed|ion)\b"),
    (Reading.FACTUAL, r"(?:没有|无|不存在|不含)\s*+(?:任何|明显)?+的?+\s*+幻觉|(?:非|不是)\s*幻觉|不是虚构的?"),
    (Reading.HALLUCINATED, r"\b(?:not|non|(?:is|was)n['’]?t)[\s-]*factual\b"),
    (Reading.HALLUCINATED, r"(?:不是|不|非)(?:符合)?(?:真实|事实|属实)的?|与事实不符"),
    (Reading.HALLUCINATED, r"\bhallucinat(?:ed|ion)\b|(?:存在|含有|属于|有|是)?幻觉"),
    (Reading.FACTUAL, r"\bfactual\b|(?:是|符合|属于)?(?:真实|事实|属实)的?"),
)
# A digit that is not part of another number; '1, not 0' denies the other choice.
DIGIT = (
    r"(?<![a-z0-9_.,+\-−])(?P<digit>[{0}])(?![a-z0-9_%]|[.,]\d)"
    r"(?:[\s,;(]+(?:and\s+)?not\s+(?!(?P=digit))[{0}](?![a-z0-9_%]|[.,]\d))?"
)
_DECISION = re.compile(
    DIGIT.format("012")
    + "|"
    + "|".join(f"(?P<{reading.name}_{at}>{words})" for at, (reading, words) in enumerate(_DECISION_WORDS))
)
# Text allowed around a decision without changing it: punctuation, formatting marks, words of a
# label.
FILLER = (
    r"</?answer>|\\boxed\b"
    r"|[\s.,:;!()\[\]{}<>\"'`*_#=$>，。【】「」“”‘’、\-–—−]+"  # NFKC has turned other full-width marks into ASCII
    r"|\b(?:the|this|my|an?|final|answer|verdict|decision|judge?ment|label|output|response|result|choice|option|shown|given|above|is|it|i|am|m|as)\b"
    r"|最终|这个|该|此|本|我的?|的|答案|回答|结论|判断|选择|选项|输出|结果|标签|应?为|是|它"
)
_FILLER = re.compile(FILLER)
_LABEL = re.compile(
    r"(?:\b(?:answer|verdict|decision|judge?ment|label|output|choice|option)\b(?:\s+(?:shown|given|above)\b)?"
    r"|答案|结论|判断|选择|选项)"
    r"[\s:=*\"'`]*(?:is|是|为)?[\s:=*\"'`]*"
)
# Doubt about one's own decision. 'The evidence is uncertain' is not: it may be why an answer is
# wrong.
DOUBT = re.compile(
    rf"\bnot\s+{_INTENSIFIER}sure\b|\bunsure\b|\bi(?:['’]?m|\s+am)\s+(?:uncertain|not\s+{_INTENSIFIER}certain)\b"
    r"|我(?:也|并)?不太?确定|无法确定|拿不准"
)


def read_reply(text: str, *, unsure: bool) -> Reading:
    """The one decision in a reply.

    UNPARSED if the reply makes no decision or more than one, or says 'not sure' where that was not
    offered. `text` is the model's reply without its reasoning; `unsure` says whether 'not sure' was
    among the choices.
    """
    by_line: list[set[Reading]] = []
    other_lines: list[str] = []
    for line in text_lines(text):
        readings = {_reading_of(match) for match in decisions_in(line, _DECISION, _FILLER)}
        by_line.append(readings)
        if not readings:
            other_lines.append(line)
    decisions = set[Reading]().union(*by_line)
    if len(decisions) != 1 or not (by_line[0] or by_line[-1]):
        return Reading.UNPARSED
    (reading,) = decisions
    if _contradicts("\n".join(other_lines), reading) or (reading is Reading.UNSURE and not unsure):
        return Reading.UNPARSED
    return reading


def text_lines(text: str) -> list[str]:
    """The lines of a reply that contain text, with case and width folded.

    Rules and code fences are left out.
    """
    lines = unicodedata.normalize("NFKC", text).casefold().splitlines()
    return [line for line in lines if any(map(str.isalnum, line))]


def decisions_in(line: str, decision: re.Pattern[str], filler: re.Pattern[str]) -> list[re.Match[str]]:
    """The decisions of a line that consists of decisions and filler only; else none."""
    decisions: list[re.Match[str]] = []
    position = 0
    while position < len(line):
        if match := decision.match(line, position):
            decisions.append(match)
        elif not (match := filler.match(line, position)):
            return []
        position = match.end()
    return decisions


def _reading_of(match: re.Match[str]) -> Reading:
    name = match.lastgroup or ""
    if name == "digit":
        return _DIGITS[match["digit"]]
    return Reading[name.partition("_")[0]]


def _contradicts(prose: str, reading: Reading) -> bool:
    """Whether the explanation around a decision doubts it or states a different decision."""
    if reading is not Reading.UNSURE and DOUBT.search(prose):
        return True
    for label in _LABEL.finditer(prose):
        match = _DECISION.match(prose, label.end())
        if match and _reading_of(match) is not reading:
            return True
    return False
