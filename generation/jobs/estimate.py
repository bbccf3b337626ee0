"""What a launch would cost, and on what grounds, before any call is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from math import ceil
from statistics import fmean as mean
from typing import NamedTuple

from generation.llm.request_body import identity
from generation.llm.types import Request, Usage
from generation.models import Call, Endpoint

TOKENS_IN, TOKENS_OUT = 3000, 1000  # assumed of a question that was never asked
SECONDS = 5.0  # of a call, likewise
LATELY = 2_000  # calls of a prompt to a model that the means are of, the last ones: an estimate stays cheap
LOOKED_UP = 50  # requests of a line that are looked for in the ledger
MARGIN = Decimal("1.25")  # the budget that is proposed, over the estimate: a mean is exceeded half of the time
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class EstimateLine:
    """What one endpoint is asked under one prompt ("" for what has no name).

    requests: questions at most; cached: the share of them that was found paid for already, None where that was not looked up.
    calls, tokens_in, tokens_out, cost: as expected, retries and repairs included; most_calls, most_cost: in the worst case, in
    which every question is put, nothing is cached, and each call is as long as one in ten was.
    measured: the earlier calls that the means are of; alike: where there are none, those with this prompt to other models;
    both 0: tokens assumed. usual: the earlier drafts or rows under the same
    settings that the expected number of calls is of; 0: every question is expected to be put. latency: seconds of a call.
    cost: in the currency of the endpoint's prices. batched: questions go into the provider's batches, at their price;
    retries and repairs are asked live, at the full one.
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


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an endpoint may be asked: calls at the same time, and calls a minute (None: no limit)."""

    concurrency: int
    rpm: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The lines of a launch of `jobs` jobs (a comparison has two), each of which gets the budget that is proposed.

    `rows`: how many drafts or samples there are, `paces`: of each endpoint. `one_model`: (role, the role that it should be
    apart from, the model that plays both).
    """

    lines: tuple[EstimateLine, ...]
    jobs: int = 1
    rows: int = 1
    paces: Mapping[str, Pace] = field(default_factory=dict)
    one_model: Sequence[tuple[str, str, str]] = ()

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def tokens_in(self) -> int:
        return sum(line.tokens_in for line in self.lines)

    @property
    def tokens_out(self) -> int:
        return sum(line.tokens_out for line in self.lines)

    @property
    def cost(self) -> Decimal:
        return sum((line.cost for line in self.lines), Decimal(0))

    @property
    def most_calls(self) -> int:
        return sum(line.most_calls for line in self.lines)

    @property
    def most_cost(self) -> Decimal:
        return sum((line.most_cost for line in self.lines), Decimal(0))

    @property
    def seconds(self) -> float | None:
        """How long it takes, as expected; None where a provider's batches decide that."""
        return self._seconds({line: line.calls for line in self.lines})

    @property
    def most_seconds(self) -> float | None:
        """The same in the worst case."""
        return self._seconds({line: line.most_calls for line in self.lines})

    def _seconds(self, calls: Mapping[EstimateLine, int]) -> float | None:
        """The longer of what the busiest endpoint needs, and of what one row needs, whose questions follow one another."""
        if any(line.batched for line in calls):
            return None
        work: dict[str, list[float]] = {}
        for line, count in calls.items():
            busy = work.setdefault(line.endpoint, [0.0, 0.0])
            busy[0] += count
            busy[1] += count * line.latency
        needs = [0.0]
        for name, (number, seconds) in work.items():
            pace = self.paces.get(name, Pace(1, None))
            needs.append(max(seconds / pace.concurrency, number * 60 / pace.rpm if pace.rpm else 0.0))
        return max(*needs, sum(count * line.latency for line, count in calls.items()) / max(1, self.rows))

    @property
    def tokens_assumed(self) -> tuple[int, int]:
        """In and out, of a call of which nothing was measured."""
        return TOKENS_IN, TOKENS_OUT

    @property
    def budget_calls(self) -> int:
        """The calls proposed as the budget of each job; never 0, with which nothing could be asked."""
        return max(1, ceil(self.calls * MARGIN / self.jobs))

    @property
    def budget_money(self) -> Decimal | None:
        """The money proposed as the budget of each job, in whole cents; None where nothing has a price."""
        return (self.cost * MARGIN / self.jobs).quantize(CENT, ROUND_CEILING) if self.cost else None


