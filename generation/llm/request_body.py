"""What is sent: the body of a request, its identity, its output format, and an estimate of its tokens."""

import copy
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from enum import IntEnum
from functools import cache
from typing import Any

from pydantic import BaseModel

from generation.llm.types import DIGEST, Message, ModelSettings, Request, Text, Texts, Usage, data_url

CHARS_PER_TOKEN = 4  # an estimate of what is sent, before the endpoint has counted
TOKENS_BACK = 500  # an estimate of what comes back, where nobody set a limit
IMAGE_TOKENS = 1_000  # an estimate for an image
MAX_REPLY = 2**20  # bytes of a completion, unpacked, unless the site sets another limit
FLOOR = 2**18  # bytes that a completion may have however few tokens were asked for
TOKEN_BYTES = 64  # that each further token may have, escaped and all
MAX_VECTORS = 32 * 2**20  # bytes of an answer with vectors
VECTOR_BYTES = 400_000  # that the vector of one text may have: its numbers in decimals
EXCERPT = 4_000  # characters of a refused reply that are put back to the model
TAIL = 1_000  # of them, from its end


class Format(IntEnum):
    """How firmly a schema is asked for. An endpoint that refuses one gets the next."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    TEXT = 2


def identity(settings: ModelSettings, request: Request | Texts) -> str:
    """What is asked of whom, as SHA-256 of canonical JSON: address, model, settings, messages, schema, repeat number.

    Not how it is asked for (`response_format`), which an endpoint may refuse, and not the prompt's name. Of texts for vectors:
    address, model and texts.
    """
    if isinstance(request, Texts):
        return _digest({"url": settings.url, "model": settings.model, "input": list(request.texts)})
    asked: dict[str, Any] = {
        "url": settings.url,
        "model": settings.model,
        "temperature": settings.temperature if request.temperature is None else request.temperature,
        "max_tokens": settings.max_tokens if request.max_tokens is None else request.max_tokens,
        "messages": [asdict(message) for message in request.messages],
        "schema": None if request.schema is None else dict(request.schema),
        "repeat": request.repeat,
    }
    # Absent where not set: what was paid for before there were such settings is found again.
    top_p = settings.top_p if request.top_p is None else request.top_p
    more = {"top_p": top_p, "reasoning_effort": settings.reasoning_effort, "extra_body": dict(settings.extra_body)}
    asked |= {name: value for name, value in more.items() if value not in (None, "", {})}
    return _digest(asked)


def _digest(asked: Mapping[str, Any]) -> str:
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))  # ASCII: half of a surrogate pair is escaped
    return hashlib.sha256(text.encode()).hexdigest()


def structured(request: Request, shape: type[BaseModel]) -> Request:
    """The request with the schema of `shape`."""
    return replace(request, schema=_strict_schema(shape))


@cache
def _strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The client's own way to the schema that strict mode wants: all properties required, no others allowed."""
    from openai import pydantic_function_tool

    return dict(pydantic_function_tool(shape)["function"].get("parameters", {}))


def body(settings: ModelSettings, request: Request, form: Format = Format.JSON_SCHEMA) -> dict[str, Any]:
    """The JSON body of a request to an endpoint; `form`: what it was found to take."""
    return request_body(settings, request, form)


def form_of(sent: Mapping[str, Any]) -> Format:
    """The format that a body asks for."""
    asked = sent.get("response_format") or {}
    forms = {"json_schema": Format.JSON_SCHEMA, "json_object": Format.JSON_OBJECT}
    return forms.get(asked.get("type", ""), Format.TEXT)


def estimate(settings: ModelSettings, request: Request | Texts) -> Usage:
    """An estimate of what a request will use."""
    if isinstance(request, Texts):
        return Usage(sum(map(len, request.texts)) // CHARS_PER_TOKEN)
    limit = settings.max_tokens if request.max_tokens is None else request.max_tokens
    sent = sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN
    images = sum(len(message.images) for message in request.messages)
    return Usage(sent + images * IMAGE_TOKENS, min(limit or TOKENS_BACK, TOKENS_BACK))


def count_tokens(request: Request | Texts, settings: ModelSettings) -> int:
    usage = estimate(settings, request)
    return usage.tokens_in + usage.tokens_out


def request_body(settings: ModelSettings, request: Request | Texts, form: Format) -> dict[str, Any]:
    if isinstance(request, Texts):
        return {"model": settings.model, "input": list(request.texts), "encoding_format": "float"}
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [{"role": message.role, "content": _content(message)} for message in request.messages],
    }
    temperature = settings.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    top_p = settings.top_p if request.top_p is None else request.top_p
    if top_p is not None:
        body["top_p"] = top_p
    max_tokens = settings.max_tokens if request.max_tokens is None else request.max_tokens
    if max_tokens is not None:
        body["max_completion_tokens" if settings.completion_tokens else "max_tokens"] = max_tokens
    if settings.reasoning_effort:
        body["reasoning_effort"] = settings.reasoning_effort
    body |= settings.extra_body
    if request.schema is not None and form is Format.JSON_SCHEMA:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(request.schema.get("title", "reply")))[:64]
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": dict(request.schema), "strict": True},
        }
    elif request.schema is not None and form is Format.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    return body


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.url}}
        for part in message.content
    ]


def image_parts(sent: Mapping[str, Any]) -> list[dict[str, str]]:
    """Where a body holds images: its ``{"url": ...}`` objects."""
    turns = sent.get("messages") or ()
    parts = [part for turn in turns if isinstance(turn["content"], list) for part in turn["content"]]
    return [part["image_url"] for part in parts if part["type"] == "image_url"]


def shows_kept(sent: Mapping[str, Any]) -> bool:
    """Whether a body names images that are kept here."""
    return any(part["url"].startswith(DIGEST) for part in image_parts(sent))


def with_image_data(sent: Mapping[str, Any], open_image: Callable[[str], tuple[str, bytes]]) -> dict[str, Any]:
    """A body with kept images as data URLs. Raises what `open_image` raises."""
    whole: dict[str, Any] = copy.deepcopy(dict(sent))
    for part in image_parts(whole):
        if part["url"].startswith(DIGEST):
            part["url"] = data_url(*open_image(part["url"].removeprefix(DIGEST)))
    return whole


def no_image(digest: str) -> tuple[str, bytes]:
    """For a door that keeps no images."""
    raise LookupError(digest)


def reply_limit(settings: ModelSettings, request: Request | Texts, most: int) -> int:
    """The bytes that the answer to a request may have: near what was asked for, and a completion not more than `most`."""
    if isinstance(request, Texts):
        return min(MAX_VECTORS, FLOOR + VECTOR_BYTES * len(request.texts))
    tokens = settings.max_tokens if request.max_tokens is None else request.max_tokens
    return most if tokens is None else min(most, FLOOR + TOKEN_BYTES * tokens)


def excerpt(text: str) -> str:
    """The text, or where it is long its beginning and its end."""
    if len(text) <= EXCERPT:
        return text
    return f"{text[: EXCERPT - TAIL]}\n[{len(text) - EXCERPT} characters left out]\n{text[-TAIL:]}"
