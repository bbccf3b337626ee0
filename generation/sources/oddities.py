"""What is odd in a file whose rows can be read: said with rows and counts, kept as it is.

Options, questions and answers that stand twice make samples that test the same thing twice, or that
contradict each other.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext_lazy

from generation.common.medical_text import is_same_text
from generation.models import Import, SourceRecord
from generation.sources.importers.base import Row, normalized

ROWS_NAMED = 20  # of each kind
QUESTIONS_KNOWN = 250_000  # of a file; further ones are compared with these alone
CELL = 32_767  # characters that a spreadsheet keeps of a cell
# The fields of a record that say what it asks or tells, but for its options.
_ASKED = (
    *("kind", "question", "statement", "hypothesis", "premise", "text", "context", "contexts", "knowledge", "turns"),
    *("images", "scenario", "abstract", "summary"),
)
_YES_AND_NO = {"yes", "no"}
# Kinds, as they are stored.
SAME_OPTIONS = "same-options"
SAME_RIGHT_OPTION = "same-right-option"
SAME_TEXT = "same-text"
OTHER_ANSWER = "other-answer"
YES_AND_NO = "yes-and-no"
MARKUP = "markup"
LOST_EXPONENT = "lost-exponent"
MISREAD = "misread"
CUT_OFF = "cut-off"
TRUE_ANSWER = "true-answer"
TEST_IN_TRAIN = "test-image-in-train"
_PATTERNS = {
    MARKUP: re.compile(r"&(?:lt|gt|amp|quot|nbsp|apos|#\d{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE),
    # 20 x 109/L: tools that read XML join the exponent to its base, as pubmed_parser 0.5.1 does.
    LOST_EXPONENT: re.compile(r"[x×·*] ?10 ?(?:[2-9]|1[0-2]) ?/ ?(?:[lL]|[µμu][lL]|m[lLm])\b"),
    # UTF-8 that was read as Windows-1252 (Â°C, â‰¥), and what stands for a lost character.
    MISREAD: re.compile("Ã[\x80-\xbf]|Â[\xa0-\xbf]|â€|â‰|\ufffd"),
}


class Oddities:
    """Collects what is odd in the rows of a file, in their order."""

    def __init__(self) -> None:
        self.has_images = False
        self._counts: Counter[str] = Counter()
        self._rows: dict[str, list[str]] = {}
        self._known: dict[int, tuple[int, str]] = {}  # hash of a question -> that of its answer, and its row
        self._answers: dict[int, set[str]] = {}  # yes and no among the answers to a question
        self._disputed: set[int] = set()  # questions with several answers

    def add(self, row: Row) -> None:
        """Look at the next row. Its images have been stored."""
        content = row.content
        self.has_images |= bool(content.get("images"))
        options = dict(content.get("options") or ())
        for kind in _options_kinds(options, str(content.get("answer") or ""), str(content.get("letter") or "")):
            self._note(kind, row.where)
        if content.get("kind") == "qa-pair" and is_same_text(content["answer"], content["hallucinated"]):
            self._note(TRUE_ANSWER, row.where)
        texts = list(_texts(content))
        for kind, pattern in _PATTERNS.items():
            if any(pattern.search(text) for text in texts):
                self._note(kind, row.where)
        if any(len(text) == CELL for text in texts):
            self._note(CUT_OFF, row.where)
        self._compare(row, options)

    def _compare(self, row: Row, options: Mapping[str, str]) -> None:
        """Compare a row with the earlier ones of the same question or text."""
        question, answer = _question(row.content, options)
        key, answer_hash = hash(question), hash(normalized(answer))
        if key not in self._known:
            if len(self._known) < QUESTIONS_KNOWN:
                self._known[key] = (answer_hash, row.where)
                if normalized(answer) in _YES_AND_NO:
                    self._answers[key] = {normalized(answer)}
            return
        first_answer, first = self._known[key]
        if first_answer == answer_hash:
            self._note(SAME_TEXT, f"{row.where} = {first}")
            return
        where = f"{row.where} ≠ {first}"
        self._note(OTHER_ANSWER, where, n=int(key not in self._disputed))
        self._disputed.add(key)
        said = self._answers.setdefault(key, set())
        if said != _YES_AND_NO and {*said, normalized(answer)} == _YES_AND_NO:
            self._note(YES_AND_NO, where)
        said |= {normalized(answer)} & _YES_AND_NO

    def _note(self, kind: str, where: str, n: int = 1) -> None:
        self._counts[kind] += n
        rows = self._rows.setdefault(kind, [])
        if len(rows) < ROWS_NAMED:
            rows.append(where)

    def found(self, run: Import) -> dict[str, Any]:
        """{kind: {n, rows: the first of them}}, with what the whole source shows of images."""
        found = {kind: {"n": n, "rows": self._rows[kind]} for kind, n in self._counts.items()}
        if self.has_images and (shared := _test_images_in_train(run)):
            found[TEST_IN_TRAIN] = {"n": len(shared), "rows": [digest[:12] for digest in shared[:ROWS_NAMED]]}
        return found


LABELS = {
    SAME_OPTIONS: gettext_lazy("Questions with two options that read the same"),
    SAME_RIGHT_OPTION: gettext_lazy("Questions whose right option stands twice"),
    SAME_TEXT: gettext_lazy("Rows that repeat an earlier one, answer included"),
    OTHER_ANSWER: gettext_lazy("Questions that stand again with another answer"),
    YES_AND_NO: gettext_lazy("Questions answered both yes and no"),
    MARKUP: gettext_lazy("Rows with raw markup, such as &lt;"),
    LOST_EXPONENT: gettext_lazy("Rows with a power of ten that lost its exponent, such as 20 x 109/L"),
    MISREAD: gettext_lazy("Rows with characters that were decoded wrongly, such as Â°C, or lost (�)"),
    CUT_OFF: gettext_lazy("Rows with a text of exactly 32,767 characters, at which spreadsheets cut off"),
    TRUE_ANSWER: gettext_lazy("Rows whose hallucinated answer is the true one"),
    TEST_IN_TRAIN: gettext_lazy("Images in both the test and the training split of this source"),
}


def _options_kinds(options: Mapping[str, str], answer: str, letter: str) -> Iterator[str]:
    """Whether two options read the same, and whether the right one is among them."""
    letters = list(options)
    same: set[str] = set()
    for place, one in enumerate(letters):
        for other in letters[place + 1 :]:
            if is_same_text(options[one], options[other]):
                same |= {one, other}
    if same:
        yield SAME_OPTIONS
    if (letter or answer) in same:
        yield SAME_RIGHT_OPTION


def _question(content: Mapping[str, Any], options: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """What a record asks or says, and its answer; '' for a record without one."""
    answer = str(content.get("answer") or content.get("label") or "")
    texts = [str(content.get(name) or "") for name in _ASKED]
    texts += sorted(map(normalized, options.values()))
    return tuple(map(normalized, texts)), options.get(answer, answer)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _test_images_in_train(run: Import) -> list[str]:
    """The digests of the images that records of the source have in a test and in a train split."""
    splits: dict[str, set[str]] = {}
    records = SourceRecord.objects.filter(source=run.source_id, latest=True)
    for images, split in records.values_list("content__images", "content__split").iterator():
        for digest in images or ():
            splits.setdefault(digest, set()).add(split)
    return sorted(digest for digest, of_image in splits.items() if {"test", "train"} <= of_image)
