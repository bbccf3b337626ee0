"""What comes back: text, reasoning, usage, embeddings and structured output. All of it is untrusted."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generation.llm.errors import BrokenReply, ContentFiltered, LLMError
from generation.llm.http.failures import NO_KEY
from generation.llm.parsing import extract_json, split_reasoning, storable, vectors_text
from generation.llm.types import CUT_OFF, FILTERED, REFUSED, SIMULATOR_FINGERPRINT, Reply, Usage

SECRET = 12  # characters; a shorter key ("none", "EMPTY") is no secret, and taking it out would change what was said
MAX_TOKENS = 2**31 - 1  # what a database integer holds

Shape = TypeVar("Shape", bound=BaseModel)
Check = Callable[[str], None]  # raises BrokenReply for a text that is refused


def read_completion(body: Any, status: int, api_key: str = NO_KEY) -> Reply | LLMError:
    """What a chat completion says: its reply, ContentFiltered, or BrokenReply where it was billed and cannot be read.

    Without the key, which an endpoint may repeat. Raises ValueError where it is no completion at all.
    """
    try:
        reply = _without_key(_reply(body), api_key)
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
    """The vectors in an embeddings body, or BrokenReply. Raises ValueError where it is none."""
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
                f"{len(places)} vectors came for {count} texts, or their numbers are not those of the texts."
            )
        by_place = dict(zip(places, entries, strict=True))
        return replace(reply, text=vectors_text([by_place[place].get("embedding") for place in range(count)]))
    except TypeError:  # an index that is no number
        raise ValueError("no index") from None
    except BrokenReply as error:
        broken = BrokenReply(error.detail, http_status=status)
        broken.reply = reply  # its tokens are billed
        return broken


def _without_key(reply: Reply, api_key: str) -> Reply:
    if len(api_key) < SECRET:
        return reply
    names = ("text", "reasoning", "finish_reason", "model")
    return replace(reply, **{name: getattr(reply, name).replace(api_key, "***") for name in names})


def _reply(body: Any) -> Reply:
    """The reply in a chat completion; ValueError where the body is none."""
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
        content, pondered = _parts(content)
    else:
        pondered = ""
    if not isinstance(content, str):
        raise ValueError("the content is no text")
    text, thought = split_reasoning(storable(content))
    said = message.get("reasoning_content") or message.get("reasoning")
    spoken = storable(said) if isinstance(said, str) else ""
    ended = _text(choice.get("finish_reason"))
    return Reply(
        text=text,
        reasoning="\n\n".join(part for part in (spoken, storable(pondered), thought) if part),
        finish_reason=REFUSED if refused and ended != FILTERED else ended,
        model=_text(body.get("model")),
        simulated=body.get("system_fingerprint") == SIMULATOR_FINGERPRINT,
        usage=_usage(body),
    )


def _parts(content: Sequence[Any]) -> tuple[str, str]:
    """(text, reasoning) of a content that comes in parts; what is neither is left out."""
    said, thought = [], []
    for part in content:
        match part:
            case {"type": "thinking" | "reasoning", **more}:
                inner = more.get("thinking") or more.get("reasoning") or more.get("text")
                thought.append(_parts(inner)[0] if isinstance(inner, list) else inner if isinstance(inner, str) else "")
            case {"text": str(text)} | {"refusal": str(text)}:
                said.append(text)
    return "".join(said), "\n\n".join(each for each in thought if each)


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
    """The token count at this path; 0 where the endpoint reports none or nonsense."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def read_shape(reply: Reply, shape: type[Shape]) -> Shape:
    try:
        value = extract_json(reply.text)
        # By way of JSON, where strict still lets a string be an enum member and a list a tuple.
        return shape.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc']) or 'the object'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        ]
        raise BrokenReply("The JSON has another shape than asked for: " + "; ".join(problems) + ".") from None
    except BrokenReply as error:
        if reply.finish_reason == CUT_OFF:
            raise BrokenReply(f"{error.detail} It was cut off at the token limit: be shorter.") from None
        raise


def not_empty(reply: Reply) -> None:
    """Raise BrokenReply where nothing was said."""
    if not reply.text.strip():
        raise BrokenReply("The reply is empty.")


def checked(reply: Reply, check: Check | None) -> Reply:
    """The reply. Raises BrokenReply that has it, where `check` refuses its text."""
    try:
        if check is not None:
            check(reply.text)
    except BrokenReply as error:
        error.reply = reply
        raise
    return reply


def accepting(check: Check | None) -> Callable[[Reply], None]:
    """What raises BrokenReply of a reply that is empty, or that `check` refuses."""

    def read(reply: Reply) -> None:
        not_empty(reply)
        checked(reply, check)

    return read
