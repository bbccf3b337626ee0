"""MedPI: conversations between a simulated patient and a model as doctor, scored on many dimensions.

Five files belong together: ``patients.csv``, ``conversations.csv``, ``conversations_messages.jsonl``, ``dimensions.csv`` and
``scores.csv``. The path is their folder, or one of them beside the others. Only the messages are indispensable. The columns are
not published, so several names are understood for each value (`_NAMES`); what a file has is named where one is not found. The
files may be in any order: they are sorted on disk in a temporary database, so that memory stays flat.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
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
    one_line,
    spoken,
)
from generation.sources.importers.tables import csv_header, csv_records

name = "medpi"
label = "MedPI"
licence = "CC-BY-SA-4.0"
citation = (
    "Fajardo D, Proniakin O, Gruber V-E, Marinescu R. MedPI: Evaluating AI Systems in Medical Patient-facing Interactions."
    " arXiv:2601.04195 (2026)."
)
restrictions = gettext_noop("patients are synthetic; share adaptations under the same licence")

MESSAGES = "conversations_messages.jsonl"
TABLES = ("patients.csv", "conversations.csv", "dimensions.csv", "scores.csv")
FILES = (MESSAGES, *TABLES)

# Value -> the columns under which it is looked for, in this order, whatever their case, spaces and underscores.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation_id", "conversationid", "conv_id"),
    "patient": ("patient_id",),
    "dimension": ("dimension_id", "dimension", "dimension_name"),
    "doctor": ("doctor_model", "model", "model_name", "ai_doctor", "doctor"),
    "reason": ("encounter_reason", "reason"),
    "objective": ("encounter_objective", "objective"),
    "score": ("score", "value", "rating"),
    "note": ("rationale", "note", "notes", "explanation", "evidence"),
    "judge": ("judge", "judge_model", "evaluator"),
    "role": ("role", "speaker", "sender", "author"),
    "text": ("content", "text", "message"),
    "messages": ("messages", "turns", "conversation"),
    "position": ("turn", "index", "position", "message_index", "order", "turn_number"),
}
_OWN_ID = {"patients.csv": "patient", "conversations.csv": "conversation", "dimensions.csv": "dimension"}
_PATIENT = frozenset({"patient", "user", "ai patient", "ai_patient"})
_DOCTOR = frozenset({"doctor", "assistant", "clinician", "physician", "ai doctor", "ai_doctor"})
_QUIET = frozenset({"system", "tool"})
_WANTED: Mapping[str, tuple[str, ...]] = {
    "patients.csv": ("patient",),
    "conversations.csv": ("conversation",),
    "dimensions.csv": ("dimension",),
    "scores.csv": ("conversation", "dimension", "score"),
}
_TABLES = """
CREATE TABLE part (file TEXT, key TEXT, data TEXT, PRIMARY KEY (file, key)) WITHOUT ROWID;
CREATE TABLE message (conversation TEXT, position REAL, line INTEGER, role TEXT, text TEXT);
CREATE TABLE score (conversation TEXT, line INTEGER, data TEXT);
"""
_INDEXES = """
CREATE INDEX message_of ON message (conversation, position, line);
CREATE INDEX score_of ON score (conversation, line);
"""


def sniff(path: Path) -> Layout:
    """Raises WrongFormat that names the files that are missing, or the columns that were found."""
    folder = _folder(path)
    for table, wanted in _WANTED.items():
        if (folder / table).is_file():
            _check(table, csv_header(folder / table), wanted)
    first_byte(folder / MESSAGES)
    problem = f"{MESSAGES} has no records."
    for number, value in json_lines(folder / MESSAGES, LOOK):
        if isinstance(value, Malformed):
            problem = f"{MESSAGES}, line {number}: {value}"
        elif not isinstance(value, dict):
            problem = f"{MESSAGES}, line {number} is not a JSON object."
        elif missing := [each for each in ("conversation",) if each not in _read(value, "conversation")]:
            problem = _lacking(MESSAGES, missing, list(value))
        elif isinstance(_nested(value), list):
            return Layout("conversation-a-line")
        elif missing := [each for each in ("role", "text") if each not in _read(value)]:
            problem = _lacking(MESSAGES, missing, list(value))
        else:
            return Layout("message-a-line")
    raise WrongFormat(problem)


def _folder(path: Path) -> Path:
    """The folder of the files. Raises WrongFormat unless the messages are there."""
    if not path.is_dir() and first_byte(path) == b"[":
        raise WrongFormat("It is a JSON array; MedPI has one JSON object on each line, and CSV.")
    if not path.is_dir() and path.name not in FILES:
        raise WrongFormat(
            f"MedPI is a folder with {', '.join(FILES)}: import the folder with the command. This file has another name."
        )
    folder = path if path.is_dir() else path.parent
    if not (folder / MESSAGES).is_file():
        there = ", ".join(each for each in FILES if (folder / each).is_file()) or "none of its files"
        raise WrongFormat(f"The folder has no {MESSAGES}; found: {there}.")
    return folder


def _check(table: str, columns: list[str], wanted: tuple[str, ...]) -> None:
    has = _read(dict.fromkeys(columns, "x"), _OWN_ID.get(table, ""))
    if missing := [each for each in wanted if each not in has]:
        raise WrongFormat(_lacking(table, missing, columns))


def _lacking(file: str, missing: list[str], columns: list[str]) -> str:
    names = " and ".join(f"'{_NAMES[each][0]}'" for each in missing)
    return f"{file} has no column {names}; found: {', '.join(map(str, columns))[:300]}."


def _plain(column: str) -> str:
    return "".join(sign for sign in column.casefold() if sign.isalnum())


_KNOWN: dict[str, list[tuple[str, int]]] = {}
for _value, _columns in _NAMES.items():
    for _at, _column in enumerate(_columns):
        _KNOWN.setdefault(_plain(_column), []).append((_value, _at))


def _read(record: Mapping[str, Any], own: str = "") -> dict[str, Any]:
    """What a record has by our names. `own`: what a bare `id` is the id of."""
    found: dict[str, tuple[int, Any]] = {}
    for column, value in record.items():
        plain = _plain(str(column))
        known = [*_KNOWN.get(plain, ()), *([(own, 9)] if own and plain == "id" else [])]
        for name_, at in known:
            if value not in (None, "") and (name_ not in found or at < found[name_][0]):
                found[name_] = (at, value)
    return {name_: value for name_, (_at, value) in found.items()}


def _nested(value: Mapping[str, Any]) -> Any:
    return _read(value).get("messages")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row a conversation. Row.content: {kind: 'conversation', conversation: [{role: 'patient' | 'doctor', text}], doctor,
    patient: {column: value}, encounter: {reason, objective}, scores: [{dimension, category, score, note, judge}]}; Row.private
    is empty. What is wrong with a line of one of the files is refused with the name of the file."""
    if layout.name not in ("conversation-a-line", "message-a-line"):
        raise WrongFormat(f"There is no layout {layout.name!r} of MedPI.")
    return _rows(path, nested=layout.name == "conversation-a-line")


