"""The examples of docs/api.md fit the schema: address, method, query, and the fields of the body."""

import json
import re
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

pytestmark = pytest.mark.plain

DOCUMENT = (Path(settings.BASE_DIR) / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = [line for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL) for line in block.splitlines()]


@cache
def schema() -> dict[str, Any]:
    """Made for the test that asks first, not while tests are collected."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


def operation(path: str, method: str) -> dict[str, Any]:
    """The operation of the schema that an example is of."""
    for template, methods in schema()["paths"].items():
        if method.lower() in methods and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            found: dict[str, Any] = methods[method.lower()]
            return found
    raise AssertionError(f"{method} {path} is not in the schema")


def follow(shape: dict[str, Any]) -> dict[str, Any]:
    if "allOf" in shape:
        shape = shape["allOf"][0]
    if "$ref" in shape:
        shape = schema()["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return shape


def fits(value: Any, shape: dict[str, Any], where: str) -> None:
    shape = follow(shape)
    if isinstance(value, dict) and "properties" in shape:
        assert set(shape.get("required", [])) <= set(value) <= set(shape["properties"]), where
        for key, inner in value.items():
            fits(inner, shape["properties"][key], f"{where}.{key}")
    elif isinstance(value, dict):
        for key, inner in value.items():
            fits(inner, shape.get("additionalProperties", {}), f"{where}.{key}")
    elif "enum" in shape:
        assert value in shape["enum"], where
    elif value is not None or not shape.get("nullable"):
        kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list}
        assert "type" not in shape or isinstance(value, kinds[shape["type"]]), where


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_fits_the_schema(example: str) -> None:
    words = shlex.split(example)
    assert words[0] == "curl"
    options = [(flag, value) for flag, value in pairwise(words) if flag in ("-X", "-d", "-F")]
    bodies = [value for flag, value in options if flag == "-d"]
    fields = [value.partition("=")[0] for flag, value in options if flag == "-F"]
    method = dict(options).get("-X", "POST" if bodies or fields else "GET")
    address = urlsplit(next(word for word in words if word.startswith("$MHB")).removeprefix("$MHB"))
    wanted = operation(address.path, method)
    taken = {parameter["name"] for parameter in wanted.get("parameters", []) if parameter["in"] == "query"}
    assert set(parse_qs(address.query, strict_parsing=bool(address.query))) <= taken
    content = wanted.get("requestBody", {}).get("content", {})
    if bodies:
        fits(json.loads(bodies[0]), content["application/json"]["schema"], "body")
    elif fields:
        assert set(fields) == set(follow(content["multipart/form-data"]["schema"])["required"])
    else:
        assert "application/json" not in content or method == "GET", "this needs a body"


def test_the_document_has_examples_of_every_part() -> None:
    parts = {path.split("/")[3] for path in schema()["paths"]}
    shown = {urlsplit(found).path.split("/")[3] for found in re.findall(r"\$MHB(/api/v1/[^\s\"]+)", DOCUMENT)}
    assert shown == parts
