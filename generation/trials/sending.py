"""Sends one request outside any job: priced and in the ledger, never part of a result."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction
from pydantic import BaseModel

from generation.engine import ledger
from generation.images.files import open_image
from generation.llm.batch_protocol import BatchClient
from generation.llm.errors import ContextTooLong, LaneOver, LLMError, in_words
from generation.llm.gateway import Gateway
from generation.llm.http.known_limits import context_in, context_length
from generation.llm.ledger_interface import Ledger
from generation.llm.types import Attempt, Reply, Request
from generation.models import Call, Endpoint


@dataclass(frozen=True, slots=True)
class Sent:
    """One request and what became of it.

    `value`: what the parser made of the reply, if a shape was asked for. `error`: None if the reply
    can be used. `calls`: the lines of the ledger. `context`: the length of the context, if the
    endpoint was asked for it and tells it. `no_batches`: why it takes no provider batches, if they
    were tried. `hurried`: its endpoint may take longer than this waited.
    """

    request: Request
    attempts: tuple[Attempt, ...]
    reply: Reply | None
    value: BaseModel | None
    error: LLMError | None
    calls: tuple[Call, ...] = ()
    context: int | None = None
    no_batches: LLMError | None = None
    hurried: bool = False

    @property
    def last(self) -> Attempt | None:
        """The last attempt, if there was one."""
        if self.attempts:
            return self.attempts[-1]
        return None

    @property
    def text(self) -> str:
        """The text of the reply; "" without one."""
        if self.reply:
            return self.reply.text
        return ""

    @property
    def cost(self) -> Decimal:
        return sum((Decimal(call.cost) for call in self.calls), Decimal(0))

    @property
    def seconds(self) -> float:
        return sum(attempt.seconds for attempt in self.attempts)


async def _send(
    endpoint: Endpoint,
    request: Request,
    shape: type[BaseModel] | None = None,
    *,
    seconds: float,
    looks: bool = False,
    batched: bool = False,
) -> Sent:
    """Send a request once; only a refused output format or limit is changed and sent again.

    `seconds`: the longest wait. `looks`: whether to ask for the length of the context; `batched`:
    whether to try provider batches.
    """
    attempts: list[Attempt] = []

    async def write(attempt: Attempt) -> None:
        attempts.append(attempt)

    async def check() -> None:
        if attempts and attempts[-1].http_status is None:  # not reached: the gateway would retry for minutes
            raise LaneOver

    target = replace(endpoint.settings, timeout=min(endpoint.timeout, seconds))
    reply, value, error, context, no_batches = None, None, None, None, None
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
                reply = await gateway.ask(target, request)
            else:
                reply, value = await gateway.ask_structured(target, request, shape, tries=1)
        except LLMError as failure:
            error, reply = failure, failure.reply
            if reply is None and attempts:
                reply = attempts[-1].reply
        is_reached = bool(attempts) and attempts[-1].http_status is not None
        if looks and is_reached:
            length = None
            if isinstance(error, ContextTooLong):
                length = context_in(error.detail)
            context = length or await context_length(gateway, target)
        if batched and is_reached:
            try:
                await BatchClient(gateway, target).rehearse(attempts[-1].sent, seconds)
            except LLMError as failure:
                no_batches = failure
    if isinstance(error, LaneOver) and attempts and attempts[-1].error:
        error = LLMError(in_words(attempts[-1].error, attempts[-1].detail))
    return Sent(
        request,
        tuple(attempts),
        reply,
        value,
        error,
        context=context,
        no_batches=no_batches,
        hurried=endpoint.timeout > seconds,
    )


send = async_to_sync(_send)


def send_once(
    endpoint: Endpoint, request: Request, shape: type[BaseModel] | None, *, subject: str, **options: Any
) -> Sent:
    """Send a request as `send` does, with every attempt in the ledger, without a job.

    `subject`: of these lines. `options`: of `send`.
    """
    sent = send(endpoint, request, shape, **options)
    with transaction.atomic():
        calls = ledger.write(None, [ledger.LedgerLine(attempt, endpoint, subject) for attempt in sent.attempts])
    return replace(sent, calls=tuple(calls))
