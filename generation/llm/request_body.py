"""Requests: their body, identity, output format and estimated tokens."""

import copy
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from enum import IntEnum
from functools import cache
from typing import Any

from pydantic import BaseModel

from generation.llm.types import (
    DIGEST_PREFIX,
    Attempt,
    ImagePart,
    Message,
    ModelSettings,
    Reply,
    Request,
    TextPart,
    Texts,
    Usage,
    data_url,
)

CHARS_PER_TOKEN = 4  # estimate for the prompt, before the endpoint has counted
MIN_ROOM = 256  # tokens for a reply, below which it is not worth asking
MOST_TOKENS = 16_384  # of a reply for which nobody set a limit
PROMPT_MARGIN = 12  # tenths of the estimate of a prompt that are kept free for it
REPLY_TOKENS = 500  # estimate for the reply, if no limit is set
IMAGE_TOKENS = 1_000  # estimate per image
MOST_IMAGE_TOKENS = 3_000  # upper estimate per image
MAX_REPLY = 2**20  # bytes of a completion, decompressed, unless the site sets another limit
MIN_REPLY_LIMIT = 2**18  # bytes allowed for a completion, however low its token limit
TOKEN_BYTES = 64  # bytes allowed per token on top, including escapes
MAX_VECTORS = 32 * 2**20  # bytes of a response with vectors
VECTOR_BYTES = 400_000  # bytes allowed per vector, with decimal numbers
FASTEST = 1_000  # tokens that a model writes in a second
# Class names of errors without a status after which most providers bill the prompt, and what the
# model wrote until it noticed.
MAY_BE_BILLED = frozenset({"TimedOut", "ConnectionCut", "UnexpectedError", "Cancelled"})
BEGUN_BY_ASSISTANT = "(The assistant begins the conversation.)"  # said by the user, where a template wants them first
EXCERPT = 4_000  # characters of a refused reply that are sent back to the model
EXCERPT_TAIL = 1_000  # characters of the excerpt taken from the end


class Format(IntEnum):
    """Output formats, strictest first. An endpoint that refuses one gets the next."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    TEXT = 2


def effective(settings: ModelSettings, request: Request) -> Request:
    """The request with the sampling settings and limit that apply: its own, else its endpoint's."""
    temperature, top_p, max_tokens = request.temperature, request.top_p, request.max_tokens
    if temperature is None:
        temperature = settings.temperature
    if top_p is None:
        top_p = settings.top_p
    if max_tokens is None:
        max_tokens = settings.max_tokens
    if settings.default_sampling:
        temperature = top_p = None
    if (temperature, top_p, max_tokens) == (request.temperature, request.top_p, request.max_tokens):
        return request
    return replace(request, temperature=temperature, top_p=top_p, max_tokens=max_tokens)


def sent_messages(settings: ModelSettings, request: Request) -> tuple[Message, ...]:
    """The messages of a request as the chat template of a model takes them."""
    messages = request.messages
    if settings.no_system_role:
        messages = _without_system(messages)
    if settings.alternating_roles:
        messages = _alternating(messages)
    return messages


def _without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the system says, at the start of the first turn, which becomes one of the user."""
    system, others = [], []
    for message in messages:
        if message.role == "system":
            system.append(message.text)
        else:
            others.append(message)
    text = "\n\n".join(system)
    if not text:
        return tuple(others)
    opening = Message("user", text)
    if others and others[0].role == "user":
        return (_joined(opening, others[0]), *others[1:])
    return (opening, *others)


def _alternating(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with the user first, and turns of one speaker in a row as one."""
    turns: list[Message] = []
    previous = "system"  # the role of the turn before
    for message in messages:
        if message.role != "system" and message.role == previous:
            turns[-1] = _joined(turns[-1], message)
            continue
        if message.role == "assistant" and previous == "system":
            turns.append(Message("user", BEGUN_BY_ASSISTANT))
        turns.append(message)
        previous = message.role
    return tuple(turns)


def _joined(first: Message, second: Message) -> Message:
    """Two turns of one speaker as one."""
    if isinstance(first.content, str) and isinstance(second.content, str):
        return Message(first.role, f"{first.content}\n\n{second.content}")
    parts: list[TextPart | ImagePart] = []
    for message in (first, second):
        if isinstance(message.content, str):
            parts.append(TextPart(message.content))
        else:
            parts += message.content
    return Message(first.role, tuple(parts))


def identity(settings: ModelSettings, request: Request | Texts) -> str:
    """The content hash of a request to an endpoint: SHA-256 of canonical JSON.

    It covers address, model, settings, messages, schema and repeat number; for embeddings, address,
    model and texts. It covers neither the output format (`response_format`), which an endpoint may
    refuse, nor the name of the prompt.
    """
    if isinstance(request, Texts):
        return _digest({"url": settings.url, "model": settings.model, "input": list(request.texts)})
    request = effective(settings, request)
    schema = None
    if request.schema is not None:
        schema = dict(request.schema)
    content: dict[str, Any] = {
        "url": settings.url,
        "model": settings.model,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "messages": [_digested(message) for message in sent_messages(settings, request)],
        "schema": schema,
        "repeat": request.repeat,
    }
    # Left out if not set, so that replies paid for before these settings existed are still found.
    if request.top_p is not None:
        content["top_p"] = request.top_p
    if settings.reasoning_effort:
        content["reasoning_effort"] = settings.reasoning_effort
    if settings.extra_body:
        content["extra_body"] = dict(settings.extra_body)
    return _digest(content)


