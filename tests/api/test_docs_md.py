"""The examples in docs/api.md match the schema: address, method, query, and body fields."""

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
    """The API's schema, generated on first use rather than while tests are collected."""
    generated: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return generated


def operation(path: str, method: str) -> dict[str, Any]:
    """The schema's operation for a path and a method."""
    for template, methods in schema()["paths"].items():
        if method.lower() in methods and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            match: dict[str, Any] = methods[method.lower()]
            return match
    raise AssertionError(f"{method} {path} is not in the schema")


def resolve(shape: dict[str, Any]) -> dict[str, Any]:
    """Follow `allOf` and `$ref` to the schema they point to."""
    if "allOf" in shape:
        shape = shape["allOf"][0]
    if "$ref" in shape:
        shape = schema()["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return shape


def assert_fits(value: Any, shape: dict[str, Any], where: str) -> None:
    """Check a value against a schema, recursively; `where` is its path, for the failure message."""
    shape = resolve(shape)
    if isinstance(value, dict) and "properties" in shape:
        assert set(shape.get("required", [])) <= set(value) <= set(shape["properties"]), where
        for key, inner in value.items():
            assert_fits(inner, shape["properties"][key], f"{where}.{key}")
    elif isinstance(value, dict):
        for key, inner in value.items():
            assert_fits(inner, shape.get("additionalProperties", {}), f"{where}.{key}")
    elif "enum" in shape:
        assert value in shape["enum"], where
    elif value is not None or not shape.get("nullable"):
        kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list}
        assert "type" not in shape or isinstance(value, kinds[shape["type"]]), where


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_fits_the_schema(example: str) -> None:
    words = shlex.split(example)
    assert words[0] == "curl"
    options = [(flag, value) for flag, value in pairwise(words) if flag in ("-X", "-d", "-F")]
    bodies = [value for flag, value in options if flag == "-d"]
    fields = [value.partition("=")[0] for flag, value in options if flag == "-F"]
    method = dict(options).get("-X", "POST" if bodies or fields else "GET")
    address = urlsplit(next(word for word in words if word.startswith("$MHB")).removeprefix("$MHB"))
    expected = operation(address.path, method)
    parameters = {parameter["name"] for parameter in expected.get("parameters", []) if parameter["in"] == "query"}
    assert set(parse_qs(address.query, strict_parsing=bool(address.query))) <= parameters
    content = expected.get("requestBody", {}).get("content", {})
    if bodies:
        assert_fits(json.loads(bodies[0]), content["application/json"]["schema"], "body")
    elif fields:
        form = resolve(content["multipart/form-data"]["schema"])
        assert set(form["required"]) <= set(fields) <= form["properties"].keys()
    else:
        assert "application/json" not in content or method == "GET", "the operation needs a body"


def test_the_document_has_an_example_for_every_part_of_the_api() -> None:
    parts = {path.split("/")[3] for path in schema()["paths"]}
    shown = {urlsplit(url).path.split("/")[3] for url in re.findall(r"\$MHB(/api/v1/[^\s\"]+)", DOCUMENT)}
    assert shown == parts
