"""HealthBench's own format: `healthbench.jsonl`, one conversation with its rubrics on each line.

OpenAI's simple-evals reads it. Each rubric is worth one point, which an answer without the
hallucination earns, so a sample's score is 1 minus its hallucination rate. Traps and polarity
become tags of the rubrics. Criteria with points in their benchmark keep these; the other facets of
the sample become tags of the example.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from generation.releases.exporters.base import LinesExporter, canonical, weighed_rubrics


class HealthBenchExporter(LinesExporter):
    """One conversation with its rubrics on each line."""

    name = "healthbench"
    label = "HealthBench (simple-evals)"
    lines = "healthbench.jsonl"
    asks = weighs = earns = True

    def line(self, sample: Mapping[str, Any]) -> str:
        """The sample as an example of simple-evals."""
        points = sample.get("points")
        rubrics = []
        for rubric, weight in weighed_rubrics(sample):
            rubrics.append({"criterion": rubric["criterion"], "points": weight, "tags": _tags(rubric, points)})
        tags = [f"task:{sample['task']}", f"arm:{sample.get('arm') or 'trap'}"]
        if points is not None:
            for name, values in sorted(sample["facets"].items()):
                if name != "task":
                    tags += [f"{name}:{value}" for value in values]
        row = {
            "prompt_id": sample["sample_id"],
            "prompt": sample["messages"],
            "rubrics": rubrics,
            "example_tags": list(dict.fromkeys(tags)),  # simple-evals fails on duplicate tags
            "ideal_completions_data": None,
            "canary": sample.get("canary", ""),
        }
        return canonical(row)


def _tags(rubric: Mapping[str, Any], points: Sequence[float] | None) -> list[str]:
    tags = []
    if points is None:  # criteria with points are tied to no traps
        tags = [f"trap:{trap}" for trap in dict.fromkeys(rubric["traps"])]
    if polarity := rubric.get("polarity"):
        tags.append(f"polarity:{polarity.replace(' ', '-')}")
    return tags
