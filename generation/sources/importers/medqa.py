"""MedQA (USMLE): one question a line with its options, of four or five; `questions/US` and its `4_options`."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Layout,
    Malformed,
    Refusal,
    Row,
    digest_of,
    gettext_noop,
    one_line,
    text_of,
)

name = "medqa"
label = "MedQA (USMLE)"
licence = "MIT"
citation = (
    "Jin D, Pan E, Oufattole N, Weng W-H, Fang H, Szolovits P. What Disease Does this Patient Have? A Large-scale Open"
    " Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 6421 (2021)."
)
restrictions = gettext_noop("questions of preparation for the USMLE")

_NEEDED = ("question", "answer", "options")


def sniff(path: Path) -> Layout:
    """Raises WrongFormat that names the missing keys."""
    return tabular.sniff(path, _NEEDED, label, layouts=(tabular.JSONL,))


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: {kind: 'mcq', dataset: 'medqa', question, options: {letter: text}, answer: letter, explanation: '', subject:
    '', topic: '', step: 'step1' | 'step2&3' | '', split}; Row.private is empty."""
    return tabular.rows(path, layout, _NEEDED, partial(_row, split=tabular.split_of(path, layout)))


def _row(record: dict[str, Any], where: str, *, split: str) -> Row:
    question = text_of(record, "question").strip()
    options = _options(record.get("options"))
    answer = _answer(record, options)
    content = {
        "kind": "mcq",
        "dataset": name,
        "question": question,
        "options": options,
        "answer": answer,
        "explanation": "",
        "subject": "",
        "topic": "",
        "step": tabular.optional_text(record, "meta_info"),
        "split": split,
    }
    return Row(
        external_id=digest_of("\n".join((question, *options.values())))[:24],
        title=one_line(question),
        language="en",  # the questions of questions/US; to ask the detector would take longer than all the rest
        content=content,
        private={},
        where=where,
        facets={"split": split or "unknown"},
    )


def _options(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) < 2:
        raise Malformed("'options' is not an object of at least two options.")
    for letter, text in value.items():
        if not isinstance(text, str) or not text.strip():
            raise Malformed("An option has no text.")
        if len(letter) != 1:
            raise Malformed("The name of an option is not a letter.")
    return {letter: text.strip() for letter, text in sorted(value.items())}


def _answer(record: Mapping[str, Any], options: Mapping[str, str]) -> str:
    """The letter of the right option: `answer_idx`, and where it is missing the option that reads as the answer."""
    text = text_of(record, "answer").strip()
    letter = record.get("answer_idx")
    if letter is None:
        same = [each for each, option in options.items() if option == text]
        if len(same) != 1:
            raise Malformed("'answer' is not one of the options.")
        return same[0]
    if not isinstance(letter, str) or letter not in options:
        raise Malformed("'answer_idx' is not one of the options.")
    if options[letter] != text:
        raise Malformed("'answer' and 'answer_idx' are different options.")
    return letter
