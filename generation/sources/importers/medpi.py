"""MedPI: conversations of a simulated patient with a model as doctor, scored on many dimensions.

Five files belong together: ``patients.csv``, ``conversations.csv``,
``conversations_messages.jsonl``, ``dimensions.csv`` and ``scores.csv``. The path is their folder,
or one of them beside the others. Only the messages are required. The columns are not documented, so
several names are accepted for each value (`_COLUMN_NAMES`); if one is not found, the message lists
the file's columns. The rows may be in any order: they are sorted on disk in a temporary database,
so that memory stays flat.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from generation.sources.importers.base import (
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

# Value -> column names accepted for it, in order of preference; case, spaces and underscores are
# ignored.
_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
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
_ID_VALUE = {"patients.csv": "patient", "conversations.csv": "conversation", "dimensions.csv": "dimension"}
_PATIENT = frozenset({"patient", "user", "ai patient", "ai_patient"})
_DOCTOR = frozenset({"doctor", "assistant", "clinician", "physician", "ai doctor", "ai_doctor"})
_IGNORED_ROLES = frozenset({"system", "tool"})
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "patients.csv": ("patient",),
    "conversations.csv": ("conversation",),
    "dimensions.csv": ("dimension",),
    "scores.csv": ("conversation", "dimension", "score"),
}
_CREATE_TABLES_SQL = """
CREATE TABLE part (file TEXT, key TEXT, data TEXT, PRIMARY KEY (file, key)) WITHOUT ROWID;
CREATE TABLE message (conversation TEXT, position REAL, line INTEGER, role TEXT, text TEXT);
CREATE TABLE score (conversation TEXT, line INTEGER, data TEXT);
"""
_CREATE_INDEXES_SQL = """
CREATE INDEX message_of ON message (conversation, position, line);
CREATE INDEX score_of ON score (conversation, line);
"""


def sniff(path: Path) -> Layout:
    """Raises WrongFormat naming the files that are missing, or the columns that are present."""
    folder = _folder(path)
    for table, required in _REQUIRED.items():
        if (folder / table).is_file():
            _check(table, csv_header(folder / table), required)
    first_byte(folder / MESSAGES)
    problem = f"{MESSAGES} has no records."
    for number, value in json_lines(folder / MESSAGES, SNIFF_LIMIT):
        if isinstance(value, Malformed):
            problem = f"{MESSAGES}, line {number}: {value}"
        elif not isinstance(value, dict):
            problem = f"{MESSAGES}, line {number} is not a JSON object."
        elif missing := [
            value_name for value_name in ("conversation",) if value_name not in _known_values(value, "conversation")
        ]:
            problem = _missing_columns(MESSAGES, missing, list(value))
        elif isinstance(_nested(value), list):
            return Layout("conversation-a-line")
        elif missing := [value_name for value_name in ("role", "text") if value_name not in _known_values(value)]:
            problem = _missing_columns(MESSAGES, missing, list(value))
        else:
            return Layout("message-a-line")
    raise WrongFormat(problem)


def _folder(path: Path) -> Path:
    """The folder of the files. Raises WrongFormat unless it has the messages."""
    if not path.is_dir() and first_byte(path) == b"[":
        raise WrongFormat("It is a JSON array; MedPI has one JSON object on each line, and CSV.")
    if not path.is_dir() and path.name not in FILES:
        raise WrongFormat(
            f"MedPI is a folder with {', '.join(FILES)}: import the folder with the command. This file has another name."
        )
    folder = path if path.is_dir() else path.parent
    if not (folder / MESSAGES).is_file():
        present = ", ".join(file for file in FILES if (folder / file).is_file()) or "none of its files"
        raise WrongFormat(f"The folder has no {MESSAGES}; found: {present}.")
    return folder


def _check(table: str, columns: list[str], required: tuple[str, ...]) -> None:
    values = _known_values(dict.fromkeys(columns, "x"), _ID_VALUE.get(table, ""))
    if missing := [value for value in required if value not in values]:
        raise WrongFormat(_missing_columns(table, missing, columns))


def _missing_columns(file: str, missing: list[str], columns: list[str]) -> str:
    names = " and ".join(f"'{_COLUMN_NAMES[value][0]}'" for value in missing)
    return f"{file} has no column {names}; found: {', '.join(map(str, columns))[:300]}."


def _normalized(column: str) -> str:
    return "".join(character for character in column.casefold() if character.isalnum())


_VALUES_OF_COLUMN: dict[str, list[tuple[str, int]]] = {}
for _value, _columns in _COLUMN_NAMES.items():
    for _at, _column in enumerate(_columns):
        _VALUES_OF_COLUMN.setdefault(_normalized(_column), []).append((_value, _at))


def _known_values(record: Mapping[str, Any], id_name: str = "") -> dict[str, Any]:
    """A record's values by our names. `id_name`: the value that a plain `id` column stands for."""
    values: dict[str, tuple[int, Any]] = {}
    for column, value in record.items():
        normalized = _normalized(str(column))
        matches = [*_VALUES_OF_COLUMN.get(normalized, ()), *([(id_name, 9)] if id_name and normalized == "id" else [])]
        for value_name, at in matches:
            if value not in (None, "") and (value_name not in values or at < values[value_name][0]):
                values[value_name] = (at, value)
    return {value_name: value for value_name, (_at, value) in values.items()}


