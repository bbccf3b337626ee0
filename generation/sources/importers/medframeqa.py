"""MedFrameQA: questions about two to five frames of a medical video, with options.

Parquet with the images inside (`image_1` to `image_5`), or JSON Lines that name them (`image_url`)
beside `images/`.
"""

from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    PARQUET_FILE,
    ZIP_ARCHIVE,
    RecordImage,
    Row,
    gettext_noop,
    required_id,
    required_text,
    text_list,
)
from generation.sources.importers.bundles import Bundle, inline_picture
from generation.sources.importers.visual_questions import (
    PictureFormat,
    Place,
    correct_option,
    embedded_image,
    parse_options,
)

name = "medframeqa"
label = "MedFrameQA"
licence = "CC BY 4.0"
citation = (
    "Yu S, Wang H, Wu J, Luo L, Wang J, Xie C, Rajpurkar P, Yang C, Yang Y, Wang K, Zhou Y, Zhou Y. MedFrameQA: A Multi-Image"
    " Medical VQA Benchmark for Clinical Reasoning. arXiv:2505.16964 (2025)."
)
restrictions = gettext_noop("frames come from public videos; name the data set wherever they are shown")
containers = (ZIP_ARCHIVE, PARQUET_FILE)

_KEYS = ("question_id", "question", "options", "correct_answer")
_IMAGE_KEYS = tuple(f"image_{number}" for number in range(1, 6))
_OPTIONAL_KEYS = ("system", "organ", "keyword", "modality", "video_id", "image_url", "reasoning_chain")


def _row(record: dict[str, Any], place: Place) -> Row:
    options = parse_options(record.get("options"))
    letter, answer = correct_option(record.get("correct_answer"), options)
    return visual_questions.row(
        place.where,
        dataset=name,
        external_id=required_id(record, "question_id"),
        question=required_text(record, "question"),
        answer=answer,
        pictures=_pictures(record, place.bundle, place.file.folder),
        split=place.split or "test",
        options=options,
        letter=letter,
        body_system=str(record.get("system") or "").replace("_", " "),
        private={key: str(record.get(key) or "") for key in ("reasoning_chain", "video_id")},
        organ=str(record.get("organ") or ""),
        modality=str(record.get("modality") or ""),
    )


def _pictures(record: dict[str, Any], bundle: Bundle, folder: str) -> list[RecordImage]:
    embedded = [image for key in _IMAGE_KEYS if (image := embedded_image(record.get(key))) is not None]
    if embedded:
        return [inline_picture(name or f"{place}", data) for place, (name, data) in enumerate(embedded, 1)]
    return [bundle.picture(image_name, folder) for image_name in text_list(record, "image_url")]


# Row.content: as in `visual_questions.row`, with organ and modality. Row.private: {reasoning_chain,
# video_id}.
FORMAT = PictureFormat(
    label, _row, (_KEYS,), columns=(*_KEYS, *_IMAGE_KEYS, *_OPTIONAL_KEYS), layouts=("jsonl", "parquet")
)
sniff, rows = FORMAT.sniff, FORMAT.rows
