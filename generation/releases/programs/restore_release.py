"""Restore a release that was exported by reference.

    python restore_release.py ORIGINAL_FILE [ORIGINAL_FILE ...]

The original files are those that the samples were made from (JSON, JSON Lines or CSV, as published
by their authors). Needs Python 3.9 or newer and nothing else, and no network. Writes the samples
beside this program, byte for byte as in the ordinary export, and compares them with the checksum in
manifest.json.

Exits with 1 if an original file is not the one that the samples were made from, and names the
records; with 2 if there is nothing to read. In both cases nothing is written.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FROM_SOURCE = "from_source"
LONGEST_LITERAL = 1 << 20
NAMED = 20  # records to name; the others are only counted


class WrongOriginal(Exception):
    """A text of the source is not in the original files; the message says which."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value, including those in lists that were written into a cell."""
    if isinstance(value, str):
        yield value
        if value[:1] == "[" and len(value) < LONGEST_LITERAL:
            with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                yield from strings(ast.literal_eval(value))
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def rows(path: Path) -> Iterator[Any]:
    """The records of an original file. Raises OSError, ValueError."""
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"PAR1"):
        raise ValueError("Parquet cannot be read without other software; save it as JSON Lines")
    if head.startswith(b"\xef\xbb\xbf"):
        head = head[3:].lstrip()
    else:
        head = head.lstrip()
    if head[:1] not in (b"{", b"["):
        csv.field_size_limit(2**31 - 1)
        with path.open(encoding="utf-8-sig", newline="") as text:
            yield from csv.reader(text)
        return
    if head[:1] == b"{":
        with path.open("rb") as file:
            for number, line in enumerate(file):
                encoding = "utf-8-sig"
                if number:
                    encoding = "utf-8"
                try:
                    row = None
                    if line.strip():
                        row = json.loads(line.decode(encoding))
                except ValueError:
                    if not number:
                        break  # not JSON Lines, but one value on several lines
                    continue  # imports skip broken lines, too
                yield row
            else:
                return
    yield json.loads(path.read_text(encoding="utf-8-sig"))


def references(path: Path) -> Iterator[dict[str, Any]]:
    """The samples in a file of references."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def texts_of(originals: list[Path], wanted: set[str]) -> dict[str, str]:
    """Find the texts with the wanted checksums, as checksum -> text."""
    texts: dict[str, str] = {}
    for path in originals:
        for row in rows(path):
            for text in strings(row):
                for variant in {text, text.strip()}:
                    if (checksum := digest(variant)) in wanted:
                        texts[checksum] = variant
    return texts


def whole(value: Any, texts: list[str]) -> Any:
    """A value with its quotes replaced by the text of the sources."""
    if isinstance(value, list):
        return [whole(item, texts) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {FROM_SOURCE}:
        inner = value[FROM_SOURCE]
        if isinstance(inner, dict):
            return {key: whole(item, texts) for key, item in inner.items()}
        return "".join(piece(item, texts) for item in inner)
    return {key: whole(item, texts) for key, item in value.items()}


def piece(item: str | list[int], texts: list[str]) -> str:
    """A piece of a text: its own words, or [number, start, length] of a text of the sources."""
    if isinstance(item, str):
        return item
    number, start, length = item
    return texts[number][start : start + length]


def missing(path: Path, texts: dict[str, str]) -> list[str]:
    """The records whose texts were not found, as sentences."""
    sentences: dict[str, None] = {}  # each record once
    for line in references(path):
        for source, record, checksum in line["texts"]:
            if checksum not in texts:
                sentences[f"{source}: record {record} is not in the original file, or was altered"] = None
    named = list(sentences)[:NAMED]
    if len(sentences) > NAMED:
        named.append(f"and {len(sentences) - NAMED} more records")
    return named


def restore(folder: Path, originals: list[Path]) -> list[Path]:
    """Write the samples of a release into its folder; return their paths.

    Raises WrongOriginal, OSError, ValueError, KeyError.
    """
    entry = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["by_reference"]
    source, target = folder / entry["references"], folder / entry["path"]
    wanted: set[str] = set()
    for line in references(source):
        wanted.update(checksum for _source, _record, checksum in line["texts"])
    texts = texts_of(originals, wanted)
    if faults := missing(source, texts):
        raise WrongOriginal("\n".join(faults))
    unfinished, content = target.with_name(f".{target.name}.unfinished"), hashlib.sha256()
    try:
        with unfinished.open("wb") as file:
            for line in references(source):
                value = whole(line["line"], [texts[checksum] for _source, _record, checksum in line["texts"]])
                text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
                file.write(text.encode())
                content.update(text.encode())
        if content.hexdigest() != entry["sha256"]:
            raise WrongOriginal(f"{source.name}: altered, the samples do not have the checksum of the release")
        os.replace(unfinished, target)
    finally:
        if unfinished.exists():
            unfinished.unlink()
    return [target]


def main(arguments: list[str]) -> int:
    """Restore from the files named in `arguments`; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write((__doc__ or "").strip() + "\n")
        if arguments:
            return 0
        return 2
    try:
        for path in restore(Path(__file__).parent, [Path(name) for name in arguments]):
            sys.stdout.write(f"{path.name} is whole and has the checksum of the release.\n")
    except WrongOriginal as error:
        sys.stdout.write(f"{error}\n")
        return 1
    except (OSError, ValueError, KeyError, IndexError, csv.Error) as error:
        sys.stderr.write(f"The samples cannot be restored: {type(error).__name__} {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
