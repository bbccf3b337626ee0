"""Cases for MedMistake's conversations, in a format of our own.

One patient a line, with the persona and the goals of a visit to a doctor.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    check_storable,
    first_byte,
    gettext_noop,
    json_lines,
    language_fields,
    one_line,
    required_id,
    required_text,
    text_list,
)

name = "medmistake-cases"
label = "MedMistake-cases"
licence = gettext_noop("as the file's authors say")
citation = (
    "Cases in the layout of MHB, after Proniakin O, Fajardo D, Nazarenko R, Marinescu R. arXiv:2512.20983 (2025)."
)
restrictions = gettext_noop("none known; cases must not describe real patients")

TEXTS = ("persona", "condition", "encounter_reason", "encounter_objective")


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless an early record has a `persona` and an `encounter_reason`."""
    if first_byte(path) == b"[":
        raise WrongFormat("It is a JSON array; MedMistake cases have one JSON object on each line.")
    problem = ""
    for number, value in json_lines(path, SNIFF_LIMIT):
        if isinstance(value, Malformed):
            problem = problem or f"Line {number}: {value}"
        elif isinstance(value, dict) and {"persona", "encounter_reason"} <= value.keys():
            return Layout("jsonl")
    raise WrongFormat(problem or "Its first lines have no 'persona' and 'encounter_reason'.")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each case.

    Row.content: {kind: 'case', persona, condition, goals: [str], encounter_reason,
    encounter_objective, specialty: str ('' for any)}.
    """
    if layout.name != "jsonl":
        raise WrongFormat(f"There is no layout {layout.name!r} of MedMistake cases.")
    return (_row(value, f"line {number}") for number, value in json_lines(path))


def _row(value: Any, where: str) -> Row | Refusal:
    try:
        if isinstance(value, Malformed):
            raise value
        if not isinstance(value, dict):
            raise Malformed("The line is not a JSON object.")
        goals = text_list(value, "goals")
        if not any(goal.strip() for goal in goals):
            raise Malformed("'goals' is missing: say what the patient wants of the visit.")
        texts = {key: required_text(value, key) for key in TEXTS}
        specialty = value.get("specialty", "")
        if not isinstance(specialty, str):
            raise Malformed("'specialty' is not a text.")
        row = Row(
            external_id=required_id(value, "id"),
            title=one_line(texts["encounter_reason"]),
            **language_fields(f"{texts['persona']}\n{texts['condition']}\n{texts['encounter_reason']}"),
            content={
                "kind": "case",
                **texts,
                "goals": [goal for goal in goals if goal.strip()],
                "specialty": specialty.strip(),
            },
            private={},
            where=where,
            facets={"specialty": specialty.strip()} if specialty.strip() else {},
        )
        check_storable([row.external_id, row.content])
    except Malformed as error:
        return Refusal(where, str(error))
    return row
