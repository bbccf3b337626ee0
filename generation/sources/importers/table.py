"""A table of one's own: one record a row, with columns that a person mapped to fields.

CSV and TSV, JSON Lines, a JSON array or Parquet, also as annotation tools export them (Label
Studio, Argilla): what is nested is a column under its path (`data.text`). The mapping is in the
layout.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from generation.common.medical_text import chosen_letter
from generation.sources.importers import tabular
from generation.sources.importers.base import (
    PARQUET_FILE,
    SNIFF_LIMIT,
    HasConstant,
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    container_of,
    first_byte,
    gettext_noop,
    id_text,
    language_fields,
)
from generation.sources.importers.records import MAX_OPTIONS, first_of, joined_parts, options_of
from generation.sources.importers.table_mapping import (
    BODIES,
    IGNORED_SPEAKERS,
    MAX_COLUMNS,
    REDCAP_VISIT,
    Constant,
    TableMapping,
    guess,
    guess_field,
    option_letter,
    role_of,
)
from generation.sources.importers.tables import csv_table
from review.common.language_names import language_code
from review.rules import json_nesting
from review.rules.text import one_line
from review.rules.text_files import SEPARATORS, bare, open_text

name = "table"
label = gettext_noop("Own file (table)")
licence = gettext_noop("as the file's authors say")
citation = "Own file."
restrictions = ""
withheld = True
containers = (PARQUET_FILE,)

PREVIEWED = 5  # records
EXAMPLE = 120  # characters of a value that are shown
MAX_DEPTH = 3  # of objects in one another whose members are columns
_KINDS = {tabular.CSV: "CSV", tabular.JSONL: "JSON Lines", tabular.ARRAY: "a JSON array", tabular.PARQUET: "Parquet"}
_WRAPPERS = frozenset({"data", "fields"})  # objects in which annotation tools put what they show
# What people call the list of all records in an object around them, unlike a record's own lists.
_RECORD_LISTS = frozenset({"cases", "data", "entries", "examples", "items", "questions", "records", "rows", "samples"})
_SHORTS: tuple[Constant, ...] = ("specialty", "licence", "language")  # may be blank
_BLANK = frozenset({"", "nan", "null", "none", "n/a", "#n/a", "<na>", "-"})
# What stands before what somebody says, on a line of its own or before the words.
_SPEAKER = re.compile(r"^[ \t]*(?:\*\*)?([^\W\d_][\w.]{0,20}(?:[ _]\w{1,12})?)(?:\*\*)?[ \t]*[:：]", re.MULTILINE)


def sniff(path: Path) -> Layout:
    """Raises WrongFormat unless it is a table with at least one column."""
    if container_of(path) == PARQUET_FILE:
        layout = Layout(tabular.PARQUET)
    else:
        layout = Layout({b"[": tabular.ARRAY, b"{": tabular.JSONL}.get(first_byte(path), tabular.CSV))
    columns, _found = _columns(path, layout)
    if layout.name == tabular.CSV and len(columns) == 1 and " " in columns[0] and not guess_field(columns[0]):
        raise WrongFormat(
            "It is not a table: nothing separates columns, and it is not JSON. "
            "If a title stands above the names of the columns, delete it."
        )
    return layout


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """One row for each record with a text, a conversation or a question.

    Row.content: as of PMC-Patients (`report`), HealthBench (`dialogue`), MedMCQA (`mcq`: a question
    with options) or PubMedQA (`qa`: a question with passages), with {specialty, licence} where the
    table has them; Row.private is empty.

    Raises WrongFormat naming the columns that are missing.
    """
    mapping = TableMapping.model_validate(layout.mapping)
    columns, found = _columns(path, layout)
    required = mapping.all_columns
    if layout.name not in (tabular.CSV, tabular.PARQUET):  # a record may lack what others have
        bodies = [mapping.column(field) for field in BODIES]
        required = [column for column in bodies if column]
    known = {*columns, *_roots(columns)}
    if missing := [column for column in required if column not in known]:
        raise WrongFormat(f"It has no column {', '.join(map(repr, missing))}. Recognised: {found}.")
    roots = {*mapping.all_columns, *_roots(mapping.all_columns)}
    # Nobody has published these questions, so that they may be trained on unless their file says
    # that it is another split.
    whole = _with_visits(mapping, columns)
    roots |= {*whole.columns.get("id", ())}
    read = partial(_row, mapping=whole, split=tabular.file_of(path, layout).split or "train")
    records = tabular.records(path, layout.name, roots.__contains__)
    # NaN, as pandas writes what is missing, is a blank where a record needs no value.
    needed = roots - {mapping.column(field) for field in _SHORTS}
    return tabular.read_all(tabular.wanted_parts(records, needed.__contains__), read)


def _roots(columns: Iterable[str]) -> set[str]:
    """The keys of a record in which the columns are."""
    return {column.partition(".")[0] for column in columns}


def _with_visits(mapping: TableMapping, columns: Sequence[str]) -> TableMapping:
    """The mapping with the columns by which REDCap tells the visits of a person apart in the id."""
    own = mapping.columns.get("id", ())
    more = [column for column in columns if column in REDCAP_VISIT and column not in own]
    if not own or not more:
        return mapping
    return mapping.model_copy(update={"columns": {**mapping.columns, "id": (*own, *more)}})


# ------------------------------------------------------------------------------------- the preview


def preview(path: str, mapping: Mapping[str, Any] | None) -> Iterator[Any]:
    """What a table has, as JSON: first {layout, found, columns, mapping}, then its first records.

    mapping: the given one, or what the names of the columns suggest. columns: [name, examples]. A
    record is {where, id, language, kind, parts: [[field, text]]} or {where, reason}.
    """
    file = Path(path)
    layout = sniff(file)
    columns, found = _columns(file, layout)
    given = islice(tabular.records(file, layout.name), SNIFF_LIMIT)
    first = []
    for _where, entry in given:
        record = _whole(entry)
        if isinstance(record, dict):
            first.append(flattened(record))
    examples = {}
    for column in columns:
        shown = [_shown(record.get(column)) for record in first]
        examples[column] = [text for text in shown if text][:3]
    if mapping:
        used = TableMapping.model_validate(mapping)
    else:
        used = guess(columns, examples)
    yield {
        "layout": layout.name,
        "found": found,
        "columns": [[column, examples[column]] for column in columns],
        "mapping": used.model_dump(mode="json"),
    }
    if mapping or used.columns:
        for entry in islice(rows(file, Layout(layout.name, mapping=used.model_dump(mode="json"))), PREVIEWED):
            yield _previewed(entry)


def typed_record(text: str) -> Row:
    """A record of a text that somebody typed, as a table of it would give.

    A conversation if it begins with a speaker ('Patient: ...'), a question if it is a JSON object
    with the columns of one, else a report. Raises Malformed.
    """
    record = _parsed(text, "text")
    if isinstance(record, dict):
        examples = {column: [str(value)] for column, value in record.items()}
        return _row(record, mapping=guess(list(record), examples), split="")
    first = _SPEAKER.match(text)
    is_conversation = isinstance(record, list) or (first is not None and role_of(first[1]) != "")
    mapping = TableMapping(columns={"text": ("text",)})
    if is_conversation:
        mapping = TableMapping(columns={"turns": ("text",)})
    return _row({"text": record}, mapping=mapping, split="")


def _previewed(entry: Row | Refusal) -> dict[str, Any]:
    if isinstance(entry, Refusal):
        return {"where": entry.where, "reason": entry.reason}
    content = entry.content
    parts = [(turn["role"], turn["content"]) for turn in content.get("turns", ())]
    parts += [("context", text) for text in content.get("contexts", ())]
    for key in ("text", "question", "answer", "specialty", "licence"):
        if content.get(key):
            parts.append((key, content[key]))
    parts += content.get("options", {}).items()
    return {
        "where": entry.where,
        "id": entry.external_id,
        "language": entry.language,
        "kind": content["kind"],
        "parts": [[key, _shown(text, 4 * EXAMPLE)] for key, text in parts[:MAX_OPTIONS]],
    }


def _shown(value: Any, length: int = EXAMPLE) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    return one_line(text.encode("utf-8", "replace").decode().replace("\x00", "�"), length)


def _columns(path: Path, layout: Layout) -> tuple[list[str], str]:
    """The columns of a table, and what was recognised, in words."""
    problem = ""
    if layout.name == tabular.CSV:
        with open_text(path) as file:
            table = csv_table(file)
        if "" in table.header[1:]:  # the first one may be an index
            raise WrongFormat(
                "A column between others has no name. If lines stand above the names of the columns, delete them."
            )
        columns = [column for column in table.header if column]
        kind = SEPARATORS.get(table.separator, "CSV")
    else:
        objects = []
        for _where, entry in islice(tabular.records(path, layout.name), SNIFF_LIMIT):
            if isinstance(entry, Malformed) and not problem:
                problem = f" {entry}"
            record = _whole(entry)
            if isinstance(record, dict):
                objects.append(record)
        if layout.name == tabular.JSONL and len(objects) == 1 and _holds_records(objects[0]):
            raise WrongFormat("It is a JSON object of records: save it as an array of them, or one on each line.")
        names: dict[str, None] = {}
        for record in objects:
            names |= dict.fromkeys(flattened(record))
        columns = list(names)
        kind = _KINDS[layout.name]
    if not columns:
        raise WrongFormat(f"It is {kind} without a record that is an object.{problem}")
    if not "".join("".join(columns).split()).isprintable():
        raise WrongFormat("It is not text: save it as UTF-8.")
    return columns[:MAX_COLUMNS], f"{kind}; columns found: {', '.join(columns)[:300]}"


def _whole(record: Any) -> Any:
    """A record that was read, also one with NaN in some column."""
    if isinstance(record, HasConstant):
        return record.record
    return record


def _holds_records(value: Mapping[str, Any]) -> bool:
    """Whether an object is no record, but has records as its members or in a list."""
    parts = value.values()
    if all(isinstance(part, dict) for part in parts):
        return not _WRAPPERS & value.keys()
    lists = [value[name] for name in _RECORD_LISTS & value.keys()]
    has_rows = any(isinstance(rows, list) and rows and isinstance(rows[0], dict | list) for rows in lists)
    fields = {guess_field(column) for column in flattened(value)}
    return has_rows and fields.isdisjoint(BODIES)


def flattened(record: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, Any]:
    """The values of a record by the paths of their columns."""
    result: dict[str, Any] = {}
    for key, value in record.items():
        column = f"{prefix}{key}"[:300]
        is_nested = isinstance(value, dict) and value and depth < MAX_DEPTH and guess_field(column) != "options"
        if is_nested:
            result |= flattened(value, f"{column}.", depth + 1)
        else:
            result[column] = value
    return result


# ---------------------------------------------------------------------------------------- a record


def _row(record: dict[str, Any], *, mapping: TableMapping, split: str) -> Row:
    values = {**record, **flattened(record)}
    if mapping.column("question"):
        content, text = _question(values, mapping, split)
    elif mapping.column("turns"):
        turns = _turns(values, mapping.columns["turns"])
        content = {"kind": "dialogue", "turns": turns, "rubrics": [], "tags": [], "ideal_completion": None}
        text = "\n".join(turn["content"] for turn in turns if turn["role"] == "user")
    else:
        text = _required(values, mapping.column("text"))
        content = {"kind": "report", "text": text, "title": "", "age": [], "gender": "", "pmid": ""}
    facets: dict[str, str] = {}
    shorts: tuple[Constant, ...] = ("specialty", "licence")
    for field in shorts:
        if value := _short(values, mapping, field):
            content[field] = facets[field] = value
    language: dict[str, Any] = {"language": _language(values, mapping)}
    if not language["language"]:
        language = language_fields(text)
    return Row(
        external_id=_id(values, mapping, content),
        title=content.get("question") or text,
        **language,
        content=content,
        facets=facets,
    )


def _question(values: Mapping[str, Any], mapping: TableMapping, split: str) -> tuple[dict[str, Any], str]:
    """The content of a question, and all of its text."""
    question = _required(values, mapping.column("question"))
    answer = _required(values, mapping.column("answer"), blank=())  # "None" is one
    if not mapping.columns.get("options"):
        contexts = _contexts(values, mapping)
        content = {"kind": "qa", "question": question, "contexts": contexts, "sections": [], "answer": answer}
        content |= {"decision": "", "pmid": "", "year": "", "mesh": [], "split": ""}
        return content, "\n".join((question, answer, *contexts))
    if isinstance(values[mapping.column("answer")], int | float):  # counted from 0 or from 1, or a text
        raise Malformed("The answer is none of the options: neither the letter nor the text of one.")
    options = _options(values, mapping.columns["options"])
    stem = "\n".join((*_contexts(values, mapping), question))
    content = tabular.choice_content(name, stem, options, _letter(answer, options), choice="", split=split)
    return content, "\n".join((question, *options.values()))


def _contexts(values: Mapping[str, Any], mapping: TableMapping) -> list[str]:
    texts = []
    for column in mapping.columns.get("context", ()):
        texts += _texts(values, column)
    return texts


def _text(values: Mapping[str, Any], column: str) -> str:
    """The text of a cell, '' if it is empty."""
    value = values.get(column)
    if value is None:
        return ""
    if isinstance(value, bool):
        value = str(value)
    elif not isinstance(value, str):
        value = id_text(value)
    if isinstance(value, float):
        value = str(value)
    if not isinstance(value, str):
        raise Malformed(f"'{column}' is not a text.")
    text = value.replace("\r\n", "\n").replace("\r", "\n").strip()
    # Marks that nobody sees are no text.
    if bare(text):
        return text
    return ""


def _required(values: Mapping[str, Any], column: str, blank: Collection[str] = _BLANK) -> str:
    """The text of a cell. Raises Malformed if it is missing, or one of these `blank` ones."""
    text = _text(values, column)
    if not text or text.casefold() in ("nan", *blank):
        if column in values:
            raise Malformed(f"'{column}' is blank.")
        raise Malformed(f"'{column}' is missing.")
    return text


def _short(values: Mapping[str, Any], mapping: TableMapping, field: Constant) -> str:
    """A short value of a record: of its column, or the same for all."""
    if column := mapping.column(field):
        text = _text(values, column)
    else:
        text = mapping.values.get(field, "")
    if len(text) > 100:
        raise Malformed(f"'{column}' has more than 100 characters.")
    if text.casefold() in _BLANK:
        return ""
    return " ".join(text.split())


def _language(values: Mapping[str, Any], mapping: TableMapping) -> str:
    code = language_code(_short(values, mapping, "language"))
    if code and not re.fullmatch("[a-z]{2,3}", code):
        raise Malformed(f"'{mapping.column('language') or 'language'}' is not a language code, such as 'en' or 'zh'.")
    return code


def _id(values: Mapping[str, Any], mapping: TableMapping, content: Mapping[str, Any]) -> str:
    """The record's id; of its content where the table has none, so that it stays the same.

    Of several columns, the first must not be blank.
    """
    parts = [_text(values, column) for column in mapping.columns.get("id", ())]
    if parts and parts[0].casefold() not in _BLANK:
        if len(parts) > 1:
            return "_".join("_".join(parts).split()).strip("_")
        return "_".join(parts[0].split())
    identifying = {key: content[key] for key in sorted(content) if key not in ("specialty", "licence")}
    return hashlib.sha256(json.dumps(identifying).encode()).hexdigest()[:24]


def _parsed(text: str, column: str) -> Any:
    """The list or object that is written in a cell as JSON; else the text.

    Raises Malformed for one that pandas wrote as Python: to read it as a text would make something
    else of it.
    """
    if not text.startswith(("[", "{")):
        return text
    try:
        return json_nesting.loads(text)
    except (json_nesting.TooDeep, ValueError):
        if text.startswith(("['", '["', "[{", "{'")):
            raise Malformed(f"'{column}' is not JSON.") from None
        return text


def _texts(values: Mapping[str, Any], column: str) -> list[str]:
    """The texts of a cell: one, or a list of them."""
    value = values.get(column)
    if not isinstance(value, list):
        value = _parsed(_text(values, column), column)
    if isinstance(value, str):
        if value:
            return [value]
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Malformed(f"'{column}' is not a list of texts.")
    return [text.strip() for text in value if text.strip()]


# ----------------------------------------------------------------------------------- conversations


def _turns(values: Mapping[str, Any], columns: Sequence[str]) -> list[dict[str, str]]:
    """The turns of a conversation: of a list in one column, or each of one of several columns."""
    if len(columns) > 1:
        roles = [role_of(column) for column in columns]
        if not all(roles):  # they speak in turn
            roles = (["user", "assistant"] * len(columns))[: len(columns)]
        spoken = list(zip(roles, [_text(values, column) for column in columns], strict=True))
    else:
        value = values.get(columns[0])
        if not isinstance(value, list | dict):
            value = _parsed(_required(values, columns[0]), columns[0])
        if isinstance(value, str):
            spoken = _transcript(value, columns[0])
        else:
            spoken = _spoken(value, columns[0])
    turns, speakers = [], set()
    for role, text in spoken:
        if text:
            turns.append({"role": role, "content": text})
            speakers.add(role)
    if "user" not in speakers:
        raise Malformed(f"The patient says nothing in {', '.join(map(repr, columns))[:200]}.")
    return turns


def _spoken(value: Any, column: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):  # some tools wrap the list
        lists = [part for part in value.values() if isinstance(part, list)]
        if lists:
            value = lists[0]
    if not isinstance(value, list):
        raise Malformed(f"'{column}' is not a list of turns.")
    spoken = []
    for place, turn in enumerate(value, 1):
        if not isinstance(turn, dict):
            raise Malformed(f"Turn {place} is not an object.")
        speaker = first_of(turn, ("role", "author", "speaker", "from", "sender", "name"))
        if speaker is None:
            speaker = ""
        text = first_of(turn, ("content", "text", "value", "message", "utterance"))
        if isinstance(speaker, str) and speaker.casefold() in IGNORED_SPEAKERS:
            continue
        role = ""
        if isinstance(speaker, str):
            role = role_of(speaker)
        if not role:
            raise Malformed(f"The role of turn {place} is neither a patient (user) nor a doctor (assistant).")
        try:
            text = joined_parts(text)
        except ValueError as error:
            raise Malformed(f"Turn {place} {error}.") from None
        if not isinstance(text, str) or not text.strip():
            raise Malformed(f"Turn {place} has no text.")
        spoken.append((role, text.strip()))
    return spoken


def _transcript(text: str, column: str) -> list[tuple[str, str]]:
    """The turns of a text in which lines begin with the speaker: 'Patient: …'."""
    marks = []
    for mark in _SPEAKER.finditer(text):
        if role := role_of(mark[1]):
            marks.append((mark, role))
    if not marks or text[: marks[0][0].start()].strip():
        raise Malformed(f"'{column}' is neither a list of turns nor lines that begin with 'Patient:' or 'Doctor:'.")
    ends = [mark.start() for mark, _role in marks[1:]] + [len(text)]
    spoken: list[tuple[str, str]] = []
    for (mark, role), end in zip(marks, ends, strict=True):
        words = text[mark.end() : end].strip()
        if spoken and spoken[-1][0] == role:
            words = f"{spoken.pop()[1]}\n{words}".strip()
        spoken.append((role, words))
    return spoken


# ----------------------------------------------------------------------------------------- options


def _options(values: Mapping[str, Any], columns: Sequence[str]) -> dict[str, str]:
    """letter -> text: of a list or object in one column, or each of one of several columns."""
    if len(columns) > 1:
        # Each has the letter of its column, so that an empty one moves no other.
        letters = list(map(option_letter, columns))
        if not all(letters) or len(set(letters)) < len(letters):
            letters = [chr(ord("A") + place) for place in range(len(columns))]
        texts: Any = {}
        for letter, column in zip(letters, columns, strict=True):
            if text := _text(values, column):
                texts[letter] = text
    else:
        value = values.get(columns[0])
        if isinstance(value, list | dict):
            texts = value
        else:
            texts = _parsed(_required(values, columns[0]), columns[0])
    if isinstance(texts, str):
        sign = "\n"
        for separator in ("\n", "|", ";"):
            if separator in texts:
                sign = separator
                break
        texts = [text.strip() for text in texts.split(sign) if text.strip()]
    try:
        return options_of(texts)
    except ValueError:
        raise Malformed(f"'{columns[0]}' is not a list of options.") from None


def _letter(answer: str, options: Mapping[str, str]) -> str:
    """The letter of the correct option, which is named by its letter or its text."""
    if letter := chosen_letter(answer, options):
        return letter
    raise Malformed("The answer is none of the options: neither the letter nor the text of one.")
