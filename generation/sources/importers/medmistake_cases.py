"""Cases for MedMistake's conversations, in a format of our own.

One patient a line, with the persona and the goals of a visit to a doctor.
"""

from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    gettext_noop,
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


def _row(record: dict[str, Any], _split: str) -> Row:
    """Row.content: {kind: 'case', persona, condition, goals: [str], encounter_reason,
    encounter_objective, specialty: str ('' for any)}.
    """
    goals = [goal for goal in text_list(record, "goals") if goal.strip()]
    if not goals:
        raise Malformed("'goals' is missing: say what the patient wants of the visit.")
    texts = {key: required_text(record, key) for key in TEXTS}
    specialty = record.get("specialty", "")
    if not isinstance(specialty, str):
        raise Malformed("'specialty' is not a text.")
    return Row(
        external_id=required_id(record, "id"),
        title=one_line(texts["encounter_reason"]),
        **language_fields(f"{texts['persona']}\n{texts['condition']}\n{texts['encounter_reason']}"),
        content={"kind": "case", **texts, "goals": goals, "specialty": specialty.strip()},
        facets={"specialty": specialty.strip()} if specialty.strip() else {},
    )


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(("persona", "encounter_reason")))
sniff, rows = FORMAT.sniff, FORMAT.rows
