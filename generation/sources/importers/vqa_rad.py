"""VQA-RAD: questions and answers about radiological images, written by clinicians.

Three layouts: the original file (`test_` in `phrase_type` marks the test split), its repackaging as
`trainset.json` and `testset.json`, and Parquet with the images inside, without organ and ids.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator

from generation.sources.importers import visual_questions
from generation.sources.importers.base import PARQUET_FILE, ZIP_ARCHIVE, Malformed, Row, gettext_noop
from generation.sources.importers.records import AnyText, ChoosingRecord, Text, column
from generation.sources.importers.visual_questions import Answer, Image, PictureFormat, Place

name = "vqa-rad"
label = "VQA-RAD"
licence = "CC0 1.0"
citation = (
    "Lau JJ, Gayen S, Ben Abacha A, Demner-Fushman D. A dataset of clinically generated visual questions and answers about"
    " radiology images. Scientific Data 5:180251 (2018)."
)
restrictions = gettext_noop("train and test share images")
containers = (ZIP_ARCHIVE, PARQUET_FILE)


_FOLDERS = ("VQA_RAD Image Folder", "images")
_SYSTEMS = {"HEAD": "head", "CHEST": "chest", "ABD": "abdomen"}


def _kinds(value: Any) -> list[str]:
    """The kinds of a question ('PRES, ATTRIB', 'Other'), which the file writes in varying case."""
    kinds = [kind.strip().upper() for kind in str(value or "").split(",")]
    return sorted(set(filter(None, kinds)))


class _Question(ChoosingRecord):
    question: Text
    answer: Answer
    image: Image = column("image_name", "image")
    qid: AnyText = column("qid", "id", default="")
    phrase_type: AnyText = ""
    image_organ: AnyText = ""
    question_type: Annotated[list[str], BeforeValidator(_kinds)] = []


def _row(record: _Question, place: Place) -> Row:
    """Row.content: as in `visual_questions.row`.

    With phrase: 'freeform' | 'para' | 'frame' | '' and body_system: 'head' | 'chest' | 'abdomen' |
    ''.

    Row.private: {kinds: what the question asks for}, without an image inside.
    """
    split, row_id, phrase = place.split, place.row_id, record.phrase_type.lower()
    private = {}
    if isinstance(record.image, str):
        if not record.qid:
            raise Malformed("'qid' is missing.")
        if not split:
            split = "train"
            if phrase.startswith("test_"):
                split = "test"
        row_id = f"{split}-{record.qid}"
        private = {"kinds": record.question_type}
    folder = place.file.folder
    folders = [folder, *(f"{folder}/{inner}".lstrip("/") for inner in _FOLDERS)]
    return visual_questions.row(
        dataset=name,
        external_id=row_id,
        question=record.question,
        answer=record.answer,
        pictures=[place.picture(record.image, *folders)],
        split=split,
        body_system=_SYSTEMS.get(record.image_organ.upper(), ""),
        private=private,
        phrase=phrase.removeprefix("test_"),
    )


FORMAT = PictureFormat(label, _Question, _row, ("json", "parquet"))
sniff, rows = FORMAT.sniff, FORMAT.rows
