"""Requests and answers of the simulated models, in the shapes of the chat completions protocol."""

import time
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, Field, field_validator

from generation.llm.simulator.faults import FaultKind
from generation.llm.types import SIMULATOR_FINGERPRINT, Image, Message, Text, image_of

CHARS_PER_TOKEN = 4


class _Text(BaseModel):
    type: Literal["text"]
    text: str


class _ImageURL(BaseModel):
    url: str

    @field_validator("url")
    @classmethod
    def _is_image(cls, url: str) -> str:
        image_of(url)
        return url


class _Image(BaseModel):
    type: Literal["image_url"]
    image_url: _ImageURL


class _Message(BaseModel):
    role: Literal["system", "user", "assistant"]
    content: str | list[Annotated[_Text | _Image, Field(discriminator="type")]]

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, _Text))

    @property
    def images(self) -> tuple[Image, ...]:
        parts = () if isinstance(self.content, str) else self.content
        return tuple(Image(part.image_url.url) for part in parts if isinstance(part, _Image))

    @property
    def message(self) -> Message:
        """As scripts read it: its text, and the images after it."""
        return Message(self.role, (Text(self.text), *self.images) if self.images else self.text)


class Question(BaseModel):
    """The part of a chat completions request that the simulated models understand; the rest is ignored."""

    model: str = Field(min_length=1)
    messages: list[_Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: Literal[1] | None = None
    stream: Literal[False] | None = None


class Embed(BaseModel):
    """The part of an embeddings request that the simulated models understand; the rest is ignored."""

    model: str = Field(min_length=1)
    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=2048)]
    )
    encoding_format: Literal["float"] | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


Asked = TypeVar("Asked", Question, Embed)


@dataclass(frozen=True, slots=True)
class Understood(Generic[Asked]):
    """A request to a model there is. `name`: the same for the same request, told apart by how often it came."""

    asked: Asked
    model: str
    fault: FaultKind | None
    name: str


def error_body(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def completion_body(question: Question, text: str, name: str) -> dict[str, Any]:
    finish_reason = "stop"
    limit = question.max_completion_tokens or question.max_tokens
    if limit is not None and count_tokens(text) > limit:
        text, finish_reason = text[: limit * CHARS_PER_TOKEN], "length"
    tokens_in = sum(count_tokens(message.text) for message in question.messages)
    return {
        "id": name,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "system_fingerprint": SIMULATOR_FINGERPRINT,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason},
        ],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": count_tokens(text),
            "total_tokens": tokens_in + count_tokens(text),
        },
    }


def count_tokens(text: str) -> int:
    """An estimate, the same every time: four characters a token."""
    return -(-len(text) // CHARS_PER_TOKEN)


async def cut(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Promise the whole answer, send half of it, close the connection."""
    body = (response.text or "").encode()
    partial = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await partial.prepare(request)
    await partial.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return partial
