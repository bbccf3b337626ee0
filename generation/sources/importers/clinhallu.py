"""ClinHallu's own files: `converted.jsonl` and `gold_cot.jsonl`.

`converted.jsonl` holds questions about images, `gold_cot.jsonl` the same with reference traces. A
folder has the authors' layout: `data/<dataset>/input/<split>/{converted.jsonl,images/}` and
`results/<dataset>/gold/<model>/gold_cot.jsonl`. Rows that the authors rejected (`rejected_*.jsonl`,
`candidates.jsonl`) are not read.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from generation.sources.importers import visual_questions
from generation.sources.importers.base import ZIP_ARCHIVE, Malformed, Row, gettext_noop
from generation.sources.importers.records import AnyText, FileRecord, Options, Text, Texts, Verbatim, one_of
from generation.sources.importers.visual_questions import Answer, PictureFormat, Place

name = "clinhallu"
label = "ClinHallu"
licence = "Apache-2.0"
citation = "ClinHallu: A Benchmark for Diagnosing Stage-wise Hallucinations in Medical MLLM Reasoning. arXiv:2606.14697 (2026)."
restrictions = gettext_noop(
    "for research on models, not for decisions about patients; images keep the licences of their data sets"
)
containers = (ZIP_ARCHIVE,)


TRACE_KIND = "vqa-trace"
_TYPES = ("yes_no", "open_ended", "multiple_choice")
_DATASETS = {"rad": "vqa-rad", "path": "pathvqa", "medframe": "medframeqa", "medxpert": "medxpertqa"}
_FILES = ("converted.jsonl", "gold_cot.jsonl")


def _of_valid(trace: Any, info: ValidationInfo) -> Any:
    if info.data.get("cot_valid") is not True:
        raise Malformed("Its trace is not marked as valid ('cot_valid').")
    if not isinstance(trace, dict):
        raise ValueError("is not an object")
    return trace


class _Stage(FileRecord):
    text: Verbatim


class _Reasoning(_Stage):
    answer: Verbatim


class _Trace(FileRecord):
    visual_recognition: _Stage
    knowledge_recall: _Stage
    reasoning: _Reasoning


class _Meta(FileRecord):
    model: AnyText = ""


def _none_if_empty(value: Any) -> Any:
    if value in (None, [], {}):
        return None
    return value


def _object(value: Any) -> Any:
    """A value that is an object; an empty one instead of anything else."""
    if isinstance(value, dict):
        return value
    return {}


class _Question(FileRecord):
    question: Text
    answer: Answer
    images: Texts
    options: Annotated[Options | None, BeforeValidator(_none_if_empty)] = None
    answer_letter: AnyText = ""
    question_type: Annotated[AnyText, one_of(*_TYPES, "")] = ""
    source: AnyText = ""
    source_id: AnyText = ""
    original_index: AnyText = ""
    split: AnyText = ""
    body_system: AnyText = ""
    cot_valid: Any = None
    gold_cot: Annotated[_Trace | None, BeforeValidator(_of_valid)] = None
    gold_cot_meta: Annotated[_Meta, BeforeValidator(_object)] = _Meta()


def _is_data_file(file_name: str) -> bool:
    return file_name.rpartition("/")[2].lower() in _FILES


def _row(record: _Question, place: Place) -> Row:
    """Row.content: as in `visual_questions.row`.

    A row with a trace has kind 'vqa-trace', trace {visual, knowledge, reasoning, answer}, and by:
    the model that wrote the trace.
    """
    split, dataset = record.split.lower() or place.split, _dataset(record, place.file.name)
    number = record.source_id or record.original_index
    if not number:
        raise Malformed("It has neither 'source_id' nor 'original_index'.")
    letter, answer = _answer(record)
    folders = [place.file.folder]
    if split:
        folders.append(f"data/{dataset}/input/{split}")
    id_parts = [dataset, split, number]
    more: dict[str, Any] = {}
    if trace := record.gold_cot:
        steps = {"visual": trace.visual_recognition.text, "knowledge": trace.knowledge_recall.text}
        steps |= {"reasoning": trace.reasoning.text, "answer": trace.reasoning.answer}
        more = {"kind": TRACE_KIND, "trace": steps, "by": record.gold_cot_meta.model}
        id_parts.insert(0, "gold")
    return visual_questions.row(
        dataset=dataset,
        external_id="-".join(filter(None, id_parts)),
        question=record.question,
        answer=answer,
        pictures=[place.picture(image, *folders) for image in record.images],
        split=split,
        options=record.options or {},
        letter=letter,
        question_type=record.question_type,
        body_system=record.body_system,
        source=name,
        **more,
    )


def _dataset(record: _Question, file_name: str) -> str:
    """The data set, by the record's `source`, its file's path, or the prefix of its id."""
    for hint in (record.source, file_name):
        letters = "".join(character for character in hint.casefold() if character.isalpha() or character == "/")
        for word, dataset in _DATASETS.items():
            if any(word in part for part in letters.split("/")[-6:]):
                return dataset
    if record.source_id.startswith("MM-"):
        return "medxpertqa"
    raise Malformed("It does not say which data set it is from ('source').")


def _answer(record: _Question) -> tuple[str, str]:
    """Letter and text of the answer; 'C. Lung cancer' gives the text without the letter."""
    if not record.options:
        return "", record.answer
    wanted = record.answer_letter.upper()
    for letter, text in record.options.items():
        if wanted == letter or (not wanted and record.answer in (letter, text, f"{letter}. {text}")):
            return letter, text
    raise Malformed("Its answer is not one of its options.")


FORMAT = PictureFormat(label, _Question, _row, is_data=_is_data_file)
sniff, rows = FORMAT.sniff, FORMAT.rows
