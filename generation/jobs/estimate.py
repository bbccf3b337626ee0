"""What a launch would cost, and on what grounds, before any call is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from math import ceil

from generation.llm.request_body import identity
from generation.llm.types import Request, Usage
from generation.models import Call, Endpoint

TOKENS_IN, TOKENS_OUT = 3000, 1000  # assumed of a question that was never asked
LATELY = 2_000  # calls of a prompt to a model that the means are of, the last ones: an estimate stays cheap
LOOKED_UP = 50  # requests of a line that are looked for in the ledger
MARGIN = Decimal("1.25")  # the budget that is proposed, over the estimate: a mean is exceeded half of the time
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class EstimateLine:
    """What one endpoint is asked under one prompt ("" for what has no name).

    requests: questions; cached: the share of them that was found paid for already, None where that was not looked up.
    calls: HTTP calls, retries and repairs included. measured: the earlier calls that the means are of; 0: tokens assumed.
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
    measured: int
    batched: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """The lines of a launch of `jobs` jobs (a comparison has two), each of which gets the budget that is proposed."""

    lines: tuple[EstimateLine, ...]
    jobs: int = 1

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


def estimate_line(
    role: str,
    endpoint: Endpoint,
    prompt: str,
    requests: int,
    *,
    known: Sequence[Request] = (),
    fresh: bool = False,
    batched: bool = False,
) -> EstimateLine:
    """The estimate of `requests` questions; `known` are some of them word for word, to be looked for in the ledger."""
    lately = _lately(endpoint.model, prompt)
    measured = len(lately)
    cached = None if fresh or not known else _share_paid(endpoint, known)
    each = measured / len({subject for subject, _given, _said in lately}) if lately else 1
    given = sum(tokens for _subject, tokens, _said in lately) / measured if lately else TOKENS_IN
    said = sum(tokens for _subject, _given, tokens in lately) / measured if lately else TOKENS_OUT
    asked = requests * (1 - (cached or 0))
    calls = ceil(round(asked * each, 6))
    together = min(calls, ceil(round(asked, 6))) if batched else 0
    used = Usage(ceil(calls * given), ceil(calls * said))
    cheaper = Usage(ceil(together * given), ceil(together * said))
    cost = used.cost(endpoint.settings) - cheaper.cost(endpoint.settings) + cheaper.cost(endpoint.batch_settings)
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
        measured,
        batched,
    )


def mean_reply_tokens(endpoint: Endpoint, prompt: str) -> int | None:
    """The mean of the tokens that came back when a prompt was last answered by this model; None where it never was."""
    said = [tokens for _subject, _given, tokens in _lately(endpoint.model, prompt) if tokens]
    return ceil(sum(said) / len(said)) if said else None


def _lately(model: str, prompt: str) -> list[tuple[str, int, int]]:
    """The row, the tokens in and out of the last calls of a prompt to a model, at each of its endpoints.

    By time, not by number: PostgreSQL would read the ledger backwards for a prompt that was never asked, to its beginning.
    """
    lines: list[tuple[str, int, int]] = []
    for pk in Endpoint.objects.filter(model=model).values_list("pk", flat=True):
        calls = Call.objects.filter(endpoint=pk, prompt=prompt, hit_of__isnull=True).order_by("-started_at")
        lines += calls.values_list("subject", "tokens_in", "tokens_out")[:LATELY]
    return lines


def _share_paid(endpoint: Endpoint, known: Sequence[Request]) -> float:
    names = [identity(endpoint.settings, request) for request in known[:LOOKED_UP]]
    paid = Call.objects.filter(identity__in=names, hit_of__isnull=True, error="")
    there = set(paid.values_list("identity", flat=True))
    return sum(name in there for name in names) / len(names)
