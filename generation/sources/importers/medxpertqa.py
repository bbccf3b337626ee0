"""MedXpertQA: expert questions with five options, of its MM part, which is about images.

`MM/test.jsonl` and `MM/dev.jsonl` beside `images/` or `images.zip`. The questions end with their
options ('Answer Choices: ...'), which are removed because `options` has them as well.
"""

import re
from pathlib import Path

from generation.sources.importers import visual_questions
from generation.sources.importers.base import PARQUET_FILE, ZIP_ARCHIVE, Malformed, Row, gettext_noop
from generation.sources.importers.records import AnyText, FileRecord, Id, Options, Text, Texts
from generation.sources.importers.visual_questions import PictureFormat, Place, correct_option

name = "medxpertqa"
label = "MedXpertQA (MM)"
licence = "MIT"
citation = (
    "Zuo Y, Qu S, Li Y, Chen Z, Zhu X, Hua E, Zhang K, Ding N, Zhou B. MedXpertQA: Benchmarking Expert-Level Medical Reasoning"
    " and Understanding. ICML (2025)."
)
restrictions = gettext_noop("images come from teaching cases; do not try to identify patients")
containers = (ZIP_ARCHIVE, PARQUET_FILE)


_CHOICES = re.compile(r"Answer Choices:\s*\(A\)")


class _Question(FileRecord):
    id: Id
    question: Text
    options: Options
    label: Text
    images: Texts
    medical_task: AnyText = ""
    body_system: AnyText = ""
    question_type: AnyText = ""


def _row(record: _Question, place: Place) -> Row:
    """Row.content: as in `visual_questions.row`, with medical_task and asks: 'Reasoning' |
    'Understanding'.
    """
    if not record.images:
        raise Malformed("It has no image: it belongs to the text part of MedXpertQA.")
    letter, answer = correct_option(record.label, record.options)
    question = record.question
    if choices := list(_CHOICES.finditer(question)):
        question = question[: choices[-1].start()].rstrip()
    folder = place.file.folder
    parent = str(Path(folder).parent)
    if parent == ".":
        parent = ""
    return visual_questions.row(
        dataset=name,
        external_id=record.id,
        question=question,
        answer=answer,
        pictures=[place.picture(image, folder, parent) for image in record.images],
        split=place.split,
        options=record.options,
        letter=letter,
        body_system=record.body_system,
        medical_task=record.medical_task,
        asks=record.question_type,
    )


FORMAT = PictureFormat(label, _Question, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
