"""Reads verdicts made elsewhere, from JSON Lines, a table or the logs and results of other tools.

Each verdict becomes one row that knows its place in the file. `rows` runs this in a process with
limits, which has neither Django nor the database.
"""

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from evaluation.interchange import other_tools, tool_logs
from evaluation.numbers.rules import VOIDS
from generation.common.formats import FormatError
from generation.sources.importers.base import ZIP_ARCHIVE, Malformed, WrongFormat, container_of, first_byte
from generation.sources.importers.bundles import open_archive
from generation.sources.importers.tables import check_csv, csv_header, csv_records
from review.rules.text import has_visible_text, is_storable, unified_newlines
from review.rules.text_files import open_text, yes_or_no

OUTCOMES = frozenset({"judged", "refused", "empty", "filtered", "cut_off", "unparsed", "failed"})
MAX_REPEATS = 2**15 - 1
MAX_LINE = 2**22  # bytes
MAX_LOG = 2**29  # bytes; a JSON log of inspect-ai is read into memory
MAX_UNPACKED = 2**32  # bytes; all samples of an .eval file, of which one is in memory
MAX_SAMPLES = 100_000  # in an .eval file
MAX_NAME = 200
MAX_TOGETHER, MAX_CHARACTERS = 200, 2**20  # rows that are sent together, and characters in them
REQUIRED = ("sample", "rubric")
COLUMNS = (*REQUIRED, "met")  # of a table
NAMES = (*REQUIRED, "model")
_TABLE = "a table without the columns 'sample', 'rubric' and 'met'. Name them so, or export a tool's results as JSON"
_DOCUMENT_STARTS = (b'{"version"', b'{"evalId"', b'{"score"', b'{"object"')
TEXTS = ("response", "explanation", "judge", "release", "void", "log")  # may be null
SHORT = ("model", "judge", "log")
MARK = b"\xef\xbb\xbf"  # which also stands within a file that was joined from several


class VerdictRow(NamedTuple):
    """One verdict. `met` is None if nobody could decide."""

    where: str
    sample: str
    rubric: str
    model: str
    met: bool | None
    outcome: str
    response: str
    explanation: str
    repeat: int
    judge: str
    release: str  # its SHA-256; '' if the row does not state it
    void: str = ""  # one of `rules.VOIDS`: why the verdict does not count
    log: str = ""  # the same in a log and in its retries, whose answers replace failed ones


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was not imported, and the reason."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class AboutFile:
    """What a file says about itself as a whole."""

    text: str


Entry = VerdictRow | RefusedRow | AboutFile


class UnreadableResults(FormatError):
    """This file cannot be imported as results."""


