"""The dimensions on which the committee scores a doctor, read from `dimensions.json`."""

import json
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from mhb_site.benchmarks.medmistake.taxonomy import NAMES

FILE = Path(__file__).parent / "dimensions.json"


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


def as_json(dimensions: tuple[Dimension, ...]) -> list[dict[str, str]]:
    """Dimensions as a prompt lists them."""
    return [json.loads(dimension.model_dump_json()) for dimension in dimensions]
