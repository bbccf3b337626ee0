"""Tests an endpoint with one question."""

from dataclasses import asdict, dataclass
from decimal import Decimal

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from generation.engine import ledger
from generation.llm.probe import probe
from generation.models import Endpoint

REPLY_KEPT = 500  # characters


@dataclass(frozen=True, slots=True)
class EndpointTest:
    """What one question to an endpoint came to.

    structured: how a schema can be asked for: ``json_schema``, ``json_object`` or ``text``; ``unusable`` where the reply missed
    the schema; "" where there was none. model: as the server named it. cost: at the endpoint's prices. error, detail: why there
    is no answer.
    """

    at: str
    answered: bool
    seconds: float
    tokens_in: int
    tokens_out: int
    tokens_reasoning: int
    structured: str
    model: str
    cost: str
    reply: str
    error: str
    detail: str
    http_status: int | None


def test_endpoint(endpoint: Endpoint) -> EndpointTest:
    """Ask an endpoint one question, and keep what came of it with the endpoint.

    The attempts count in its usage by day. They are in no job's ledger: no job asked.
    """
    found = async_to_sync(probe)(
        endpoint.settings, access=settings.MHB_ENDPOINT_ACCESS, max_reply=settings.MHB_MAX_REPLY_BYTES
    )
    last = found.attempts[-1] if found.attempts else None
    reply = last.reply if last else None
    used = [attempt.reply.usage for attempt in found.attempts if attempt.reply]
    result = EndpointTest(
        at=timezone.now().isoformat(),
        answered=not found.error,
        seconds=round(last.seconds, 3) if last else 0.0,
        tokens_in=sum(usage.tokens_in for usage in used),
        tokens_out=sum(usage.tokens_out for usage in used),
        tokens_reasoning=sum(usage.tokens_reasoning for usage in used),
        structured="" if found.error else found.output_format if found.usable else "unusable",
        model=reply.model if reply else "",
        cost=str(sum((usage.cost(endpoint.settings) for usage in used), Decimal(0))),
        reply=reply.text[:REPLY_KEPT] if reply else "",
        error=found.error,
        detail=found.detail,
        http_status=last.http_status if last else None,
    )
    with transaction.atomic():
        ledger.count_without_job([ledger.LedgerLine(attempt, endpoint, "test") for attempt in found.attempts])
        Endpoint.objects.filter(pk=endpoint.pk).update(last_test=asdict(result))
    endpoint.last_test = asdict(result)
    return result
