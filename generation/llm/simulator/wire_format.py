"""Requests and responses of the simulated models, as in the chat completions protocol."""

import time
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, Field, field_validator

from generation.llm.types import SIMULATOR_FINGERPRINT, ImagePart, Message, TextPart, decode_data_url

CHARS_PER_TOKEN = 4


class _Text(BaseModel):
    type: Literal["text"]
    text: str


class _ImageURL(BaseModel):
    url: str

    @field_validator("url")
    @classmethod
    def _is_image(cls, url: str) -> str:
        decode_data_url(url)
        return url


class _Image(BaseModel):
    type: Literal["image_url"]
    image_url: _ImageURL


class _Message(BaseModel):
    role: Literal["system", "user", "assistant"]
    content: str | list[Annotated[_Text | _Image, Field(discriminator="type")]]

    @property
    def message(self) -> Message:
        """The message as scripts read it: its text, then its images."""
        if isinstance(self.content, str):
            return Message(self.role, self.content)
        texts = [part.text for part in self.content if isinstance(part, _Text)]
        images = [ImagePart(part.image_url.url) for part in self.content if isinstance(part, _Image)]
        text = "\n".join(texts)
        if not images:
            return Message(self.role, text)
        return Message(self.role, (TextPart(text), *images))


class CompletionRequest(BaseModel):
    """The fields of a chat completions request that are understood; others are ignored."""

    model: str = Field(min_length=1)
    messages: list[_Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: Literal[1] | None = None
    stream: Literal[False] | None = None


class EmbeddingRequest(BaseModel):
    """The fields of an embeddings request that are understood; others are ignored."""

    model: str = Field(min_length=1)
    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=2048)]
    )
    encoding_format: Literal["float"] | None = None

    @property
    def texts(self) -> list[str]:
        if isinstance(self.input, str):
            return [self.input]
        return self.input


def error_body(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    kind = "server_error"
    if status < 500:
        kind = "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def completion_body(question: CompletionRequest, text: str, tokens_in: int, name: str) -> dict[str, Any]:
    finish_reason = "stop"
    limit = question.max_completion_tokens or question.max_tokens
    if limit is not None and count_tokens(text) > limit:
        text, finish_reason = text[: limit * CHARS_PER_TOKEN], "length"
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
    """Estimate tokens deterministically: four characters per token."""
    return -(-len(text) // CHARS_PER_TOKEN)


async def send_half(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Announce the whole response, send half of it, and close the connection."""
    body = (response.text or "").encode()
    partial = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await partial.prepare(request)
    await partial.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return partial
