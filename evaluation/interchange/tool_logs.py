"""The logs of tools that ran an export of a release: inspect-ai and lm-eval.

The functions yield the place of each verdict with its fields, or with the reason why there is none.
"""

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

from review.rules.text import is_storable

Found = tuple[str, dict[str, Any] | str]

MAX_MEMBER = 2**26  # bytes; a file in an .eval file, unpacked
MAX_RUBRICS = 1000  # of a sample
ZSTD = 93  # a zip's number for this compression, which Python cannot read
LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of a member's name and of its extra field
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
    fields = sample if isinstance(sample, dict) else {}
    epoch = fields.get("epoch", 1)
    where = f"sample {fields.get('id')!s:.100} epoch {epoch!s:.20}"
    try:
        verdicts = json.loads(fields["scores"]["criteria"]["explanation"]) if not fields.get("error") else {}
        output = fields.get("output") or {}
        text = str(output.get("completion") or "")
        about = {
            "sample": fields["id"],
            "model": log["eval"]["model"],
            "response": text,
            "repeat": epoch - 1 if type(epoch) is int else epoch,
            "judge": ((log["eval"].get("model_roles") or {}).get("grader") or {}).get("model") or "",
            "release": (log["eval"].get("metadata") or {}).get("sha256") or "",
        }
        rubrics = [rubric["key"] for rubric in fields["metadata"]["rubrics"]]
        stop_reason = ((output.get("choices") or [{}])[0]).get("stop_reason", "")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        yield where, "no verdicts of the task that comes with the Inspect export of a release"
        return
    outcome = "failed" if fields.get("error") else STOPPED.get(str(stop_reason), "")
    yield from _rows(where, about, rubrics, verdicts, outcome)


def lm_eval_rows(where: str, row: Mapping[str, Any]) -> Iterator[Found]:
    """The verdicts of one logged sample, as the task in our lm-eval export writes them.

    lm-eval names the model in no line, so `model` is empty.
    """
    try:
        judged, doc = row["judged"], row["doc"]
        about = {
            "sample": doc["sample_id"],
            "model": "",
            "response": str(row["resps"][0][0] or ""),
            "judge": judged["judge"],
            "release": judged["sha256"],
        }
        rubrics, verdicts = [rubric["key"] for rubric in doc["rubrics"]], judged["verdicts"]
    except (KeyError, TypeError, IndexError):
        yield where, "no verdicts of the task that comes with the lm-eval export of a release"
        return
    yield from _rows(where, about, rubrics, verdicts, "")


def _rows(where: str, about: dict[str, Any], rubrics: list[Any], verdicts: Any, outcome: str) -> Iterator[Found]:
    if len(rubrics) > MAX_RUBRICS:
        yield where, f"more than {MAX_RUBRICS:,} rubrics"
        return
    for rubric in rubrics:
        verdict = verdicts.get(rubric) if isinstance(verdicts, dict) and isinstance(rubric, str) else None
        if not isinstance(verdict, dict):  # logs of earlier exports have no explanations
            verdict = {"met": verdict}
        met = verdict.get("met")
        ending = outcome or ("empty" if not about["response"].strip() else "unparsed" if met is None else "judged")
        explanation = verdict.get("explanation", "")
        row = {**about, "rubric": rubric, "met": met, "outcome": ending, "explanation": explanation}
        yield f"{where} {rubric!s:.20}", row if is_storable(row) else NOT_STORABLE
