"""MedHallu: PubMedQA's questions, each with its true and a hallucinated answer.

The hallucination has a category and a difficulty of detection. JSON Lines, Parquet, or CSV with the
knowledge as a list written as text. The file has no ids and no PMIDs: a row's id is the digest of
its question, by which it is also joined to PubMedQA.
"""

import ast
import re
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    PARQUET_FILE,
    Malformed,
    Row,
    digest_of,
    gettext_noop,
    language_fields,
    one_line,
    required_text,
    text_list,
)

name = "medhallu"
label = "MedHallu"
licence = "MIT"
citation = (
    "Pandit S, Xu J, Hong J, Wang Z, Chen T, Xu K, Ding Y. MedHallu: A Comprehensive Benchmark for Detecting Medical"
    " Hallucinations in Large Language Models. arXiv:2502.14302 (2025)."
)
restrictions = gettext_noop("half of the answers are wrong on purpose; abstracts of PubMed stand beside them")
containers = (PARQUET_FILE,)

DIFFICULTIES = ("easy", "medium", "hard")

# Words that identify the published names, which vary in case and punctuation ('Misinterpretation of
# #Question#').
CATEGORIES = {
    ("misinterpretation", "question"): "MQ",
    ("incomplete", "information"): "II",
    ("mechanism", "pathway", "misattribution"): "MP",
    ("methodological", "evidence", "fabrication"): "MF",
}
_FILLER_WORDS = frozenset({"of", "the", "and"})

_QUESTION, _KNOWLEDGE, _TRUTH, _DIFFICULTY, _HALLUCINATED, _CATEGORY = _COLUMNS = (
    "Question",
    "Knowledge",
    "Ground Truth",
    "Difficulty Level",
    "Hallucinated Answer",
    "Category of Hallucination",
)

_MAX_LITERAL = 1024 * 1024  # characters of a list written as text; published ones have thousands
_TEXT = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_SPACE = re.compile(r"\s*")


def _missing(columns: Any) -> str:
    """The missing columns, in words; '' if none is missing."""
    present = {_normalized(column) for column in columns}
    return ", ".join(f"'{column}'" for column in _COLUMNS if _normalized(column) not in present)


def _normalized(column: str) -> str:
    return " ".join(column.replace("_", " ").casefold().split())


_COLUMN_NAMES = {_normalized(column): column for column in _COLUMNS}


def _row(given: dict[str, Any], _split: str) -> Row:
    """Of a question with its two answers.

    Row.content: {kind: 'qa-pair', question, knowledge: [str], answer, hallucinated, difficulty:
    'easy' | 'medium' | 'hard', category: 'MQ' | 'II' | 'MP' | 'MF', split: ''}.
    """
    record = {_COLUMN_NAMES.get(_normalized(column)) or column: cell for column, cell in given.items()}
    question = required_text(record, _QUESTION)
    content: dict[str, Any] = {
        "kind": "qa-pair",
        "question": question,
        "knowledge": _knowledge(record),
        "answer": required_text(record, _TRUTH),
        "hallucinated": required_text(record, _HALLUCINATED),
        "difficulty": _difficulty(record),
        "category": _category(record),
        "split": "",
    }
    return Row(
        # 96 bits: no two questions of any data set share them.
        external_id=digest_of(question)[:24],
        title=one_line(question),
        **language_fields("\n".join((question, content["answer"], *content["knowledge"]))),
        content=content,
        match=question,
        references={"pubmedqa": (question,)},
        facets={"difficulty": content["difficulty"], "category": content["category"]},
    )


def _difficulty(record: dict[str, Any]) -> str:
    difficulty = required_text(record, _DIFFICULTY).strip().casefold()
    if difficulty not in DIFFICULTIES:
        raise Malformed(f"'{_DIFFICULTY}' is not one of {', '.join(DIFFICULTIES)}.")
    return difficulty


def _category(record: dict[str, Any]) -> str:
    words = re.findall("[a-z]+", required_text(record, _CATEGORY)[:200].casefold())
    code = CATEGORIES.get(tuple(word for word in words if word not in _FILLER_WORDS))
    if code is None:
        raise Malformed(f"'{_CATEGORY}' is not one of the four categories.")
    return code


def _knowledge(record: dict[str, Any]) -> list[str]:
    value = record.get(_KNOWLEDGE)
    if isinstance(value, str):
        record = {_KNOWLEDGE: _parse_list(value)}
    knowledge = text_list(record, _KNOWLEDGE)
    if not any(text.strip() for text in knowledge):
        raise Malformed(f"'{_KNOWLEDGE}' has no text.")
    return knowledge


def _parse_list(cell: str) -> list[str]:
    """Parse a list written into a cell: `['a', "b"]`, or numpy's `['a' 'b']`. Raises Malformed.

    Python's parser gets one text at a time: a whole list could make it recurse, and it would read
    numpy's list as a single text.
    """
    error = Malformed(f"'{_KNOWLEDGE}' is not a list of texts.")
    cell = cell.strip()
    if len(cell) > _MAX_LITERAL:
        raise Malformed(f"'{_KNOWLEDGE}' is longer than {_MAX_LITERAL:,} characters.")
    if not (cell.startswith("[") and cell.endswith("]")):
        raise error
    texts: list[str] = []
    at, end = _skip_space(cell, 1), len(cell) - 1
    while at < end:
        literal = _TEXT.match(cell, at, end)
        if literal is None:
            raise error
        texts.append(_text(literal.group(), error))
        at = _skip_space(cell, literal.end())
        if at < end and cell[at] == ",":
            at = _skip_space(cell, at + 1)
    return texts


def _skip_space(cell: str, at: int) -> int:
    space = _SPACE.match(cell, at)
    return space.end() if space else at


def _text(literal: str, error: Malformed) -> str:
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError, MemoryError):
        raise error from None


FORMAT = tabular.RecordFormat(
    label,
    _row,
    _missing,
    tabular.identity(tabular.JSONL, tabular.CSV, tabular.PARQUET),
    wanted=lambda column: _normalized(column) in _COLUMN_NAMES,
)
sniff, rows = FORMAT.sniff, FORMAT.rows
