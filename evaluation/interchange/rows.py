"""Reads verdicts made elsewhere: JSON Lines, or a log of inspect-ai, as one row a verdict with its place in the file."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from evaluation import errors
from review.rules.text import is_storable

OUTCOMES = frozenset({"judged", "refused", "empty", "filtered", "cut_off", "unparsed", "failed"})
MOST_REPEATS = 2**15 - 1
LONGEST_LINE = 2**22  # bytes
LONGEST_LOG = 2**29  # bytes: a log of inspect-ai is read whole
LONGEST_NAME = 200


class VerdictRow(NamedTuple):
    """One verdict: `met` is None where nobody could decide."""

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
    release: str  # its SHA-256; '' where the row does not say


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was not imported, and why."""

    where: str
    reason: str


Entry = VerdictRow | RefusedRow


class Chunks:
    """Rows in chunks that are stored together. The next one is parsed beside other work, from `read_on`."""

    def __init__(self, entries: Iterator[Entry], size: int, reader: Executor) -> None:
        self._entries, self._size, self._reader = entries, size, reader
        self.read_on()

    def read_on(self) -> None:
        """To be called once for each chunk, when it needs Python no more."""
        self._coming = self._reader.submit(lambda: list(islice(self._entries, self._size)))

    def __iter__(self) -> Iterator[list[Entry]]:
        while chunk := self._coming.result():
            yield chunk


def read(path: Path) -> Iterator[Entry]:
    """The rows of a file, streamed. Raises WrongResults where it is neither JSON Lines nor a log of inspect-ai."""
    with path.open("rb") as file:
        start = file.read(4)
        if start.startswith(b"PK"):
            yield from _eval_file(path)
            return
        file.seek(0)
        first = file.readline(LONGEST_LINE + 1)
        if _is_log(first):
            yield from _log(_whole(path))
            return
        file.seek(0)
        yield from _lines(file)


def _is_log(first: bytes) -> bool:
    """Whether a file that begins with this line is one JSON object with a log's keys, on one line or on many."""
    if first.strip() == b"{":
        return True
    return first.startswith(b'{"version"') and b'"eval"' in first


def _whole(path: Path) -> Any:
    if path.stat().st_size > LONGEST_LOG:
        raise errors.WrongResults(f"the log is longer than {LONGEST_LOG >> 20} MB")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise errors.WrongResults(f"neither JSON Lines nor a log of inspect-ai ({error})") from error


# ----------------------------------------------------------------------------------------------------------- JSON Lines


def _lines(file: IO[bytes]) -> Iterator[Entry]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        where = f"line {number}"
        if len(line) > LONGEST_LINE:
            yield RefusedRow(where, f"longer than {LONGEST_LINE >> 20} MB")
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
        elif line.strip():
            yield _parsed(where, line)


def _parsed(where: str, line: bytes) -> Entry:
    try:
        found = json.loads(line.decode())  # bytes would be searched for their encoding first
    except (ValueError, RecursionError):
        return RefusedRow(where, "not JSON")
    # Only what is written as an escape can be what no database stores.
    if (b"\\u0000" in line or b"\\ud" in line or b"\\uD" in line) and not is_storable(found):
        return RefusedRow(where, "contains a character that cannot be stored (NUL, or half of a surrogate pair)")
    return _checked(where, found)


