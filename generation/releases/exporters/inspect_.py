"""A task of inspect-ai: `task.py` and `inspect.jsonl`, for `inspect eval task.py`."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generation.releases.exporters import programs
from generation.releases.exporters.base import (
    canonical,
    canonical_object,
    canonical_rubrics,
    check_columns,
    conversation,
    open_text,
    replace_files,
)

name = "inspect"
label = "Inspect"
lines = "inspect.jsonl"
asks = True
judges = True

_ABOUT = ("task", "version", "language", "arm", "facets", "canary")


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write both files; see `Exporter.write`."""
    data, task = folder / "inspect.jsonl", folder / "task.py"
    with replace_files(data) as [temporary], open_text(temporary) as file:
        file.writelines(_line(sample) for sample in check_columns(samples))
    shutil.copyfile(Path(programs.__file__).parent / "inspect_task.py", task)
    return [data, task]


def _line(sample: Mapping[str, Any]) -> str:
    metadata = {column: canonical(sample.get(column, "")) for column in _ABOUT}
    metadata |= {
        "judging": conversation(sample.get("judging", ())),
        "rubrics": canonical_rubrics(sample["rubrics"]),
    }
    row = {
        "id": canonical(sample["sample_id"]),
        "input": conversation(sample["messages"]),
        "target": canonical([rubric["criterion"] for rubric in sample["rubrics"]]),
        "metadata": canonical_object(metadata),
    }
    return canonical_object(row) + "\n"
