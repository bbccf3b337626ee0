"""What a reply to the detection prompt says: a strict reading, in English and Chinese.

The released script looks for the character 1, 'not' or 'non' anywhere, then for 'not sure', 'pass', 'skip' or 2, and takes
whatever is left for 'factual'. So 'not sure' is hallucinated to it, and an empty reply factual. Here a reply is read only
where it says one thing: its whole text, or its first or last line, is a decision, and nothing in it says another.
"""

import re
import unicodedata
from enum import StrEnum


class Reading(StrEnum):
    """What was read out of a reply; `UNPARSED` is no decision and never counted as one."""

    FACTUAL = "factual"
    HALLUCINATED = "hallucinated"
    UNSURE = "not sure"
    UNPARSED = "unparsed"


_DIGITS = {"0": Reading.FACTUAL, "1": Reading.HALLUCINATED, "2": Reading.UNSURE}

# What says a decision in words. The longer stands before what it begins with or contains: 'not factual' before 'factual'.
_QUITE = (
    r"(?:(?:at\s+all|entirely|completely|absolutely|totally|fully|quite|very|really|so|too|that|100\s*%|(?:a|one)\s+hundred"
    r"\s+percent|100\s+percent)\s+)?"
)
_FIELD = r"[\"'`*]*\s*[:=?]\s*[\"'`*]*"
_WHETHER = r"(?:是否|有无)?(?:存在|含有|属于|有)?"
_UNSURE_WORDS = (
    rf"\bnot\s+{_QUITE}(?:sure|certain)\b|\bunsure\b|\buncertain\b"
    r"|不太?确定|无法确定|不能确定|不清楚|拿不准"
)
_WORDS = (
    (Reading.UNSURE, _UNSURE_WORDS),
    # 'Hallucinated: no', '"factual": false', as in a form filled in.
    (Reading.FACTUAL, rf"\bhallucinat(?:ed|ion){_FIELD}(?:no|false)\b|{_WHETHER}幻觉{_FIELD}(?:否|无|没有)"),
    (Reading.HALLUCINATED, rf"\bhallucinat(?:ed|ion){_FIELD}(?:yes|true)\b|{_WHETHER}幻觉{_FIELD}(?:是|有)"),
    (Reading.FACTUAL, rf"\bfactual{_FIELD}(?:yes|true)\b"),
    (Reading.HALLUCINATED, rf"\bfactual{_FIELD}(?:no|false)\b"),
    (Reading.FACTUAL, r"\b(?:not?|non|(?:is|was)n['’]?t)[\s-]+(?:an?\s+)?hallucinat(?:ed|ion)\b"),
    (Reading.FACTUAL, r"(?:没有|无|不存在|不含)\s*(?:任何|明显)?的?\s*幻觉|(?:非|不是)\s*幻觉|不是虚构的?"),
    (Reading.HALLUCINATED, r"\b(?:not|non|(?:is|was)n['’]?t)[\s-]*factual\b"),
    (Reading.HALLUCINATED, r"(?:不是|不|非)(?:符合)?(?:真实|事实|属实)的?|与事实不符"),
    (Reading.HALLUCINATED, r"\bhallucinat(?:ed|ion)\b|(?:存在|含有|属于|有|是)?幻觉"),
    (Reading.FACTUAL, r"\bfactual\b|(?:是|符合|属于)?(?:真实|事实|属实)的?"),
)
# A digit of its own and no other number's; in '1, not 0' the other is denied.
DIGIT = (
    r"(?<![a-z0-9_.,+\-−])(?P<digit>[{0}])(?![a-z0-9_%]|[.,]\d)"
    r"(?:[\s,;(]+(?:and\s+)?not\s+(?!(?P=digit))[{0}](?![a-z0-9_%]|[.,]\d))?"
)
_DECISION = re.compile(
    DIGIT.format("012")
    + "|"
    + "|".join(f"(?P<{reading.name}_{at}>{words})" for at, (reading, words) in enumerate(_WORDS))
)
# What may stand around a decision without changing it: marks of punctuation and of formatting, and the words of a label.
AROUND = (
    r"</?answer>|\\boxed\b"
    r"|[\s.,:;!()\[\]{}<>\"'`*_#=$>，。【】「」“”‘’、\-–—−]+"  # other full-width marks have become ASCII
    r"|\b(?:the|this|my|an?|final|answer|verdict|decision|judge?ment|label|output|response|result|choice|option|shown|given|above|is|it|i|am|m|as)\b"
    r"|最终|这个|该|此|本|我的?|的|答案|回答|结论|判断|选择|选项|输出|结果|标签|应?为|是|它"
)
_AROUND = re.compile(AROUND)
_LABELLED = re.compile(
    r"(?:\b(?:answer|verdict|decision|judge?ment|label|output|choice|option)\b(?:\s+(?:shown|given|above)\b)?"
    r"|答案|结论|判断|选择|选项)"
    r"[\s:=*\"'`]*(?:is|是|为)?[\s:=*\"'`]*"
)
# Doubt about one's own decision. 'The evidence is uncertain' is none: it may be just why an answer is wrong.
DOUBT = re.compile(
    rf"\bnot\s+{_QUITE}sure\b|\bunsure\b|\bi(?:['’]?m|\s+am)\s+(?:uncertain|not\s+{_QUITE}certain)\b"
    r"|我(?:也|并)?不太?确定|无法确定|拿不准"
)


def read_reply(text: str, *, unsure: bool) -> Reading:
    """The one decision in a reply; UNPARSED where it has none, more than one, or 'not sure' although that was not offered.

    `text`: what the model said, without its reasoning. `unsure`: whether 'not sure' was among the choices.
    """
    lines = lines_of(text)
    whole = [{_said(said) for said in decided(line, _DECISION, _AROUND)} for line in lines]
    found = {reading for readings in whole if readings for reading in readings}
    if len(found) != 1 or not (whole[0] or whole[-1]):
        return Reading.UNPARSED
    (reading,) = found
    prose = "\n".join(line for line, readings in zip(lines, whole, strict=True) if not readings)
    if _contradicts(prose, reading) or (reading is Reading.UNSURE and not unsure):
        return Reading.UNPARSED
    return reading


def lines_of(text: str) -> list[str]:
    """The lines of a reply that say something, without regard to case and width: no rules, nor the marks around code."""
    lines = unicodedata.normalize("NFKC", text).casefold().splitlines()
    return [line for line in lines if any(character.isalnum() for character in line)]


def decided(line: str, decision: re.Pattern[str], around: re.Pattern[str]) -> list[re.Match[str]]:
    """The decisions of a line that consists of decisions and what may stand around them; of any other line, none."""
    found: list[re.Match[str]] = []
    at = 0
    while at < len(line):
        if said := decision.match(line, at):
            found.append(said)
        elif not (said := around.match(line, at)):
            return []
        at = said.end()
    return found


def _said(match: re.Match[str]) -> Reading:
    name = match.lastgroup or ""
    return _DIGITS[match["digit"]] if name == "digit" else Reading[name.partition("_")[0]]


def _contradicts(prose: str, reading: Reading) -> bool:
    """Whether the explanation around a decision doubts it, or names another as its answer."""
    if reading is not Reading.UNSURE and DOUBT.search(prose):
        return True
    labelled = (_DECISION.match(prose, label.end()) for label in _LABELLED.finditer(prose))
    return any(_said(said) is not reading for said in labelled if said)
