"""The estimate of a launch before any call is made, and its basis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from math import ceil
from statistics import fmean as mean
from typing import NamedTuple

from django.conf import settings

from generation.llm.request_body import identity
from generation.llm.types import Request, Usage
from generation.models import Call, Endpoint
from review.quality.activity import CaseTime
from review.rules.shown_fields import Hidden, Shown, shown

TOKENS_IN, TOKENS_OUT = 3000, 1000  # assumed for a prompt without earlier calls
SECONDS = 5.0  # assumed duration of a call, likewise
MAX_MEASURED = 2_000  # latest calls of a prompt to a model that means are based on, to keep an estimate cheap
MAX_LOOKED_UP = 50  # requests of a line that are looked up in the ledger
MARGIN = Decimal("1.25")  # proposed budget over estimate: a mean is exceeded half of the time
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class EstimateLine:
    """The estimate for one endpoint and one prompt ("" if it has no name).

    requests: the maximum number of questions. cached: the share of replies found to be paid for
    already, None if not looked up. calls, tokens_in, tokens_out, tokens_cached (of tokens_in),
    cost: expected values, including retries and repairs; cost is in the currency of the endpoint's
    prices. most_calls, most_cost: the worst case, in which every question is asked, nothing is
    cached, and each call is as long as the longest tenth of earlier ones. measured: the number of
    earlier calls that the means are based on; alike: if there are none, that of calls with this
    prompt to other models; if both are 0, the tokens are assumed. usual: the number of earlier
    drafts or rows with the same settings that the expected number of calls is based on; 0: every
    question is expected to be asked. latency: seconds of a call. batched: questions go into
    provider batches, at their price; retries and repairs are sent live, at the full price.
    """

    role: str
    endpoint: str
    prompt: str
    requests: int
    cached: float | None
    calls: int
    tokens_in: int
    tokens_out: int
    cost: Decimal
    most_calls: int
    most_cost: Decimal
    measured: int
    usual: int = 0
    latency: float = SECONDS
    batched: bool = False
    alike: int = 0
    tokens_cached: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits of an endpoint: concurrent calls, and calls per minute (None: no limit)."""

    concurrency: int
    rpm: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a launch of `jobs` jobs (two for a comparison).

    Each job gets the proposed budget. `rows`: the number of drafts or samples. `paces`: the pace of
    each endpoint. `one_model`: (role, the role that should have another model, the model that plays
    both). `review`: how long physicians work on a case; None if they review nothing of it.
    """

    lines: tuple[EstimateLine, ...]
    jobs: Hidden[int] = 1
    rows: Hidden[int] = 1
    paces: Hidden[Mapping[str, Pace]] = field(default_factory=dict)
    one_model: Sequence[tuple[str, str, str]] = ()
    review: Hidden[CaseTime | None] = None

    @property
    @shown
    def review_hours(self) -> float | None:
        """The hours of physicians, if each row becomes one sample and each sample is reviewed."""
        if self.review is None:
            return None
        return self.rows * self.review.minutes / 60

    @property
    def review_seconds(self) -> float | None:
        if self.review_hours is None:
            return None
        return self.review_hours * 3600

    @property
    @shown
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    @shown
    def tokens_in(self) -> int:
        return sum(line.tokens_in for line in self.lines)

    @property
    @shown
    def tokens_out(self) -> int:
        return sum(line.tokens_out for line in self.lines)

    @property
    @shown
    def tokens_cached(self) -> int:
        """Of `tokens_in`: read from the cache of an endpoint, as earlier calls were."""
        return sum(line.tokens_cached for line in self.lines)

    @property
    @shown
    def cost(self) -> Decimal:
        return sum((line.cost for line in self.lines), Decimal(0))

    @property
    @shown
    def most_calls(self) -> int:
        return sum(line.most_calls for line in self.lines)

    @property
    @shown
    def most_cost(self) -> Decimal:
        return sum((line.most_cost for line in self.lines), Decimal(0))

    @property
    @shown
    def seconds(self) -> float | None:
        """The expected duration; None if it depends on provider batches."""
        return self._seconds({line: line.calls for line in self.lines})

    @property
    @shown
    def most_seconds(self) -> float | None:
        """The duration in the worst case; None if it depends on provider batches."""
        return self._seconds({line: line.most_calls for line in self.lines})

    def _seconds(self, calls: Mapping[EstimateLine, int]) -> float | None:
        """The longer of the time of the busiest endpoint and that of one row with calls in turn."""
        if any(line.batched for line in calls):
            return None
        durations = [sum(count * line.latency for line, count in calls.items()) / max(1, self.rows)]
        for name in {line.endpoint for line in calls}:
            asked = [(count, line.latency) for line, count in calls.items() if line.endpoint == name]
            pace = self.paces.get(name, Pace(1, None))
            durations.append(sum(count * latency for count, latency in asked) / pace.concurrency)
            durations.append(sum(count for count, _ in asked) * 60 / pace.rpm if pace.rpm else 0.0)
        return max(durations)

    @property
    def tokens_assumed(self) -> tuple[int, int]:
        """Tokens in and out assumed for a call without earlier ones."""
        return TOKENS_IN, TOKENS_OUT

    @property
    @shown
    def budget_calls(self) -> int:
        """The call budget proposed for each job; at least 1, as 0 would allow no call."""
        return max(1, ceil(self.calls * MARGIN / self.jobs))

    @property
    @Shown(places=2)
    def budget_money(self) -> Decimal | None:
        """The cost budget proposed for each job, in whole cents; None if nothing has a price."""
        if self.cost:
            return (self.cost * MARGIN / self.jobs).quantize(CENT, ROUND_CEILING)
        return None

    @property
    @shown
    def currency(self) -> str:
        return str(settings.MHB_CURRENCY)


@dataclass(frozen=True, slots=True)
class UsualCalls:
    """The calls of one prompt per row, measured on `rows` earlier rows with the same settings."""

    per_row: float
    rows: int


def paces(endpoints: Iterable[Endpoint]) -> dict[str, Pace]:
    """The pace of each endpoint by its name."""
    return {endpoint.name: Pace(endpoint.concurrency, endpoint.rpm) for endpoint in endpoints}


def estimate_line(
    role: str,
    endpoint: Endpoint,
    prompt: str,
    requests: int,
    *,
    known: Sequence[Request] = (),
    fresh: bool = False,
    batched: bool = False,
    repeats: float = 1.0,
    usual: UsualCalls | None = None,
) -> EstimateLine:
    """Estimate `requests` questions.

    `known`: some of them verbatim, to be looked up in the ledger. `repeats`: how many such
    questions a row may ask, at all endpoints together. Without `usual`, all of them are expected to
    be asked.
    """
    recent = _recent_calls(endpoint.model, prompt)
    measured = len(recent)
    cached = None
    if known and not fresh:
        names = [identity(endpoint.settings, request) for request in known[:MAX_LOOKED_UP]]
        paid = Call.objects.filter(identity__in=names, hit_of__isnull=True, error="")
        found = set(paid.values_list("identity", flat=True))
        cached = sum(name in found for name in names) / len(names)
    calls_per_question = _calls_per_question(recent, repeats)
    if recent:
        alike = []
    else:
        alike = _recent_calls(None, prompt)
    basis = recent or alike
    tokens_in = [call.tokens_in for call in basis] or [TOKENS_IN]
    tokens_out = [call.tokens_out for call in basis] or [TOKENS_OUT]
    # The share of the questions that is asked.
    if usual is None:
        share = 1.0
    else:
        share = usual.per_row / (repeats * calls_per_question)
    questions = requests * (1 - (cached or 0)) * share
    calls = ceil(round(questions * calls_per_question, 6))
    batched_calls = 0
    if batched:
        batched_calls = min(calls, ceil(round(questions, 6)))
    # Only of this model's own calls: others may have another cache, or none.
    share_cached = sum(call.tokens_cached for call in recent) / max(1, sum(tokens_in))
    share_written = sum(call.tokens_written for call in recent) / max(1, sum(tokens_in))
    total_in = ceil(calls * mean(tokens_in))
    used = Usage(
        total_in,
        ceil(calls * mean(tokens_out)),
        tokens_cached=int(total_in * share_cached),
        tokens_written=int(total_in * share_written),
    )
    cheaper = Usage(ceil(batched_calls * mean(tokens_in)), ceil(batched_calls * mean(tokens_out)))
    cost = used.cost(endpoint.settings) - cheaper.cost(endpoint.settings) + cheaper.cost(endpoint.batch_settings)
    most_calls = max(calls, ceil(round(requests * calls_per_question, 6)))
    most_in, most_out = most_calls * _ninth_decile(tokens_in), most_calls * _ninth_decile(tokens_out)
    most_cost = Usage(most_in, most_out, tokens_written=ceil(most_in * share_written)).cost(endpoint.settings)
    return EstimateLine(
        role,
        endpoint.name,
        prompt,
        requests,
        cached,
        calls,
        used.tokens_in,
        used.tokens_out,
        cost,
        most_calls,
        max(cost, most_cost),
        measured,
        usual.rows if usual else 0,
        mean(call.seconds for call in basis) if basis else SECONDS,
        batched,
        len(alike),
        used.tokens_cached,
    )


def _calls_per_question(recent: Sequence["_MeasuredCall"], repeats: float) -> float:
    """The calls that a question takes with its retries and repairs; at least one.

    It is the calls of a row over the questions it may ask. If fewer were asked, that hides retries,
    which are then counted separately.
    """
    if not recent:
        return 1.0
    by_row = len(recent) / len({call.subject for call in recent}) / repeats
    by_try = len(recent) / max(1, sum(call.attempt == 1 for call in recent))
    return max(1.0, by_row, by_try if repeats > 1 else 1.0)


def _ninth_decile(tokens: Sequence[int]) -> int:
    """The number of tokens that nine in ten calls do not exceed."""
    return sorted(tokens)[ceil(len(tokens) * 0.9) - 1]


def mean_reply_tokens(endpoint: Endpoint, prompt: str) -> int | None:
    """The mean reply tokens of recent calls of a prompt to this model; None if there are none."""
    tokens = [call.tokens_out for call in _recent_calls(endpoint.model, prompt) if call.tokens_out]
    if tokens:
        return ceil(mean(tokens))
    return None


class _MeasuredCall(NamedTuple):
    """An earlier call; `attempt`: the number of the attempt at its question."""

    subject: str
    tokens_in: int
    tokens_cached: int
    tokens_written: int
    tokens_out: int
    seconds: float
    attempt: int


def _recent_calls(model: str | None, prompt: str) -> list[_MeasuredCall]:
    """The latest calls of a prompt to a model (None: any), at each of its endpoints.

    Ordered by time, not by key: for a prompt without calls, PostgreSQL would otherwise read the
    whole ledger backwards.
    """
    lines: list[_MeasuredCall] = []
    if model is None:
        endpoints = Endpoint.objects.all()
    else:
        endpoints = Endpoint.objects.filter(model=model)
    for pk in endpoints.values_list("pk", flat=True):
        calls = Call.objects.filter(endpoint=pk, prompt=prompt, hit_of__isnull=True).order_by("-started_at")
        lines += map(_MeasuredCall._make, calls.values_list(*_MeasuredCall._fields)[:MAX_MEASURED])
    return lines
