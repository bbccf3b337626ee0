"""Cases for MedMistake's conversations, in a format of our own.

One patient a line, with the persona and the goals of a visit to a doctor.
"""

from generation.sources.importers.base import Malformed, Row, gettext_noop, language_fields
from generation.sources.importers.records import FileRecord, Id, Stripped, Texts, Verbatim
from generation.sources.importers.tabular import File, RecordFormat

name = "medmistake-cases"
label = "MedMistake-cases"
licence = gettext_noop("as the file's authors say")
citation = (
    "Cases in the layout of MHB, after Proniakin O, Fajardo D, Nazarenko R, Marinescu R. arXiv:2512.20983 (2025)."
)
restrictions = gettext_noop("none known; cases must not describe real patients")


class _Case(FileRecord):
    id: Id
    persona: Verbatim
    condition: Verbatim
    encounter_reason: Verbatim
    encounter_objective: Verbatim
    goals: Texts
    specialty: Stripped = ""


def _row(record: _Case, _file: File) -> Row:
    """Row.content: {kind: 'case', persona, condition, goals: [str], encounter_reason,
    encounter_objective, specialty: str ('' for any)}.
    """
    content = record.model_dump(exclude={"id"}) | {"goals": [goal for goal in record.goals if goal.strip()]}
    if not content["goals"]:
        raise Malformed("'goals' is missing: say what the patient wants of the visit.")
    facets = {}
    if record.specialty:
        facets = {"specialty": record.specialty}
    return Row(
        external_id=record.id,
        title=record.encounter_reason,
        **language_fields(f"{record.persona}\n{record.condition}\n{record.encounter_reason}"),
        content={"kind": "case", **content},
        facets=facets,
    )


FORMAT = RecordFormat(label, _Case, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
