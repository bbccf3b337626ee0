"""Hallucinations-MIMIC-DI: discharge instructions with annotations of unsupported facts.

Annotators marked what the hospital course does not support. Credentialed (PhysioNet). One JSON
object a line: `text` (the hospital course), `summary`, and `labels`, a list of marked places, each
of one of eleven kinds. A summary with any of them is not factual. The file is read as statements of
MedHal.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from generation.sources.importers import mednli, tabular
from generation.sources.importers.base import (
    Layout,
    Malformed,
    Refusal,
    Row,
    checked_id,
    digest_of,
    one_line,
    required_text,
)

name = "mimic-di"
label = "Hallucinations-MIMIC-DI"
licence = "PhysioNet Credentialed Health Data License 1.5.0"
citation = (
    "Hegselmann S, Shen SZ, Gierse F, Agrawal M, Sontag D, Jiang X. Medical Expert Annotations of Unsupported Facts in"
    " Doctor-Written and LLM-Generated Patient Summaries. PhysioNet (2024)."
)
restrictions = mednli.restrictions
withheld = True

KINDS = {
    "condition_unsupported": "unsupported condition",
    "procedure_unsupported": "unsupported procedure",
    "medication_unsupported": "unsupported medication",
    "time_unsupported": "unsupported time",
    "location_unsupported": "unsupported location",
    "number_unsupported": "unsupported number",
    "name_unsupported": "unsupported name",
    "word_unsupported": "unsupported word",
    "other_unsupported": "other unsupported fact",
    "contradicted_fact": "contradicted fact",
    "incorrect_fact": "incorrect fact",
}
_MAX_MARKS = 1000  # marked places of a summary


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: a statement as in `medhal`, from source 'mimic-di'."""
    return replace(FORMAT, read=partial(_row, stem=path.stem)).rows(path, layout)


def _row(record: dict[str, Any], _split: str, *, stem: str = "") -> Row:
    context, summary = required_text(record, "text").strip(), required_text(record, "summary").strip()
    marks = record["labels"]
    if not isinstance(marks, list) or len(marks) > _MAX_MARKS:
        raise Malformed(f"'labels' is not a list of at most {_MAX_MARKS} marked places.")
    kinds = [_kind(mark) for mark in marks]
    explanation = "; ".join(f"{KINDS[kind]}: {_marked_text(mark)}" for kind, mark in zip(kinds, marks, strict=True))
    is_factual = not kinds
    content = {
        "kind": "statement",
        "statement": summary,
        "context": context,
        "label": "factual" if is_factual else "non-factual",
        "explanation": explanation,
        "task": "mimic-di",
        "source": "mimic-di",
        "pair": "",
        "inner_id": "",
        "split": "test",
        "synthetic": False,
        "kinds": sorted(set(kinds)),
    }
    return Row(
        external_id=checked_id(digest_of(f"{stem}\n{context}\n{summary}")[:24]),
        title=one_line(summary),
        language="en",
        content=content,
        facets={"label": str(content["label"]), "split": "test"},
    )


def _kind(mark: Any) -> str:
    kind = mark.get("label") if isinstance(mark, dict) else None
    if kind not in KINDS:
        raise Malformed(f"A label is not one of the eleven kinds: {', '.join(KINDS)}.")
    return str(kind)


def _marked_text(mark: dict[str, Any]) -> str:
    text = mark.get("text")
    return " ".join(text.split()) if isinstance(text, str) else "?"


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(("text", "summary", "labels")))
sniff = FORMAT.sniff
