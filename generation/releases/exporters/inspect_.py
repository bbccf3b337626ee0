"""A task of inspect-ai: `task.py` and `inspect.jsonl`, for `inspect eval task.py`."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters import programs
from generation.releases.exporters.base import canonical, checked, replacing

name = "inspect"
label = "Inspect"
lines = "inspect.jsonl"
asks = True
judges = True


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write both; see `Exporter.write`."""
    data, task = folder / "inspect.jsonl", folder / "task.py"
    with replacing(data) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(canonical(_row(sample)) + "\n" for sample in checked(samples))
    shutil.copyfile(Path(programs.__file__).parent / "inspect_task.py", task)
    return [data, task]


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    about = ("task", "version", "language", "arm", "facets", "canary", "rubrics", "judging")
    return {
        "id": sample["sample_id"],
        "input": sample["messages"],
        "target": [rubric["criterion"] for rubric in sample["rubrics"]],
        "metadata": {column: sample.get(column, "") for column in about},
    }
