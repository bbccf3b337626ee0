"""PMC-Patients: patient summaries from case reports, as CSV (V1) or as one JSON array (V2).

Columns are found by name, in any order; others are ignored. The relations (`relevant_articles`,
`similar_patients`) are not read, because nothing here needs them. So it does not matter that V1 has
them as Python literals, and that published versions differ between a list of ids and a dict of
grades.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from generation.sources.importers.base import Row, gettext_noop, id_text, language_fields
from generation.sources.importers.records import ChoosingRecord, Id, OptionalText, Verbatim, column, told
from generation.sources.importers.tabular import ARRAY, CSV, File, RecordFormat
from review.rules import json_nesting

name = "pmc-patients"
label = "PMC-Patients"
licence = "CC BY-NC-SA 4.0"
citation = (
    "Zhao Z, Jin Q, Chen F, Peng T, Yu S. A large-scale dataset of patient summaries for retrieval-based clinical"
    " decision support systems. Scientific Data 10, 909 (2023)."
)
restrictions = gettext_noop("non-commercial, share-alike")


_AGE_UNITS = frozenset({"year", "month", "week", "day", "hour"})
_MAX_LITERAL = 1000  # characters; an age has about twenty


def _age(value: Any) -> list[list[Any]]:
    """[[number, unit], ...]; several pairs add up (2 years and 3 months). Raises ValueError."""
    wrong = ValueError("is not a list of [number, unit]")
    if isinstance(value, str):
        if len(value) > _MAX_LITERAL:
            raise ValueError(f"is longer than {_MAX_LITERAL} characters")
        try:  # V1 writes a list of Python
            value = json_nesting.loads(told(value).replace("'", '"') or "[]")
        except ValueError:
            raise wrong from None
    if not isinstance(value, list):
        raise wrong
    age = []
    for part in value:
        if not isinstance(part, list) or len(part) != 2:
            raise wrong
        number, unit = part
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 1_000_000:
            raise ValueError("contains a number that is not an age")
        if not isinstance(unit, str) or unit not in _AGE_UNITS:
            raise ValueError(f"contains a unit that is not one of {', '.join(sorted(_AGE_UNITS))}")
        age.append([float(number), unit])
    return age


class _Patient(ChoosingRecord):
    patient: Verbatim
    uid: Id = column("patient_uid", "patient_id")
    title: OptionalText = ""
    age: Annotated[Any, BeforeValidator(_age)] = []
    gender: Annotated[Literal["M", "F", ""], BeforeValidator(told)] = ""
    pmid: Annotated[OptionalText, AfterValidator(id_text)] = column("PMID", default="")


def _row(record: _Patient, _file: File) -> Row:
    """Of a report.

    Row.content: {kind: 'report', text: str, title: str, age: [[number, unit]], gender: 'M' | 'F' |
    '', pmid: str}.
    """
    text = record.patient
    content = {"kind": "report", "text": text, **record.model_dump(exclude={"patient", "uid"})}
    shares = []
    if record.pmid:
        shares = [("document", record.pmid)]
    return Row(record.uid, record.title or text, **language_fields(text), content=content, shares=shares)


FORMAT = RecordFormat(label, _Patient, _row, {"json-v2": ARRAY, "csv-v1": CSV})
sniff, rows = FORMAT.sniff, FORMAT.rows
