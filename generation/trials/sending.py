"""Sends one request outside any job: priced and in the ledger, never part of a result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction
from pydantic import BaseModel

from generation.engine import ledger
from generation.images.files import open_image
from generation.llm.errors import BrokenReply, LaneOver, LLMError
from generation.llm.gateway import Gateway
from generation.llm.ledger_interface import Ledger
from generation.llm.types import Attempt, Reply, Request
from generation.models import Call, Endpoint


@dataclass(frozen=True, slots=True)
class Sent:
    """One request and what became of it.

    `value`: what the parser made of the reply, if a shape was asked for. `error`: None if the reply
    can be used. `calls`: the lines of the ledger.
    """

    request: Request
    attempts: tuple[Attempt, ...]
    reply: Reply | None
    value: BaseModel | None
    error: LLMError | None
    calls: tuple[Call, ...]

    @property
    def cost(self) -> Decimal:
        return sum((Decimal(call.cost) for call in self.calls), Decimal(0))

    @property
    def seconds(self) -> float:
        return sum(attempt.seconds for attempt in self.attempts)


async def _send(
    endpoint: Endpoint, request: Request, shape: type[BaseModel] | None, seconds: float
) -> tuple[list[Attempt], Reply | None, BaseModel | None, LLMError | None]:
    attempts: list[Attempt] = []

    async def write(attempt: Attempt) -> None:
        attempts.append(attempt)

    async def check() -> None:
        if attempts and attempts[-1].http_status is None:  # not reached: the gateway would retry for minutes
            raise LaneOver

    target = replace(endpoint.settings, timeout=min(endpoint.timeout, seconds))
    gateway = Gateway(
        Ledger(write, check),
        attempts=1,
        max_reply=settings.MHB_MAX_REPLY_BYTES,
        access=settings.MHB_ENDPOINT_ACCESS,
        open_image=open_image,
    )
    async with gateway:
        try:
            if shape is None:
                return attempts, await gateway.ask(target, request), None, None
            reply, value = await gateway.ask_structured(target, request, shape, tries=1)
        except LLMError as failure:
            return attempts, failure.reply or (attempts[-1].reply if attempts else None), None, failure
        return attempts, reply, value, None


def send_once(
    endpoint: Endpoint,
    request: Request,
    shape: type[BaseModel] | None = None,
    *,
    subject: str,
    seconds: float = 60.0,
    check: Callable[[Reply], object] | None = None,
) -> Sent:
    """Send a request once; only a refused output format is retried, with the next one.

    Every attempt is a line of the ledger without a job, under `subject`. `seconds`: the longest
    wait. `check` may refuse the reply by raising BrokenReply.
    """
    attempts, reply, value, error = async_to_sync(_send)(endpoint, request, shape, seconds)
    if error is not None and attempts and attempts[-1].error and isinstance(error, LaneOver):
        error = LLMError(f"{attempts[-1].error}: {attempts[-1].detail}")
    if error is None and check is not None and reply is not None:
        try:
            check(reply)
        except BrokenReply as refusal:
            error = refusal
    calls = record(endpoint, attempts, subject)
    return Sent(request, tuple(attempts), reply, value, error, tuple(calls))


@transaction.atomic
def record(endpoint: Endpoint, attempts: Sequence[Attempt], subject: str) -> list[Call]:
    """Write attempts that belong to no job to the ledger and to the usage of their endpoint."""
    return ledger.write_without_job([ledger.LedgerLine(attempt, endpoint, subject) for attempt in attempts])
