"""The analysis plan of a run: what its report answers, said before anything is known and frozen at the launch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from evaluation import errors
from evaluation.models import Response, Run
from evaluation.protocol import EXCLUDED, JUDGE_FAILURES, JUDGED, CountingPreset, Protocol
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM

MOST = 10_000  # the largest minimum that makes any sense
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The primary metric; the pairs of models that are compared; how each outcome and each failure of a judge is counted; the
    samples below which no interval is given. `preset`: the way of counting that was chosen, '' where there is one way.
    `frozen`: False where a run was launched before there were plans, and this is what it would have been."""

    metric: str
    comparisons: tuple[Pair, ...]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    minimum: int = MINIMUM
    frozen: bool = True
    preset: str = ""

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "preset": self.preset,
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
    return Plan(told["metric"], pairs, told["outcomes"], told["minimum"], preset=told.get("preset", ""))


def outcomes_of(run: Run, protocol: Protocol) -> Mapping[str, str]:
    """How each outcome of the responses of a run is counted."""
    found: Mapping[str, str] = run.plan.get("outcomes") or _outcomes(protocol)
    return found


def _outcomes(protocol: Protocol) -> dict[str, str]:
    of_responses = {outcome: protocol.outcomes.get(outcome, JUDGED) for outcome in Response.Outcome.values}
    return of_responses | {failure: protocol.outcomes.get(failure, EXCLUDED) for failure in JUDGE_FAILURES}


def _preset(name: str, protocol: Protocol) -> tuple[str, CountingPreset]:
    """The chosen way of counting, the usual one where none was chosen. Raises InvalidPlan."""
    name = name or next(iter(protocol.presets), "")
    if name and name not in protocol.presets:
        known = ", ".join(protocol.presets) or "–"
        raise errors.InvalidPlan(f"Preset {name!r}; known: {known}.")
    return name, protocol.presets.get(name, CountingPreset(""))


def make_plan(settings: RunSettings, protocol: Protocol) -> Plan:
    """The plan of a run that is to be launched. Raises InvalidPlan."""
    names = [endpoint.name for endpoint in settings.tested]
    preset, counting = _preset(settings.preset, protocol)
    metric = settings.metric or counting.metric or protocol.rates[0].name
    if metric not in (known := [rate.name for rate in protocol.rates]):
        raise errors.InvalidPlan(f"Metric {metric!r}; known: {', '.join(known)}.")
    pairs = tuple(_pair(text, names) for text in settings.comparisons) or tuple(combinations(names, 2))
    rules = {**_outcomes(protocol), **counting.outcomes}
    for text in settings.outcomes:
        outcome, _sign, rule = (part.strip() for part in text.partition("="))
        allowed = ", ".join(
            known_rules := (*(() if outcome in JUDGE_FAILURES else (JUDGED,)), EXCLUDED, *protocol.known_verdicts)
        )
        if outcome not in rules or rule not in known_rules:
            raise errors.InvalidPlan(f"{text!r}; write OUTCOME=RULE. Outcomes: {', '.join(rules)}. Rules: {allowed}.")
        rules[outcome] = rule
    if not MINIMUM <= settings.minimum <= MOST:
        raise errors.InvalidPlan(f"The minimum is a number from {MINIMUM} to {MOST}.")
    return Plan(metric, tuple(dict.fromkeys(pairs)), rules, settings.minimum, preset=preset)


def changes_to_plan(run: Run, protocol: Protocol, endpoints: tuple[str, ...]) -> dict[str, Any]:
    """What a launch said about the plan of a run beside its preset, as settings; left out where it is as usual."""
    told = plan_of(run, protocol, endpoints)
    _name, counting = _preset(told.preset if told.preset in protocol.presets else "", protocol)
    usual = {**_outcomes(protocol), **counting.outcomes}
    every = {frozenset(pair) for pair in combinations(endpoints, 2)}
    compared = {frozenset(pair) for pair in told.comparisons} != every
    return {
        "metric": "" if told.metric == (counting.metric or protocol.rates[0].name) else told.metric,
        "comparisons": [":".join(pair) for pair in told.comparisons] if compared else [],
        "outcomes": [f"{name}={rule}" for name, rule in told.outcomes.items() if usual.get(name) != rule],
        "minimum": told.minimum,
    }


def _pair(text: str, names: list[str]) -> Pair:
    first, _sign, second = (part.strip() for part in text.partition(":"))
    if first == second or first not in names or second not in names:
        raise errors.InvalidPlan(f"{text!r}; write MODEL:MODEL, two of {', '.join(names)}.")
    return first, second
