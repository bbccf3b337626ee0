"""What every exporter shares: the shape of a sample, one way to write JSON, and files that appear whole or not at all.

The same samples in the same order give the same bytes: columns have one order, the keys of nested objects are sorted (a
database may give them back in another order than they were stored in), and nothing in a file tells when it was written.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TextIO

from pydantic_core import to_json

from generation.common.formats import FormatError

# {"sample_id": str, "version": int, "benchmark": str, "task": str, "simulated": bool, "language": str, "specialty": str,
#  "arm": "trap" | "control", "split": "public" | "held-out", "canary": str, "source": {...},
#  "content": {...}, "facets": {name: [str]}, "citations": [{"kind", "reference", "section", "passage", "read_on": str}],
#  "made": {name: str}, "messages": [{"role": str, "content": str}] (where the exporter `asks`), "review": {...},
#  "rubrics": [{"key": str, "criterion": str, "traps": [str], "severity": str, "polarity": "must" | "must not" (where told)}]}
ADDED = ("language", "specialty", "arm", "split", "canary")  # texts; empty where the release is older
PLAIN = ("sample_id", "version", "benchmark", "task", "simulated", *ADDED)
NESTED = ("source", "content", "facets", "citations", "made", "review")
COLUMNS = frozenset((*PLAIN, *NESTED, "rubrics", "messages", "judging", "points", "training"))
# Not in releases that were frozen before they were told, whose bytes stay what they were, or not for every format.
LATER = frozenset({"made", "messages", "judging", "points", "training", *ADDED})
RUBRIC_COLUMNS = frozenset({"key", "criterion", "traps", "severity", "polarity"})

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
_BUFFER = 1 << 18  # bytes
LONG = 100  # characters; `pydantic_core` writes longer texts several times faster than `json` does, to the same bytes
# `_ENCODER.encode` makes this anew for every value, which takes longer than to write a short one.
_pieces: Callable[[Any, int], Iterable[str]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None,
    _ENCODER.default,
    json.encoder.encode_basestring,
    None,
    ":",
    ",",
    True,
    False,
    False,
)


class WrongSample(FormatError):
    """A sample does not have the columns of an export."""


class Exporter(Protocol):
    """What a module in this package offers."""

    name: str
    label: str
    # A module may say `asks = True`: then each sample has `messages`, what a model under test is sent; with `judges = True`
    # also `judging`, what a judge is sent (`registry.judging`). With `weighs = True` each sample of a benchmark whose criteria
    # have points has `points`, those of its rubrics in their order; with `earns = True` each must have some above 0. With
    # `trains = True` each has `training`
    # (`registry.training`); with `supervises = True` it is the benchmark's own example of supervision
    # (`registry.supervision`). A module may offer `readme(card, about)`, the text of a README.md.
    # `lines` is the name of its file where that is JSON Lines, one sample a line: such a format can also be exported by
    # reference (`references`).

    def write(self, samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
        """Write `samples` into the existing `folder`, streamed, and return the files made. Raises WrongSample, OSError;
        then no file of this export is left or replaced."""
        ...


def gettext_noop(text: str) -> str:
    """Mark `text` to be translated where it is shown. Django has the same, but exporters are plain Python."""
    return text


def checked(samples: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The samples, each with exactly the known columns: one too many would be lost in some formats and kept in others.

    Raises WrongSample that names the columns.
    """
    right: set[tuple[str, ...]] = set()  # keys that were found right: nearly all samples have the same
    right_of_rubrics: set[tuple[str, ...]] = set()
    for sample in samples:
        if (keys := tuple(sample)) not in right:
            _check(sample, COLUMNS - (LATER - sample.keys()), f"Sample {sample.get('sample_id')!r}")
            right.add(keys)
        for rubric in sample["rubrics"]:
            if (keys := tuple(rubric)) not in right_of_rubrics:
                what = f"A rubric of sample {sample['sample_id']!r}"
                _check(rubric, RUBRIC_COLUMNS - ({"polarity"} - rubric.keys()), what)
                right_of_rubrics.add(keys)
        yield sample


def _check(mapping: Mapping[str, Any], columns: frozenset[str], what: str) -> None:
    if mapping.keys() != columns:
        raise WrongSample(
            f"{what} lacks {sorted(columns - mapping.keys())} and has {sorted(mapping.keys() - columns)} too many."
        )


def canonical(value: Any) -> str:
    """`value` as JSON on one line: keys sorted, no spaces, characters as they are. Raises ValueError for NaN."""
    if type(value) is str:
        return to_json(value).decode() if len(value) > LONG else json.encoder.encode_basestring(value)
    return "".join(_pieces(value, 0))


def conversation(messages: Iterable[Mapping[str, str]]) -> str:
    """Messages in the canonical form: of long texts this takes a quarter of the time."""
    parts = [f'{{"content":{canonical(each["content"])},"role":{canonical(each["role"])}}}' for each in messages]
    return "[" + ",".join(parts) + "]"


def canonical_rubrics(rubrics: Iterable[Mapping[str, Any]]) -> str:
    """A sample's rubrics in the canonical form, in half the time: they are a third of most lines."""
    text, parts = json.encoder.encode_basestring, []
    for each in rubrics:
        polarity = f'"polarity":{text(each["polarity"])},' if "polarity" in each else ""
        head = f'"criterion":{text(each["criterion"])},"key":{text(each["key"])},{polarity}'
        parts.append(f'{{{head}"severity":{text(each["severity"])},"traps":{canonical_traps(tuple(each["traps"]))}}}')
    return "[" + ",".join(parts) + "]"


@lru_cache(maxsize=4096)
def canonical_traps(traps: tuple[str, ...]) -> str:
    """Traps in the canonical form: there are few."""
    return canonical(traps)


def canonical_object(fields: Mapping[str, str]) -> str:
    """An object in the canonical form, of values that are in it already. Its keys need no escapes."""
    return "{" + ",".join([f'"{name}":{fields[name]}' for name in sorted(fields)]) + "}"


def opened(path: Path, newline: str = "\n") -> TextIO:
    """A file to write text to, a few dozen samples at a time: each time costs as much as to write one."""
    return path.open("w", _BUFFER, encoding="utf-8", newline=newline)


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Temporary paths beside `paths`. They take their places at the end, or vanish where an error is raised."""
    unfinished = [path.with_name(f".{path.name}.unfinished") for path in paths]
    try:
        yield unfinished
        for temporary, path in zip(unfinished, paths, strict=True):
            os.replace(temporary, path)
    finally:
        for temporary in unfinished:
            temporary.unlink(missing_ok=True)
