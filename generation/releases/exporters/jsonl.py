"""JSON Lines: `samples.jsonl`, one sample a line with its rubrics inside, UTF-8."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, canonical, canonical_rubrics, checked, replacing

name = "jsonl"
label = "JSON Lines"
lines = "samples.jsonl"

_ORDER = (*PLAIN, *NESTED)


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `samples.jsonl`; see `Exporter.write`."""
    path = folder / "samples.jsonl"
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line(encoded(sample)) for sample in checked(samples))
    return [path]


def encoded(sample: Mapping[str, Any]) -> dict[str, str]:
    """The values of a sample as JSON, in the order of a line: its rubrics come last."""
    fields = {column: canonical(sample[column]) for column in _ORDER if column in sample}
    return {**fields, "rubrics": canonical_rubrics(sample["rubrics"])}


def as_object(fields: Mapping[str, str]) -> str:
    """JSON of encoded values."""
    return "{" + ",".join(f'"{column}":{value}' for column, value in fields.items()) + "}"


def line(fields: Mapping[str, str]) -> str:
    """A sample's line in the file."""
    return as_object(fields) + "\n"
