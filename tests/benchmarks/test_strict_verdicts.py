"""Judges of all benchmarks decide by plain JSON values: nothing is taken for one that it is not."""

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from evaluation import registry
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import read_shape
from generation.llm.types import Reply
from generation.recipes.registry import names
from mhb_site.benchmarks.clinhallu.reference import Consistency

TAKEN_FOR_TRUE = ("true", "True", "yes", "met", "1", 1, 1.0, [True], {"value": True}, None)
TAKEN_FOR_ONE = ("1", "yes", "true", True, 1.0, [1], None, 2, -1)


def shapes() -> Iterator[type[BaseModel]]:
    yield Consistency
    for benchmark in names():
        protocol = registry.protocol(benchmark)
        judgings = [protocol.sample_judging, *protocol.by_rubric.values()]
        shapes = (protocol.shape, *(judging.shape for judging in judgings if judging))
        yield from dict.fromkeys(shape for shape in shapes if shape)  # in the same order in every process


def example(shape: type[BaseModel], decision: object) -> dict[str, Any]:
    """A reply of this shape with this decision."""
    reply: dict[str, Any] = {}
    for name, field in shape.model_fields.items():
        inner = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if get_origin(field.annotation) is tuple and inner:
            reply[name] = [example(inner[0], decision)]
        else:
            reply[name] = "x" if field.annotation is str else decision
    return reply


def read(shape: type[BaseModel], decision: object) -> BaseModel:
    return read_shape(Reply(text=json.dumps(example(shape, decision))), shape)


@pytest.mark.parametrize(
    "shape", list(shapes()), ids=lambda shape: f"{shape.__module__.split('.')[-2]}-{shape.__name__}"
)
def test_only_plain_json_values_are_verdicts(shape: type[BaseModel]) -> None:
    by_number = "Literal[0, 1]" in str(shape.model_fields)
    read(shape, 1 if by_number else True)
    read(shape, 0 if by_number else False)
    for decision in TAKEN_FOR_ONE if by_number else TAKEN_FOR_TRUE:
        with pytest.raises(BrokenReply):
            read(shape, decision)
