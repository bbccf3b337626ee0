"""VQA-RAD: questions and answers about radiological images, written by clinicians.

Three layouts: the original file (`test_` in `phrase_type` marks the test split), its repackaging as
`trainset.json` and `testset.json`, and Parquet with the images inside, without organ and ids.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    PARQUET_FILE,
    ZIP_ARCHIVE,
    Layout,
    Malformed,
    Refusal,
    Row,
    gettext_noop,
    required_text,
)
from generation.sources.importers.bundles import Bundle, inline_picture, open_bundle
from generation.sources.importers.tables import is_parquet
from generation.sources.importers.visual_questions import (
    answer_text,
    check_layout,
    embedded_image,
    is_data_file,
    matching_files,
    shard_prefix,
    split_of,
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

_NAMED_KEYS, _EMBEDDED_KEYS = ("question", "answer", "image_name"), ("question", "answer", "image")
_COLUMNS = ("image", "question", "answer")
FOLDERS = ("VQA_RAD Image Folder", "images")
_SYSTEMS = {"HEAD": "head", "CHEST": "chest", "ABD": "abdomen"}


def sniff(path: Path) -> Layout:
    """Raises WrongFormat."""
    with open_bundle(path, is_data_file) as bundle:
        [first, *_more] = matching_files(bundle, _NAMED_KEYS, _EMBEDDED_KEYS)
        return Layout("parquet" if is_parquet(first.path) else "json")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: as in `visual_questions.row`, with phrase: 'freeform' | 'para' | 'frame' | ''.

    body_system: 'head' | 'chest' | 'abdomen' | ''. Row.private: {kinds: what the question asks
    for}.
    """
    check_layout(layout, label, "json", "parquet")
    return _rows(path, layout.file)


def _rows(path: Path, original_name: str) -> Iterator[Row | Refusal]:
    with open_bundle(path, is_data_file, original_name) as bundle:
        for file in matching_files(bundle, _NAMED_KEYS, _EMBEDDED_KEYS):
            split = split_of(file.name)
            for number, (where, record) in enumerate(visual_questions.records(file, _COLUMNS)):
                try:
                    if isinstance(record, Malformed):
                        raise record
                    if "image_name" in record:
                        yield _row_with_named_image(where, record, bundle, file.folder, split)
                    else:
                        yield _row_with_embedded_image(where, record, f"{shard_prefix(file.name)}{number}", split)
                except Malformed as error:
                    yield Refusal(where, str(error))


def _row_with_named_image(where: str, record: dict[str, Any], bundle: Bundle, folder: str, split: str) -> Row:
    phrase = str(record.get("phrase_type") or "").strip().lower()
    if not split:
        split = "test" if phrase.startswith("test_") else "train"
    number = record.get("qid", record.get("id"))
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise Malformed("'qid' is missing.")
    folders = (folder, *(f"{folder}/{image_folder}".lstrip("/") for image_folder in FOLDERS))
    organ = str(record.get("image_organ") or "").strip().upper()
    return visual_questions.row(
        where,
        dataset=name,
        external_id=f"{split}-{number}",
        question=required_text(record, "question"),
        answer=answer_text(record),
        pictures=[bundle.picture(required_text(record, "image_name").strip(), *folders)],
        split=split,
        body_system=_SYSTEMS.get(organ, ""),
        private={"kinds": _kinds(record.get("question_type"))},
        phrase=phrase.removeprefix("test_"),
    )


def _kinds(value: Any) -> list[str]:
    """The kinds of a question ('PRES, ATTRIB', 'Other'), which the file writes in varying case."""
    return sorted({kind.strip().upper() for kind in str(value or "").split(",") if kind.strip()})


def _row_with_embedded_image(where: str, record: dict[str, Any], number: str, split: str) -> Row:
    image = embedded_image(record.get("image"))
    return visual_questions.row(
        where,
        dataset=name,
        external_id=f"{split or 'row'}-{number}",
        question=required_text(record, "question"),
        answer=answer_text(record),
        pictures=[inline_picture(*(image or ("", None)))],
        split=split,
        phrase="",
    )
