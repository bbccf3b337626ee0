"""MedPI: conversations of a simulated patient with a model as doctor, scored on many dimensions.

Five files belong together: ``patients.csv``, ``conversations.csv``,
``conversations_messages.jsonl``, ``dimensions.csv`` and ``scores.csv``. The path is their folder,
or one of them beside the others. Only the messages are required. The columns are not documented, so
several names are accepted for each value (`column`); if one is not found, the message lists
the file's columns. The rows may be in any order: they are sorted on disk in a temporary database,
so that memory stays flat.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from generation.sources.importers.base import (
    SNIFF_LIMIT,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    check_storable,
    first_byte,
    gettext_noop,
    id_text,
    json_lines,
    language_fields,
)
from generation.sources.importers.records import FoldedRecord, OptionalText, Text, column, letters
from generation.sources.importers.tables import csv_header, csv_records
from generation.sources.importers.tabular import read_or_refused

name = "medpi"
label = "MedPI"
licence = "CC-BY-SA-4.0"
citation = (
    "Fajardo D, Proniakin O, Gruber V-E, Marinescu R. MedPI: Evaluating AI Systems in Medical Patient-facing Interactions."
    " arXiv:2601.04195 (2026)."
)
restrictions = gettext_noop("patients are synthetic; share adaptations under the same licence")

MESSAGES = "conversations_messages.jsonl"
_SPEAKERS = {
    **dict.fromkeys(("patient", "user", "aipatient"), "patient"),
    **dict.fromkeys(("doctor", "assistant", "clinician", "physician", "ai", "aidoctor"), "doctor"),
    **dict.fromkeys(("system", "tool"), ""),
}
_CREATE_SQL = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE entry (file TEXT, key TEXT, position REAL, line INTEGER, data TEXT);
"""


def _speaker(role: str) -> str:
    if letters(role) not in _SPEAKERS:
        raise ValueError("is neither patient nor doctor")
    return _SPEAKERS[letters(role)]


def _score(value: Any) -> int:
    try:
        score = float(value)
    except (TypeError, ValueError):
        raise ValueError("is not a number") from None
    if not score.is_integer() or not 0 <= score <= 5:
        raise ValueError("is not a whole number from 0 to 5")
    return int(score)


