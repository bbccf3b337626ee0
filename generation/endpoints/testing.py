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
from generation.llm.types import Attempt, Reply
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
    if _was_refused(tries[0]):
        adapted = _adapted(endpoint, tries[0])
        request = full
        if adapted.settings == endpoint.settings:  # no remedy is known
            request = REQUEST
        tries.append(send(adapted, request, ProbeReply, seconds=SECONDS))
    final = tries[-1]
    if images and _was_reached(final):
        tries.append(send(endpoint, SEEING, seconds=SECONDS))
    attempts: list[Attempt] = []
    for sent in tries:
        attempts += sent.attempts
    result = _result(endpoint, tries, final, attempts)
    with transaction.atomic():
        ledger.count_without_job([ledger.LedgerLine(attempt, endpoint, "test") for attempt in attempts])
        endpoint.last_test, endpoint.context_found = asdict(result), tries[0].context or endpoint.context_found
        endpoint.save(update_fields=["last_test", "context_found"])
    return result


def _was_refused(sent: Sent) -> bool:
    """Whether the server refused the request itself, so that other settings may help."""
    return isinstance(sent.error, BadRequest) and sent.last is not None and sent.last.http_status in REFUSALS


def _was_reached(sent: Sent) -> bool:
    """Whether a server replied that lets us in."""
    return sent.last is not None and sent.last.http_status is not None and not isinstance(sent.error, AuthFailed)


def _adapted(endpoint: Endpoint, refused: Sent) -> Endpoint:
    """The endpoint with the settings that may help against what was found, not stored."""
    adapted = copy.copy(endpoint)
    for finding in findings(refused):
        for name, value in REMEDIES.get(finding.code, {}).items():
            setattr(adapted, name, value)
    return adapted


def _result(endpoint: Endpoint, tries: Sequence[Sent], final: Sent, attempts: Sequence[Attempt]) -> EndpointTest:
    """The result of all tries. `final`: the last one with the question in words."""
    tokens_in, tokens_out, tokens_reasoning, cost = 0, 0, 0, Decimal(0)
    for attempt in attempts:
        usage = usage_of(attempt)
        tokens_in += usage.tokens_in
        tokens_out += usage.tokens_out
        tokens_reasoning += usage.tokens_reasoning
        cost += usage.cost(endpoint.settings)
    last = final.last
    reply = final.reply or Reply("")
    has_answered = final.error is None
    if isinstance(final.error, BrokenReply) and last and not last.error:
        has_answered = bool(reply.text.strip())  # though not in the shape
    structured, error, detail, seconds, http_status = "", "", "", 0.0, None
    if last is not None:
        seconds, http_status = round(last.seconds, 3), last.http_status
        structured = str(last.sent.get("response_format", {}).get("type", "text"))
    if final.error and has_answered:
        structured = "unusable"
    elif final.error:
        structured, error, detail = "", final.error.kind, str(final.error)
        if last is not None and last.error:
            error, detail = last.error, last.detail
    return EndpointTest(
        at=timezone.now().isoformat(),
        answered=has_answered,
        seconds=seconds,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_reasoning=tokens_reasoning,
        structured=structured,
        model=reply.model,
        cost=str(cost),
        reply=reply.text[:REPLY_CHARS],
        error=error,
        detail=detail,
        http_status=http_status,
        findings=[asdict(finding) for finding in _findings(tries)],
        context_tokens=tries[0].context,
    )


def _findings(tries: Sequence[Sent]) -> list[TrialFinding]:
    """What it cannot do, each once; that it did not answer is the result itself."""
    found: dict[str, TrialFinding] = {}
    for sent in tries:
        for finding in findings(sent):
            if finding.code == "refused" and sent.request is SEEING:
                code = "images"
            else:
                code = finding.code
            if code not in ("silent", "slow"):
                found.setdefault(code, replace(finding, code=code))
    return list(found.values())
