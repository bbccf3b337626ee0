"""VQA-RAD: questions and answers about radiological images, written by clinicians.

Three layouts: the original file (`test_` in `phrase_type` marks the test split), its repackaging as
`trainset.json` and `testset.json`, and Parquet with the images inside, without organ and ids.
"""

from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    PARQUET_FILE,
    ZIP_ARCHIVE,
    Malformed,
    Row,
    gettext_noop,
    required_text,
)
from generation.sources.importers.bundles import inline_picture
from generation.sources.importers.visual_questions import (
    PictureFormat,
    Place,
    answer_text,
    embedded_image,
    shard_prefix,
)

name = "vqa-rad"
label = "VQA-RAD"
licence = "CC0 1.0"
citation = (
    "Lau JJ, Gayen S, Ben Abacha A, Demner-Fushman D. A dataset of clinically generated visual questions and answers about"
    " radiology images. Scientific Data 5:180251 (2018)."
)
restrictions = gettext_noop("train and test share images")
containers = (ZIP_ARCHIVE, PARQUET_FILE)

FOLDERS = ("VQA_RAD Image Folder", "images")
_SYSTEMS = {"HEAD": "head", "CHEST": "chest", "ABD": "abdomen"}


def _row(record: dict[str, Any], place: Place) -> Row:
    return _row_with_named_image(record, place) if "image_name" in record else _row_with_embedded_image(record, place)


def _row_with_named_image(record: dict[str, Any], place: Place) -> Row:
    split, folder = place.split, place.file.folder
    phrase = str(record.get("phrase_type") or "").strip().lower()
    if not split:
        split = "test" if phrase.startswith("test_") else "train"
    number = record.get("qid", record.get("id"))
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise Malformed("'qid' is missing.")
    folders = (folder, *(f"{folder}/{image_folder}".lstrip("/") for image_folder in FOLDERS))
    organ = str(record.get("image_organ") or "").strip().upper()
    return visual_questions.row(
        place.where,
        dataset=name,
        external_id=f"{split}-{number}",
        question=required_text(record, "question"),
        answer=answer_text(record),
        pictures=[place.bundle.picture(required_text(record, "image_name").strip(), *folders)],
        split=split,
        body_system=_SYSTEMS.get(organ, ""),
        private={"kinds": _kinds(record.get("question_type"))},
        phrase=phrase.removeprefix("test_"),
    )


def _kinds(value: Any) -> list[str]:
    """The kinds of a question ('PRES, ATTRIB', 'Other'), which the file writes in varying case."""
    return sorted({kind.strip().upper() for kind in str(value or "").split(",") if kind.strip()})


def _row_with_embedded_image(record: dict[str, Any], place: Place) -> Row:
    split, number = place.split, f"{shard_prefix(place.file.name)}{place.number}"
    image = embedded_image(record.get("image"))
    return visual_questions.row(
        place.where,
        dataset=name,
        external_id=f"{split or 'row'}-{number}",
        question=required_text(record, "question"),
        answer=answer_text(record),
        pictures=[inline_picture(*(image or ("", None)))],
        split=split,
        phrase="",
    )


# Row.content: as in `visual_questions.row`, with phrase: 'freeform' | 'para' | 'frame' | '' and
# body_system: 'head' | 'chest' | 'abdomen' | ''. Row.private: {kinds: what the question asks for}.
FORMAT = PictureFormat(
    label,
    _row,
    (("question", "answer", "image_name"), ("question", "answer", "image")),
    columns=("image", "question", "answer"),
    layouts=("json", "parquet"),
)
sniff, rows = FORMAT.sniff, FORMAT.rows
