"""Samples for OpenAI Evals: `evals.jsonl`.

Each line has `item`, which the Evals API reads, and `input` with `ideal`, which the open framework
reads. A grader is chosen there, so the scores are not those of MHB's judge.
"""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import LinesExporter, canonical

_ABOUT = ("sample_id", "task", "version", "language", "arm", "canary")


class OpenAIEvalsExporter(LinesExporter):
    """One item on each line, with its conversation and its criteria."""

    name = "openai-evals"
    label = "OpenAI Evals"
    lines = "evals.jsonl"
    asks = weighs = True

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as an item."""
        points = sample.get("points") or [1] * len(sample["rubrics"])
        criteria = [
            {"key": rubric["key"], "criterion": rubric["criterion"], "points": weight}
            for rubric, weight in zip(sample["rubrics"], points, strict=True)
        ]
        item = {column: sample.get(column, "") for column in _ABOUT}
        item |= {"messages": sample["messages"], "criteria": criteria}
        ideal = [rubric["criterion"] for rubric in sample["rubrics"]]
        return canonical({"input": sample["messages"], "ideal": ideal, "item": item})
