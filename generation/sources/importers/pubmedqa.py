"""PubMedQA: a question to an abstract of PubMed, the abstract without its conclusion, the conclusion, and yes, no or maybe.

Two layouts of the same data: the authors' JSON object keyed by PMID, and the hub's rows (JSON Lines or Parquet) with the
abstract's parts in a struct. The labelled set (PQA-L) alone has what its annotators' models predicted; by that each record's
split is known, and neither layout has another sign of it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
    LOOK,
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
    object_items,
    one_line,
    spoken,
    text_of,
    texts_of,
)
from generation.sources.importers.tables import is_parquet, parquet_columns, parquet_records

name = "pubmedqa"
label = "PubMedQA"
licence = "MIT"
citation = (
    "Jin Q, Dhingra B, Liu Z, Cohen WW, Lu X. PubMedQA: A Dataset for Biomedical Research Question Answering."
    " EMNLP-IJCNLP 2019: 2567-2577."
)
restrictions = gettext_noop("abstracts of PubMed: the rights of authors and publishers stand beside the licence")

DECISIONS = ("yes", "no", "maybe")

_OBJECT = frozenset({"QUESTION", "CONTEXTS", "LONG_ANSWER"})
_TABLE = frozenset({"pubid", "question", "context", "long_answer"})
_PREDICTED = ("reasoning_required_pred", "reasoning_free_pred")


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless one of the first records has the columns of a layout."""
    if is_parquet(path):
        if missing := _TABLE - set(parquet_columns(path)):
            raise WrongFormat(f"It is a Parquet file without the columns {_listed(missing)}.")
        return Layout("parquet")
    match first_byte(path):
        case b"[":
            raise WrongFormat("It is a JSON array; PubMedQA is one JSON object by PMID, JSON Lines or Parquet.")
        case b"{":
            pass
        case _:
            raise WrongFormat("It is neither JSON nor Parquet.")
    if _is_object(path):  # looked at first: all of it may stand on one line
        return Layout("json-object")
    problem = ""
    for number, value in json_lines(path, LOOK):
        if isinstance(value, dict) and value.keys() >= _TABLE:
            return Layout("jsonl")
        if isinstance(value, Malformed):
            problem = problem or f" Line {number}: {value}"
    raise WrongFormat(f"Its first records have neither {_listed(_OBJECT)} nor {_listed(_TABLE)}.{problem}")


def _is_object(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            first = islice(object_items(file), LOOK)
            return any(isinstance(value, dict) and value.keys() >= _OBJECT for _, value in first)
        except Malformed:  # several objects, one on each line
            return False


def _listed(columns: frozenset[str] | set[str]) -> str:
    return ", ".join(f"'{column}'" for column in sorted(columns))


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Row.content: {kind: 'qa', question, contexts: [str], sections: [str] (one a context, or none), answer, decision:
    'yes' | 'no' | 'maybe' | '', pmid, year: str, mesh: [str], split: 'labelled' | 'artificial' | ''}; Row.private is empty."""
    match layout.name:
        case "json-object":
            return _object_rows(path)
        case "jsonl":
            return (_row(_from_table, value, f"line {number}") for number, value in json_lines(path))
        case "parquet":
            wanted = _TABLE | {"final_decision"}
            return (_row(_from_table, value, where) for where, value in parquet_records(path, wanted.__contains__))
    raise WrongFormat(f"There is no layout {layout.name!r} of PubMedQA.")


def _object_rows(path: Path) -> Iterator[Row | Refusal]:
    place = 0
    with path.open("rb") as file:
        try:
            for place, (key, value) in enumerate(object_items(file), 1):
                pmid = key if key.isascii() and key.isdecimal() and len(key) < 20 else ""
                where = f"record {place} (PMID {pmid})" if pmid else f"record {place}"
                yield _row(_from_object, (key, value), where)
        except Malformed as error:
            yield Refusal(f"record {place + 1}", str(error))


def _from_object(entry: tuple[str, Any]) -> dict[str, Any]:
    """The content of one entry of the authors' object, not yet checked as a whole. Raises Malformed."""
    pmid, value = entry
    if not isinstance(value, dict):
        raise Malformed("The record is not an object.")
    return {
        "kind": "qa",
        "question": text_of(value, "QUESTION"),
        "contexts": texts_of(value, "CONTEXTS"),
        "sections": texts_of(value, "LABELS"),
        "answer": text_of(value, "LONG_ANSWER"),
        "decision": _decision(value),
        "pmid": pmid,
        "year": _year(value.get("YEAR")),
        "mesh": texts_of(value, "MESHES"),
        "split": _split(value, value),
    }


def _from_table(value: Any) -> dict[str, Any]:
    """Likewise of one row of the hub's table. Raises Malformed."""
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
        "question": text_of(value, "question"),
        "contexts": texts_of(context, "contexts"),
        "sections": texts_of(context, "labels"),
        "answer": text_of(value, "long_answer"),
        "decision": _decision(value),
        "pmid": str(pmid),
        "year": _year(context.get("year")),
        "mesh": texts_of(context, "meshes"),
        "split": _split(value, context),
    }


def _row(read: Callable[[Any], dict[str, Any]], value: Any, where: str) -> Row | Refusal:
    try:
        content = read(value)
        pmid = content["pmid"] = content["pmid"].strip()
        if not (pmid.isascii() and pmid.isdecimal()):
            raise Malformed("Its id is no PMID.")
        if not any(text.strip() for text in content["contexts"]):
            raise Malformed("It has no context.")
        if content["sections"] and len(content["sections"]) != len(content["contexts"]):
            raise Malformed("Its sections are not as many as its contexts.")
        mesh = content["mesh"] = list(dict.fromkeys(name.strip() for name in content["mesh"] if name.strip()))
        check_storable(content)
        question = content["question"]
        return Row(
            external_id=checked_id(pmid),
            title=one_line(question),
            **spoken("\n".join((question, content["answer"], *content["contexts"]))),
            content=content,
            private={},
            where=where,
            match=question,
            refers={"mesh": tuple(mesh)} if mesh else {},
            facets={key: content[key] for key in ("decision", "split") if content[key]},
        )
    except Malformed as error:
        return Refusal(where, str(error))


def _decision(value: dict[str, Any]) -> str:
    decision = value.get("final_decision")
    if decision is None or decision == "":
        return ""
    if decision not in DECISIONS:
        raise Malformed("'final_decision' is none of yes, no, maybe.")
    return str(decision)


def _year(year: Any) -> str:
    if year is None or year == "":
        return ""
    if isinstance(year, bool) or not isinstance(year, int | str) or not (str(year).isdecimal() and len(str(year)) == 4):
        raise Malformed("The year is not a year.")
    return str(year)


def _split(decided: dict[str, Any], predicted: dict[str, Any]) -> str:
    """PQA-L has predictions, PQA-A decisions without them, PQA-U neither."""
    if any(predicted.get(key) for key in _PREDICTED):
        return "labelled"
    return "artificial" if decided.get("final_decision") else ""