def _digested(message: Message) -> dict[str, Any]:
    """The message as its fields; of a text without copying each, as `asdict` does."""
    if isinstance(message.content, str):
        return {"role": message.role, "content": message.content}
    return asdict(message)


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))  # ASCII, so that half a surrogate pair is escaped
    return hashlib.sha256(text.encode()).hexdigest()


def with_schema(request: Request, shape: type[BaseModel]) -> Request:
    """Add the schema of `shape` to a request."""
    return replace(request, schema=_strict_schema(shape))


@cache
def _strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The schema for strict mode, as the client builds it: all properties required, no others."""
    from openai import pydantic_function_tool

    return dict(pydantic_function_tool(shape)["function"].get("parameters", {}))


# What the strictest structured outputs take (OpenAI's, Azure's, Anthropic's, Gemini's, Groq's):
# these keywords, and neither defaults, titles, references, constants nor bounds.
_PORTABLE = ("type", "description", "enum", "properties", "required", "additionalProperties", "items", "anyOf")
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "pattern": "matching",
    "minItems": "items at least",
    "maxItems": "items at most",
}


def portable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as the strictest provider takes it.

    References are replaced by what they refer to, which must not contain itself. Bounds are said in
    the description: a reply is checked against them when it is read (`read_shape`).
    """
    return _portable(schema, schema.get("$defs", {}))