def parse(path: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a file as JSON, streamed.

    Raises UnreadableResults if it is neither JSON Lines, nor a table, nor a log of another tool.
    """
    for entry in _entries(Path(path)):
        if isinstance(entry, VerdictRow):
            yield entry
        else:
            yield astuple(entry)


def parse_together(path: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of `parse`, many at a time: to send each by itself takes longer than to read it."""
    together: list[tuple[Any, ...]] = []
    characters = 0
    for row in parse(path):
        together.append(row)
        characters += sum(len(value) for value in row if isinstance(value, str))
        if len(together) == MAX_TOGETHER or characters > MAX_CHARACTERS:
            yield together
            together, characters = [], 0
    if together:
        yield together


def _entries(path: Path) -> Iterator[Entry]:
    if container_of(path) == ZIP_ARCHIVE:
        yield from _eval_file_rows(path)
        return
    try:
        if first_byte(path) not in (b"{", b"["):
            header = csv_header(path)
            if not set(COLUMNS).isdisjoint(map(str.casefold, header)):
                check_csv(path, _missing_columns)
                yield from _table_rows(path)
                return
            if len(header) > 1 and not _goes_on_as_json(path):
                raise UnreadableResults(_TABLE)
    except WrongFormat as error:
        raise UnreadableResults(f"neither JSON Lines nor a log of another tool. {error.detail}") from error
    with open_text(path) as text:
        first = text.readline(MAX_LINE + 1)
    with open_text(path) as text:
        if _is_document(first):
            yield from _log_rows(_load_json(text))
        else:
            yield from _line_rows(text)


def _goes_on_as_json(path: Path) -> bool:
    """Whether the second line is an object: then the first one alone is no JSON."""
    with open_text(path) as text:
        text.readline(MAX_LINE)
        return text.readline(MAX_LINE).lstrip().startswith(b"{")


def _missing_columns(header: list[str]) -> str:
    return ", ".join([repr(column) for column in COLUMNS if column not in header])


def _table_rows(path: Path) -> Iterator[Entry]:
    """The rows of a CSV file whose columns have the names of fields."""
    for where, record in csv_records(path):
        if isinstance(record, Malformed):
            yield RefusedRow(where, str(record))
            continue
        fields = dict(record)
        fields["outcome"] = record.get("outcome") or None
        repeat = record.get("repeat", "").removesuffix(".0")
        if repeat.isdecimal():
            fields["repeat"] = int(repeat)
        try:
            fields["met"] = yes_or_no(record["met"])
        except ValueError:
            yield RefusedRow(where, "met: must be true, false or empty")
            continue
        if is_storable(record):
            yield _validated(where, fields)
        else:
            yield RefusedRow(where, tool_logs.NOT_STORABLE)


def _is_document(first: bytes) -> bool:
    """Whether a file is one JSON value, on many lines or on one, by its first line."""
    start = first.strip()
    if start in (b"[", b"{") or start.startswith(b"[{"):
        return True
    if not start.startswith(b"{"):
        return False
    try:
        value = json.loads(start.decode())
    except (ValueError, RecursionError):
        return start.startswith(_DOCUMENT_STARTS)  # a longer line than JSON Lines may have
    return isinstance(value, dict) and ("eval" in value or isinstance(value.get("results"), dict))


def _load_json(text: BinaryIO) -> Any:
    data = text.read(MAX_LOG + 1)
    if len(data) > MAX_LOG:
        raise UnreadableResults(f"the log is longer than {MAX_LOG >> 20} MB")
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadableResults(f"neither JSON Lines nor a log of inspect-ai ({type(error).__name__})") from error


# --------------------------------------------------------------------------------------- JSON Lines


def _line_rows(file: BinaryIO) -> Iterator[Entry]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        where = f"line {number}"
        if len(line) > MAX_LINE:
            yield RefusedRow(where, f"longer than {MAX_LINE >> 20} MB")
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
        elif line.strip():
            yield from _parse_line(where, line)


def _parse_line(where: str, line: bytes) -> Iterator[Entry]:
    try:
        # With bytes, json would detect the encoding first.
        row = json.loads(line.removeprefix(MARK).decode())
    except json.JSONDecodeError as error:
        yield RefusedRow(where, f"not JSON: {error.msg} (character {error.pos + 1})")
        return
    except (ValueError, RecursionError):
        yield RefusedRow(where, "not JSON")
        return
    is_of_a_tool = isinstance(row, dict) and "rubric" not in row  # asked first: nearly all rows have one
    if is_of_a_tool and "doc_id" in row and "doc" in row:  # one of lm-eval's logged samples
        yield from _checked(tool_logs.lm_eval_rows(where, row))
    elif is_of_a_tool and other_tools.tool_of(row):
        yield from _checked(other_tools.answer_rows(where, row))
    # A character that no database stores can only occur as an escape.
    elif (b"\\u0000" in line or b"\\ud" in line or b"\\uD" in line) and not is_storable(row):
        yield RefusedRow(where, tool_logs.NOT_STORABLE)
    else:
        yield _validated(where, row)


def _checked(found: Iterable[tool_logs.Found]) -> Iterator[Entry]:
    for where, row in found:
        if isinstance(row, str):
            yield RefusedRow(where, row)
        else:
            yield _validated(where, row)


def _validated(where: str, row: Any) -> Entry:
    """The row with fields of the right types, or the reason why it is refused."""
    if not isinstance(row, dict):
        return RefusedRow(where, "not a JSON object")
    texts = {name: row.get(name, "") for name in NAMES}
    for name in TEXTS:
        texts[name] = row.get(name) or ""
    for name, value in texts.items():
        if name in REQUIRED and not (isinstance(value, str) and value):
            return RefusedRow(where, f"{name}: missing or not text")
        if not isinstance(value, str):
            return RefusedRow(where, f"{name}: not text")
    if any(len(texts[name]) > MAX_NAME for name in SHORT):
        return RefusedRow(where, f"the name of a model, judge or log has at most {MAX_NAME} characters")
    if texts["void"] and texts["void"] not in VOIDS:
        return RefusedRow(where, f"void: must be one of {', '.join(sorted(VOIDS))}")
    texts["response"] = unified_newlines(texts["response"])
    met, outcome, repeat = row.get("met", where), row.get("outcome"), row.get("repeat") or 0
    if met is not True and met is not False and met is not None:
        return RefusedRow(where, "met: must be true, false or null")
    if outcome is None:
        outcome = "judged"
        if met is None:
            outcome = "unparsed"
    elif not isinstance(outcome, str) or outcome not in OUTCOMES:
        return RefusedRow(where, f"outcome: must be one of {', '.join(sorted(OUTCOMES))}")
    if texts["response"] and not has_visible_text(texts["response"]):
        met, outcome = None, "empty"  # nobody can have judged it
    if (outcome == "judged" and met is None) or (outcome in ("unparsed", "failed") and met is not None):
        return RefusedRow(where, f"outcome {outcome} contradicts met {json.dumps(met)}")
    if type(repeat) is not int or not 0 <= repeat <= MAX_REPEATS:
        return RefusedRow(where, f"repeat: must be a whole number from 0 to {MAX_REPEATS}")
    return VerdictRow(where, met=met, outcome=outcome, repeat=repeat, **texts)


# ----------------------------------------------------------------------------- logs of other tools


def _eval_file_rows(path: Path) -> Iterator[Entry]:
    """The rows of an .eval file of inspect-ai, which is a zip of JSON files."""
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
            # An evaluation that was broken off has only the beginning of its journal.
            first = "_journal/start.json"
            if "header.json" in names:
                first = "header.json"
            if first not in names:
                raise UnreadableResults(_about_archive(names))
            header = json.loads(tool_logs.read_member(archive, first))
            yield from map(AboutFile, tool_logs.inspect_remarks(header))
            samples = [name for name in names if name.startswith("samples/")]
            if len(samples) > MAX_SAMPLES:
                raise UnreadableResults(f"the log has more than {MAX_SAMPLES:,} samples")
            if sum(archive.getinfo(name).file_size for name in samples) > MAX_UNPACKED:
                raise UnreadableResults(f"the log is longer than {MAX_UNPACKED >> 20} MB, unpacked")
            for name in samples:
                sample = json.loads(tool_logs.read_member(archive, name))
                yield from _checked(tool_logs.inspect_rows(header, sample))
    except tool_logs.LogTooLong as error:
        raise UnreadableResults(str(error)) from error
    except (WrongFormat, zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError) as error:
        raise UnreadableResults(f"not a log of inspect-ai ({type(error).__name__})") from error
    except OSError as error:
        if error.errno:  # the file itself cannot be read
            raise
        raise UnreadableResults("not a log of inspect-ai: it is damaged") from error


def _about_archive(names: list[str]) -> str:
    """What an archive is that is no log of inspect-ai, and what to do with it."""
    if "[Content_Types].xml" in names or "mimetype" in names:
        return "a spreadsheet or document: save the table as CSV"
    return "not a log of inspect-ai, as it has no header.json: unpack this archive"


def _log_rows(log: Any) -> Iterator[Entry]:
    if isinstance(log, list):
        for number, value in enumerate(log, 1):
            where = f"entry {number}"
            if other_tools.tool_of(value):
                yield from _checked(other_tools.answer_rows(where, value))
            else:
                yield _validated(where, value)
        return
    if other_tools.tool_of(log):
        yield from _checked(other_tools.answer_rows("file", log))
        return
    if isinstance(log, dict) and "results" in log and "configs" in log:
        raise UnreadableResults("this is a summary of lm-eval; import its logged samples, samples_….jsonl")
    if not isinstance(log, dict) or not isinstance(log.get("eval"), dict) or not isinstance(log.get("samples"), list):
        raise UnreadableResults("neither JSON Lines nor a log of inspect-ai with its samples")
    yield from map(AboutFile, tool_logs.inspect_remarks(log))
    for sample in log["samples"]:
        yield from _checked(tool_logs.inspect_rows(log, sample))
