"""The values that go to a model and come back. Plain dataclasses: they can be stored, hashed and compared."""

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]

SIMULATOR_FINGERPRINT = "mhb-simulator"  # the system_fingerprint by which a simulated reply is known
# Of `Reply.finish_reason`: a filter stopped it; the limit of tokens did; the model declined, in the field made for that.
FILTERED, CUT_OFF, REFUSED = "content_filter", "length", "refusal"
EMBEDDINGS = "embeddings"  # what stands in the ledger for the prompt, where vectors are asked for


MAX_IMAGE = 10 * 2**20  # bytes, decoded
DIGEST = "sha256:"  # begins what stands for an image
STORED = re.compile(DIGEST + "[0-9a-f]{64}")
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class Text:
    """A part of a message: text."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A part of a message: an image that is kept here (``sha256:`` and its digest), or as a data URL (PNG, JPEG, WebP or GIF,
    in base64, up to `MAX_IMAGE` bytes).

    One that is kept is named by its digest everywhere; the gateway alone puts its bytes into what is sent.

    Raises:
        ValueError: the URL is another, or the image too large.
    """

    url: str

    def __post_init__(self) -> None:
        if not STORED.fullmatch(self.url):
            image_of(self.url)

    @property
    def sha256(self) -> str:
        """The digest of its bytes."""
        if STORED.fullmatch(self.url):
            return self.url.removeprefix(DIGEST)
        return hashlib.sha256(image_of(self.url)[1]).hexdigest()


def image_of(url: str) -> tuple[str, bytes]:
    """Media type and bytes of an image's data URL; ValueError as `Image`."""
    if len(url) > MAX_IMAGE * 4 // 3 + 100:
        raise ValueError(f"The image is larger than {MAX_IMAGE} bytes.")
    found = _DATA_URL.fullmatch(url)
    try:
        if found is None:
            raise ValueError
        data = base64.b64decode(found[2], validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("An image is a data URL in base64: image/png, image/jpeg, image/webp or image/gif.") from None
    if len(data) > MAX_IMAGE:
        raise ValueError(f"The image is larger than {MAX_IMAGE} bytes.")
    return found[1], data


def data_url(media_type: str, data: bytes) -> str:
    """An image as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as the chat completions protocol has it: text, or parts in their order."""

    role: Role
    content: str | tuple[Text | Image, ...]

    @classmethod
    def showing(cls, role: Role, text: str, images: Iterable[str]) -> "Message":
        """A message of a text and, after it, kept images by their SHA-256; without any, of the text alone."""
        shown = tuple(Image(DIGEST + sha256) for sha256 in images)
        return cls(role, (Text(text), *shown) if shown else text)

    @property
    def text(self) -> str:
        """Its text alone; that of several parts a line each."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        return () if isinstance(self.content, str) else tuple(p for p in self.content if isinstance(p, Image))


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a call must know of an endpoint. `key_env` names the environment variable; the key itself is never held."""

    name: str
    url: str
    model: str
    key_env: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    completion_tokens: bool = False  # the limit is sent as `max_completion_tokens`
    reasoning_effort: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # further fields of a chat request
    price_in: Decimal = Decimal(0)  # money per million prompt tokens
    price_out: Decimal = Decimal(0)  # money per million completion tokens
    concurrency: int = 8
    timeout: float = 120.0  # seconds
    rpm: int | None = None  # requests a minute; None: no limit
    tpm: int | None = None  # tokens a minute, prompt and completion together


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    `prompt` names the prompt file and its version (``mhb/inject_dialogue@1``) for the ledger; `schema` is the JSON
    schema the reply must satisfy, if any; the settings given here win over the endpoint's own. `top_p`: the mass of nucleus
    sampling. `repeat` tells several answers to one question apart: the same request with the same number is paid for once.
    """

    messages: tuple[Message, ...]
    prompt: str = ""
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    repeat: int = 0
    top_p: float | None = None


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of which vectors are asked for, one each. `prompt` is their label in the ledger."""

    texts: tuple[str, ...]
    prompt: str = EMBEDDINGS


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the endpoint reported them."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_reasoning: int = 0

    def cost(self, settings: ModelSettings) -> Decimal:
        """Money for this usage at the endpoint's prices (per million tokens)."""
        return (self.tokens_in * settings.price_in + self.tokens_out * settings.price_out) / Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. `reasoning` is kept apart from `text` (``<think>`` blocks, ``reasoning_content``).

    `finish_reason` is as the endpoint gave it, but `REFUSED` where the message has a refusal in the field for it.
    Where vectors were asked for, `text` holds them as `parsing.vectors_text` writes them.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""  # as the endpoint named it
    simulated: bool = False
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP attempt, successful or not: a line of the ledger.

    `sent` is the JSON body as it was sent, kept images by their digests; `error` is the class name of the `LLMError` (or
    ``Cancelled``: we hung up), empty on success. A reply that a content filter stopped stands beside its error. `identity` is
    the content hash of what was asked. A cache hit is a line too: number 0, with `hit_of`, the line that was paid for. `id` is
    the attempt's own: however often it is written, it is one line.
    """

    settings: ModelSettings
    request: Request | Texts
    sent: Mapping[str, Any]
    number: int  # 1 for the first attempt of a request
    started_at: datetime
    seconds: float
    reply: Reply | None = None
    error: str = ""
    detail: str = ""
    http_status: int | None = None
    identity: str = ""
    hit_of: int | None = None
    id: uuid.UUID = field(default_factory=uuid.uuid4)
