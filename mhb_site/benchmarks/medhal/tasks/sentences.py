"""Sentences of a text with their positions, so that exactly one can be replaced."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# The end of a sentence, followed by white space. It does not count after a single letter or one of
# the abbreviations below.
_END = re.compile(r"[.!?][\"')\]]*(?=\s)|\n\s*\n|(?<=[A-Z])\n")
_ABBREVIATED = re.compile(
    r"(?:\b[A-Za-z]|\b(?:e\.g|i\.e|etc|et al|vs|cf|dr|mr|mrs|ms|prof|fig|figs|no|approx|ca|resp|sp|spp|var|st))\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: `text` is `whole[start:end]` of the text in which it was found."""

    start: int
    end: int
    text: str


def sentences(whole: str) -> list[Sentence]:
    """The sentences of a text in order, stripped. A heading on its own line is a sentence."""
    result: list[Sentence] = []
    start = 0
    for match in _END.finditer(whole):
        if match[0].startswith(".") and _ABBREVIATED.search(whole[max(0, match.start() - 12) : match.start() + 1]):
            continue
        _append_sentence(result, whole, start, match.end())
        start = match.end()
    _append_sentence(result, whole, start, len(whole))
    return result


def _append_sentence(result: list[Sentence], whole: str, start: int, end: int) -> None:
    text = whole[start:end]
    left = start + len(text) - len(text.lstrip())
    right = left + len(text.strip())
    if right > left:
        result.append(Sentence(left, right, whole[left:right]))


def replace_sentence(whole: str, sentence: Sentence, new: str) -> str:
    """The text with one sentence replaced.

    Raises ValueError if the sentence is not at its position.
    """
    if whole[sentence.start : sentence.end] != sentence.text:
        raise ValueError("the sentence is not where it was found")
    return whole[: sentence.start] + new + whole[sentence.end :]


def is_only_change(whole: str, altered: str, sentence: Sentence, new: str) -> bool:
    """Whether `altered` is `whole` with only the sentence replaced by a different `new`."""
    before, after = whole[: sentence.start], whole[sentence.end :]
    rest = altered[len(before) : len(altered) - len(after)]
    return altered.startswith(before) and altered.endswith(after) and rest == new != sentence.text


def is_one_sentence(text: str) -> bool:
    """Whether a text is exactly one sentence on one line."""
    return "\n" not in text.strip() and len(sentences(text)) == 1


def last_question(text: str) -> tuple[str, str]:
    """The text before the last question, and that question; ('', '') if there is none.

    Text after it (a list of findings, a note) is left out, as in the released code.
    """
    parts: Sequence[Sentence] = sentences(text)
    for sentence in reversed(parts):
        if sentence.text.endswith("?"):
            return text[: sentence.start].strip(), sentence.text
    return "", ""
