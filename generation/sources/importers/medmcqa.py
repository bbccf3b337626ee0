"""MedMCQA: one question a line with four options.

`cop`, the number of the correct option, counts from 1 in the original files and from 0 in the
Hugging Face version. The zeros and fours among a file's first records tell which: about a quarter
of them, and none of the other. A file in which neither is plain is refused, as guessing could make
every answer wrong.
"""

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from generation.sources.importers.base import (
    Layout,
    Malformed,
    Row,
    WrongFormat,
    digest_of,
    gettext_noop,
    id_text,
    json_lines,
)
from generation.sources.importers.records import FileRecord, OptionalText, Text
from generation.sources.importers.tabular import JSONL, File, RecordFormat, choice_content

name = "medmcqa"
label = "MedMCQA"
licence = "MIT"
citation = (
    "Pal A, Umapathi LK, Sankarasubbu M. MedMCQA: A Large-scale Multi-Subject Multi-Choice Dataset for Medical domain"
    " Question Answering. Proceedings of Machine Learning Research 174, 248-260 (2022)."
)
restrictions = gettext_noop("questions of Indian medical entrance examinations")


INSPECTED_RECORDS = 5_000  # the zeros and fours within them tell where `cop` counts from
# For so many of one there may be one of the other, a slip; and one in so many records must have it.
SLIPS, RARE = 20, 20


def _number(cop: Any) -> int | None:
    text = id_text(cop)  # a table with missing answers has 1.0
    if isinstance(text, str) and re.fullmatch("-?[0-9]", text):
        return int(text)
    return None


class _Question(FileRecord):
    question: Text
    opa: Text
    opb: Text
    opc: Text
    opd: Text
    cop: Annotated[int | None, BeforeValidator(_number)] = None
    exp: OptionalText = ""
    subject_name: OptionalText = ""
    topic_name: OptionalText = ""
    choice_type: OptionalText = ""
    id: OptionalText = ""


def sniff(path: Path) -> Layout:
    """Raises WrongFormat naming the missing keys, or if it is unclear where `cop` counts from."""
    FORMAT.sniff(path)
    counts: Counter[int] = Counter()
    for _line, value in islice(json_lines(path), INSPECTED_RECORDS):
        cop = None
        if isinstance(value, dict):
            cop = _number(value.get("cop"))
        if cop is not None and 0 <= cop <= 4:
            counts[cop] += 1
    zeros, fours = counts[0], counts[4]
    if not zeros and not fours:
        raise WrongFormat(
            f"'cop' is neither 0 nor 4 in its first {INSPECTED_RECORDS:,} records,"
            " so nothing tells whether it counts from 0 or from 1."
        )
    if max(zeros, fours) < SLIPS * min(zeros, fours) or max(zeros, fours) * RARE < counts.total():
        raise WrongFormat(
            f"'cop' is 0 in {zeros:,} and 4 in {fours:,} of its first {counts.total():,} records,"
            " so it is unclear whether it counts from 0 or from 1: correct the wrong ones."
        )
    if zeros > fours:
        return Layout("jsonl-from-0")
    return Layout("jsonl-from-1")


def _row(record: _Question, file: File) -> Row:
    """Row.content: as in `choice_content`, with choice: 'single' | 'multi' | ''."""
    options = dict(zip("ABCD", (record.opa, record.opb, record.opc, record.opd), strict=True))
    more = {"explanation": record.exp, "subject": record.subject_name, "topic": record.topic_name}
    answer = _answer(record.cop, int(file.layout[-1]))
    return Row(
        external_id=record.id or digest_of("\n".join((record.question, *options.values())))[:24],
        title=record.question,
        language="en",  # the only one; detection would take longer than all the rest
        content=choice_content(
            name, record.question, options, answer, choice=record.choice_type, split=file.split, **more
        ),
        facets={"split": file.split or "unknown", "subject": record.subject_name or "unknown"},
    )


def _answer(cop: int | None, first: int) -> str:
    if cop is None or cop == -1:
        raise Malformed("'cop' names no right option, as in a test split.")
    if not first <= cop <= first + 3:
        raise Malformed(f"'cop' is {cop}, and in this file it counts from {first} to {first + 3}.")
    return "ABCD"[cop - first]


FORMAT = RecordFormat(label, _Question, _row, {"jsonl-from-0": JSONL, "jsonl-from-1": JSONL})
rows = FORMAT.rows
