"""Sends a prompt to several models at once, and keeps their replies for the page."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.core.cache import cache

from evaluation.playground.services import WAIT, PlaygroundSettings, TriedReply
from generation.models import Endpoint
from review.common import waking
from review.errors import NoWorker, ShownError
from review.models import User

Start = Callable[[Endpoint], str]


@dataclass(slots=True)
class SentPrompt:
    """A prompt that was sent. `answers`: endpoint -> the key of its answer."""

    settings: PlaygroundSettings
    answers: dict[str, str]
    sent_at: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class ShownReply:
    """What became of a prompt at an endpoint: a reply, a refusal in words, or neither yet."""

    endpoint: str
    reply: TriedReply | None = None
    refusal: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.reply is None and not self.refusal

    @property
    def cost(self) -> Decimal:
        if self.reply:
            return Decimal(self.reply.cost)
        return Decimal(0)


def send(key: UUID, asked: PlaygroundSettings, endpoints: Iterable[Endpoint], actor: User, start: Start) -> None:
    """Send a prompt to each endpoint, once for each `key`, however often it is submitted.

    `start` sends it to one, and returns the key of the answer. Raises NoWorker.
    """
    sent = SentPrompt(asked, {}, time.time())
    if not cache.add(_name(key, actor), sent, waking.KEPT):
        return
    for endpoint in endpoints:
        sent.answers[endpoint.name] = start(endpoint)
        cache.set(_name(key, actor), sent, waking.KEPT)


def find(key: UUID, actor: User) -> SentPrompt | None:
    """What this person sent under a key, as long as it is kept."""
    sent: SentPrompt | None = cache.get(_name(key, actor))
    return sent


def replies(sent: SentPrompt) -> list[ShownReply]:
    """The replies to a prompt, as far as they are there."""
    is_over = time.time() > sent.sent_at + WAIT
    return [_reply(endpoint, key, is_over=is_over) for endpoint, key in sent.answers.items()]


def _reply(endpoint: str, key: str, *, is_over: bool) -> ShownReply:
    if not waking.is_answered(key):
        return ShownReply(endpoint, refusal=str(NoWorker()) if is_over else "")
    try:
        return ShownReply(endpoint, TriedReply(**waking.read_answer(key)))
    except ShownError as refusal:
        return ShownReply(endpoint, refusal=str(refusal))


def _name(key: UUID, actor: User) -> str:
    return f"playground:{actor.pk}:{key}"
