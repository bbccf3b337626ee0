"""A task of inspect-ai: `task.py` and `inspect.jsonl`, for `inspect eval task.py`."""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import canonical
from generation.releases.exporters.judging import JudgingExporter

_ABOUT = ("task", "version", "language", "arm", "facets", "canary")


class InspectExporter(JudgingExporter):
    """One sample of Inspect on each line, with what its judge is sent in the metadata."""

    name = "inspect"
    label = "Inspect"
    lines = "inspect.jsonl"
    programs = {"task.py": "inspect_task.py"}

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as one of Inspect."""
        metadata = {column: sample.get(column, "") for column in _ABOUT}
        for column in ("judging", "rubrics", "points"):
            if column in sample:
                metadata[column] = sample[column]
        row = {
            "id": sample["sample_id"],
            "input": sample["messages"],
            "target": [rubric["criterion"] for rubric in sample["rubrics"]],
            "metadata": metadata,
        }
        return canonical(row)
