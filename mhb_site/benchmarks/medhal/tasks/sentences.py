"""Sentences of a text with their places, so that one can be exchanged and nothing else changes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# An end of sentence followed by a space or a line break. Not after a single letter, a number or one of these abbreviations.
_END = re.compile(r"[.!?][\"')\]]*(?=\s)|\n\s*\n|(?<=[A-Z])\n")
_ABBREVIATED = re.compile(
    r"(?:\b[A-Za-z]|\b(?:e\.g|i\.e|etc|et al|vs|cf|dr|mr|mrs|ms|prof|fig|figs|no|approx|ca|resp|sp|spp|var|st))\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: `text` is `whole[start:end]` of the text that it was found in."""

    start: int
    end: int
    text: str


def sentences(whole: str) -> list[Sentence]:
    """The sentences of a text in their order, without the space around them. Headings on a line of their own are sentences."""
    found: list[Sentence] = []
    start = 0
    for match in _END.finditer(whole):
        if match[0].startswith(".") and _ABBREVIATED.search(whole[max(0, match.start() - 12) : match.start() + 1]):
            continue
        _add(found, whole, start, match.end())
        start = match.end()
    _add(found, whole, start, len(whole))
    return found


def _add(found: list[Sentence], whole: str, start: int, end: int) -> None:
    text = whole[start:end]
    left = start + len(text) - len(text.lstrip())
    right = left + len(text.strip())
    if right > left:
        found.append(Sentence(left, right, whole[left:right]))


def put_back(whole: str, sentence: Sentence, new: str) -> str:
    """The text with another sentence in the place of one. Raises ValueError where that is not where it was found."""
    if whole[sentence.start : sentence.end] != sentence.text:
        raise ValueError("the sentence is not where it was found")
    return whole[: sentence.start] + new + whole[sentence.end :]


def changed_only(whole: str, altered: str, sentence: Sentence, new: str) -> bool:
    """Whether `altered` is `whole` with `new` in the place of the sentence, to the letter, and is another text."""
    before, after = whole[: sentence.start], whole[sentence.end :]
    rest = altered[len(before) : len(altered) - len(after)]
    return altered.startswith(before) and altered.endswith(after) and rest == new != sentence.text


def is_one(text: str) -> bool:
    """Whether a text is exactly one sentence on one line."""
    return "\n" not in text.strip() and len(sentences(text)) == 1


def last_question(text: str) -> tuple[str, str]:
    """What stands before the last sentence that ends with a question mark, and that sentence; ('', '') where there is none.

    What follows it (a list of findings, a note) is left out, as in the released code.
    """
    found: Sequence[Sentence] = sentences(text)
    for sentence in reversed(found):
        if sentence.text.endswith("?"):
            return text[: sentence.start].strip(), sentence.text
    return "", ""
