"""Augmented clinical notes: a note, and a model's extractions from it as JSON within the JSON."""

import json
from collections.abc import Mapping
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    checked_id,
    gettext_noop,
    one_line,
    required_text,
)
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


def _row(record: dict[str, Any], split: str) -> Row:
    """Row.content: {kind: 'note', dataset: 'acn', text, extractions, split}.

    extractions: [{category, concept, value, reference}], where `reference` is the name of the list
    element that the value belongs to (a symptom, a drug), or ''.
    """
    split = split or "train"
    text = tabular.optional_text(record, "full_note") or required_text(record, "note").strip()
    external_id = tabular.optional_text(record, "idx")
    if not external_id:
        raise Malformed("'idx' is blank.")
    found_extractions = extractions(_summary(record.get("summary")))
    if not found_extractions:
        raise Malformed("'summary' has no extraction.")
    return Row(
        external_id=checked_id(external_id),
        title=one_line(text),
        language="en",
        content={"kind": "note", "dataset": name, "text": text, "extractions": found_extractions, "split": split},
        facets={"split": split},
        values=tuple(dict.fromkeys((name_of(extraction), extraction["value"]) for extraction in found_extractions)),
    )


def name_of(extraction: Mapping[str, str]) -> str:
    """Name (category and concept) under which another note can draw a value."""
    return f"{extraction['category']}/{extraction['concept']}"


def _summary(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json_nesting.loads(value)
        except json_nesting.TooDeep:
            raise Malformed("'summary' is nested too deeply.") from None
        except (json.JSONDecodeError, ValueError):
            raise Malformed("'summary' is not JSON.") from None
    if not isinstance(value, Mapping):
        raise Malformed("'summary' is not a JSON object.")
    return value


def extractions(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Flatten a summary into {category, concept, value, reference}, one for each value.

    Empty values ('None') are left out. Raises Malformed beyond MAX_VALUES.
    """
    result: list[dict[str, str]] = []

    def add(category: str, concept: str, text: str, reference: str) -> None:
        if text:
            result.append({"category": category, "concept": concept, "value": text, "reference": reference})
            if len(result) > MAX_VALUES:
                raise Malformed(f"'summary' has more than {MAX_VALUES} values.")

    for category, values in summary.items():
        match values:
            case Mapping():
                for concept, value in values.items():
                    add(category, concept, _text(value), "")
            case list():
                for element in values:
                    if not isinstance(element, Mapping):
                        add(category, category, _text(element), "")
                        continue
                    texts = [(concept, text) for concept, value in element.items() if (text := _text(value))]
                    for concept, text in texts:
                        add(category, concept, text, "" if concept == texts[0][0] else texts[0][1])
            case _:
                add(category, category, _text(values), "")
    return result


def _text(value: Any) -> str:
    """A value as text on one line; '' for an empty or nested value."""
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return ""
        value = str(value)
    text = " ".join(value.split())
    return "" if text.casefold().strip(".") in _NO_VALUE else text


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(("idx", "summary")))
sniff, rows = FORMAT.sniff, FORMAT.rows
