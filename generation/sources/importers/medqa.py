"""MedQA (USMLE): one question a line with four or five options (`questions/US`, `4_options`)."""

from generation.sources.importers.base import Malformed, Row, digest_of, gettext_noop
from generation.sources.importers.records import FileRecord, OptionalText, Options, Text
from generation.sources.importers.tabular import File, RecordFormat, choice_content

name = "medqa"
label = "MedQA (USMLE)"
licence = "MIT"
citation = (
    "Jin D, Pan E, Oufattole N, Weng W-H, Fang H, Szolovits P. What Disease Does this Patient Have? A Large-scale Open"
    " Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 6421 (2021)."
)
restrictions = gettext_noop("questions of preparation for the USMLE")


class _Question(FileRecord):
    question: Text
    answer: Text
    options: Options
    answer_idx: str | None = None
    meta_info: OptionalText = ""


def _row(record: _Question, file: File) -> Row:
    """Row.content: as in `choice_content`, with step: 'step1' | 'step2&3' | ''."""
    options = record.options
    return Row(
        external_id=digest_of("\n".join((record.question, *options.values())))[:24],
        title=record.question,
        language="en",  # as all of questions/US; detection would take longer than all the rest
        content=choice_content(
            name, record.question, options, _answer(record), step=record.meta_info, split=file.split
        ),
        facets={"split": file.split or "unknown"},
    )


def _answer(record: _Question) -> str:
    """The letter of the correct option: `answer_idx`, else of the option that equals the answer."""
    if record.answer_idx is None:
        matches = [letter for letter, text in record.options.items() if text == record.answer]
        if len(matches) != 1:
            raise Malformed("'answer' is not one of the options.")
        return matches[0]
    if record.answer_idx not in record.options:
        raise Malformed("'answer_idx' is not one of the options.")
    if record.options[record.answer_idx] != record.answer:
        raise Malformed("'answer' and 'answer_idx' are different options.")
    return record.answer_idx


FORMAT = RecordFormat(label, _Question, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