def _rows(path: Path, *, nested: bool) -> Iterator[Row | Refusal]:
    folder = _folder(path)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file, closing(sqlite3.connect(file.name)) as store:
        store.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _TABLES)
        for table in TABLES:
            if (folder / table).is_file():
                yield from _keep_table(store, folder / table)
        yield from _keep_messages(store, folder / MESSAGES, nested=nested)
        store.executescript(_INDEXES)
        for (key,) in store.execute("SELECT conversation FROM message GROUP BY conversation ORDER BY min(line)"):
            yield _row(store, key)


def _keep_table(store: sqlite3.Connection, path: Path) -> Iterator[Refusal]:
    table, own = path.name, _OWN_ID.get(path.name, "")
    for where, record in csv_records(path):
        try:
            if isinstance(record, Malformed):
                raise record
            check_storable(list(record.values()))
            has = _read(record, own)
            if missing := [each for each in _WANTED[table] if each not in has]:
                raise Malformed(f"'{_NAMES[missing[0]][0]}' is blank.")
            data = json.dumps({"has": has, "all": record})
            if table == "scores.csv":
                _score(has)
                key = (str(has["conversation"]), int(where.rpartition(" ")[2]), data)
                store.execute("INSERT INTO score VALUES (?, ?, ?)", key)
            else:
                store.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?)", (table, str(has[own]), data))
        except Malformed as error:
            yield Refusal(f"{table}, {where}", str(error))


