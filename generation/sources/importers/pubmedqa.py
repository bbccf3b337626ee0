"""PubMedQA: questions about PubMed abstracts, with a long answer and yes, no or maybe.

Each has the abstract without its conclusion, and the conclusion as the answer. Two layouts of the
same data: the authors' JSON object keyed by PMID, and the Hugging Face rows (JSON Lines or Parquet)
with the abstract's parts in a struct. Only the labelled set (PQA-L) has predictions; neither layout
has another sign of a record's split.
"""

from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    PARQUET_FILE,
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    checked_id,
    first_byte,
    gettext_noop,
    language_fields,
    one_line,
    required_text,
    text_list,
)
from generation.sources.importers.json_files import object_items
from generation.sources.importers.tables import is_parquet

name = "pubmedqa"
label = "PubMedQA"
licence = "MIT"
citation = (
    "Jin Q, Dhingra B, Liu Z, Cohen WW, Lu X. PubMedQA: A Dataset for Biomedical Research Question Answering."
    " EMNLP-IJCNLP 2019: 2567-2577."
)
restrictions = gettext_noop("abstracts of PubMed: the rights of authors and publishers stand beside the licence")
containers = (PARQUET_FILE,)

DECISIONS = ("yes", "no", "maybe")

_OBJECT_KEYS = ("QUESTION", "CONTEXTS", "LONG_ANSWER")
_TABLE_COLUMNS = ("pubid", "question", "context", "long_answer")
_PREDICTION_KEYS = ("reasoning_required_pred", "reasoning_free_pred")


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless one of the first records has the columns of a layout."""
    # Checked first: the whole object may be on one line.
    if not is_parquet(path) and first_byte(path) == b"{" and _is_object(path):
        return Layout("json-object")
    return FORMAT.sniff(path)


def _is_object(path: Path) -> bool:
    first = islice(object_items(path), SNIFF_LIMIT)
    # Several objects, one on each line, are one that breaks off.
    return any(isinstance(value, dict) and value.keys() >= {*_OBJECT_KEYS} for _where, _key, value in first)


def _missing(columns: Collection[str]) -> str:
    missing = tabular.missing_of(_TABLE_COLUMNS)(columns)
    return f"{missing} of a row of the hub (or {', '.join(map(repr, _OBJECT_KEYS))} by PMID)" if missing else ""


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each question."""
    return _object_rows(path) if layout.name == "json-object" else FORMAT.rows(path, layout)


def _object_rows(path: Path) -> Iterator[Row | Refusal]:
    for where, key, value in object_items(path):
        is_pmid = key.isascii() and key.isdecimal() and len(key) < 20
        place = f"{where} (PMID {key})" if is_pmid else where
        yield tabular.read_or_refused(value, place, "", partial(_row, pmid=key))


def _row(record: dict[str, Any], _split: str, *, pmid: str | None = None) -> Row:
    """Of a question: of the authors' object if a `pmid` is given, else of the hub's table.

    Row.content: {kind: 'qa', question, contexts: [str], sections: [str], answer, decision: 'yes' |
    'no' | 'maybe' | '', pmid, year: str, mesh: [str], split: 'labelled' | 'artificial' | ''}.

    There are as many sections as contexts, or none.
    """
    # Where the two layouts have what: the object's keys in capitals, the table's parts in a struct.
    context, case = (record, str.upper) if pmid is not None else (_struct(record), str.lower)
    question = required_text(record, case("question"))
    content: dict[str, Any] = {
        "kind": "qa",
        "question": question,
        "contexts": text_list(context, case("contexts")),
        "sections": text_list(context, case("labels")),
        "answer": required_text(record, case("long_answer")),
        "decision": _decision(record),
        "pmid": _pmid(record) if pmid is None else pmid.strip(),
        "year": _year(context.get(case("year"))),
        "mesh": list(dict.fromkeys(name.strip() for name in text_list(context, case("meshes")) if name.strip())),
        "split": _split_of(record, context),
    }
    if not (content["pmid"].isascii() and content["pmid"].isdecimal()):
        raise Malformed("Its id is not a PMID.")
    if not any(text.strip() for text in content["contexts"]):
        raise Malformed("It has no context.")
    if content["sections"] and len(content["sections"]) != len(content["contexts"]):
        raise Malformed("It does not have as many sections as contexts.")
    return Row(
        external_id=checked_id(content["pmid"]),
        title=one_line(question),
        **language_fields("\n".join((question, content["answer"], *content["contexts"]))),
        content=content,
        match=question,
        references={"mesh": tuple(content["mesh"])} if content["mesh"] else {},
        facets={key: content[key] for key in ("decision", "split") if content[key]},
    )


def _struct(record: dict[str, Any]) -> dict[str, Any]:
    context = record.get("context")
    if not isinstance(context, dict):
        raise Malformed("'context' is not an object." if "context" in record else "'context' is missing.")
    return context


def _pmid(record: dict[str, Any]) -> str:
    pmid = record.get("pubid")
    if isinstance(pmid, bool) or not isinstance(pmid, int | str):
        raise Malformed("'pubid' is neither a number nor a text." if "pubid" in record else "'pubid' is missing.")
    return str(pmid).strip()


def _decision(value: dict[str, Any]) -> str:
    decision = value.get("final_decision")
    if decision is None or decision == "":
        return ""
    if decision not in DECISIONS:
        raise Malformed("'final_decision' is not one of yes, no, maybe.")
    return str(decision)


def _year(year: Any) -> str:
    if year is None or year == "":
        return ""
    if isinstance(year, bool) or not isinstance(year, int | str) or not (str(year).isdecimal() and len(str(year)) == 4):
        raise Malformed("The year is not valid.")
    return str(year)


def _split_of(decided: dict[str, Any], predicted: dict[str, Any]) -> str:
    """The split: PQA-L has predictions, PQA-A decisions without them, PQA-U neither."""
    if any(predicted.get(key) for key in _PREDICTION_KEYS):
        return "labelled"
    return "artificial" if decided.get("final_decision") else ""


FORMAT = tabular.RecordFormat(
    label,
    _row,
    _missing,
    tabular.identity(tabular.JSONL, tabular.PARQUET),
    wanted={*_TABLE_COLUMNS, "final_decision"}.__contains__,
)
