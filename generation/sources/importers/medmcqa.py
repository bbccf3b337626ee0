"""MedMCQA: one question a line with four options.

`cop`, the number of the correct option, counts from 1 in the original files and from 0 in the
Hugging Face version. The first 0 or 4 in a file tells which. A file with neither in its first
records is refused, as guessing could make a quarter of the answers wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    checked_id,
    digest_of,
    gettext_noop,
    json_lines,
    one_line,
    required_text,
)

name = "medmcqa"
label = "MedMCQA"
licence = "MIT"
citation = (
    "Pal A, Umapathi LK, Sankarasubbu M. MedMCQA: A Large-scale Multi-Subject Multi-Choice Dataset for Medical domain"
    " Question Answering. Proceedings of Machine Learning Research 174, 248-260 (2022)."
)
restrictions = gettext_noop("questions of Indian medical entrance examinations")

_REQUIRED_KEYS = ("question", "opa", "opb", "opc", "opd")
_LETTERS = dict(zip("ABCD", _REQUIRED_KEYS[1:], strict=True))
_FIRST_NUMBER = {"jsonl-from-0": 0, "jsonl-from-1": 1}
INSPECTED_RECORDS = 5_000  # a 0 or 4 within them tells where `cop` counts from


def sniff(path: Path) -> Layout:
    """Raises WrongFormat naming the missing keys, or if it is unclear where `cop` counts from."""
    FORMAT.sniff(path)
    for _number, value in json_lines(path, INSPECTED_RECORDS):
        cop = _cop(value) if isinstance(value, dict) else None
        if cop in (0, 4):
            return Layout("jsonl-from-0" if cop == 0 else "jsonl-from-1")
    raise WrongFormat(
        f"'cop' is neither 0 nor 4 in its first {INSPECTED_RECORDS:,} records,"
        " so nothing tells whether it counts from 0 or from 1."
    )


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each multiple-choice question.

    Row.content: {kind: 'mcq', dataset: 'medmcqa', question, options: {'A'..'D': text}, answer:
    letter, explanation, subject, topic, step: '', choice: 'single' | 'multi' | '', split}.
    """
    read = partial(_row, first=_FIRST_NUMBER.get(layout.name, 0))
    name = layout.name if layout.name in _FIRST_NUMBER else ""
    return replace(FORMAT, read=read, layouts={tabular.JSONL: name}).rows(path, layout)


def _row(record: dict[str, Any], split: str, *, first: int = 0) -> Row:
    question = required_text(record, "question").strip()
    options = {letter: required_text(record, key).strip() for letter, key in _LETTERS.items()}
    subject = tabular.optional_text(record, "subject_name")
    external_id = tabular.optional_text(record, "id")
    return Row(
        external_id=checked_id(external_id or digest_of("\n".join((question, *options.values())))[:24]),
        title=one_line(question),
        language="en",  # the only one; detection would take longer than all the rest
        content={
            "kind": "mcq",
            "dataset": name,
            "question": question,
            "options": options,
            "answer": _answer(record, first),
            "explanation": tabular.optional_text(record, "exp"),
            "subject": subject,
            "topic": tabular.optional_text(record, "topic_name"),
            "step": "",
            "choice": tabular.optional_text(record, "choice_type"),
            "split": split,
        },
        facets={"split": split or "unknown", "subject": subject or "unknown"},
    )


def _cop(record: Mapping[str, Any]) -> int | None:
    cop = record.get("cop")
    return cop if isinstance(cop, int) and not isinstance(cop, bool) else None


def _answer(record: Mapping[str, Any], first: int) -> str:
    cop = _cop(record)
    if cop is None or cop == -1:
        raise Malformed("'cop' names no right option, as in a test split.")
    if not first <= cop <= first + 3:
        raise Malformed(f"'cop' is {cop}, and in this file it counts from {first} to {first + 3}.")
    return "ABCD"[cop - first]


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(_REQUIRED_KEYS))