def _score(has: Mapping[str, Any]) -> int:
    try:
        score = float(has["score"])
    except ValueError:
        raise Malformed("The score is not a number.") from None
    if score != int(score) or not 0 <= score <= 5:
        raise Malformed("The score is not a whole number from 0 to 5.")
    return int(score)


def _keep_messages(store: sqlite3.Connection, path: Path, *, nested: bool) -> Iterator[Refusal]:
    for number, value in json_lines(path):
        try:
            if isinstance(value, Malformed):
                raise value
            if not isinstance(value, dict):
                raise Malformed("The line is not a JSON object.")
            check_storable(value)
            has = _read(value, "conversation" if nested else "")
            if not isinstance(has.get("conversation"), str | int):
                raise Malformed("'conversation_id' is missing.")
            turns = has.get("messages") if nested else [value]
            if not isinstance(turns, list):
                raise Malformed("'messages' is not a list.")
            kept = [_message(turn, place) for place, turn in enumerate(turns, 1)]
            store.executemany(
                "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
                [(str(has["conversation"]), position, number, role, text) for position, role, text in kept if role],
            )
        except Malformed as error:
            yield Refusal(f"{MESSAGES}, line {number}", str(error))


def _message(turn: Any, place: int) -> tuple[float, str, str]:
    """(position, role, text); a system's or tool's message has no role."""
    if not isinstance(turn, dict):
        raise Malformed(f"Message {place} is not an object.")
    has = _read(turn)
    role, text = str(has.get("role", "")).casefold(), has.get("text", "")
    if role in _QUIET:
        return 0, "", ""
    if role not in _PATIENT | _DOCTOR:
        raise Malformed(f"The role of message {place} is neither patient nor doctor.")
    if not isinstance(text, str) or not text.strip():
        raise Malformed(f"Message {place} has no text.")
    at = has.get("position", place)
    position = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else float(place)
    return position, "patient" if role in _PATIENT else "doctor", text


def _row(store: sqlite3.Connection, key: str) -> Row | Refusal:
    where = f"conversation {key[:60]}"
    try:
        found = store.execute("SELECT role, text FROM message WHERE conversation = ? ORDER BY position, line", (key,))
        turns = [{"role": role, "text": text} for role, text in found]
        about = _part(store, "conversations.csv", key)
        of, columns = about.get("has", {}), about.get("all", {})
        patient = _part(store, "patients.csv", str(of.get("patient", ""))).get("all", {})
        scored = store.execute("SELECT data FROM score WHERE conversation = ? ORDER BY line", (key,))
        scores = [_scored(store, json.loads(data)["has"]) for (data,) in scored]
        said = [turn["text"] for turn in turns if turn["role"] == "patient"]
        if not said:
            raise Malformed("The patient says nothing in it.")
        content = {
            "kind": "conversation",
            "conversation": turns,
            "doctor": str(of.get("doctor", "")),
            "patient": patient,
            "encounter": {name_: str(of.get(name_, "")) for name_ in ("reason", "objective")},
            "scores": scores,
        }
        specialty = next((value for column, value in columns.items() if _plain(column) == "specialty"), "")
        return Row(
            external_id=checked_id(key),
            title=one_line(content["encounter"]["reason"] or said[0]),
            **spoken("\n".join(said)),
            content={**content, **({"specialty": specialty} if specialty else {})},
            private={},
            where=where,
            facets={"doctor": content["doctor"]} if content["doctor"] else {},
        )
    except Malformed as error:
        return Refusal(where, str(error))


def _part(store: sqlite3.Connection, file: str, key: str) -> dict[str, Any]:
    found = store.execute("SELECT data FROM part WHERE file = ? AND key = ?", (file, key)).fetchone()
    return dict(json.loads(found[0])) if found else {}


def _scored(store: sqlite3.Connection, has: Mapping[str, Any]) -> dict[str, Any]:
    about = _part(store, "dimensions.csv", str(has["dimension"])).get("all", {})
    named = {_plain(column): value for column, value in about.items()}
    return {
        "dimension": str(named.get("name") or named.get("dimension") or named.get("dimensionname") or has["dimension"]),
        "category": str(named.get("category") or named.get("group") or ""),
        "score": _score(has),
        "note": str(has.get("note", "")),
        "judge": str(has.get("judge", "")),
    }
