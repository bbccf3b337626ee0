"""Reading of untrusted responses: text, reasoning, usage, embeddings, structured output."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generation.llm.errors import BrokenReply, ContentFiltered, LLMError
from generation.llm.http.failures import NO_KEY
from generation.llm.parsing import extract_json, format_vectors, split_reasoning, storable
from generation.llm.types import CUT_OFF, FILTERED, REFUSED, SIMULATOR_FINGERPRINT, Reply, Usage

# Characters; a shorter key ("none", "EMPTY") is not secret, and removing it would alter replies.
MIN_SECRET = 12
MAX_TOKENS = 2**31 - 1  # the maximum of a database integer

Shape = TypeVar("Shape", bound=BaseModel)
Check = Callable[[str], None]  # raises BrokenReply to refuse a text


def read_completion(body: Any, status: int, api_key: str = NO_KEY) -> Reply | LLMError:
    """Read a chat completion.

    Returns its reply, ContentFiltered, or BrokenReply if it was billed and cannot be read. The key,
    which an endpoint may repeat, is removed. Raises ValueError if the body is not a completion.
    """
    try:
        reply = _without_key(_parse_reply(body), api_key)
    except ValueError as failure:
        usage = _usage(body)
        if not (usage.tokens_in or usage.tokens_out):
            raise
        unread = BrokenReply(f"This completion cannot be read: {failure}.", http_status=status)
        unread.reply = Reply("", usage=usage)
        return unread
    if reply.finish_reason != FILTERED:
        return reply
    filtered = ContentFiltered(http_status=status)
    filtered.reply = reply  # its tokens are billed
    return filtered


def read_embeddings(body: Any, count: int, status: int) -> Reply | LLMError:
    """Read an embeddings response: its vectors, or BrokenReply.

    Raises ValueError for other bodies.
    """
    match body:
        case {"data": [*entries]} if all(isinstance(entry, dict) for entry in entries):
            pass
        case _:
            raise ValueError("no data")
    reply = Reply(
        text="",
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        usage=Usage(tokens_in=_count(body, "usage", "prompt_tokens")),
    )
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    try:
        if set(places) != set(range(count)) or len(places) != count:
            raise BrokenReply(
                f"{len(places)} vectors were returned for {count} texts, or their numbers are not those of the texts."
            )
        by_place = dict(zip(places, entries, strict=True))
        return replace(reply, text=format_vectors([by_place[place].get("embedding") for place in range(count)]))
    except TypeError:  # an index that is not a number
        raise ValueError("no index") from None
    except BrokenReply as error:
        broken = BrokenReply(error.detail, http_status=status)
        broken.reply = reply  # its tokens are billed
        return broken


def _without_key(reply: Reply, api_key: str) -> Reply:
    if len(api_key) < MIN_SECRET:
        return reply
    names = ("text", "reasoning", "finish_reason", "model")
    return replace(reply, **{name: getattr(reply, name).replace(api_key, "***") for name in names})


def _parse_reply(body: Any) -> Reply:
    """Read the reply in a chat completion. Raises ValueError for other bodies."""
    match body:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            pass
        case _:
            raise ValueError("no choices")
    content, refused = message.get("content"), bool(message.get("refusal"))
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, list):
        refused = refused or any(isinstance(part, dict) and part.get("type") == "refusal" for part in content)
        content, from_parts = _join_parts(content)
    else:
        from_parts = ""
    if not isinstance(content, str):
        raise ValueError("the content is not text")
    text, in_text = split_reasoning(storable(content))
    field = message.get("reasoning_content") or message.get("reasoning")
    separate = storable(field) if isinstance(field, str) else ""
    finish_reason = _text(choice.get("finish_reason"))
    return Reply(
        text=text,
        reasoning="\n\n".join(part for part in (separate, storable(from_parts), in_text) if part),
        finish_reason=REFUSED if refused and finish_reason != FILTERED else finish_reason,
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        usage=_usage(body),
    )


def _join_parts(content: Sequence[Any]) -> tuple[str, str]:
    """Join content parts into (text, reasoning); other parts are left out."""
    texts, reasoning = [], []
    for part in content:
        match part:
            case {"type": "thinking" | "reasoning", **more}:
                inner = more.get("thinking") or more.get("reasoning") or more.get("text")
                reasoning.append(
                    _join_parts(inner)[0] if isinstance(inner, list) else inner if isinstance(inner, str) else ""
                )
            case {"text": str(text)} | {"refusal": str(text)}:
                texts.append(text)
    return "".join(texts), "\n\n".join(part for part in reasoning if part)


def _usage(body: Any) -> Usage:
    return Usage(
        tokens_in=_count(body, "usage", "prompt_tokens"),
        tokens_out=_count(body, "usage", "completion_tokens"),
        tokens_cached=_count(body, "usage", "prompt_tokens_details", "cached_tokens"),
        tokens_reasoning=_count(body, "usage", "completion_tokens_details", "reasoning_tokens"),
    )


def _text(value: Any) -> str:
    return storable(value)[:200] if isinstance(value, str) else ""


def _count(value: Any, *path: str) -> int:
    """The token count at this path; 0 if the endpoint reports none or nonsense."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def read_shape(reply: Reply, shape: type[Shape]) -> Shape:
    """Parse the reply as a value of type `shape`.

    Raises BrokenReply with a reason for the model.
    """
    try:
        value = extract_json(reply.text)
        # From JSON, for which strict mode still accepts strings as enum members and lists as
        # tuples.
        return shape.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc']) or 'the object'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        ]
        raise BrokenReply("The JSON does not have the requested shape: " + "; ".join(problems) + ".") from None
    except BrokenReply as error:
        if reply.finish_reason == CUT_OFF:
            raise BrokenReply(f"{error.detail} It was cut off at the token limit: be shorter.") from None
        raise


def check_not_empty(reply: Reply) -> None:
    """Raise BrokenReply for an empty reply."""
    if not reply.text.strip():
        raise BrokenReply("The reply is empty.")


def check_reply(reply: Reply, check: Check | None) -> Reply:
    """Return the reply if `check` accepts its text.

    Raises BrokenReply, with the reply, otherwise.
    """
    try:
        if check is not None:
            check(reply.text)
    except BrokenReply as error:
        error.reply = reply
        raise
    return reply


def reply_validator(check: Check | None) -> Callable[[Reply], None]:
    """A function that raises BrokenReply for a reply that is empty or refused by `check`."""

    def read(reply: Reply) -> None:
        check_not_empty(reply)
        check_reply(reply, check)

    return read
