"""Samples for OpenAI Evals: `evals.jsonl`.

Each line has `item`, which the Evals API reads, and `input` with `ideal`, which the open framework
reads. A grader is chosen there, so the scores are not those of MHB's judge.
"""

from collections.abc import Mapping
from typing import Any

from generation.releases.exporters.base import LinesExporter, canonical, identity, weighed_rubrics


class OpenAIEvalsExporter(LinesExporter):
    """One item on each line, with its conversation and its criteria."""

    name = "openai-evals"
    label = "OpenAI Evals"
    lines = "evals.jsonl"
    asks = weighs = True

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as an item."""
        criteria = []
        for rubric, weight in weighed_rubrics(sample):
            criteria.append({"key": rubric["key"], "criterion": rubric["criterion"], "points": weight})
        item = {**identity(sample), "messages": sample["messages"], "criteria": criteria}
        ideal = [rubric["criterion"] for rubric in sample["rubrics"]]
        return canonical({"input": sample["messages"], "ideal": ideal, "item": item})
