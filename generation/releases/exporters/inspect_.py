"""A task of inspect-ai: `task.py` and `inspect.jsonl`, for `inspect eval task.py`."""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import canonical, canonical_object, canonical_rubrics, conversation
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
        metadata = {column: canonical(sample.get(column, "")) for column in _ABOUT}
        metadata |= {
            "judging": conversation(sample["judging"]),
            "rubrics": canonical_rubrics(sample["rubrics"]),
        }
        if "points" in sample:
            metadata["points"] = canonical(sample["points"])
        row = {
            "id": canonical(sample["sample_id"]),
            "input": conversation(sample["messages"]),
            "target": canonical([rubric["criterion"] for rubric in sample["rubrics"]]),
            "metadata": canonical_object(metadata),
        }
        return canonical_object(row)
