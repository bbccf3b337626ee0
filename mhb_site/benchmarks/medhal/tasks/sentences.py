"""Sentences of a text with their positions, so that exactly one can be replaced."""

import re
from dataclasses import dataclass

# The end of a sentence, followed by white space; and the end of a line. A full stop does not count
# after a single letter or one of the abbreviations below.
_END = re.compile(r"[.!?][\"')\]”’]*(?=\s)|\n")
# The same in exam questions, whose lines may be wrapped in the middle of a sentence: what begins in
# lower case goes on. A question may follow a full stop without a space.
_ASKS = r"(?:What|Which|Who|Whom|Whose|Where|When|Why|How)\b"
_QUESTION_END = re.compile(rf"[.!?][\"')\]”’]*(?=\s++[^\sa-z]|\s++\Z|{_ASKS})|\n(?=[^\S\n]*+(?:\n|[^\sa-z]))")
_ASKS_NEXT = re.compile(rf"\s*+{_ASKS}")
_ASKED = re.compile(r"\?[\s\"'”’)\]]*\Z")
_COMPLETED = re.compile(r"[.)\]][\s\"'”’]*\Z")
_ABBREVIATED = re.compile(
    r"(?:\b[A-Za-z]|\b(?:e\.g|i\.e|etc|et al|vs|cf|dr|mr|mrs|ms|prof|fig|figs|no|eq|eqs|ref|refs|vol|suppl|approx|ca|resp"
    r"|sp|spp|ssp|subsp|pv|bv|var|st|hep|inj))\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: `text` is `whole[start:end]` of the text in which it was found."""

    start: int
    end: int
    text: str


def sentences(whole: str, *, wrapped: bool = False) -> list[Sentence]:
    """The sentences of a text in order, stripped. A line ends one, as does the end of a heading.

    `wrapped`: lines may be wrapped in the middle of a sentence, as in exam questions.
    """
    result: list[Sentence] = []
    start, end = 0, _END
    if wrapped:
        end = _QUESTION_END
    for match in end.finditer(whole):
        is_abbreviation = match[0].startswith(".") and _ABBREVIATED.search(
            whole[max(0, match.start() - 12) : match.start() + 1]
        )
        if is_abbreviation and not (wrapped and _ASKS_NEXT.match(whole, match.end())):
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
    """The text around the last question, and that question; ('', '') if there is none."""
    asked = [part for part in sentences(text, wrapped=True) if _ASKED.search(part.text)]
    if asked:
        return _around(text, asked[-1])
    return ("", "")


def last_sentence(text: str) -> tuple[str, str]:
    """The text around the sentence that asks for the answer, and that sentence.

    It is the last one, unless that is complete (a note, a finding) and a question comes before it.
    """
    parts = sentences(text, wrapped=True)
    if not parts:
        return "", text.strip()
    if _COMPLETED.search(parts[-1].text) and (found := last_question(text))[1]:
        return found
    return _around(text, parts[-1])


def _around(text: str, sentence: Sentence) -> tuple[str, str]:
    around = (text[: sentence.start].strip(), text[sentence.end :].strip())
    return "\n".join(filter(None, around)), " ".join(sentence.text.split())
