"""ClinHallu's own files: `converted.jsonl` and `gold_cot.jsonl`.

`converted.jsonl` holds questions about images, `gold_cot.jsonl` the same with reference traces. A
folder has the authors' layout: `data/<dataset>/input/<split>/{converted.jsonl,images/}` and
`results/<dataset>/gold/<model>/gold_cot.jsonl`. Rows that the authors rejected (`rejected_*.jsonl`,
`candidates.jsonl`) are not read.
"""

from typing import Any

from generation.sources.importers import visual_questions
from generation.sources.importers.base import (
    ZIP_ARCHIVE,
    Malformed,
    Row,
    gettext_noop,
    required_text,
    text_list,
)
from generation.sources.importers.bundles import DataFile
from generation.sources.importers.visual_questions import (
    PictureFormat,
    Place,
    answer_text,
    parse_options,
    split_of,
)

name = "clinhallu"
label = "ClinHallu"
licence = "Apache-2.0"
citation = "ClinHallu: A Benchmark for Diagnosing Stage-wise Hallucinations in Medical MLLM Reasoning. arXiv:2606.14697 (2026)."
restrictions = gettext_noop(
    "for research on models, not for decisions about patients; images keep the licences of their data sets"
)
containers = (ZIP_ARCHIVE,)

TRACE_KIND = "vqa-trace"
_KEYS = ("question", "answer", "images")
_TYPES = ("yes_no", "open_ended", "multiple_choice")
_DATASETS = {"rad": "vqa-rad", "path": "pathvqa", "medframe": "medframeqa", "medxpert": "medxpertqa"}
_FILES = ("converted.jsonl", "gold_cot.jsonl")


def _is_data_file(file_name: str) -> bool:
    return file_name.rpartition("/")[2].lower() in _FILES


def _row(record: dict[str, Any], place: Place) -> Row:
    file = place.file
    split = str(record.get("split") or "").strip().lower() or split_of(file.name)
    dataset = _dataset(record, file)
    options = parse_options(record.get("options"))
    letter, answer = _answer(record, options)
    images = text_list(record, "images")
    folders = [file.folder]
    if split:
        folders.append(f"data/{dataset}/input/{split}")
    has_trace = "gold_cot" in record
    trace_fields: dict[str, Any] = {"kind": TRACE_KIND, **_trace(record)} if has_trace else {}
    kind = str(record.get("question_type") or "").strip().lower()
    if kind and kind not in _TYPES:
        raise Malformed(f"'question_type' is not one of {', '.join(_TYPES)}.")
    return visual_questions.row(
        place.where,
        dataset=dataset,
        external_id="-".join(filter(None, ("gold" if has_trace else "", dataset, split, _record_id(record)))),
        question=required_text(record, "question"),
        answer=answer,
        pictures=[place.bundle.picture(image, *folders) for image in images],
        split=split,
        options=options,
        letter=letter,
        type_of_question=kind,
        body_system=str(record.get("body_system") or ""),
        source=name,
        **trace_fields,
    )


def _record_id(record: dict[str, Any]) -> str:
    for key in ("source_id", "original_index"):
        value = record.get(key)
        if isinstance(value, int | str) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    raise Malformed("It has neither 'source_id' nor 'original_index'.")


def _dataset(record: dict[str, Any], file: DataFile) -> str:
    """The data set, by the record's `source`, its file's path, or the prefix of its id."""
    for hint in (str(record.get("source") or ""), file.name):
        letters = "".join(character for character in hint.casefold() if character.isalpha() or character == "/")
        for word, dataset in _DATASETS.items():
            if any(word in part for part in letters.split("/")[-6:]):
                return dataset
    if str(record.get("source_id") or "").startswith("MM-"):
        return "medxpertqa"
    raise Malformed("It does not say which data set it is from ('source').")


def _answer(record: dict[str, Any], options: list[list[str]]) -> tuple[str, str]:
    """Letter and text of the answer; 'C. Lung cancer' gives the text without the letter."""
    answer = answer_text(record)
    letter = str(record.get("answer_letter") or "").strip().upper()
    if not options:
        return "", answer
    for option, text in options:
        if letter == option or (not letter and answer in (option, text, f"{option}. {text}")):
            return option, text
    raise Malformed("Its answer is not one of its options.")


def _trace(record: dict[str, Any]) -> dict[str, Any]:
    if record.get("cot_valid") is not True:
        raise Malformed("Its trace is not marked as valid ('cot_valid').")
    trace, meta = record["gold_cot"], record.get("gold_cot_meta")
    if not isinstance(trace, dict):
        raise Malformed("'gold_cot' is not an object.")
    reasoning = _stage(trace, "reasoning")
    return {
        "trace": {
            "visual": required_text(_stage(trace, "visual_recognition"), "text"),
            "knowledge": required_text(_stage(trace, "knowledge_recall"), "text"),
            "reasoning": required_text(reasoning, "text"),
            "answer": required_text(reasoning, "answer"),
        },
        "by": str(meta.get("model") or "") if isinstance(meta, dict) else "",
    }


def _stage(trace: dict[str, Any], stage: str) -> dict[str, Any]:
    value = trace.get(stage)
    if not isinstance(value, dict):
        raise Malformed(f"'gold_cot' lacks '{stage}'.")
    return value


# Row.content: as in `visual_questions.row`. A row with a trace has kind 'vqa-trace', trace {visual,
# knowledge, reasoning, answer}, and by: the model that wrote the trace.
FORMAT = PictureFormat(label, _row, (_KEYS,), is_data=_is_data_file)
sniff, rows = FORMAT.sniff, FORMAT.rows
