"""The analysis plan of a run: what its report answers, said before anything is known and frozen at the launch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from evaluation import errors
from evaluation.models import Response, Run
from evaluation.protocol import EXCLUDED, JUDGED, Protocol
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM

MOST = 10_000  # the largest minimum that makes any sense
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The primary metric; the pairs of models that are compared; how each outcome is counted; the samples below which no
    interval is given. `frozen`: False where a run was launched before there were plans, and this is what it would have been."""

    metric: str
    comparisons: tuple[Pair, ...]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    minimum: int = MINIMUM
    frozen: bool = True

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "comparisons": [list(pair) for pair in self.comparisons],
            "outcomes": dict(self.outcomes),
            "minimum": self.minimum,
        }


def plan_of(run: Run, protocol: Protocol, endpoints: tuple[str, ...]) -> Plan:
    """The plan that a run was launched with. `endpoints`: the models under test."""
    told = run.plan
    if not told:
        pairs = tuple(combinations(endpoints, 2))
        return Plan(protocol.rates[0].name, pairs, _outcomes(protocol), MINIMUM, frozen=False)
    pairs = tuple((first, second) for first, second in told["comparisons"])
    return Plan(told["metric"], pairs, told["outcomes"], told["minimum"])


def outcomes_of(run: Run, protocol: Protocol) -> Mapping[str, str]:
    """How each outcome of the responses of a run is counted."""
    found: Mapping[str, str] = run.plan.get("outcomes") or _outcomes(protocol)
    return found


def _outcomes(protocol: Protocol) -> dict[str, str]:
    return {outcome: protocol.outcomes.get(outcome, JUDGED) for outcome in Response.Outcome.values}


def make_plan(settings: RunSettings, protocol: Protocol) -> Plan:
    """The plan of a run that is to be launched. Raises InvalidPlan."""
    names = [endpoint.name for endpoint in settings.tested]
    metric = settings.metric or protocol.rates[0].name
    if metric not in (known := [rate.name for rate in protocol.rates]):
        raise errors.InvalidPlan(f"Metric {metric!r}; known: {', '.join(known)}.")
    pairs = tuple(_pair(text, names) for text in settings.comparisons) or tuple(combinations(names, 2))
    rules = _outcomes(protocol)
    for text in settings.outcomes:
        outcome, _sign, rule = (part.strip() for part in text.partition("="))
        if outcome not in rules or rule not in (JUDGED, EXCLUDED, *protocol.known):
            allowed = ", ".join((JUDGED, EXCLUDED, *protocol.known))
            raise errors.InvalidPlan(f"{text!r}; write OUTCOME=RULE. Outcomes: {', '.join(rules)}. Rules: {allowed}.")
        rules[outcome] = rule
    if not MINIMUM <= settings.minimum <= MOST:
        raise errors.InvalidPlan(f"The minimum is a number from {MINIMUM} to {MOST}.")
    return Plan(metric, tuple(dict.fromkeys(pairs)), rules, settings.minimum)


def _pair(text: str, names: list[str]) -> Pair:
    first, _sign, second = (part.strip() for part in text.partition(":"))
    if first == second or first not in names or second not in names:
        raise errors.InvalidPlan(f"{text!r}; write MODEL:MODEL, two of {', '.join(names)}.")
    return first, second
