"""HealthBench's own format: `healthbench.jsonl`, one conversation a line with its rubrics, as OpenAI's simple-evals reads it.

Where the release's criteria have points, these are theirs. Else each rubric is worth one point that an answer without the
hallucination earns, so a sample's score is 1 minus its hallucination rate. Traps and polarity become the rubrics' tags.
"""

from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from generation.releases.exporters.base import canonical, checked, replacing

name = "healthbench"
label = "HealthBench (simple-evals)"
lines = "healthbench.jsonl"
asks = True


def write(samples: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `healthbench.jsonl`; see `Exporter.write`."""
    path = folder / "healthbench.jsonl"
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(canonical(_row(sample)) + "\n" for sample in checked(samples))
    return [path]


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "prompt_id": sample["sample_id"],
        "prompt": sample["messages"],
        "rubrics": [
            {"criterion": rubric["criterion"], "points": _number(points), "tags": _tags(rubric)}
            for rubric, points in zip(sample["rubrics"], sample.get("points") or repeat("1"))  # noqa: B905 -- without an end
        ],
        "example_tags": [f"task:{sample['task']}", f"arm:{sample.get('arm') or 'trap'}"],
        "ideal_completions_data": None,
        "canary": sample.get("canary", ""),
    }


def _number(points: str) -> float:
    value = float(points or 0)
    return int(value) if value == int(value) else value


def _tags(rubric: Mapping[str, Any]) -> list[str]:
    polarity = rubric.get("polarity", "")
    return [
        *(f"trap:{trap}" for trap in dict.fromkeys(rubric["traps"])),  # simple-evals stops where a tag comes twice
        *([f"polarity:{polarity.replace(' ', '-')}"] if polarity else []),
    ]
