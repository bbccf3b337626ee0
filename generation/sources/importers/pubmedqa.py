"""PubMedQA: questions about PubMed abstracts, with a long answer and yes, no or maybe.

Each has the abstract without its conclusion, and the conclusion as the answer. Two layouts of the
same data: the authors' JSON object keyed by PMID, and the Hugging Face rows (JSON Lines or Parquet)
with the abstract's parts in a struct. Only the labelled set (PQA-L) has predictions; neither layout
has another sign of a record's split.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    PARQUET_FILE,
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    check_storable,
    checked_id,
    first_byte,
    gettext_noop,
    json_lines,
    language_fields,
    one_line,
    required_text,
    text_list,
)
from generation.sources.importers.json_files import object_items
from generation.sources.importers.tables import is_parquet, parquet_columns, parquet_records

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

_OBJECT_KEYS = frozenset({"QUESTION", "CONTEXTS", "LONG_ANSWER"})
_TABLE_COLUMNS = frozenset({"pubid", "question", "context", "long_answer"})
_PREDICTION_KEYS = ("reasoning_required_pred", "reasoning_free_pred")


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless one of the first records has the columns of a layout."""
    if is_parquet(path):
        if missing := _TABLE_COLUMNS - set(parquet_columns(path)):
            raise WrongFormat(f"It is a Parquet file without the columns {_quoted_list(missing)}.")
        return Layout("parquet")
    match first_byte(path):
        case b"[":
            raise WrongFormat("It is a JSON array; PubMedQA is one JSON object by PMID, JSON Lines or Parquet.")
        case b"{":
            pass
        case _:
            raise WrongFormat("It is neither JSON nor Parquet.")
    if _is_object(path):  # checked first: the whole object may be on one line
        return Layout("json-object")
    problem = ""
    for number, value in json_lines(path, SNIFF_LIMIT):
        if isinstance(value, dict) and value.keys() >= _TABLE_COLUMNS:
            return Layout("jsonl")
        if isinstance(value, Malformed):
            problem = problem or f" Line {number}: {value}"
    raise WrongFormat(
        f"Its first records have neither {_quoted_list(_OBJECT_KEYS)} nor {_quoted_list(_TABLE_COLUMNS)}.{problem}"
    )


def _is_object(path: Path) -> bool:
    first = islice(object_items(path), SNIFF_LIMIT)
    # Several objects, one on each line, are one that breaks off.
    return any(isinstance(value, dict) and value.keys() >= _OBJECT_KEYS for _where, _key, value in first)


def _quoted_list(columns: frozenset[str] | set[str]) -> str:
    return ", ".join(f"'{column}'" for column in sorted(columns))


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each question.

    Row.content: {kind: 'qa', question, contexts: [str], sections: [str], answer, decision: 'yes' |
    'no' | 'maybe' | '', pmid, year: str, mesh: [str], split: 'labelled' | 'artificial' | ''};
    Row.private is empty.

    There are as many sections as contexts, or none.
    """
    match layout.name:
        case "json-object":
            return _object_rows(path)
        case "jsonl":
            return (_row(_from_table, value, f"line {number}") for number, value in json_lines(path))
        case "parquet":
            columns = _TABLE_COLUMNS | {"final_decision"}
            return (_row(_from_table, value, where) for where, value in parquet_records(path, columns.__contains__))
    raise WrongFormat(f"There is no layout {layout.name!r} of PubMedQA.")


def _object_rows(path: Path) -> Iterator[Row | Refusal]:
    for where, key, value in object_items(path):
        is_pmid = key.isascii() and key.isdecimal() and len(key) < 20
        yield _row(_from_object, (key, value), f"{where} (PMID {key})" if is_pmid else where)


def _from_object(entry: tuple[str, Any]) -> dict[str, Any]:
    """Row.content from an entry of the authors' object, not yet checked as a whole.

    Raises Malformed.
    """
    pmid, value = entry
    if isinstance(value, Malformed):
        raise value
    if not isinstance(value, dict):
        raise Malformed("The record is not an object.")
    return {
        "kind": "qa",
        "question": required_text(value, "QUESTION"),
        "contexts": text_list(value, "CONTEXTS"),
        "sections": text_list(value, "LABELS"),
        "answer": required_text(value, "LONG_ANSWER"),
        "decision": _decision(value),
        "pmid": pmid,
        "year": _year(value.get("YEAR")),
        "mesh": text_list(value, "MESHES"),
        "split": _split(value, value),
    }


def _from_table(value: Any) -> dict[str, Any]:
    """Row.content from a row of the Hugging Face table, not yet checked as a whole.

    Raises Malformed.
    """
    if isinstance(value, Malformed):
        raise value
    if not isinstance(value, dict):
        raise Malformed("The line is not a JSON object.")
    context = value.get("context")
    if not isinstance(context, dict):
        raise Malformed("'context' is not an object." if "context" in value else "'context' is missing.")
    pmid = value.get("pubid")
    if isinstance(pmid, bool) or not isinstance(pmid, int | str):
        raise Malformed("'pubid' is neither a number nor a text." if "pubid" in value else "'pubid' is missing.")
    return {
        "kind": "qa",
        "question": required_text(value, "question"),
        "contexts": text_list(context, "contexts"),
        "sections": text_list(context, "labels"),
        "answer": required_text(value, "long_answer"),
        "decision": _decision(value),
        "pmid": str(pmid),
        "year": _year(context.get("year")),
        "mesh": text_list(context, "meshes"),
        "split": _split(value, context),
    }


def _row(read: Callable[[Any], dict[str, Any]], value: Any, where: str) -> Row | Refusal:
    try:
        content = read(value)
        pmid = content["pmid"] = content["pmid"].strip()
        if not (pmid.isascii() and pmid.isdecimal()):
            raise Malformed("Its id is not a PMID.")
        if not any(text.strip() for text in content["contexts"]):
            raise Malformed("It has no context.")
        if content["sections"] and len(content["sections"]) != len(content["contexts"]):
            raise Malformed("It does not have as many sections as contexts.")
        mesh = content["mesh"] = list(dict.fromkeys(name.strip() for name in content["mesh"] if name.strip()))
        check_storable(content)
        question = content["question"]
        return Row(
            external_id=checked_id(pmid),
            title=one_line(question),
            **language_fields("\n".join((question, content["answer"], *content["contexts"]))),
            content=content,
            private={},
            where=where,
            match=question,
            references={"mesh": tuple(mesh)} if mesh else {},
            facets={key: content[key] for key in ("decision", "split") if content[key]},
        )
    except Malformed as error:
        return Refusal(where, str(error))


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


def _split(decided: dict[str, Any], predicted: dict[str, Any]) -> str:
    """The split: PQA-L has predictions, PQA-A decisions without them, PQA-U neither."""
    if any(predicted.get(key) for key in _PREDICTION_KEYS):
        return "labelled"
    return "artificial" if decided.get("final_decision") else ""
