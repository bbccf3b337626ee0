"""The values that go to a model and come back. Plain dataclasses: they can be stored, hashed and compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]

SIMULATOR_FINGERPRINT = "mhb-simulator"  # the system_fingerprint by which a simulated reply is known


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as the chat completions protocol has it."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a call must know of an endpoint. `key_env` names the environment variable; the key itself is never held."""

    name: str
    url: str
    model: str
    key_env: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
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
    schema the reply must satisfy, if any; the settings given here win over the endpoint's own. `repeat` tells several
    answers to one question apart: the same request with the same number is paid for once.
    """

    messages: tuple[Message, ...]
    prompt: str = ""
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    repeat: int = 0


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
    """What a model said. `reasoning` is kept apart from `text` (``<think>`` blocks, ``reasoning_content``)."""

    text: str
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""  # as the endpoint named it
    simulated: bool = False
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP attempt, successful or not: a line of the ledger.

    `sent` is the JSON body exactly as it was sent; `error` is the class name of the `LLMError` (or ``Cancelled``: we
    hung up), empty on success. A reply that a content filter stopped stands beside its error. `identity` is the content hash of
    what was asked. A cache hit is a line too: number 0, with `hit_of`, the line that was paid for.
    """

    settings: ModelSettings
    request: Request
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
