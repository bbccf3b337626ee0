"""Made-up rows in the shapes of published data sets, and the files that contain them."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

QUESTION = "Does the made-up drug lower the made-up pressure?"
CONTEXTS = ["The pressure is a problem in the made-up.", "We gave the drug to 20 of them, and that's all."]
ANSWER = "The made-up drug lowers the made-up pressure in adults."


def entry(**changes: Any) -> dict[str, Any]:
    """A record of PubMedQA's original file, where the PMID is its key."""
    return {
        "QUESTION": QUESTION,
        "CONTEXTS": CONTEXTS,
        "LABELS": ["BACKGROUND", "METHODS"],
        "MESHES": ["Adult", "Madeupitis", "Adult"],
        "YEAR": "2011",
        "reasoning_required_pred": "yes",
        "reasoning_free_pred": "no",
        "final_decision": "yes",
        "LONG_ANSWER": ANSWER,
    } | changes


def hub(pmid: Any = 12345678, /, context: Any = None, **changes: Any) -> dict[str, Any]:
    """The same record as the Hugging Face hub publishes it."""
    return {
        "pubid": pmid,
        "question": QUESTION,
        "context": {
            "contexts": CONTEXTS,
            "labels": ["BACKGROUND", "METHODS"],
            "meshes": ["Adult", "Madeupitis", "Adult"],
            "reasoning_required_pred": ["y", "e", "s"],
            "reasoning_free_pred": ["n", "o"],
        }
        | (context or {}),
        "long_answer": ANSWER,
        "final_decision": "yes",
    } | changes


def pair(**changes: Any) -> dict[str, Any]:
    """A row of MedHallu; '_' in a keyword stands for the space in the column's name."""
    row = {
        "Question": QUESTION,
        "Knowledge": CONTEXTS,
        "Ground_Truth": ANSWER,
        "Difficulty_Level": "hard",
        "Hallucinated_Answer": "The made-up drug lowers the made-up pressure only in children.",
        "Category_of_Hallucination": "Misinterpretation of #Question#",
    } | changes
    return {name.replace("_", " "): value for name, value in row.items()}


def descriptor(number: int = 1, name: str = "Madeupitis", *trees: str) -> str:
    """A MeSH descriptor in XML, which also refers to another descriptor."""
    numbers = "".join(f"<TreeNumber>{tree}</TreeNumber>" for tree in trees or ("C14.280",))
    return f"""<DescriptorRecord DescriptorClass="1">
  <DescriptorUI>D{number:06}</DescriptorUI>
  <DescriptorName><String>{name}</String></DescriptorName>
  <SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo><DescriptorUI>D999999</DescriptorUI>
    <DescriptorName><String>Something else</String></DescriptorName></DescriptorReferredTo>
  </SeeRelatedDescriptor></SeeRelatedList>
  <TreeNumberList>{numbers}</TreeNumberList>
  <ConceptList><Concept><ConceptName><String>Another word</String></ConceptName></Concept></ConceptList>
</DescriptorRecord>
"""


def vocabulary(*descriptors: str, head: str = "", language: str = "eng") -> bytes:
    """A MeSH file of these descriptors; `head` replaces its document type declaration."""
    doctype = head or '<!DOCTYPE DescriptorRecordSet SYSTEM "https://dtd.example/descriptors.dtd">'
    rows = "".join(descriptors)
    return f"""<?xml version="1.0"?>
{doctype}
<DescriptorRecordSet LanguageCode="{language}">
{rows}</DescriptorRecordSet>
""".encode()


def keyed(*records: Any, first: int = 12345678) -> bytes:
    """A JSON object of records by PMID."""
    return json.dumps({str(first + n): record for n, record in enumerate(records)}).encode()


def jsonl(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def array(*records: Any) -> bytes:
    return json.dumps(records).encode()


def table(*records: dict[str, Any], columns: list[str] | None = None, **options: Any) -> bytes:
    """A CSV file; lists are written as Python literals."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns or list(records[0]), **options)
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue().encode()


def parquet(*records: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(records)), file)
    return file.getvalue()