def _nested(value: Mapping[str, Any]) -> Any:
    return _known_values(value).get("messages")


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each conversation; refusals name the file of the bad line.

    Row.content: {kind: 'conversation', conversation: [{role: 'patient' | 'doctor', text}], doctor,
    patient: {column: value}, encounter: {reason, objective}, scores: [{dimension, category, score,
    note, judge}]}; Row.private is empty.
    """
    if layout.name not in ("conversation-a-line", "message-a-line"):
        raise WrongFormat(f"There is no layout {layout.name!r} of MedPI.")
    return _rows(path, nested=layout.name == "conversation-a-line")


def _rows(path: Path, *, nested: bool) -> Iterator[Row | Refusal]:
    folder = _folder(path)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file, closing(sqlite3.connect(file.name)) as store:
        store.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _CREATE_TABLES_SQL)
        for table in TABLES:
            if (folder / table).is_file():
                yield from _store_table(store, folder / table)
        yield from _store_messages(store, folder / MESSAGES, nested=nested)
        store.executescript(_CREATE_INDEXES_SQL)
        for (key,) in store.execute("SELECT conversation FROM message GROUP BY conversation ORDER BY min(line)"):
            yield _row(store, key)


def _store_table(store: sqlite3.Connection, path: Path) -> Iterator[Refusal]:
    table, id_name = path.name, _ID_VALUE.get(path.name, "")
    for where, record in csv_records(path):
        try:
            if isinstance(record, Malformed):
                raise record
            check_storable(list(record.values()))
            values = _known_values(record, id_name)
            if missing := [value for value in _REQUIRED[table] if value not in values]:
                raise Malformed(f"'{_COLUMN_NAMES[missing[0]][0]}' is blank.")
            data = json.dumps({"has": values, "all": record})
            if table == "scores.csv":
                _score(values)
                key = (str(values["conversation"]), int(where.rpartition(" ")[2]), data)
                store.execute("INSERT INTO score VALUES (?, ?, ?)", key)
            else:
                store.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?)", (table, str(values[id_name]), data))
        except Malformed as error:
            yield Refusal(f"{table}, {where}", str(error))


def _score(values: Mapping[str, Any]) -> int:
    try:
        score = float(values["score"])
    except ValueError:
        raise Malformed("The score is not a number.") from None
    if score != int(score) or not 0 <= score <= 5:
        raise Malformed("The score is not a whole number from 0 to 5.")
    return int(score)


def _store_messages(store: sqlite3.Connection, path: Path, *, nested: bool) -> Iterator[Refusal]:
    for number, value in json_lines(path):
        try:
            if isinstance(value, Malformed):
                raise value
            if not isinstance(value, dict):
                raise Malformed("The line is not a JSON object.")
            check_storable(value)
            values = _known_values(value, "conversation" if nested else "")
            if not isinstance(values.get("conversation"), str | int):
                raise Malformed("'conversation_id' is missing.")
            turns = values.get("messages") if nested else [value]
            if not isinstance(turns, list):
                raise Malformed("'messages' is not a list.")
            messages = [_message(turn, place) for place, turn in enumerate(turns, 1)]
            store.executemany(
                "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
                [
                    (str(values["conversation"]), position, number, role, text)
                    for position, role, text in messages
                    if role
                ],
            )
        except Malformed as error:
            yield Refusal(f"{MESSAGES}, line {number}", str(error))


def _message(turn: Any, place: int) -> tuple[float, str, str]:
    """(position, role, text); the role of a system or tool message is ''."""
    if not isinstance(turn, dict):
        raise Malformed(f"Message {place} is not an object.")
    values = _known_values(turn)
    role, text = str(values.get("role", "")).casefold(), values.get("text", "")
    if role in _IGNORED_ROLES:
        return 0, "", ""
    if role not in _PATIENT | _DOCTOR:
        raise Malformed(f"The role of message {place} is neither patient nor doctor.")
    if not isinstance(text, str) or not text.strip():
        raise Malformed(f"Message {place} has no text.")
    number = values.get("position", place)
    position = float(number) if isinstance(number, int | float) and not isinstance(number, bool) else float(place)
    return position, "patient" if role in _PATIENT else "doctor", text


def _row(store: sqlite3.Connection, key: str) -> Row | Refusal:
    where = f"conversation {key[:60]}"
    try:
        messages = store.execute(
            "SELECT role, text FROM message WHERE conversation = ? ORDER BY position, line", (key,)
        )
        turns = [{"role": role, "text": text} for role, text in messages]
        conversation = _load_part(store, "conversations.csv", key)
        values, columns = conversation.get("has", {}), conversation.get("all", {})
        patient = _load_part(store, "patients.csv", str(values.get("patient", ""))).get("all", {})
        stored_scores = store.execute("SELECT data FROM score WHERE conversation = ? ORDER BY line", (key,))
        scores = [_score_entry(store, json.loads(data)["has"]) for (data,) in stored_scores]
        patient_texts = [turn["text"] for turn in turns if turn["role"] == "patient"]
        if not patient_texts:
            raise Malformed("The patient says nothing in it.")
        content = {
            "kind": "conversation",
            "conversation": turns,
            "doctor": str(values.get("doctor", "")),
            "patient": patient,
            "encounter": {part: str(values.get(part, "")) for part in ("reason", "objective")},
            "scores": scores,
        }
        specialty = next((value for column, value in columns.items() if _normalized(column) == "specialty"), "")
        return Row(
            external_id=checked_id(key),
            title=one_line(content["encounter"]["reason"] or patient_texts[0]),
            **language_fields("\n".join(patient_texts)),
            content={**content, **({"specialty": specialty} if specialty else {})},
            private={},
            where=where,
            facets={"doctor": content["doctor"]} if content["doctor"] else {},
        )
    except Malformed as error:
        return Refusal(where, str(error))


def _load_part(store: sqlite3.Connection, file: str, key: str) -> dict[str, Any]:
    row = store.execute("SELECT data FROM part WHERE file = ? AND key = ?", (file, key)).fetchone()
    return dict(json.loads(row[0])) if row else {}


def _score_entry(store: sqlite3.Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    columns = _load_part(store, "dimensions.csv", str(values["dimension"])).get("all", {})
    dimension = {_normalized(column): value for column, value in columns.items()}
    return {
        "dimension": str(
            dimension.get("name") or dimension.get("dimension") or dimension.get("dimensionname") or values["dimension"]
        ),
        "category": str(dimension.get("category") or dimension.get("group") or ""),
        "score": _score(values),
        "note": str(values.get("note", "")),
        "judge": str(values.get("judge", "")),
    }
