"""The dimensions on which the committee scores a doctor, read from `dimensions.json`."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from mhb_site.benchmarks.medmistake.taxonomy import NAMES

FILE = Path(__file__).parent / "dimensions.json"
# The meaning of each score, from 1, on the two scales of the presets. On both, 3 still is a finding.
ANCHORS: Mapping[int, tuple[str, ...]] = {
    4: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "adequate, with a fault that an examiner would point out",
        "nothing to improve",
    ),
    5: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "partly done: a relevant part is wrong or missing",
        "adequate, with a fault that is of no consequence for the patient",
        "nothing to improve",
    ),
}


class Dimension(BaseModel):
    """One dimension: `asks` is what a good doctor does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    category: str
    asks: str


def read_dimensions(text: bytes) -> tuple[Dimension, ...]:
    """The dimensions of a file.

    Raises ValueError for a repeated key and for an unknown category.
    """
    dimensions = TypeAdapter(tuple[Dimension, ...]).validate_json(text)
    seen: set[str] = set()
    for dimension in dimensions:
        if dimension.key in seen:
            raise ValueError(f"{dimension.key}: this key comes twice")
        if dimension.category not in NAMES:
            raise ValueError(f"{dimension.key}: there is no category {dimension.category!r}")
        seen.add(dimension.key)
    return dimensions


@cache
def all_dimensions() -> tuple[Dimension, ...]:
    """The dimensions of the benchmark's file."""
    return read_dimensions(FILE.read_bytes())


def anchors(scale: int) -> str:
    """The meaning of each score, as the committee reads it; of the ends alone on other scales."""
    named = ANCHORS.get(scale)
    meanings = dict(enumerate(named, 1)) if named else {1: ANCHORS[4][0], scale: ANCHORS[4][-1]}
    return "\n".join(f"- {score}: {meaning}" for score, meaning in meanings.items())


def as_json(dimensions: tuple[Dimension, ...]) -> list[dict[str, str]]:
    """Dimensions as a prompt lists them."""
    return [json.loads(dimension.model_dump_json()) for dimension in dimensions]
