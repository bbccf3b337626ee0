"""MedHal as its authors publish it: one statement a row, factual or not.

The full, length-filtered (LF) and balanced (LF-BAL) configurations have the same columns and share
rows, so any of them can be imported into one source. The published rows call the clinical notes
`acm`; here they are `acn`.
"""

from typing import Annotated

from pydantic import BeforeValidator

from generation.sources.importers.base import PARQUET_FILE, Row, digest_of, gettext_noop
from generation.sources.importers.records import FileRecord, OptionalText, Text, YesOrNo, one_of
from generation.sources.importers.tabular import File, RecordFormat, identity, statement_content
from review.rules.text_files import yes_or_no

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


TASKS = {
    "acm": "ie",
    "acn": "ie",
    "medmcqa": "qa",
    "medqa": "qa",
    "mednli": "nli",
    "sumpubmed": "summarization",
}


class _Statement(FileRecord):
    statement: Text
    label: YesOrNo
    source: Annotated[Text, one_of(*sorted(TASKS))]
    id: OptionalText = ""
    context: OptionalText = ""
    explanation: OptionalText = ""
    inner_id: OptionalText = ""
    synthetic: Annotated[bool | None, BeforeValidator(yes_or_no)] = None
    split: OptionalText = ""


def _row(record: _Statement, file: File) -> Row:
    """Row.content: as in `statement_content`, with task: 'qa' | 'ie' | 'nli' | 'summarization'."""
    if record.source == "acm":
        source = "acn"
    else:
        source = record.source
    synthetic = record.synthetic
    if synthetic is None:
        synthetic = source == "acn"
    content = statement_content(
        record.statement,
        record.context,
        factual=record.label,
        explanation=record.explanation,
        task=TASKS[source],
        source=source,
        inner_id=record.inner_id,
        split=record.split or file.split,
        synthetic=synthetic,
    )
    identifying = (source, record.inner_id, content["label"], record.statement, record.context)
    shares = []
    if record.context:
        shares = [("document", record.context)]
    return Row(
        external_id=record.id or digest_of("\n".join(identifying))[:24],
        title=record.statement,
        language="en",  # the only one; detection would take longer than all the rest
        content=content,
        shares=shares,
        facets={"source": source, "label": content["label"], "split": content["split"] or "unknown"},
    )


FORMAT = RecordFormat(label, _Statement, _row, identity("jsonl", "csv", "parquet"))
sniff, rows = FORMAT.sniff, FORMAT.rows
