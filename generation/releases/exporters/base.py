"""What exporters share: a sample's shape, one way to write JSON, files that are whole or absent.

The same samples in the same order give the same bytes: columns have a fixed order, the keys of
nested objects are sorted (a database may return them in a different order than they were stored
in), and no file contains the time of writing.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from generation.common.formats import FormatError

# {"sample_id": str, "version": int, "benchmark": str, "task": str, "simulated": bool,
#  "language": str, "specialty": str, "arm": "trap" | "control" | "reworded",
#  "split": "public" | "held-out",
#  "canary": str, "source": {...}, "content": {...}, "facets": {name: [str]},
#  "citations": [{"kind", "reference", "section", "passage", "read_on": str}],
#  "made": {name: str}, "messages": [{"role": str, "content": str}] (if the exporter `asks`),
#  "review": {...}, "rubrics": [{"key": str, "criterion": str, "traps": [str], "severity": str,
#                                "polarity": "must" | "must not" (if there is one)}]}
ADDED = ("language", "specialty", "arm", "split", "canary")  # texts; empty in older releases
PLAIN = ("sample_id", "version", "benchmark", "task", "simulated", *ADDED)
NESTED = ("source", "content", "facets", "citations", "made", "review")
IDENTITY = ("sample_id", "task", "version", "language", "arm", "canary")
COLUMNS = frozenset((*PLAIN, *NESTED, "rubrics", "messages", "judging", "points", "training"))
# Columns that older releases lack, whose bytes must not change, or that only some formats have.
LATER = frozenset({"made", "messages", "judging", "points", "training", *ADDED})
RUBRIC = ("key", "criterion", "traps", "severity", "polarity")

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


class WrongSample(FormatError):
    """A sample does not have the columns of an export."""


Samples = Iterable[Mapping[str, Any]]
About = Mapping[str, Any]
NOTHING: About = MappingProxyType({})


class Exporter:
    """An export format. A subclass with a `name`, in a module of this package, adds one.

    Attributes:
        name, label: the format for commands and for readers.
        files: the names of its files.
        lines: the name of its file, if that is JSON Lines with one sample on each line. Such a
            format can also be exported by reference (`references`).
        asks: each sample has `messages`, what a model under test is sent.
        may_ask: it has them if the benchmark asks one question a sample; else the list is empty.
        judges: each sample has `judging`, what a judge is sent (`registry.judge_messages`), and
            `about["judging"]` says how its replies are counted (`registry.judging`).
        weighs: each sample has `points`, one for each rubric, if the benchmark's criteria have any.
        earns: some points of each sample must be above 0.
        trains: each sample has `training` (`registry.training_example`).
        supervises: each sample has `training`, as the benchmark's `registry.supervision` makes it.
    """

    name = ""
    label = ""
    files: tuple[str, ...] = ()
    lines = ""
    asks = may_ask = judges = weighs = earns = trains = supervises = False

    def write(self, samples: Samples, folder: Path, about: About = NOTHING) -> list[Path]:
        """Write `samples`, streamed, into the existing `folder` and return the files written.

        `about`: the release (`export.metadata`). Raises WrongSample, OSError; then no file of this
        export is left or replaced.
        """
        paths = [folder / name for name in self.files]
        with replace_files(*paths) as temporary:
            self.write_files(check_columns(samples), temporary)
        return [*paths, *self.companion_files(folder, about)]

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        """Write the samples into these paths, which are those of `files`."""
        raise NotImplementedError

    def companion_files(self, folder: Path, about: About) -> list[Path]:
        """Write the further files of the format, which have no samples, and return them."""
        return []

    def readme(self, card: str, about: About) -> str:
        """The text of a README.md, from that of the data card; '' for none."""
        return ""


class LinesExporter(Exporter):
    """A format with one line of JSON for each sample, in the file `lines`."""

    def __init__(self) -> None:
        self.files = (self.lines,)

    def line(self, sample: Mapping[str, Any]) -> str:
        """The JSON of a sample, without its line end."""
        raise NotImplementedError

    def write_files(self, samples: Samples, paths: list[Path]) -> None:
        with open_text(paths[0]) as file:
            file.writelines(self.line(sample) + "\n" for sample in samples)


def flat(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as a row of a table: its plain columns, and the nested ones as JSON."""
    plain = {column: sample.get(column, "") for column in PLAIN}
    return plain | {column: canonical(sample.get(column, {})) for column in NESTED}


def identity(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What other tools are told to recognise a sample by."""
    return {column: sample.get(column, "") for column in IDENTITY}


def weighed_rubrics(sample: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Each rubric with its points; 1 if the benchmark has none."""
    return zip(sample["rubrics"], sample.get("points") or [1] * len(sample["rubrics"]), strict=True)


def gettext_noop(text: str) -> str:
    """Mark `text` for translation. Like Django's, but exporters are plain Python."""
    return text


def check_columns(samples: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The samples, after checking that each has exactly the known columns.

    Some formats would lose an additional column and others keep it. Raises WrongSample, which names
    the columns.
    """
    for sample in samples:
        _check(sample, COLUMNS - (LATER - sample.keys()), f"Sample {sample.get('sample_id')!r}")
        for rubric in sample["rubrics"]:
            known = frozenset(RUBRIC) - ({"polarity"} - rubric.keys())
            _check(rubric, known, f"A rubric of sample {sample['sample_id']!r}")
        yield sample


def _check(mapping: Mapping[str, Any], columns: frozenset[str], what: str) -> None:
    if mapping.keys() != columns:
        raise WrongSample(
            f"{what} lacks {sorted(columns - mapping.keys())} and has {sorted(mapping.keys() - columns)} too many."
        )


def canonical(value: Any) -> str:
    """JSON on one line: keys sorted, no spaces, no escapes for non-ASCII characters.

    Raises ValueError for NaN.
    """
    return _ENCODER.encode(value)


def open_text(path: Path, newline: str = "\n") -> TextIO:
    """Open a text file for writing."""
    return path.open("w", encoding="utf-8", newline=newline)


@contextmanager
def replace_files(*paths: Path) -> Iterator[list[Path]]:
    """Temporary paths beside `paths`, which they replace at the end; removed upon an error."""
    unfinished = [path.with_name(f".{path.name}.unfinished") for path in paths]
    try:
        yield unfinished
        for temporary, path in zip(unfinished, paths, strict=True):
            os.replace(temporary, path)
    finally:
        for temporary in unfinished:
            temporary.unlink(missing_ok=True)
