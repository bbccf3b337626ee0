"""What leaves for a provider: schemas within the strictest subset, turns as templates take them."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import mhb_site.benchmarks
from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import read_shape
from generation.llm.request_body import BEGUN_BY_ASSISTANT, Format, build_body, identity, portable_schema, with_schema
from generation.llm.types import ImagePart, Message, ModelSettings, Reply, Request, Role, TextPart

PLAIN = ModelSettings("m", "https://m.example/v1", "m")
IMAGE = ImagePart("sha256:" + "0" * 64)

# Keywords of published subsets, read in 2026-11. A schema must be within each of them.
OBJECTS = {"type", "properties", "required", "additionalProperties"}
SUBSETS = {
    # "Supported schemas"; additional restrictions of fine-tuned models included
    "OpenAI": {*OBJECTS, "description", "enum", "const", "items", "anyOf", "$ref", "$defs"},
    # "Unsupported type-specific keywords": bounds, patterns, formats
    "Azure": {*OBJECTS, "description", "enum", "const", "items", "anyOf", "$ref", "$defs"},
    # "JSON Schema limitations": no bounds, no recursion
    "Anthropic": {
        *OBJECTS,
        "description",
        "enum",
        "const",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "default",
        "title",
    },
    # responseJsonSchema; beside a $ref nothing else may stand
    "Gemini": {
        *OBJECTS,
        "description",
        "enum",
        "items",
        "anyOf",
        "oneOf",
        "title",
        "format",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "prefixItems",
        "$ref",
        "$defs",
        "$id",
        "$anchor",
    },
    # "Schema requirements"; minItems is refused by name (i-am-bee/beeai-framework#1215)
    "Groq": {*OBJECTS, "description", "enum", "items", "anyOf", "$ref", "$defs"},
}


def parts(schema: Any) -> Iterator[Any]:
    """A schema and every schema in it."""
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    if "items" in schema:
        inner.append(schema["items"])
    for part in inner:
        yield from parts(part)


def shapes(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    for module in pkgutil.walk_packages(mhb_site.benchmarks.__path__, "mhb_site.benchmarks."):
        if ".migrations" not in module.name:
            importlib.import_module(module.name)
    for shape in base.__subclasses__():
        if shape.__module__.startswith("mhb_site.benchmarks"):
            yield shape
        yield from shapes(shape)


class Inner(BaseModel):
    score: Annotated[int, Field(ge=0, le=10, description="Of the answer.")]
    kind: Literal["one"]


class Outer(BaseModel):
    first: Annotated[Inner, Field(description="The first.")]
    others: Annotated[list[Inner], Field(max_length=3)] = []
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "x"


def test_every_shape_of_the_benchmarks_is_within_every_published_subset() -> None:
    own: list[type[BaseModel]] = [*shapes(), Outer]
    every = [portable_schema(with_schema(Request(()), shape).schema or {}) for shape in own]
    assert len(every) > 20
    for schema in every:
        used = {keyword for part in parts(schema) for keyword in part}
        assert {name: used - subset for name, subset in SUBSETS.items() if used - subset} == {}
        for part in parts(schema):
            assert all(type(value) in (str, int) for value in part.get("enum", ()))  # Gemini's only strings and numbers
            if part.get("type") == "object":  # Groq's and OpenAI's strict modes
                assert part["additionalProperties"] is False
                assert set(part["required"]) == set(part["properties"])


def test_bounds_are_said_in_words_and_checked_when_a_reply_is_read() -> None:
    schema = portable_schema(with_schema(Request(()), Outer).schema or {})
    inner = schema["properties"]["first"]
    assert inner["description"] == "The first."
    assert inner["properties"]["score"] == {"type": "integer", "description": "Of the answer. (at least 0, at most 10)"}
    assert inner["properties"]["kind"]["enum"] == ["one"]
    assert schema["properties"]["others"]["description"] == "(items at most 3)"
    assert schema["required"] == ["first", "others", "name"]
    with pytest.raises(BrokenReply, match="less than or equal to 10"):
        read_shape(Reply('{"score": 1000000000000000, "kind": "one"}'), Inner)


def turns(*said: str | tuple[str, Any]) -> tuple[Message, ...]:
    roles: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant"}
    return tuple(Message(roles[text[0][0]], text[1] if isinstance(text, tuple) else text) for text in said)


@pytest.mark.parametrize(
    ("settings", "messages", "sent"),
    [
        ({}, turns("s", "a", "a2"), turns("s", "a", "a2")),
        ({"no_system_role": True}, turns("s", "u", "a"), turns("u", "a")),
        ({"no_system_role": True}, turns("s", "a", "u"), turns("u", "a", "u")),
        ({"no_system_role": True}, turns("u"), turns("u")),
        ({"no_system_role": True}, turns("s"), turns("u")),
        ({"alternating_roles": True}, turns("s", "u", "u2", "a", "a2", "u3"), turns("s", "u", "a", "u3")),
        ({"alternating_roles": True}, turns("s", "a", "u"), turns("s", "u", "a", "u")),
        ({"alternating_roles": True, "no_system_role": True}, turns("s", "a", "a2", "u"), turns("u", "a", "u")),
    ],
)
def test_turns_are_sent_as_the_template_takes_them(
    settings: dict[str, bool], messages: tuple[Message, ...], sent: tuple[Message, ...]
) -> None:
    model = ModelSettings("m", "https://m.example/v1", "m", **dict[str, Any](settings))
    body = build_body(model, Request(messages), Format.TEXT)
    assert [turn["role"] for turn in body["messages"]] == [message.role for message in sent]
    said = "\n".join(turn["content"] for turn in body["messages"]).replace(BEGUN_BY_ASSISTANT, "")
    assert said.split() == " ".join(message.text for message in messages).split(), "nothing is lost or moved"
    assert (identity(model, Request(messages)) == identity(PLAIN, Request(messages))) == (
        body["messages"] == [{"role": message.role, "content": message.content} for message in messages]
    )


def test_images_stay_in_their_turn() -> None:
    model = ModelSettings("m", "https://m.example/v1", "m", no_system_role=True)
    messages = (Message("system", "Be brief."), Message("user", (TextPart("What is it?"), IMAGE)))
    (turn,) = build_body(model, Request(messages), Format.TEXT)["messages"]
    assert [part["type"] for part in turn["content"]] == ["text", "text", "image_url"]
