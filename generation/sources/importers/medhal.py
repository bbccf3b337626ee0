"""MedHal as its authors publish it: one statement a row, factual or not.

The full, length-filtered (LF) and balanced (LF-BAL) configurations have the same columns and share
rows, so any of them can be imported into one source. The published rows call the clinical notes
`acm`; here they are `acn`.
"""

from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    PARQUET_FILE,
    Malformed,
    Row,
    checked_id,
    digest_of,
    gettext_noop,
    one_line,
    required_text,
)

name = "medhal"
label = "MedHal"
licence = "Apache-2.0"
citation = (
    "Mehenni G, Lamarche F, Rios-Ibacache O, Kildea J, Zouaq A. MedHal: An Evaluation Dataset for Medical Hallucination"
    " Detection (2025)."
)
restrictions = gettext_noop(
    "half of the statements are wrong on purpose; part of them quote MedNLI (credentialed) and PMC-Patients (non-commercial)"
)
containers = (PARQUET_FILE,)

FACTUAL, NON_FACTUAL = "factual", "non-factual"
TASKS = {
    "acm": "ie",
    "acn": "ie",
    "medmcqa": "qa",
    "medqa": "qa",
    "mednli": "nli",
    "sumpubmed": "summarization",
}
_RENAMED = {"acm": "acn"}
_REQUIRED_COLUMNS = ("statement", "label", "source")
_COLUMNS = ("id", "context", *_REQUIRED_COLUMNS, "explanation", "inner_id", "synthetic", "split")


def _row(record: dict[str, Any], split: str) -> Row:
    """Of a statement.

    Row.content: {kind: 'statement', statement, context, label: 'factual' | 'non-factual',
    explanation, task: 'qa' | 'ie' | 'nli' | 'summarization', source, pair: '', inner_id, split,
    synthetic: bool}.
    """
    statement = required_text(record, "statement")
    published_source = required_text(record, "source").strip().casefold()
    if published_source not in TASKS:
        raise Malformed(f"'source' is not one of {', '.join(sorted(TASKS))}.")
    source = _RENAMED.get(published_source, published_source)
    content: dict[str, Any] = {
        "kind": "statement",
        "statement": statement.strip(),
        "context": tabular.optional_text(record, "context"),
        "label": FACTUAL if tabular.yes_or_no(record, "label") else NON_FACTUAL,
        "explanation": tabular.optional_text(record, "explanation"),
        "task": TASKS[published_source],
        "source": source,
        "pair": "",
        "inner_id": tabular.optional_text(record, "inner_id"),
        "split": tabular.optional_text(record, "split") or split,
        "synthetic": tabular.yes_or_no(record, "synthetic")
        if record.get("synthetic") not in (None, "")
        else source == "acn",
    }
    external_id = tabular.optional_text(record, "id")
    if not external_id:
        identifying = (source, content["inner_id"], content["label"], content["statement"], content["context"])
        external_id = digest_of("\n".join(identifying))[:24]
    return Row(
        external_id=checked_id(external_id),
        title=one_line(statement),
        language="en",  # the only one; detection would take longer than all the rest
        content=content,
        facets={"source": source, "label": content["label"], "split": content["split"] or "unknown"},
    )


FORMAT = tabular.RecordFormat(
    label,
    _row,
    tabular.missing_of(_REQUIRED_COLUMNS),
    tabular.identity("jsonl", "csv", "parquet"),
    _COLUMNS.__contains__,
)
sniff, rows = FORMAT.sniff, FORMAT.rows