def _position(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


Key = Annotated[Text, BeforeValidator(id_text)]
_CONVERSATION = ("conversation_id", "conv_id")
_TEXT = ("content", "text", "message")


class _Kept(FoldedRecord):
    """A record that is kept until its conversation is complete."""

    def entries(self, columns: Mapping[str, Any]) -> Iterator[tuple[str, float, dict[str, Any]]]:
        """(key, position, data) of what is kept of it."""
        data = self.model_dump()
        yield data["key"], 0, {**data, "columns": columns}


class _Patient(_Kept):
    key: Key = column("patient_id", "id")


class _Conversation(_Kept):
    key: Key = column(*_CONVERSATION, "id")
    patient: OptionalText = column("patient_id", default="")
    doctor: OptionalText = column("doctor_model", "model", "model_name", "ai_doctor", "doctor", default="")
    reason: OptionalText = column("encounter_reason", "reason", default="")
    objective: OptionalText = column("encounter_objective", "objective", default="")
    specialty: OptionalText = ""


class _Dimension(_Kept):
    key: Key = column("dimension_id", "dimension", "dimension_name", "id")
    name: OptionalText = column("name", "dimension", "dimension_name", default="")
    category: OptionalText = column("category", "group", default="")


class _Score(_Kept):
    key: Key = column(*_CONVERSATION)
    dimension: Key = column("dimension_id", "dimension", "dimension_name")
    score: Annotated[int, BeforeValidator(_score)] = column("score", "value", "rating")
    note: OptionalText = column("rationale", "note", "notes", "explanation", "evidence", default="")
    judge: OptionalText = column("judge", "judge_model", "evaluator", default="")


class Said(FoldedRecord):
    """What a patient or a doctor said; the role of a system or tool is ''."""

    role: Annotated[str, AfterValidator(_speaker)] = column("role", "speaker", "sender", "author")
    text: str = column(*_TEXT)


class _Message(Said):
    text: str = column(*_TEXT, default="")
    position: Annotated[float | None, BeforeValidator(_position)] = column(
        "turn", "index", "position", "message_index", "order", "turn_number", default=None
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.role and not self.text.strip():
            raise ValueError("has no text")
        return self

    def entry(self, key: str, place: int) -> Iterator[tuple[str, float, dict[str, Any]]]:
        position: float = place
        if self.position is not None:
            position = self.position
        if self.role:
            yield key, position, {"role": self.role, "text": self.text}


class _MessageLine(_Message, _Kept):
    key: Key = column(*_CONVERSATION)
    text: str = column(*_TEXT)

    def entries(self, columns: Mapping[str, Any]) -> Iterator[tuple[str, float, dict[str, Any]]]:
        return self.entry(self.key, 1)


class _ConversationLine(_Kept):
    key: Key = column(*_CONVERSATION, "id")
    messages: list[_Message] = column("messages", "turns", "conversation", title="message")

    def entries(self, columns: Mapping[str, Any]) -> Iterator[tuple[str, float, dict[str, Any]]]:
        for place, message in enumerate(self.messages, 1):
            yield from message.entry(self.key, place)


TABLES: Mapping[str, type[_Kept]] = {
    "patients.csv": _Patient,
    "conversations.csv": _Conversation,
    "dimensions.csv": _Dimension,
    "scores.csv": _Score,
}
FILES = (MESSAGES, *TABLES)
_LINES: Mapping[str, type[_Kept]] = {
    "message-a-line": _MessageLine,
    "conversation-a-line": _ConversationLine,
}


def sniff(path: Path) -> Layout:
    """Raises WrongFormat naming the files that are missing, or the columns that are present."""
    folder = _folder(path)
    for table, model in TABLES.items():
        if (folder / table).is_file() and (missing := model.missing(header := csv_header(folder / table))):
            raise WrongFormat(f"{table} has no column {missing}; found: {', '.join(header)[:300]}.")
    first_byte(folder / MESSAGES)
    problem = f"{MESSAGES} has no records."
    for number, value in islice(json_lines(folder / MESSAGES), SNIFF_LIMIT):
        if isinstance(value, Malformed):
            problem = f"{MESSAGES}, line {number}: {value}"
        elif not isinstance(value, dict):
            problem = f"{MESSAGES}, line {number} is not a JSON object."
        else:
            for layout, model in _LINES.items():
                if not model.missing(value):
                    return Layout(layout)
            problem = f"{MESSAGES} has no column {_MessageLine.missing(value)}; found: {', '.join(value)[:300]}."
    raise WrongFormat(problem)


def _folder(path: Path) -> Path:
    """The folder of the files. Raises WrongFormat unless it has the messages."""
    if not path.is_dir() and first_byte(path) == b"[":
        raise WrongFormat("It is a JSON array; MedPI has one JSON object on each line, and CSV.")
    if not path.is_dir() and path.name not in FILES:
        raise WrongFormat(
            f"MedPI is a folder with {', '.join(FILES)}: import the folder with the command. This file has another name."
        )
    if path.is_dir():
        folder = path
    else:
        folder = path.parent
    if not (folder / MESSAGES).is_file():
        present = [file for file in FILES if (folder / file).is_file()]
        found = ", ".join(present) or "none of its files"
        raise WrongFormat(f"The folder has no {MESSAGES}; found: {found}.")
    return folder


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each conversation; refusals name the file of the bad line.

    Row.content: {kind: 'conversation', conversation: [{role: 'patient' | 'doctor', text}], doctor,
    patient: {column: value}, encounter: {reason, objective}, scores: [{dimension, category, score,
    note, judge}]}; Row.private is empty.
    """
    folder, model_of_line = _folder(path), _LINES[layout.name]
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file, closing(sqlite3.connect(file.name)) as store:
        store.executescript(_CREATE_SQL)
        for table, model in TABLES.items():
            if (folder / table).is_file():
                for where, record in csv_records(folder / table):
                    yield from _kept(store, table, where, record, model)
        for number, record in json_lines(folder / MESSAGES):
            yield from _kept(store, MESSAGES, f"line {number}", record, model_of_line)
        store.execute("CREATE INDEX entry_of ON entry (file, key, position, line)")
        keys = "SELECT key FROM entry WHERE file = ? GROUP BY key ORDER BY min(line)"
        for (key,) in store.execute(keys, (MESSAGES,)):
            yield read_or_refused({}, f"conversation {key[:60]}", partial(_row, store=store, key=key))


def _kept(store: sqlite3.Connection, file: str, where: str, record: Any, model: type[_Kept]) -> Iterator[Refusal]:
    """Keep a record until its conversation is complete; a refusal if it is none."""
    try:
        if isinstance(record, Malformed):
            raise record
        if not isinstance(record, dict):
            raise Malformed("The line is not a JSON object.")
        check_storable(record)
        line = int(where.rpartition(" ")[2])
        entries = []
        for key, position, data in model.read(record).entries(record):
            entries.append((file, key, position, line, json.dumps(data)))
        store.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", entries)
    except Malformed as error:
        yield Refusal(f"{file}, {where}", str(error))


def _of(store: sqlite3.Connection, file: str, key: str) -> list[dict[str, Any]]:
    """What is kept of a file under a key, in order."""
    found = store.execute("SELECT data FROM entry WHERE file = ? AND key = ? ORDER BY position, line", (file, key))
    return [json.loads(data) for (data,) in found]


def _row(_record: Any, *, store: sqlite3.Connection, key: str) -> Row:
    def first(file: str, key: str) -> dict[str, Any]:
        return next(iter(_of(store, file, key)), {})

    turns = _of(store, MESSAGES, key)
    patient_texts = [turn["text"] for turn in turns if turn["role"] == "patient"]
    if not patient_texts:
        raise Malformed("The patient says nothing in it.")
    about = first("conversations.csv", key)
    scores = []
    for score in _of(store, "scores.csv", key):
        dimension = first("dimensions.csv", score["dimension"])
        scores.append(
            {
                "dimension": dimension.get("name") or score["dimension"],
                "category": dimension.get("category", ""),
                "score": score["score"],
                "note": score["note"],
                "judge": score["judge"],
            }
        )
    content = {
        "kind": "conversation",
        "conversation": turns,
        "doctor": about.get("doctor", ""),
        "patient": first("patients.csv", about.get("patient", "")).get("columns", {}),
        "encounter": {"reason": about.get("reason", ""), "objective": about.get("objective", "")},
        "scores": scores,
    }
    if about.get("specialty"):
        content["specialty"] = about["specialty"]
    facets = {}
    if content["doctor"]:
        facets = {"doctor": content["doctor"]}
    return Row(
        external_id=key,
        title=about.get("reason") or patient_texts[0],
        **language_fields("\n".join(patient_texts)),
        content=content,
        facets=facets,
    )
