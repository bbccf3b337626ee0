"""The values sent to and received from models.

Plain dataclasses: they can be stored, hashed and compared.
"""

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

SIMULATOR_FINGERPRINT = "mhb-simulator"  # the system_fingerprint of simulated replies
REFUSED = "refusal"  # the `Reply.finish_reason` of a message with text in its refusal field
EMBEDDINGS = "embeddings"  # the prompt name of embedding requests in the ledger


MAX_IMAGE = 10 * 2**20  # bytes, decoded
DIGEST_PREFIX = "sha256:"  # prefix of a reference to a stored image
STORED_IMAGE = re.compile(DIGEST_PREFIX + "[0-9a-f]{64}")
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a message: text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A part of a message: an image.

    `url` refers to a stored image (``sha256:`` and its digest) or is a data URL (PNG, JPEG, WebP or
    GIF in base64, up to `MAX_IMAGE` bytes). A stored image is referred to by its digest everywhere;
    only the gateway inserts its bytes into what is sent.

    Raises:
        ValueError: any other URL, or the image is too large.
    """

    url: str

    def __post_init__(self) -> None:
        if not STORED_IMAGE.fullmatch(self.url):
            decode_data_url(self.url)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the image's bytes."""
        if STORED_IMAGE.fullmatch(self.url):
            return self.url.removeprefix(DIGEST_PREFIX)
        return hashlib.sha256(decode_data_url(self.url)[1]).hexdigest()


def decode_data_url(url: str) -> tuple[str, bytes]:
    """Return media type and bytes of an image's data URL. Raises ValueError as `ImagePart` does."""
    if len(url) > MAX_IMAGE * 4 // 3 + 100:
        raise ValueError(f"The image is larger than {MAX_IMAGE} bytes.")
    match = _DATA_URL.fullmatch(url)
    try:
        if match is None:
            raise ValueError
        data = base64.b64decode(match[2], validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("An image is a data URL in base64: image/png, image/jpeg, image/webp or image/gif.") from None
    if len(data) > MAX_IMAGE:
        raise ValueError(f"The image is larger than {MAX_IMAGE} bytes.")
    return match[1], data


def data_url(media_type: str, data: bytes) -> str:
    """Encode an image as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the chat completions protocol: text, or a sequence of parts."""

    role: Role
    content: str | tuple[TextPart | ImagePart, ...]

    @classmethod
    def with_images(cls, role: Role, text: str, images: Iterable[str]) -> "Message":
        """A message of a text followed by stored images, given by SHA-256."""
        shown = [ImagePart(DIGEST_PREFIX + sha256) for sha256 in images]
        if not shown:
            return cls(role, text)
        return cls(role, (TextPart(text), *shown))

    @property
    def text(self) -> str:
        """The text without images; several text parts become a line each."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self.content if isinstance(part, ImagePart))


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a call must know of an endpoint.

    `key_env` names the environment variable; the key itself is never held here.
    """

    name: str
    url: str
    model: str
    key_env: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    completion_tokens: bool = False  # the limit is sent as `max_completion_tokens`
    default_sampling: bool = False  # it refuses them: neither temperature nor top_p is ever sent
    prompt_cache_key: bool = False  # it knows this field, and routes requests with the same key to the same cache
    no_system_role: bool = False  # its template has none: what the system says begins the first turn of the user
    alternating_roles: bool = False  # its template wants the user first, and no speaker twice in a row
    reasoning_effort: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # additional fields of chat requests
    price_in: Decimal = Decimal(0)  # money per million prompt tokens
    price_out: Decimal = Decimal(0)  # money per million completion tokens
    price_cached: Decimal | None = None  # money per million prompt tokens from the endpoint's cache; None: `price_in`
    price_written: Decimal | None = None  # money per million prompt tokens written into that cache; None: `price_in`
    context_tokens: int | None = None  # of its context, prompt and reply together
    output_format: str = ""  # pins the format of structured replies; "": the strictest that it accepts
    reasoning_start: str = ""  # its own marks around reasoning, beside the known ones
    reasoning_end: str = ""
    endings: Mapping[str, str] = field(default_factory=dict)  # what people decided about unknown finish reasons
    concurrency: int = 8
    timeout: float = 120.0  # seconds
    rpm: int | None = None  # requests a minute; None: no limit
    tpm: int | None = None  # tokens a minute, prompt and completion together


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    `prompt` names the prompt file and its version (``mhb/inject_dialogue@1``) for the ledger;
    `schema` is the JSON schema that the reply must satisfy, if any. Settings given here override
    those of the endpoint. `top_p`: the probability mass of nucleus sampling. `repeat` distinguishes
    several answers to one question: the same request with the same number is paid for once.
    `cache_key`: the same for requests that share a beginning, for endpoints that route by it.
    """

    messages: tuple[Message, ...]
    prompt: str = ""
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    repeat: int = 0
    top_p: float | None = None
    cache_key: str = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts to embed, one vector each. `prompt` is their label in the ledger."""

    texts: tuple[str, ...]
    prompt: str = EMBEDDINGS


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as reported by the endpoint, or `estimated` where it reports none."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # of `tokens_in`
    tokens_reasoning: int = 0
    estimated: bool = False
    tokens_written: int = 0  # of `tokens_in`: into the endpoint's cache

    def cost(self, settings: ModelSettings) -> Decimal:
        """The cost of this usage at the endpoint's prices (per million tokens)."""
        cached = min(self.tokens_cached, self.tokens_in)
        written = min(self.tokens_written, self.tokens_in - cached)
        if settings.price_cached is None:
            price_cached = settings.price_in
        else:
            price_cached = settings.price_cached
        if settings.price_written is None:
            price_written = settings.price_in
        else:
            price_written = settings.price_written
        paid = (self.tokens_in - cached - written) * settings.price_in
        paid += cached * price_cached + written * price_written
        return (paid + self.tokens_out * settings.price_out) / Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model.

    `reasoning` is separated from `text` (see `reasoning.split_reasoning`). `finish_reason` is that
    of the endpoint, or `REFUSED` if the message has text in its refusal field; `ending` is what it
    means (see `provider_words.Ending`). For embedding requests, `text` holds the vectors as
    `parsing.format_vectors` writes them.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""  # as named by the endpoint
    simulated: bool = False
    usage: Usage = field(default_factory=Usage)
    ending: str = "complete"
    fingerprint: str = ""  # the endpoint's `system_fingerprint`


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP attempt, successful or not: a line of the ledger.

    `sent` is the JSON body as sent, with stored images as digests. `error` is the class name of the
    `LLMError` (or ``Cancelled``: we hung up), empty on success. A reply that a content filter
    stopped is stored along with its error. `identity` is the content hash of the request. A cache
    hit is a line too: its number is 0, and `hit_of` is the line that was paid for. `id` identifies
    the attempt: however often it is written, it becomes one line.
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
