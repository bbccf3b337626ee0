"""MedQA (USMLE): one question a line with four or five options (`questions/US`, `4_options`)."""

from collections.abc import Mapping
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    digest_of,
    gettext_noop,
    one_line,
    required_text,
)

name = "medqa"
label = "MedQA (USMLE)"
licence = "MIT"
citation = (
    "Jin D, Pan E, Oufattole N, Weng W-H, Fang H, Szolovits P. What Disease Does this Patient Have? A Large-scale Open"
    " Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 6421 (2021)."
)
restrictions = gettext_noop("questions of preparation for the USMLE")


def _row(record: dict[str, Any], split: str) -> Row:
    """Of a multiple-choice question.

    Row.content: {kind: 'mcq', dataset: 'medqa', question, options: {letter: text}, answer: letter,
    explanation: '', subject: '', topic: '', step: 'step1' | 'step2&3' | '', split}.
    """
    question = required_text(record, "question").strip()
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
        language="en",  # as all of questions/US; detection would take longer than all the rest
        content=content,
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
    """The letter of the correct option: `answer_idx`, else of the option that equals the answer."""
    text = required_text(record, "answer").strip()
    letter = record.get("answer_idx")
    if letter is None:
        matches = [option_letter for option_letter, option in options.items() if option == text]
        if len(matches) != 1:
            raise Malformed("'answer' is not one of the options.")
        return matches[0]
    if not isinstance(letter, str) or letter not in options:
        raise Malformed("'answer_idx' is not one of the options.")
    if options[letter] != text:
        raise Malformed("'answer' and 'answer_idx' are different options.")
    return letter


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(("question", "answer", "options")))
sniff, rows = FORMAT.sniff, FORMAT.rows
