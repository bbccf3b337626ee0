"""The analysis plan of a run: what its report will answer, frozen at launch before any result."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from evaluation import errors
from evaluation.models import Response, Run
from evaluation.numbers.plans import THRESHOLDS, Pair, Plan
from evaluation.numbers.rules import failure_rule
from evaluation.protocol import EXCLUDED, JUDGE_FAILURES, JUDGED, UNDECIDED, CountingPreset, DataSet, Protocol
from evaluation.runs.settings import MAX_MINIMUM, RunSettings
from evaluation.statistics.intervals import MINIMUM
from review.rules.text import parts_around


def plan_of(run: Run, protocol: Protocol, endpoints: tuple[str, ...]) -> Plan:
    """The plan of a run. `endpoints`: the names of its models under test."""
    stored = run.plan
    if not stored:
        pairs = tuple(combinations(endpoints, 2))
        return Plan(protocol.rates[0].name, pairs, default_rules(protocol), MINIMUM, frozen=False)
    pairs = tuple([(first, second) for first, second in stored["comparisons"]])
    rules = {**stored["outcomes"], UNDECIDED: failure_rule(stored["outcomes"], UNDECIDED)}
    return Plan(
        stored["metric"],
        pairs,
        rules,
        stored["minimum"],
        preset=stored.get("preset", ""),
        dataset=stored.get("dataset", ""),
        thresholds={**THRESHOLDS, **stored.get("thresholds", {})},
    )


def outcomes_of(run: Run, protocol: Protocol) -> Mapping[str, str]:
    """The rule for each outcome of a run's responses and each failure of its judge."""
    return plan_of(run, protocol, ()).outcomes


def default_rules(protocol: Protocol) -> dict[str, str]:
    """The benchmark's own rule for each outcome of a response and each failure of the judge."""
    usual = dict.fromkeys(Response.Outcome.values, JUDGED) | dict.fromkeys(JUDGE_FAILURES, EXCLUDED)
    return {name: protocol.outcomes.get(name, rule) for name, rule in usual.items()}


def known_rules(protocol: Protocol, outcome: str) -> tuple[str, ...]:
    """The rules by which a plan may count an outcome, or a failure of the judge."""
    if outcome in JUDGE_FAILURES:
        return (EXCLUDED, *protocol.known_verdicts)
    return (JUDGED, EXCLUDED, *protocol.known_verdicts)


def _preset(name: str, protocol: Protocol) -> tuple[str, CountingPreset]:
    """The name and values of the chosen preset, by default the first. Raises InvalidPlan."""
    name = name or next(iter(protocol.presets), "")
    if name and name not in protocol.presets:
        known = ", ".join(protocol.presets) or "–"
        raise errors.InvalidPlan(f"Preset {name!r}; known: {known}.")
    return name, protocol.presets.get(name, CountingPreset(""))


def make_plan(settings: RunSettings, protocol: Protocol, datasets: Sequence[DataSet]) -> Plan:
    """The plan for a run with these settings on these data sets. Raises InvalidPlan."""
    names = [endpoint.name for endpoint in settings.tested]
    preset, counting = _preset(settings.preset, protocol)
    metric = settings.metric or counting.metric or protocol.rates[0].name
    known = [rate.name for rate in protocol.rates]
    if metric not in known:
        raise errors.InvalidPlan(f"Metric {metric!r}; known: {', '.join(known)}.")
    pairs = [_pair(text, names) for text in settings.comparisons] or combinations(names, 2)
    rules = {**default_rules(protocol), **counting.outcomes}
    for text in settings.outcomes:
        outcome, rule = parts_around("=", text)
        allowed = known_rules(protocol, outcome)
        if outcome not in rules or rule not in allowed:
            hint = f"Outcomes: {', '.join(rules)}. Rules: {', '.join(allowed)}."
            raise errors.InvalidPlan(f"{text!r}; write OUTCOME=RULE. {hint}")
        rules[outcome] = rule
    if not MINIMUM <= settings.minimum <= MAX_MINIMUM:
        raise errors.InvalidPlan(f"The minimum must be a number from {MINIMUM} to {MAX_MINIMUM}.")
    parts = dict(protocol.columns(datasets))
    if settings.primary_dataset and settings.primary_dataset not in parts:
        raise errors.InvalidPlan(f"Primary data set {settings.primary_dataset!r}; known: {', '.join(parts)}.")
    unique = tuple(dict.fromkeys(pairs))
    return Plan(metric, unique, rules, settings.minimum, preset=preset, dataset=settings.primary_dataset)


def plan_overrides(run: Run, protocol: Protocol, endpoints: tuple[str, ...]) -> dict[str, Any]:
    """The settings that reproduce a run's plan on top of its preset; empty where default."""
    plan = plan_of(run, protocol, endpoints)
    preset = ""
    if plan.preset in protocol.presets:
        preset = plan.preset
    _name, counting = _preset(preset, protocol)
    usual = {**default_rules(protocol), **counting.outcomes}
    metric, comparisons, outcomes = "", list[str](), list[str]()
    if plan.metric != (counting.metric or protocol.rates[0].name):
        metric = plan.metric
    planned = {frozenset(pair) for pair in plan.comparisons}
    if planned != {frozenset(pair) for pair in combinations(endpoints, 2)}:
        comparisons = [":".join(pair) for pair in plan.comparisons]
    for name, rule in plan.outcomes.items():
        if usual.get(name) != rule:
            outcomes.append(f"{name}={rule}")
    return {
        "metric": metric,
        "comparisons": comparisons,
        "outcomes": outcomes,
        "minimum": plan.minimum,
        "primary_dataset": plan.dataset,
    }


def _pair(text: str, names: list[str]) -> Pair:
    first, second = parts_around(":", text)
    if first == second or first not in names or second not in names:
        raise errors.InvalidPlan(f"{text!r}; write MODEL:MODEL, two of {', '.join(names)}.")
    return first, second
