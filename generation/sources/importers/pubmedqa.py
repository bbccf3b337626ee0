"""PubMedQA: questions about PubMed abstracts, with a long answer and yes, no or maybe.

Each has the abstract without its conclusion, and the conclusion as the answer. Two layouts of the
same data: the authors' JSON object keyed by PMID, and the Hugging Face rows (JSON Lines or Parquet)
with the abstract's parts in a struct. Only the labelled set (PQA-L) has predictions; neither layout
has another sign of a record's split.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from generation.sources.importers.base import (
    PARQUET_FILE,
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    container_of,
    first_byte,
    gettext_noop,
    id_text,
    language_fields,
)
from generation.sources.importers.json_files import object_items
from generation.sources.importers.records import FileRecord, OptionalText, Texts, Verbatim, one_of, told
from generation.sources.importers.tabular import File, RecordFormat, identity, read_or_refused

name = "pubmedqa"
label = "PubMedQA"
licence = "MIT"
citation = (
    "Jin Q, Dhingra B, Liu Z, Cohen WW, Lu X. PubMedQA: A Dataset for Biomedical Research Question Answering."
    " EMNLP-IJCNLP 2019: 2567-2577."
)
restrictions = gettext_noop("abstracts of PubMed: the rights of authors and publishers stand beside the licence")
containers = (PARQUET_FILE,)


DECISIONS = ("yes", "no", "maybe")
_KEY = "pmid"  # what a record of the object has its key as


def _year(year: Any) -> str:
    text = told(year)  # a table with missing years has 2009.0
    if text == "":
        return ""
    if not isinstance(text, str) or not (text.isdecimal() and len(text) == 4):
        raise Malformed("The year is not valid.")
    return text


def _pubid(pmid: Any) -> str:
    text = id_text(pmid)
    if not isinstance(text, str):
        raise ValueError("is neither a text nor a whole number")
    return text


class _Abstract(FileRecord):
    """The parts of an abstract, and the predictions that only PQA-L has."""

    contexts: Texts = []
    labels: Texts = []
    meshes: Texts = []
    year: Annotated[str, BeforeValidator(_year)] = ""
    reasoning_required_pred: Any = Field(None, alias="reasoning_required_pred")
    reasoning_free_pred: Any = Field(None, alias="reasoning_free_pred")


class _Question(FileRecord):
    question: Verbatim
    long_answer: Verbatim
    final_decision: Annotated[OptionalText, one_of(*DECISIONS, "")] = Field("", alias="final_decision")


class _HubRow(_Question):
    """A row of the hub, with the abstract's parts in a struct."""

    pubid: Annotated[str, BeforeValidator(_pubid)]
    context: _Abstract

    @classmethod
    def missing(cls, present: Collection[str]) -> str:
        missing = super().missing(present)
        if missing:
            required = []
            for field, names in _Entry.names().items():
                if _Entry.model_fields[field].is_required():
                    required.append(f"'{names[0]}'")
            keys = ", ".join(required)
            return f"{missing} of a row of the hub (or {keys} by PMID)"
        return ""


class _Entry(_Question, _Abstract):
    """A member of the authors' object."""

    model_config = ConfigDict(alias_generator=str.upper)

    contexts: Texts
    pmid: str = Field("", alias=_KEY)


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless one of the first records has the columns of a layout."""
    # Checked first: the whole object may be on one line.
    if container_of(path) != PARQUET_FILE and first_byte(path) == b"{" and _is_object(path):
        return Layout("json-object")
    return FORMAT.sniff(path)


def _is_object(path: Path) -> bool:
    # Several objects, one on each line, are one that breaks off.
    for _where, _key, value in islice(object_items(path), SNIFF_LIMIT):
        if isinstance(value, dict) and not _Entry.missing(value):
            return True
    return False


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each question."""
    if layout.name == "json-object":
        return _object_rows(path)
    return FORMAT.rows(path, layout)


def _object_rows(path: Path) -> Iterator[Row | Refusal]:
    for where, key, value in object_items(path):
        is_pmid = key.isascii() and key.isdecimal() and len(key) < 20
        place = where
        if is_pmid:
            place = f"{where} (PMID {key})"
        record = value
        if isinstance(value, dict):
            record = {**value, _KEY: key.strip()}
        yield read_or_refused(record, place, _entry_row)


def _entry_row(given: dict[str, Any]) -> Row:
    entry = _Entry.read(given)
    return _question_row(entry, entry, entry.pmid)


def _question_row(question: _Question, abstract: _Abstract, pmid: str) -> Row:
    """Of a question.

    Row.content: {kind: 'qa', question, contexts: [str], sections: [str], answer, decision: 'yes' |
    'no' | 'maybe' | '', pmid, year: str, mesh: [str], split: 'labelled' | 'artificial' | ''}.

    There are as many sections as contexts, or none.
    """
    if not (pmid.isascii() and pmid.isdecimal()):
        raise Malformed("Its id is not a PMID.")
    if not any(text.strip() for text in abstract.contexts):
        raise Malformed("It has no context.")
    if abstract.labels and len(abstract.labels) != len(abstract.contexts):
        raise Malformed("It does not have as many sections as contexts.")
    # PQA-L has predictions, PQA-A decisions without them, PQA-U neither.
    predicted = abstract.reasoning_required_pred or abstract.reasoning_free_pred
    split = ""
    if question.final_decision:
        split = "artificial"
    if predicted:
        split = "labelled"
    mesh = list(dict.fromkeys(name.strip() for name in abstract.meshes if name.strip()))
    references, facets = {}, {}
    if mesh:
        references = {"mesh": tuple(mesh)}
    if question.final_decision:
        facets["decision"] = question.final_decision
    if split:
        facets["split"] = split
    return Row(
        external_id=pmid,
        title=question.question,
        **language_fields("\n".join((question.question, question.long_answer, *abstract.contexts))),
        content={
            "kind": "qa",
            "question": question.question,
            "contexts": abstract.contexts,
            "sections": abstract.labels,
            "answer": question.long_answer,
            "decision": question.final_decision,
            "pmid": pmid,
            "year": abstract.year,
            "mesh": mesh,
            "split": split,
        },
        match=question.question,
        references=references,
        facets=facets,
    )


def _hub_row(record: _HubRow, _file: File) -> Row:
    return _question_row(record, record.context, record.pubid)


FORMAT = RecordFormat(label, _HubRow, _hub_row, identity("jsonl", "parquet"))
