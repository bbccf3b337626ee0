"""HealthBench rows as simple-evals (`healthbench_eval.py`) reads and scores them.

A row that would stop simple-evals, or that it would silently misread, is refused.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

Points = StrictInt | StrictFloat


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Message(_Row):
    role: StrictStr = Field(pattern="^(system|user|assistant)$")
    content: StrictStr = Field(min_length=1)


class RubricItem(_Row):
    criterion: StrictStr = Field(min_length=1)
    points: Points
    tags: list[StrictStr]

    def __str__(self) -> str:
        return f"[{self.points}] {self.criterion}"


class IdealCompletions(_Row):
    ideal_completion: StrictStr
    ideal_completions_group: StrictStr = Field(pattern="^Group [123]$")
    ideal_completions_ref_completions: list[StrictStr] | None


class Example(_Row):
    prompt_id: StrictStr = Field(min_length=1)
    prompt: list[Message] = Field(min_length=1)
    rubrics: list[RubricItem] = Field(min_length=1)
    example_tags: list[StrictStr]
    ideal_completions_data: IdealCompletions | None
    canary: StrictStr


def read(path: Path) -> list[Example]:
    """Return all rows of a file. Raises ValidationError."""
    with path.open("rb") as file:
        return [Example.model_validate(json.loads(line)) for line in file]


def score(items: Sequence[RubricItem], met: Sequence[bool]) -> float | None:
    """Return the points met over all positive points, or None without positive points."""
    possible = sum(item.points for item in items if item.points > 0)
    if possible == 0:
        return None
    return sum(item.points for item, is_met in zip(items, met, strict=True) if is_met) / possible


def grade(example: Example, met: Sequence[StrictBool]) -> Mapping[str, float]:
    """Return the metrics of an answered example by name.

    Raises AssertionError where simple-evals would, and where one metric would overwrite another.
    """
    assert example.prompt[-1].role == "user"
    overall = score(example.rubrics, met)
    assert overall is not None
    metrics: dict[str, float] = {"overall_score": overall}
    assert len(set(example.example_tags)) == len(example.example_tags)
    assert not metrics.keys() & set(example.example_tags)
    metrics |= dict.fromkeys(example.example_tags, overall)
    by_tag: dict[str, list[tuple[RubricItem, bool]]] = {}
    for item, is_met in zip(example.rubrics, met, strict=True):
        assert len(set(item.tags)) == len(item.tags)
        for tag in item.tags:
            by_tag.setdefault(tag, []).append((item, is_met))
    assert not metrics.keys() & by_tag.keys()
    for tag, graded in by_tag.items():
        items, verdicts = zip(*graded, strict=True)
        if (tag_score := score(items, verdicts)) is not None:
            metrics[tag] = tag_score
    return metrics


def grader_input(example: Example, answer: str) -> Any:
    """Return what the grader reads: conversation with answer, and criteria with points."""
    turns = [*example.prompt, Message(role="assistant", content=answer)]
    conversation = "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)
    return conversation, [str(item) for item in example.rubrics]