@dataclass(frozen=True, slots=True)
class Usual:
    """What was measured under the same settings: `each`, calls of one prompt for a row; of how many `rows`."""

    each: float
    rows: int


def paces(endpoints: Iterable[Endpoint]) -> dict[str, Pace]:
    """The pace of each endpoint by its name."""
    return {each.name: Pace(each.concurrency, each.rpm) for each in endpoints}


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
    usual: Usual | None = None,
) -> EstimateLine:
    """The estimate of `requests` questions; `known` are some of them word for word, to be looked for in the ledger.

    `repeats`: how often a row may put such a question, at every endpoint together. Without `usual`, each is expected to be put.
    """
    lately = _lately(endpoint.model, prompt)
    measured = len(lately)
    cached = None if fresh or not known else _share_paid(endpoint, known)
    again = _calls_a_question(lately, repeats)
    alike = [] if lately else _lately(None, prompt)
    basis = lately or alike
    given = [call.tokens_in for call in basis] or [TOKENS_IN]
    said = [call.tokens_out for call in basis] or [TOKENS_OUT]
    share = 1.0 if usual is None else usual.each / (repeats * again)  # of the questions that are put
    asked = requests * (1 - (cached or 0)) * share
    calls = ceil(round(asked * again, 6))
    together = min(calls, ceil(round(asked, 6))) if batched else 0
    used = Usage(ceil(calls * mean(given)), ceil(calls * mean(said)))
    cheaper = Usage(ceil(together * mean(given)), ceil(together * mean(said)))
    cost = used.cost(endpoint.settings) - cheaper.cost(endpoint.settings) + cheaper.cost(endpoint.batch_settings)
    most_calls = max(calls, ceil(round(requests * again, 6)))
    most = Usage(most_calls * _long(given), most_calls * _long(said)).cost(endpoint.settings)
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
        max(cost, most),
        measured,
        usual.rows if usual else 0,
        mean(call.seconds for call in basis) if basis else SECONDS,
        batched,
        len(alike),
    )


def _calls_a_question(lately: Sequence["_Measured"], repeats: float) -> float:
    """How many calls a question takes with its retries and repairs; at least one.

    Calls of a row over the questions it may put; where fewer were put, that hides retries, which are counted by themselves.
    """
    if not lately:
        return 1.0
    by_row = len(lately) / len({call.subject for call in lately}) / repeats
    by_try = len(lately) / max(1, sum(call.attempt == 1 for call in lately))
    return max(1.0, by_row, by_try if repeats > 1 else 1.0)


def _long(tokens: Sequence[int]) -> int:
    """What nine in ten calls do not exceed."""
    return sorted(tokens)[ceil(len(tokens) * 0.9) - 1]


def mean_reply_tokens(endpoint: Endpoint, prompt: str) -> int | None:
    """The mean of the tokens that came back when a prompt was last answered by this model; None where it never was."""
    said = [call.tokens_out for call in _lately(endpoint.model, prompt) if call.tokens_out]
    return ceil(mean(said)) if said else None


class _Measured(NamedTuple):
    """An earlier call: its row, its tokens, its time, and which try of its question it was."""

    subject: str
    tokens_in: int
    tokens_out: int
    seconds: float
    attempt: int


def _lately(model: str | None, prompt: str) -> list[_Measured]:
    """The last calls of a prompt to a model, at each of its endpoints; None: to any.

    By time, not by number: PostgreSQL would read the ledger backwards for a prompt that was never asked, to its beginning.
    """
    lines: list[_Measured] = []
    endpoints = Endpoint.objects.all() if model is None else Endpoint.objects.filter(model=model)
    for pk in endpoints.values_list("pk", flat=True):
        calls = Call.objects.filter(endpoint=pk, prompt=prompt, hit_of__isnull=True).order_by("-started_at")
        lines += map(_Measured._make, calls.values_list(*_Measured._fields)[:LATELY])
    return lines


def _share_paid(endpoint: Endpoint, known: Sequence[Request]) -> float:
    names = [identity(endpoint.settings, request) for request in known[:LOOKED_UP]]
    paid = Call.objects.filter(identity__in=names, hit_of__isnull=True, error="")
    there = set(paid.values_list("identity", flat=True))
    return sum(name in there for name in names) / len(names)
