"""MedFrameQA: questions about two to five frames of a medical video, with options.

Parquet with the images inside (`image_1` to `image_5`), or JSON Lines that name them (`image_url`)
beside `images/`.
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
    RecordImage,
    Refusal,
    Row,
    gettext_noop,
    required_id,
    required_text,
    text_list,
)
from generation.sources.importers.bundles import Bundle, inline_picture, open_bundle
from generation.sources.importers.tables import is_parquet
from generation.sources.importers.visual_questions import (
    check_layout,
    correct_option,
    embedded_image,
    is_data_file,
    matching_files,
    parse_options,
    split_of,
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


def sniff(path: Path) -> Layout:
    """Raises WrongFormat."""
    with open_bundle(path, is_data_file) as bundle:
        [first, *_more] = matching_files(bundle, _KEYS)
        return Layout("parquet" if is_parquet(first.path) else "jsonl")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: as in `visual_questions.row`, with organ and modality.

    Row.private: {reasoning_chain, video_id}.
    """
    check_layout(layout, label, "jsonl", "parquet")
    return _rows(path, layout.file)


def _rows(path: Path, original_name: str) -> Iterator[Row | Refusal]:
    with open_bundle(path, is_data_file, original_name) as bundle:
        for file in matching_files(bundle, _KEYS):
            for where, record in visual_questions.records(file, (*_KEYS, *_IMAGE_KEYS, *_OPTIONAL_KEYS)):
                try:
                    if isinstance(record, Malformed):
                        raise record
                    yield _row(where, record, bundle, file.folder, split_of(file.name) or "test")
                except Malformed as error:
                    yield Refusal(where, str(error))


def _row(where: str, record: dict[str, Any], bundle: Bundle, folder: str, split: str) -> Row:
    options = parse_options(record.get("options"))
    letter, answer = correct_option(record.get("correct_answer"), options)
    return visual_questions.row(
        where,
        dataset=name,
        external_id=required_id(record, "question_id"),
        question=required_text(record, "question"),
        answer=answer,
        pictures=_pictures(record, bundle, folder),
        split=split,
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
