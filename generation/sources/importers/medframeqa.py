"""MedFrameQA: questions about two to five frames of a medical video, with options.

Parquet with the images inside (`image_1` to `image_5`), or JSON Lines that name them (`image_url`)
beside `images/`.
"""

from generation.sources.importers import visual_questions
from generation.sources.importers.base import PARQUET_FILE, ZIP_ARCHIVE, Row, gettext_noop
from generation.sources.importers.records import AnyText, FileRecord, Id, Options, Text, Texts
from generation.sources.importers.visual_questions import Image, PictureFormat, Place, correct_option

name = "medframeqa"
label = "MedFrameQA"
licence = "CC BY 4.0"
citation = (
    "Yu S, Wang H, Wu J, Luo L, Wang J, Xie C, Rajpurkar P, Yang C, Yang Y, Wang K, Zhou Y, Zhou Y. MedFrameQA: A Multi-Image"
    " Medical VQA Benchmark for Clinical Reasoning. arXiv:2505.16964 (2025)."
)
restrictions = gettext_noop("frames come from public videos; name the data set wherever they are shown")
containers = (ZIP_ARCHIVE, PARQUET_FILE)


class _Question(FileRecord):
    question_id: Id
    question: Text
    options: Options
    correct_answer: Text
    system: AnyText = ""
    organ: AnyText = ""
    modality: AnyText = ""
    video_id: AnyText = ""
    reasoning_chain: AnyText = ""
    image_url: Texts = []
    image_1: Image = None
    image_2: Image = None
    image_3: Image = None
    image_4: Image = None
    image_5: Image = None


def _row(record: _Question, place: Place) -> Row:
    """Row.content: as in `visual_questions.row`, with organ and modality.

    Row.private: {reasoning_chain, video_id}.
    """
    letter, answer = correct_option(record.correct_answer, record.options)
    frames = (record.image_1, record.image_2, record.image_3, record.image_4, record.image_5)
    numbered = []
    for number, (image_name, data) in enumerate(filter(None, frames), 1):
        numbered.append((image_name or f"{number}", data))
    shares = []
    if record.video_id:
        shares = [("video", record.video_id)]
    return visual_questions.row(
        dataset=name,
        external_id=record.question_id,
        question=record.question,
        answer=answer,
        pictures=[place.picture(image, place.file.folder) for image in numbered or record.image_url],
        split=place.split or "test",
        options=record.options,
        letter=letter,
        body_system=record.system.replace("_", " "),
        private={"reasoning_chain": record.reasoning_chain, "video_id": record.video_id},
        shares=shares,
        organ=record.organ,
        modality=record.modality,
    )


FORMAT = PictureFormat(label, _Question, _row, ("jsonl", "parquet"))
sniff, rows = FORMAT.sniff, FORMAT.rows
