"""Tests of endpoints with a single question."""

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from generation.engine import ledger
from generation.llm.errors import AuthFailed, BadRequest, BrokenReply
from generation.llm.probe import REQUEST, SEEING, TOKENS, ProbeReply
from generation.llm.request_body import usage_of
from generation.models import Endpoint
from generation.trials.findings import REMEDIES, TrialFinding, findings
from generation.trials.sending import Sent, send

SECONDS = 30.0  # at most for one reply, as a person is waiting for the page
REPLY_CHARS = 500
REFUSALS = (400, 422, 500)  # a server may fail on turns that its template does not take


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

    With a temperature, a token limit and a schema; if that is refused, once more with the setting
    that may help, or without temperature and limit. `images`: show it a picture too. Provider
    batches are tried if the endpoint says it supports them. The attempts count in its usage by day.
    They are in no ledger, as no job made them.
    """
    full = replace(REQUEST, temperature=endpoint.temperature or 0.0, max_tokens=endpoint.max_tokens or TOKENS)
    tries = [send(endpoint, full, ProbeReply, seconds=SECONDS, looks=True, batched=endpoint.batches)]
    if isinstance(tries[0].error, BadRequest) and (last := tries[0].last) and last.http_status in REFUSALS:
        adapted = copy.copy(endpoint)
        for finding in findings(tries[0]):
            for name, value in REMEDIES.get(finding.code, {}).items():
                setattr(adapted, name, value)
        has_remedy = adapted.settings != endpoint.settings
        tries.append(send(adapted, full if has_remedy else REQUEST, ProbeReply, seconds=SECONDS))
    final = tries[-1]
    last = final.last
    if images and last is not None and last.http_status is not None and not isinstance(final.error, AuthFailed):
        tries.append(send(endpoint, SEEING, seconds=SECONDS))
    reply, attempts = final.reply, [attempt for each in tries for attempt in each.attempts]
    # It may have answered, though not in the shape.
    has_answered = final.error is None or (
        isinstance(final.error, BrokenReply) and bool(last and not last.error and reply and reply.text.strip())
    )
    structured, error, detail = "", "", ""
    if last is not None:
        structured = str(last.sent.get("response_format", {}).get("type", "text"))
    if not has_answered:
        structured, error, detail = "", final.error.kind if final.error else "", str(final.error)
        if last is not None and last.error:
            error, detail = last.error, last.detail
    elif final.error:
        structured = "unusable"
    usages = [usage_of(attempt) for attempt in attempts]
    result = EndpointTest(
        at=timezone.now().isoformat(),
        answered=has_answered,
        seconds=round(last.seconds, 3) if last else 0.0,
        tokens_in=sum(usage.tokens_in for usage in usages),
        tokens_out=sum(usage.tokens_out for usage in usages),
        tokens_reasoning=sum(usage.tokens_reasoning for usage in usages),
        structured=structured,
        model=reply.model if reply else "",
        cost=str(sum((usage.cost(endpoint.settings) for usage in usages), Decimal(0))),
        reply=reply.text[:REPLY_CHARS] if reply else "",
        error=error,
        detail=detail,
        http_status=last.http_status if last else None,
        findings=[asdict(finding) for finding in _findings(tries)],
        context_tokens=tries[0].context,
    )
    with transaction.atomic():
        ledger.count_without_job([ledger.LedgerLine(attempt, endpoint, "test") for attempt in attempts])
        endpoint.last_test, endpoint.context_found = asdict(result), tries[0].context or endpoint.context_found
        endpoint.save(update_fields=["last_test", "context_found"])
    return result


def _findings(tries: Sequence[Sent]) -> list[TrialFinding]:
    """What it cannot do, each once; that it did not answer is the result itself."""
    found: dict[str, TrialFinding] = {}
    for sent in tries:
        for finding in findings(sent):
            if finding.code == "refused" and sent.request is SEEING:
                code = "images"
            else:
                code = finding.code
            if code != "silent":
                found.setdefault(code, replace(finding, code=code))
    return list(found.values())
