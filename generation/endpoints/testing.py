"""Tests of endpoints with a single question."""

from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from generation.engine import ledger
from generation.llm.http.failures import message_in
from generation.llm.probe import Probe, probe
from generation.llm.request_body import usage_of
from generation.models import Endpoint
from generation.trials.findings import Finding, of_refusal

REPLY_CHARS = 500


@dataclass(frozen=True, slots=True)
class EndpointTest:
    """The result of asking an endpoint one question.

    structured: the output format that works: ``json_schema``, ``json_object`` or ``text``;
    ``unusable`` if the reply did not match the schema; "" without a reply. model: as named by the
    server. cost: at the endpoint's prices. error, detail: why there is no answer. context_tokens:
    the length of its context, if it tells it.
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
    findings: list[dict[str, str]] = field(default_factory=list)
    context_tokens: int | None = None


def test_endpoint(endpoint: Endpoint, *, images: bool) -> EndpointTest:
    """Ask an endpoint one question as jobs ask it, and store the result with the endpoint.

    `images`: show it a picture too. Provider batches are tried if the endpoint says it supports
    them. The attempts count in its usage by day. They are in no ledger, as no job made them.
    """
    probed = async_to_sync(probe)(
        endpoint.settings,
        access=settings.MHB_ENDPOINT_ACCESS,
        max_reply=settings.MHB_MAX_REPLY_BYTES,
        images=images,
        batches=endpoint.batches,
    )
    last = probed.attempts[-1] if probed.attempts else None
    reply = last.reply if last else None
    usages = [usage_of(attempt) for attempt in (*probed.attempts, *probed.beside)]
    result = EndpointTest(
        at=timezone.now().isoformat(),
        answered=not probed.error,
        seconds=round(last.seconds, 3) if last else 0.0,
        tokens_in=sum(usage.tokens_in for usage in usages),
        tokens_out=sum(usage.tokens_out for usage in usages),
        tokens_reasoning=sum(usage.tokens_reasoning for usage in usages),
        structured="" if probed.error else probed.output_format if probed.usable else "unusable",
        model=reply.model if reply else "",
        cost=str(sum((usage.cost(endpoint.settings) for usage in usages), Decimal(0))),
        reply=reply.text[:REPLY_CHARS] if reply else "",
        error=probed.error,
        detail=probed.detail,
        http_status=last.http_status if last else None,
        findings=[asdict(finding) for finding in _findings(probed)],
        context_tokens=probed.context,
    )
    with transaction.atomic():
        ledger.count_without_job(
            [ledger.LedgerLine(attempt, endpoint, "test") for attempt in (*probed.attempts, *probed.beside)]
        )
        endpoint.last_test, endpoint.context_found = asdict(result), probed.context or endpoint.context_found
        endpoint.save(update_fields=["last_test", "context_found"])
    return result


def _findings(probed: Probe) -> list[Finding]:
    found: list[Finding] = []
    for refusal in probed.refused:
        finding = of_refusal(message_in(refusal.detail)[:REPLY_CHARS], refusal.sent, has_images=refusal.what == "image")
        if refusal.what == "batches":
            finding = replace(finding, code="no_batches")
        elif refusal.what == "image" and finding.code == "refused":
            finding = replace(finding, code="images")
        if finding.code not in {each.code for each in found}:
            found.append(finding)
    if "Not a chat completion: data:" in probed.detail:
        found.append(Finding("stream"))
    if not probed.error and not probed.usable:
        found.append(Finding("unread"))
    return found
