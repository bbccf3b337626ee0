"""MedXpertQA: expert questions with five options, of its MM part, which is about images.

`MM/test.jsonl` and `MM/dev.jsonl` beside `images/` or `images.zip`. The questions end with their
options ('Answer Choices: ...'), which are removed because `options` has them as well.
"""

import re
from pathlib import Path
from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    PARQUET_FILE,
    ZIP_ARCHIVE,
    Malformed,
    Row,
    gettext_noop,
    required_id,
    required_text,
    text_list,
)
from generation.sources.importers.visual_questions import (
    PictureFormat,
    Place,
    correct_option,
    parse_options,
)

name = "medxpertqa"
label = "MedXpertQA (MM)"
licence = "MIT"
citation = (
    "Zuo Y, Qu S, Li Y, Chen Z, Zhu X, Hua E, Zhang K, Ding N, Zhou B. MedXpertQA: Benchmarking Expert-Level Medical Reasoning"
    " and Understanding. ICML (2025)."
)
restrictions = gettext_noop("images come from teaching cases; do not try to identify patients")
containers = (ZIP_ARCHIVE, PARQUET_FILE)

_KEYS = ("id", "question", "options", "label", "images")
_CHOICES = re.compile(r"Answer Choices:\s*\(A\)")


def _row(record: dict[str, Any], place: Place) -> Row:
    folder = place.file.folder
    options = parse_options(record.get("options"))
    letter, answer = correct_option(record.get("label"), options)
    question = required_text(record, "question")
    if choices := list(_CHOICES.finditer(question)):
        question = question[: choices[-1].start()].rstrip()
    images = text_list(record, "images")
    if not images:
        raise Malformed("It has no image: it belongs to the text part of MedXpertQA.")
    parent = str(Path(folder).parent) if folder else ""
    folders = (folder, "" if parent == "." else parent)
    return visual_questions.row(
        place.where,
        dataset=name,
        external_id=required_id(record, "id"),
        question=question,
        answer=answer,
        pictures=[place.bundle.picture(image, *folders) for image in images],
        split=place.split,
        options=options,
        letter=letter,
        body_system=str(record.get("body_system") or ""),
        medical_task=str(record.get("medical_task") or ""),
        asks=str(record.get("question_type") or ""),
    )


# Row.content: as in `visual_questions.row`, with medical_task and asks: 'Reasoning' |
# 'Understanding'.
FORMAT = PictureFormat(label, _row, (_KEYS,))
sniff, rows = FORMAT.sniff, FORMAT.rows
