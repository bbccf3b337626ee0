"""Hallucinations-MIMIC-DI: discharge instructions with annotations of unsupported facts.

Annotators marked what the hospital course does not support. Credentialed (PhysioNet). One JSON
object a line: `text` (the hospital course), `summary`, and `labels`, a list of marked places, each
of one of eleven kinds. A summary with any of them is not factual. The file is read as statements of
MedHal.
"""

from typing import Annotated, Any

from pydantic import Field

from generation.sources.importers import mednli
from generation.sources.importers.base import Row, digest_of
from generation.sources.importers.records import FileRecord, Text, one_of
from generation.sources.importers.tabular import File, RecordFormat, statement_content

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


class _Mark(FileRecord):
    label: Annotated[str, one_of(*KINDS)]
    text: Any = None

    def __str__(self) -> str:
        text = "?"
        if isinstance(self.text, str):
            text = " ".join(self.text.split())
        return f"{KINDS[self.label]}: {text}"


class _Summary(FileRecord):
    text: Text
    summary: Text
    labels: list[_Mark] = Field(title="marked place", max_length=1000)


def _row(record: _Summary, file: File) -> Row:
    """Row.content: as in `statement_content`, with kinds: the kinds of marked places."""
    content = statement_content(
        record.summary,
        record.text,
        factual=not record.labels,
        task="mimic-di",
        explanation="; ".join(map(str, record.labels)),
        kinds=sorted({mark.label for mark in record.labels}),
    )
    return Row(
        external_id=digest_of(f"{file.stem}\n{record.text}\n{record.summary}")[:24],
        title=record.summary,
        language="en",
        content=content,
        shares=[("document", record.text)],
        facets={"label": content["label"], "split": "test"},
    )


FORMAT = RecordFormat(label, _Summary, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
