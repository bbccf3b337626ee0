"""MedHallu: PubMedQA's questions, each with its true and a hallucinated answer.

The hallucination has a category and a difficulty of detection. JSON Lines, Parquet, or CSV with the
knowledge as a list written as text. The file has no ids and no PMIDs: a row's id is the digest of
its question, by which it is also joined to PubMedQA.
"""

import ast
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from generation.sources.importers.base import PARQUET_FILE, Row, digest_of, gettext_noop, language_fields
from generation.sources.importers.records import FoldedRecord, Texts, Verbatim, one_of
from generation.sources.importers.tabular import File, RecordFormat, identity

name = "medhallu"
label = "MedHallu"
licence = "MIT"
citation = (
    "Pandit S, Xu J, Hong J, Wang Z, Chen T, Xu K, Ding Y. MedHallu: A Comprehensive Benchmark for Detecting Medical"
    " Hallucinations in Large Language Models. arXiv:2502.14302 (2025)."
)
restrictions = gettext_noop("half of the answers are wrong on purpose; abstracts of PubMed stand beside them")
containers = (PARQUET_FILE,)


# Words that identify the published names, which vary in case and punctuation ('Misinterpretation of
# #Question#').
CATEGORIES = {
    ("misinterpretation", "question"): "MQ",
    ("incomplete", "information"): "II",
    ("mechanism", "pathway", "misattribution"): "MP",
    ("methodological", "evidence", "fabrication"): "MF",
}
_FILLER_WORDS = frozenset({"of", "the", "and"})
_MAX_LITERAL = 1024 * 1024  # characters of a list written as text; published ones have thousands
# A text in a list that is written as text: ['a', "b"], or numpy's ['a' 'b'].
_ENTRY = re.compile(r"""\s*+('(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+\")\s*+,?+""")


def _category(name: str) -> str:
    words = re.findall("[a-z]+", name[:200].casefold())
    code = CATEGORIES.get(tuple(word for word in words if word not in _FILLER_WORDS))
    if code is None:
        raise ValueError("is not one of the four categories")
    return code


def _parsed_list(cell: Any) -> Any:
    """The list that is written in a cell; what is no text unchanged.

    Python's parser gets one text at a time: a whole list could make it recurse, and it would read
    numpy's list as a single text.
    """
    if not isinstance(cell, str):
        return cell
    if len(cell) > _MAX_LITERAL:
        raise ValueError(f"is longer than {_MAX_LITERAL:,} characters")
    cell = cell.strip()
    texts, at = [], 1
    while entry := _ENTRY.match(cell, at):
        texts.append(entry[1])
        at = entry.end()
    if cell[:1] != "[" or cell[at:].strip() != "]":
        return cell  # which is no list
    try:
        return [ast.literal_eval(text) for text in texts]
    except (ValueError, SyntaxError, MemoryError):
        return cell


def _has_text(texts: list[str]) -> list[str]:
    if not any(text.strip() for text in texts):
        raise ValueError("has no text")
    return texts


class _Pair(FoldedRecord):
    question: Verbatim = Field(alias="Question")
    knowledge: Annotated[Texts, BeforeValidator(_parsed_list), AfterValidator(_has_text)] = Field(alias="Knowledge")
    answer: Verbatim = Field(alias="Ground Truth")
    hallucinated: Verbatim = Field(alias="Hallucinated Answer")
    difficulty: Annotated[Verbatim, one_of("easy", "medium", "hard")] = Field(alias="Difficulty Level")
    category: Annotated[Verbatim, AfterValidator(_category)] = Field(alias="Category of Hallucination")


def _row(record: _Pair, _file: File) -> Row:
    """Of a question with its two answers.

    Row.content: {kind: 'qa-pair', question, knowledge: [str], answer, hallucinated, difficulty:
    'easy' | 'medium' | 'hard', category: 'MQ' | 'II' | 'MP' | 'MF', split: ''}.
    """
    return Row(
        # 96 bits: no two questions of any data set share them.
        external_id=digest_of(record.question)[:24],
        title=record.question,
        **language_fields("\n".join((record.question, record.answer, *record.knowledge))),
        content={"kind": "qa-pair", **record.model_dump(), "split": ""},
        match=record.question,
        references={"pubmedqa": (record.question,)},
        facets={"difficulty": record.difficulty, "category": record.category},
    )


FORMAT = RecordFormat(label, _Pair, _row, identity("jsonl", "csv", "parquet"))
sniff, rows = FORMAT.sniff, FORMAT.rows