def _portable(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        referred = definitions[str(schema["$ref"]).rpartition("/")[2]]
        schema = {**referred, **schema}
        del schema["$ref"]
    if "const" in schema:
        schema = {"enum": [schema["const"]], **schema}
    kept = {name: schema[name] for name in _PORTABLE if name in schema}
    bounds = [f"{words} {schema[name]}" for name, words in _BOUNDS.items() if name in schema]
    if bounds:
        bounds_text = f"({', '.join(bounds)})"
        kept["description"] = f"{schema.get('description', '')} {bounds_text}".strip()
    if "properties" in kept:
        kept["properties"] = {name: _portable(inner, definitions) for name, inner in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _portable(kept["items"], definitions)
    if "anyOf" in kept:
        kept["anyOf"] = [_portable(inner, definitions) for inner in kept["anyOf"]]
    return kept


LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
FORMAT_NAMES = {"json_schema": Format.JSON_SCHEMA, "json_object": Format.JSON_OBJECT, "text": Format.TEXT}


def limit_of(sent: Mapping[str, Any]) -> int | None:
    """The limit in the body of a request; an endpoint's own fields may set it to anything."""
    for name in LIMIT_FIELDS:
        value = sent.get(name)
        if type(value) is int:
            return value
    return None


def format_of(sent: Mapping[str, Any]) -> Format:
    """The output format that a body requests."""
    response_format = sent.get("response_format") or {}
    return FORMAT_NAMES.get(response_format.get("type", ""), Format.TEXT)


def estimate(settings: ModelSettings, request: Request | Texts) -> Usage:
    """Estimate the usage of a request."""
    if isinstance(request, Texts):
        return Usage(sum(map(len, request.texts)) // CHARS_PER_TOKEN)
    limit = effective(settings, request).max_tokens
    sent = sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN
    images = sum(len(message.images) for message in request.messages)
    return Usage(sent + images * IMAGE_TOKENS, min(limit or REPLY_TOKENS, REPLY_TOKENS))


def usage_of(attempt: Attempt) -> Usage:
    """The usage of an attempt, with an upper estimate for what its reply does not report.

    A token is counted for every two characters of ASCII, and two for every other character. Where
    the connection ended before the reply, a model may have written up to its limit. A hit uses
    nothing, and neither does a request that was refused.
    """
    reply, sent = attempt.reply, attempt.sent
    is_unseen = attempt.error in MAY_BE_BILLED and attempt.http_status is None
    if attempt.hit_of is not None or (reply is None and not is_unseen):
        return Usage()
    is_text = "input" not in sent  # embeddings use no tokens for their vectors
    if reply is None:
        written = 0
        if is_text:
            written = min(limit_of(sent) or MOST_TOKENS, math.ceil(attempt.seconds * FASTEST))
        reply = Reply("", usage=Usage(tokens_out=written))
    usage = reply.usage
    tokens_in, tokens_out = usage.tokens_in, usage.tokens_out
    if not tokens_in:
        tokens_in = most_tokens(_sent_texts(sent)) + MOST_IMAGE_TOKENS * len(image_parts(sent))
    if not tokens_out and is_text:
        tokens_out = most_tokens([reply.text, reply.reasoning])
    if (tokens_in, tokens_out) == (usage.tokens_in, usage.tokens_out):
        return usage
    return replace(usage, tokens_in=tokens_in, tokens_out=tokens_out, estimated=True)


def most_tokens(texts: Iterable[str]) -> int:
    """An upper estimate of the tokens of some texts."""
    total = 0
    for text in texts:
        other = 0
        if not text.isascii():
            other = sum(not character.isascii() for character in text)
        total += -(-(len(text) - other) // 2) + 2 * other
    return total


def _sent_texts(sent: Mapping[str, Any]) -> Iterable[str]:
    yield from sent.get("input") or ()
    for turn in sent.get("messages") or ():
        content = turn["content"]
        if isinstance(content, str):
            yield content
        else:
            for part in content:
                yield part.get("text", "")
    if "response_format" in sent:
        yield json.dumps(sent["response_format"])


def count_tokens(request: Request | Texts, settings: ModelSettings) -> int:
    """Estimate the tokens of a request and its reply together."""
    usage = estimate(settings, request)
    return usage.tokens_in + usage.tokens_out


def build_body(
    settings: ModelSettings,
    request: Request | Texts,
    output_format: Format = Format.JSON_SCHEMA,
    *,
    room: int | None = None,
) -> dict[str, Any]:
    """The JSON body of a request; `output_format`: how its schema, if any, is requested.

    A reply for which nobody set a limit gets what the context leaves, `MOST_TOKENS` at most.
    `room`: the most that the endpoint was found to allow; 0 if it takes no limit.
    """
    if isinstance(request, Texts):
        return {"model": settings.model, "input": list(request.texts), "encoding_format": "float"}
    messages = []
    for message in sent_messages(settings, request):
        messages.append({"role": message.role, "content": _content(message)})
    body: dict[str, Any] = {"model": settings.model, "messages": messages}
    applied = effective(settings, request)
    if applied.temperature is not None:
        body["temperature"] = applied.temperature
    if applied.top_p is not None:
        body["top_p"] = applied.top_p
    limits = [MOST_TOKENS]
    if applied.max_tokens is not None:
        limits = [applied.max_tokens]
    if applied.max_tokens is None and settings.context_tokens is not None:
        prompt = PROMPT_MARGIN * estimate(settings, request).tokens_in // 10
        limits.append(max(MIN_ROOM, settings.context_tokens - prompt))
    if room is not None:
        limits.append(room)
    if limit := min(limits):
        body[LIMIT_FIELDS[settings.completion_tokens]] = limit
    if settings.reasoning_effort:
        body["reasoning_effort"] = settings.reasoning_effort
    if settings.prompt_cache_key and request.cache_key:
        body["prompt_cache_key"] = hashlib.sha256(request.cache_key.encode()).hexdigest()[:32]
    body |= settings.extra_body
    if request.schema is not None and output_format is Format.JSON_SCHEMA:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(request.schema.get("title", "reply")))[:64]
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": portable_schema(request.schema), "strict": True},
        }
    elif request.schema is not None and output_format is Format.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    return body


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    parts: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
        else:
            parts.append({"type": "image_url", "image_url": {"url": part.url}})
    return parts


def image_parts(sent: Mapping[str, Any]) -> list[dict[str, str]]:
    """The ``{"url": ...}`` objects of the images in a body."""
    images = []
    for turn in sent.get("messages") or ():
        if isinstance(turn["content"], list):
            images += [part["image_url"] for part in turn["content"] if part["type"] == "image_url"]
    return images


def refers_to_stored_images(sent: Mapping[str, Any]) -> bool:
    """Whether a body refers to stored images."""
    return any(part["url"].startswith(DIGEST_PREFIX) for part in image_parts(sent))


def with_image_data(sent: Mapping[str, Any], open_image: Callable[[str], tuple[str, bytes]]) -> dict[str, Any]:
    """Replace stored images in a body by data URLs. Raises what `open_image` raises."""
    whole: dict[str, Any] = copy.deepcopy(dict(sent))
    for part in image_parts(whole):
        if part["url"].startswith(DIGEST_PREFIX):
            part["url"] = data_url(*open_image(part["url"].removeprefix(DIGEST_PREFIX)))
    return whole


def no_stored_images(digest: str) -> tuple[str, bytes]:
    """The `open_image` of a gateway without stored images. Raises LookupError."""
    raise LookupError(digest)


def reply_limit(settings: ModelSettings, request: Request | Texts, max_reply: int) -> int:
    """The bytes allowed for the response to a request, by its token limit.

    A completion gets at most `max_reply`.
    """
    if isinstance(request, Texts):
        return min(MAX_VECTORS, MIN_REPLY_LIMIT + VECTOR_BYTES * len(request.texts))
    tokens = effective(settings, request).max_tokens
    if tokens is None:
        return max_reply
    return min(max_reply, MIN_REPLY_LIMIT + TOKEN_BYTES * tokens)


def excerpt(text: str) -> str:
    """The text, or the beginning and end of a long one."""
    if len(text) <= EXCERPT:
        return text
    return f"{text[: EXCERPT - EXCERPT_TAIL]}\n[{len(text) - EXCERPT} characters left out]\n{text[-EXCERPT_TAIL:]}"
