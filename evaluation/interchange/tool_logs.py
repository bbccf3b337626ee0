"""The logs of tools that ran an export of a release: inspect-ai and lm-eval.

The functions yield the place of each verdict with its fields, or with the reason why there is none.
"""

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from evaluation.numbers.rules import INVALIDATED, LIMIT
from generation.llm.reasoning import split_reasoning
from review.rules.text import has_visible_text, is_storable

Found = tuple[str, dict[str, Any] | str]
Verdict = tuple[Any, Any, Any]  # the key or text of a criterion, met (None: undecided), explanation

MAX_MEMBER = 2**26  # bytes; a file in an .eval file, unpacked
MAX_CRITERIA = 1000  # of an answer
ZSTD = 93  # a zip's number for this compression, which Python cannot read
LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of a member's name and of its extra field
SCORER = "criteria"  # the name of our task's scorer in Inspect
IN_FLIGHT = "Cancelled"  # how the error of a sample begins that was in progress when a run ended
STOPPED = {"content_filter": "filtered", "max_tokens": "cut_off", "model_length": "cut_off"}
NOT_STORABLE = "contains a character that cannot be stored (NUL, or half of a surrogate pair)"


class LogTooLong(zipfile.BadZipFile):
    """A file in an archive is longer than any that is read."""


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a file in an archive, also if it is compressed with zstd.

    Raises TooLong, BadZipFile, and OSError for damaged zstd.
    """
    info = archive.getinfo(name)
    if max(info.file_size, info.compress_size) > MAX_MEMBER:
        raise LogTooLong(f"{name[:100]} in the log is longer than {MAX_MEMBER >> 20} MB")
    if info.compress_type != ZSTD:
        return archive.read(info)
    import pyarrow as pa

    file = archive.fp
    if file is None or info.flag_bits & 1:
        raise zipfile.BadZipFile(f"{name[:100]} is encrypted")
    file.seek(info.header_offset)
    lengths = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    file.seek(sum(lengths), 1)
    packed = pa.BufferReader(file.read(info.compress_size))
    content: bytes = pa.CompressedInputStream(packed, "zstd").read(info.file_size + 1)
    if len(content) != info.file_size or crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"{name[:100]} is damaged")
    return content


def inspect_rows(log: Mapping[str, Any], sample: Any) -> Iterator[Found]:
    """The verdicts of one sample in one epoch, as the task in our Inspect export writes them."""
    fields = {}
    if isinstance(sample, dict):
        fields = sample
    epoch = fields.get("epoch", 1)
    where = f"sample {fields.get('id')!s:.100} epoch {epoch!s:.20}"
    repeat = epoch
    if type(epoch) is int:
        repeat = epoch - 1
    try:
        score = {}
        if not fields.get("error"):
            score = fields["scores"][SCORER]
        verdicts = {}
        if score:
            verdicts = json.loads(score["explanation"])
        output, header = fields.get("output") or {}, log["eval"].get("metadata") or {}
        scored = (score.get("metadata") or {}).get("mhb") or {}  # logs of earlier exports have none
        about = {
            "sample": fields["id"],
            "model": log["eval"]["model"],
            "response": split_reasoning(str(output.get("completion") or ""))[0],
            "repeat": repeat,
            "judge": scored.get("judge") or _judge_of(log["eval"]),
            "release": scored.get("release") or header.get("sha256") or "",
            "log": str(log["eval"].get("task_id") or ""),  # a retry has that of the log that it continues
        }
        if problem := _problem(fields, score, scored, header):
            yield where, problem
            return
        rubrics = [rubric["key"] for rubric in fields["metadata"]["rubrics"]]
        stop_reason = ((output.get("choices") or [{}])[0]).get("stop_reason", "")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        yield where, "no verdicts of the task that comes with the Inspect export of a release"
        return
    if fields.get("error"):
        outcome = "failed"
    else:
        outcome = STOPPED.get(str(stop_reason), "")
    about["void"] = void_of(fields)
    yield from verdict_rows(where, about, _verdicts_on(rubrics, verdicts), outcome)


def inspect_remarks(log: Mapping[str, Any]) -> Iterator[str]:
    """What the header of a log says about all of it: that it ended early, or asked for less."""
    header, results = log.get("eval"), log.get("results")
    if not isinstance(header, dict):
        return
    status = log.get("status") or "started"  # the journal of a log that was never closed has none
    if status != "success":
        of_all = ""
        if isinstance(results, dict):
            completed, total = results.get("completed_samples"), results.get("total_samples")
            of_all = f", {completed!s:.9} of {total!s:.9} samples completed"
        yield f"the run ended with the status {status!s:.20}{of_all}; what is not there counts as missing"
    config, data = header.get("config"), header.get("dataset")
    if isinstance(config, dict) and isinstance(data, dict) and (config.get("limit") or config.get("sample_id")):
        asked = data.get("sample_ids")
        if isinstance(asked, list):
            yield f"it was limited to {len(asked)} of {data.get('samples')!s:.9} samples"


def _judge_of(header: Mapping[str, Any]) -> str:
    """The model that judged; without a grader, Inspect asks the model under test."""
    grader = (header.get("model_roles") or {}).get("grader") or {}
    return str(grader.get("model") or header["model"])


def _problem(
    fields: Mapping[str, Any], score: Mapping[str, Any], scored: Mapping[str, Any], header: Mapping[str, Any]
) -> str:
    """Why a sample has no verdicts of the task's judge; '' if it has."""
    if str((fields.get("error") or {}).get("message") or "").startswith(IN_FLIGHT):
        return "in progress when the run ended, so the model neither answered nor failed"
    if score.get("history"):
        editors = {str((edit.get("provenance") or {}).get("author", "?")) for edit in score["history"][1:]}
        return f"the score was edited by hand ({', '.join(sorted(editors)):.200}): it has no verdicts on criteria"
    others = sorted(set(fields.get("scores") or {}) - {SCORER})
    if others:
        return f"several sets of scores ({SCORER}, {', '.join(others):.200}): keep one, with `inspect score --action overwrite`"
    rules = header.get("rules")
    if score and rules and scored.get("rules") != rules:
        return "scored by the rules of another export than the one that the log names"
    return ""


