"""Trap plans: how many samples of a batch should carry which trap, and which draft is asked for which. Plain Python.

A plan is a wish. It reaches the generator as a preference in the prompt; the record decides what fits, and the batch's page
shows what was reached beside what was planned.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from generation.recipes.recipe import Term, TrapPlan

K = TypeVar("K", bound=Hashable)
MOST_WANTED = 4  # traps asked for in one sample


class PlanMistake(ValueError):
    """What is wrong with a plan, in one sentence."""


def largest_remainder(weights: Mapping[K, Fraction], total: int) -> dict[K, int]:
    """Whole numbers in proportion to `weights` that add up to `total` (Hamilton's method); ties go to the first.

    Raises ValueError where no weight is above zero and `total` is.
    """
    whole = sum(weights.values())
    if not whole:
        if total:
            raise ValueError("no weight is above zero")
        return dict.fromkeys(weights, 0)
    exact = {key: weight * total / whole for key, weight in weights.items()}
    counts = {key: int(share) for key, share in exact.items()}
    by_rest = sorted(exact, key=lambda key: counts[key] - exact[key])  # stable: the first of equals
    for key in by_rest[: total - sum(counts.values())]:
        counts[key] += 1
    return counts


def spread(targets: Mapping[str, Any], terms: Iterable[Term]) -> dict[str, tuple[str, ...]]:
    """Each code that has a target, with the subtypes among which it is shared out evenly.

    A subtype has itself; a cluster those of its subtypes that have no target of their own.
    Raises PlanMistake: a code that the taxonomy does not know, a number that is none, a cluster without a free subtype.
    """
    terms = tuple(terms)
    subtypes = {term.code: term.parent for term in terms if term.parent}
    clusters = [term.code for term in terms if not term.parent]
    for code, count in targets.items():
        if code not in subtypes and code not in clusters:
            raise PlanMistake(f"{code!r} is no trap of the taxonomy; known: {', '.join([*clusters, *subtypes])}.")
        if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= 10**9:
            raise PlanMistake(f"The target of {code} is no number from 0 to 1,000,000,000.")
    shared: dict[str, tuple[str, ...]] = {code: (code,) for code in subtypes if code in targets}
    for cluster in clusters:
        if cluster not in targets:
            continue
        shared[cluster] = tuple(code for code, parent in subtypes.items() if parent == cluster and code not in targets)
        if not shared[cluster]:
            raise PlanMistake(f"Every subtype of {cluster} has a target of its own; leave {cluster} out.")
    return shared


def read_plan(said: object, name: str = "") -> TrapPlan:
    """A plan out of JSON: ``{"A1": 30, "C": 20}`` for every task, or ``{"dialogue": {...}, "report": {...}}``.

    ``"samples"`` beside the targets says for how many samples they are meant, where a sample shall carry more than one trap
    on average; without it they add up to that number. Raises PlanMistake.
    """
    if not isinstance(said, dict) or not said:
        raise PlanMistake("A plan is a JSON object: trap codes with numbers, for all tasks or under each task's name.")
    if any(isinstance(value, dict) for value in said.values()):
        if not all(isinstance(value, dict) and value for value in said.values()):
            raise PlanMistake("A plan gives targets for all tasks or under each task's name, not both.")
        tasks = {str(task): dict(value) for task, value in said.items()}
    else:
        tasks = {"": dict(said)}
    samples: dict[str, int] = {}
    for task, targets in tasks.items():
        meant = targets.pop("samples", None)
        if meant is None:
            continue
        if isinstance(meant, bool) or not isinstance(meant, int) or not 1 <= meant <= 10**9:
            raise PlanMistake("'samples' is no whole number above 0.")
        samples[task] = meant
    return TrapPlan(name=name, targets=tasks, samples=samples)


def targets_for(plan: TrapPlan, task: str, count: int, terms: Iterable[Term]) -> dict[str, int]:
    """How many of `count` samples of a task should carry each subtype; {} where the plan says nothing of the task.

    Scaled by the largest remainder, never more than `count` of one subtype. Raises PlanMistake.
    """
    terms = tuple(terms)
    key = task if task in plan.targets else ""
    if key not in plan.targets:
        return {}
    targets = plan.targets[key]
    shared = spread(targets, terms)
    wanted = {code: Fraction(targets[code]) for code in shared}
    whole = sum(wanted.values())
    if not whole:
        raise PlanMistake("No target of the plan is above zero.")
    base = Fraction(plan.samples.get(key, 0)) or whole
    if whole > MOST_WANTED * base:
        raise PlanMistake(f"The plan asks for more than {MOST_WANTED} traps a sample.")
    if max(wanted.values()) > base:
        raise PlanMistake("The plan asks for one trap in more samples than it is meant for.")
    total = int(whole / base * count + Fraction(1, 2))
    found: dict[str, int] = {}
    for code, number in largest_remainder(wanted, total).items():
        # Rounding may lift a trap that every sample is to carry above their number.
        found |= largest_remainder(dict.fromkeys(shared[code], Fraction(1)), min(number, count))
    order = [term.code for term in terms if term.parent]
    return {code: found[code] for code in sorted(found, key=order.index)}


def deal(targets: Mapping[str, int], count: int, terms: Iterable[Term], *, seed: str) -> list[tuple[str, ...]]:
    """Which subtypes each of `count` samples is asked for: the targets, dealt out evenly.

    A function of its arguments, so that the same batch over the same records always gives the same prompts. The traps of one
    cluster go to different samples as long as there are enough: a target for a cluster counts samples.
    """
    dice = Random(seed)
    parents = {term.code: term.parent for term in terms}
    clusters = sorted({parents.get(code, "") for code in targets})
    dice.shuffle(clusters)
    cards: list[str] = []
    for cluster in clusters:
        own = sorted(code for code in targets if parents.get(code, "") == cluster)
        dice.shuffle(own)
        cards += [code for code in own for _ in range(targets[code])]
    order = list(range(count))
    dice.shuffle(order)
    hands: list[list[str]] = [[] for _ in order]
    for at, code in enumerate(cards):  # the same code in a row meets each sample once: there are at most `count` of it
        hands[order[at % count]].append(code)
    return [tuple(sorted(hand)) for hand in hands]


def clusters_of(hands: Sequence[tuple[str, ...]], terms: Iterable[Term]) -> dict[str, int]:
    """How many samples are asked for some trap of each cluster."""
    parents = {term.code: term.parent for term in terms}
    counts: dict[str, int] = {}
    for hand in hands:
        for cluster in {parents.get(code, "") for code in hand}:
            counts[cluster] = counts.get(cluster, 0) + 1
    return counts
