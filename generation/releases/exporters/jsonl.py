"""JSON Lines: `samples.jsonl`, one sample a line with its rubrics inside, UTF-8."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import NESTED, PLAIN, canonical, checked, replacing

name = "jsonl"
label = "JSON Lines"

_ORDER = (*PLAIN, *NESTED, "rubrics")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `samples.jsonl`; see `Exporter.write`."""
    path = folder / "samples.jsonl"
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        for sample in checked(samples):
            fields = (f"{canonical(column)}:{canonical(sample[column])}" for column in _ORDER if column in sample)
            file.write("{" + ",".join(fields) + "}\n")
    return [path]
