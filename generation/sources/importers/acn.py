"""Augmented clinical notes: a note, and a model's extractions from it as JSON within the JSON."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from generation.sources.importers.base import Malformed, Row, gettext_noop
from generation.sources.importers.records import FileRecord, Id, OptionalText
from generation.sources.importers.tabular import File, RecordFormat
from review.rules import json_nesting

name = "acn"
label = "Augmented-Clinical-Notes"
licence = "MIT, CC BY-NC-SA 4.0"
citation = (
    "Bonnet A, Boulenger P. MedNote: Augmented Clinical Notes (2024)."
    " https://huggingface.co/datasets/AGBonnet/augmented-clinical-notes"
)
restrictions = gettext_noop(
    "non-commercial, share-alike, as the notes are from PMC-Patients; the extractions are by a model"
)


MAX_VALUES = 400  # extractions of a note; published notes have dozens
_NO_VALUE = frozenset({"", "none", "null", "n/a", "nan"})


def _summary(value: Any) -> Mapping[str, Any]:
    try:
        summary = value
        if isinstance(value, str):
            summary = json_nesting.loads(value)
    except json_nesting.TooDeep:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    if not isinstance(summary, Mapping):
        raise ValueError("is not a JSON object")
    return summary


class _Note(FileRecord):
    idx: Id
    full_note: OptionalText = ""
    note: Any = None
    summary: Annotated[Any, BeforeValidator(_summary)]


def _row(record: _Note, file: File) -> Row:
    """Row.content: {kind: 'note', dataset: 'acn', text, extractions, split}.

    extractions: [{category, concept, value, reference}], where `reference` is the name of the list
    element that the value belongs to (a symptom, a drug), or ''.
    """
    split = file.split or "train"
    text = record.full_note
    if not text and isinstance(record.note, str):
        text = record.note.strip()
    if not text:
        raise Malformed("'note' is blank.")
    found = extractions(record.summary)
    if not found:
        raise Malformed("'summary' has no extraction.")
    return Row(
        external_id=record.idx,
        title=text,
        language="en",
        content={"kind": "note", "dataset": name, "text": text, "extractions": found, "split": split},
        facets={"split": split},
        values=tuple(dict.fromkeys((name_of(extraction), extraction["value"]) for extraction in found)),
    )


def name_of(extraction: Mapping[str, str]) -> str:
    """Name (category and concept) under which another note can draw a value."""
    return f"{extraction['category']}/{extraction['concept']}"


def extractions(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Flatten a summary into {category, concept, value, reference}, one for each value.

    Empty values ('None') are left out. Raises Malformed beyond MAX_VALUES.
    """
    found = []
    for category, values in summary.items():
        for concept, text, reference in _values(category, values):
            if text:
                found.append({"category": category, "concept": concept, "value": text, "reference": reference})
    if len(found) > MAX_VALUES:
        raise Malformed(f"'summary' has more than {MAX_VALUES} values.")
    return found


def _values(category: str, values: Any) -> Iterator[tuple[str, str, str]]:
    """(concept, text, reference) of a category: one value, an object of them, or a list of both."""
    elements = values
    if not isinstance(values, list):
        elements = [values]
    for element in elements:
        if not isinstance(element, Mapping):
            yield category, _text(element), ""
            continue
        reference = ""
        for concept, value in element.items():
            text = _text(value)
            if not text:
                continue
            yield concept, text, reference
            if isinstance(values, list) and not reference:
                reference = text


def _text(value: Any) -> str:
    """A value as text on one line; '' for an empty or nested value."""
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return ""
        value = str(value)
    text = " ".join(value.split())
    if text.casefold().strip(".") in _NO_VALUE:
        return ""
    return text


FORMAT = RecordFormat(label, _Note, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