def _checked(where: str, row: Any) -> Entry:
    """A row with fields of the right types, or what is wrong with it."""
    if not isinstance(row, dict):
        return RefusedRow(where, "not a JSON object")
    get = row.get
    sample, rubric, model = get("sample", ""), get("rubric", ""), get("model", "")
    for name, value in (("sample", sample), ("rubric", rubric), ("model", model)):
        if not isinstance(value, str) or not value:
            return RefusedRow(where, f"{name}: missing or not text")
    met = get("met", where)
    if met is not True and met is not False and met is not None:
        return RefusedRow(where, "met: must be true, false or null")
    outcome = get("outcome")
    if outcome is None:
        outcome = "unparsed" if met is None else "judged"
    elif not isinstance(outcome, str) or outcome not in OUTCOMES:
        return RefusedRow(where, f"outcome: must be one of {', '.join(sorted(OUTCOMES))}")
    if (outcome == "judged" and met is None) or (outcome in ("unparsed", "failed") and met is not None):
        return RefusedRow(where, f"outcome {outcome} does not go with met {json.dumps(met)}")
    response, explanation, judge = get("response") or "", get("explanation") or "", get("judge") or ""
    for name, value in (("response", response), ("explanation", explanation), ("judge", judge)):
        if not isinstance(value, str):
            return RefusedRow(where, f"{name}: not text")
    repeat = get("repeat") or 0
    if type(repeat) is not int or not 0 <= repeat <= MOST_REPEATS:
        return RefusedRow(where, f"repeat: must be a whole number from 0 to {MOST_REPEATS}")
    if len(model) > LONGEST_NAME or len(judge) > LONGEST_NAME:
        return RefusedRow(where, f"a model's name has at most {LONGEST_NAME} characters")
    release = get("release") or ""
    if not isinstance(release, str):
        return RefusedRow(where, "release: not text")
    return VerdictRow(where, sample, rubric, model, met, outcome, response, explanation, repeat, judge, release)


# ----------------------------------------------------------------------------------------------------------- inspect-ai


def _eval_file(path: Path) -> Iterator[Entry]:
    """A log in inspect-ai's own format: JSON files in a zip. Newer ones are packed in a way that Python cannot read."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            if sum(archive.getinfo(name).file_size for name in names) > LONGEST_LOG:
                raise errors.WrongResults(f"the log is longer than {LONGEST_LOG >> 20} MB")
            for name in names:
                yield from _sample(header, json.loads(archive.read(name)))
    except NotImplementedError as error:
        raise errors.WrongResults(
            "this .eval file must be converted first: inspect log dump FILE > log.json"
        ) from error
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise errors.WrongResults(f"not a log of inspect-ai ({type(error).__name__})") from error


def _log(log: Any) -> Iterator[Entry]:
    if not isinstance(log, dict) or not isinstance(log.get("eval"), dict) or not isinstance(log.get("samples"), list):
        raise errors.WrongResults("neither JSON Lines nor a log of inspect-ai with its samples")
    for sample in log["samples"]:
        yield from _sample(log, sample)


def _sample(log: Mapping[str, Any], sample: Any) -> Iterator[Entry]:
    """The verdicts of one sample in one epoch, as the task of our Inspect export writes them."""
    about = sample if isinstance(sample, dict) else {}
    epoch = about.get("epoch", 1)
    where = f"sample {about.get('id')!s:.100} epoch {epoch!s:.20}"
    try:
        verdicts = json.loads(about["scores"]["criteria"]["explanation"]) if not about.get("error") else {}
        output = about.get("output") or {}
        text = str(output.get("completion") or "")
        model = log["eval"]["model"]
        judge = ((log["eval"].get("model_roles") or {}).get("grader") or {}).get("model") or ""
        rubrics = [rubric["key"] for rubric in about["metadata"]["rubrics"]]
        stopped = ((output.get("choices") or [{}])[0]).get("stop_reason", "")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        yield RefusedRow(where, "no verdicts of the task that comes with the Inspect export of a release")
        return
    for rubric in rubrics:
        met = verdicts.get(rubric) if isinstance(verdicts, dict) else None
        row = {
            "sample": about["id"],
            "rubric": rubric,
            "model": model,
            "met": met,
            "outcome": _outcome(about, text, stopped, met),
            "response": text,
            "repeat": epoch - 1 if type(epoch) is int else epoch,
            "judge": judge,
        }
        if is_storable(row):
            yield _checked(f"{where} {rubric!s:.20}", row)
        else:
            yield RefusedRow(where, "contains a character that cannot be stored (NUL, or half of a surrogate pair)")


def _outcome(sample: Mapping[str, Any], text: str, stopped: str, met: bool | None) -> str:
    if sample.get("error"):
        return "failed"
    if stopped in ("content_filter", "max_tokens", "model_length"):
        return "filtered" if stopped == "content_filter" else "cut_off"
    if not text.strip():
        return "empty"
    return "unparsed" if met is None else "judged"
