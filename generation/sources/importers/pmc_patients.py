"""PMC-Patients: patient summaries from case reports, as CSV (V1) or as one JSON array (V2).

Columns are found by name, in any order; others are ignored. The relations (`relevant_articles`,
`similar_patients`) are not read, because nothing here needs them. So it does not matter that V1 has
them as Python literals, and that published versions differ between a list of ids and a dict of
grades.
"""

import ast
from collections.abc import Collection
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    checked_id,
    gettext_noop,
    id_text,
    language_fields,
    one_line,
    required_text,
)

name = "pmc-patients"
label = "PMC-Patients"
licence = "CC BY-NC-SA 4.0"
citation = (
    "Zhao Z, Jin Q, Chen F, Peng T, Yu S. A large-scale dataset of patient summaries for retrieval-based clinical"
    " decision support systems. Scientific Data 10, 909 (2023)."
)
restrictions = gettext_noop("non-commercial, share-alike")

_AGE_UNITS = frozenset({"year", "month", "week", "day", "hour"})
# Characters of a Python literal: an age has about twenty; longer ones could make it recurse.
_MAX_LITERAL = 1000


def _missing(columns: Collection[str]) -> str:
    """The missing required columns, in words; '' if none is missing."""
    missing = [] if "patient" in columns else ["'patient'"]
    if "patient_uid" not in columns and "patient_id" not in columns:
        missing.append("'patient_uid' (or 'patient_id')")
    return " and ".join(missing)


def _row(record: dict[str, Any], _split: str) -> Row:
    """Of a report.

    Row.content: {kind: 'report', text: str, title: str, age: [[number, unit]], gender: 'M' | 'F' |
    '', pmid: str}.
    """
    text = required_text(record, "patient")
    external_id = _optional_text(record, "patient_uid") or _optional_text(record, "patient_id")
    if not external_id:
        raise Malformed("'patient_uid' and 'patient_id' are missing or blank.")
    title = _optional_text(record, "title")
    return Row(
        external_id=checked_id(external_id),
        title=one_line(title or text),
        **language_fields(text),
        content={
            "kind": "report",
            "text": text,
            "title": title,
            "age": _age(record.get("age")),
            "gender": _gender(record),
            "pmid": _optional_text(record, "PMID"),
        },
    )


def _optional_text(record: dict[str, Any], key: str) -> str:
    """The text or whole number under `key` as stripped text; '' if there is none.

    Raises Malformed.
    """
    value = id_text(record.get(key))
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is neither a text nor a whole number.")
    return value


def _gender(record: dict[str, Any]) -> str:
    gender = _optional_text(record, "gender")
    if gender not in ("M", "F", ""):
        raise Malformed("'gender' is neither 'M' nor 'F'.")
    return gender


def _age(value: Any) -> list[list[Any]]:
    """[[number, unit], ...]; several pairs add up (2 years and 3 months). Raises Malformed."""
    if isinstance(value, str):
        value = _literal(value)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise Malformed("'age' is not a list of [number, unit].")
    age = []
    for part in value:
        if not isinstance(part, list | tuple) or len(part) != 2:
            raise Malformed("'age' is not a list of [number, unit].")
        number, unit = part
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 1_000_000:
            raise Malformed("'age' contains a number that is not an age.")
        if not isinstance(unit, str) or unit not in _AGE_UNITS:
            raise Malformed(f"'age' contains a unit that is not one of {', '.join(sorted(_AGE_UNITS))}.")
        age.append([float(number), unit])
    return age


def _literal(text: str) -> Any:
    """Parse a Python literal, as V1 writes its lists; None for an empty cell. Raises Malformed."""
    text = text.strip()
    if not text:
        return None
    if len(text) > _MAX_LITERAL:
        raise Malformed(f"'age' is longer than {_MAX_LITERAL} characters.")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Malformed("'age' is not a Python literal.") from None


FORMAT = tabular.RecordFormat(label, _row, _missing, {tabular.ARRAY: "json-v2", tabular.CSV: "csv-v1"})
sniff, rows = FORMAT.sniff, FORMAT.rows