def void_of(sample: Mapping[str, Any]) -> str:
    """Why inspect-ai's own marks make a sample void: one of `rules.VOIDS`, or ''.

    Somebody invalidated it, or it ran into a limit of messages, tokens or time.
    """
    if sample.get("invalidation"):
        return INVALIDATED
    if sample.get("limit"):
        return LIMIT
    return ""


def lm_eval_rows(where: str, row: Mapping[str, Any]) -> Iterator[Found]:
    """The verdicts of one logged sample, as the task in our lm-eval export writes them.

    lm-eval names the model in no line, so `model` is empty.
    """
    try:
        judged, doc = row["judged"], row["doc"]
        about = {
            "sample": doc["sample_id"],
            "model": "",
            "response": split_reasoning(str(row["resps"][0][0] or ""))[0],
            "judge": judged["judge"],
            "release": judged["sha256"],
        }
        rubrics, verdicts = [rubric["key"] for rubric in doc["rubrics"]], judged["verdicts"]
    except (KeyError, TypeError, IndexError):
        yield where, "no verdicts of the task that comes with the lm-eval export of a release"
        return
    yield from verdict_rows(where, about, _verdicts_on(rubrics, verdicts))


def _ending_of(response: str, met: Any) -> str:
    """How an answer ended that the tool says nothing else about."""
    if not has_visible_text(response):
        return "empty"
    if met is None:
        return "unparsed"
    return "judged"


def _verdicts_on(rubrics: list[Any], verdicts: Any) -> list[Verdict]:
    """The verdict on each rubric, of a JSON object with those of the task's judge."""
    found = []
    for rubric in rubrics:
        verdict = None
        if isinstance(verdicts, dict) and isinstance(rubric, str):
            verdict = verdicts.get(rubric)
        if not isinstance(verdict, dict):  # logs of earlier exports have no explanations
            verdict = {"met": verdict}
        found.append((rubric, verdict.get("met"), verdict.get("explanation", "")))
    return found


def verdict_rows(where: str, about: dict[str, Any], verdicts: Sequence[Verdict], outcome: str = "") -> Iterator[Found]:
    """A row for each verdict on an answer. `outcome`: how the answer ended, if its tool says so."""
    if not verdicts:
        yield where, "no verdict on a criterion"
    if len(verdicts) > MAX_CRITERIA:
        yield where, f"more than {MAX_CRITERIA:,} criteria"
        return
    for criterion, met, explanation in verdicts:
        ending = outcome or _ending_of(about["response"], met)
        row = {**about, "rubric": criterion, "met": met, "outcome": ending, "explanation": explanation}
        place = f"{where}, {criterion!s:.20}"
        if is_storable(row):
            yield place, row
        else:
            yield place, NOT_STORABLE
