"""Trap plans: how many samples of a batch should carry which trap.

A plan is a wish. It reaches the generator as a preference in the prompt of each draft; the record
decides what fits, and the batch's page shows the result beside the plan.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from generation.errors import WrongPlan
from generation.recipes.recipe import Term, TrapPlan

K = TypeVar("K", bound=Hashable)
MAX_TRAPS_PER_SAMPLE = 4  # on average


def largest_remainder(weights: Mapping[K, Fraction], total: int) -> dict[K, int]:
    """Integers in proportion to `weights` that add up to `total` (Hamilton's method).

    Ties go to the first. Raises ValueError if no weight is above zero although `total` is.
    """
    weight_sum = sum(weights.values())
    if not weight_sum:
        if total:
            raise ValueError("no weight is above zero")
        return dict.fromkeys(weights, 0)
    exact = {key: weight * total / weight_sum for key, weight in weights.items()}
    counts = {key: int(share) for key, share in exact.items()}
    # The sort is stable, so ties go to the first.
    by_remainder = sorted(exact, key=lambda key: counts[key] - exact[key])
    for key in by_remainder[: total - sum(counts.values())]:
        counts[key] += 1
    return counts


def expand_targets(targets: Mapping[str, Any], terms: Iterable[Term]) -> dict[str, tuple[str, ...]]:
    """Map each code that has a target to the subtypes among which the target is divided evenly.

    For a subtype that is the subtype itself; for a cluster, those of its subtypes without a target
    of their own. Raises WrongPlan for a code that is not in the taxonomy, an invalid number, and
    a cluster all of whose subtypes have targets.
    """
    terms = tuple(terms)
    subtypes = {term.code: term.parent for term in terms if term.parent}
    clusters = [term.code for term in terms if not term.parent]
    for code, count in targets.items():
        if code not in subtypes and code not in clusters:
            raise WrongPlan(f"{code!r} is not a trap of the taxonomy; known: {', '.join([*clusters, *subtypes])}.")
        if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= 10**9:
            raise WrongPlan(f"The target of {code} is not a number from 0 to 1,000,000,000.")
    subtypes_of: dict[str, tuple[str, ...]] = {code: (code,) for code in subtypes if code in targets}
    for cluster in clusters:
        if cluster not in targets:
            continue
        without_target = [code for code, parent in subtypes.items() if parent == cluster and code not in targets]
        if not without_target:
            raise WrongPlan(f"Every subtype of {cluster} has its own target; leave {cluster} out.")
        subtypes_of[cluster] = tuple(without_target)
    return subtypes_of


def read_plan(plan_json: object, name: str = "") -> TrapPlan:
    """Parse a plan from JSON: targets of subtypes, the same for every task or by task.

    ``{"A1": 30, "C": 20}`` for every task, or ``{"dialogue": {...}, "report": {...}}``.
    ``"samples"`` beside the targets is the number of samples they are meant for, for plans in which
    a sample carries more than one trap on average; without it, the targets add up to that number.
    Raises WrongPlan.
    """
    if not isinstance(plan_json, dict) or not plan_json:
        raise WrongPlan("A plan is a JSON object: trap codes with numbers, for all tasks or under each task's name.")
    if any(isinstance(value, dict) for value in plan_json.values()):
        if not all(isinstance(value, dict) and value for value in plan_json.values()):
            raise WrongPlan("A plan gives targets for all tasks or under each task's name, not both.")
        tasks = {str(task): dict(value) for task, value in plan_json.items()}
    else:
        tasks = {"": dict(plan_json)}
    samples: dict[str, int] = {}
    for task, targets in tasks.items():
        count = targets.pop("samples", None)
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**9:
            raise WrongPlan("'samples' is not a whole number above 0.")
        samples[task] = count
    return TrapPlan(name=name, targets=tasks, samples=samples)


def targets_for(plan: TrapPlan, task: str, count: int, terms: Iterable[Term]) -> dict[str, int]:
    """How many of `count` samples of a task should carry each subtype; {} if the plan lacks it.

    Scaled by the largest remainder; never more than `count` of one subtype. Raises WrongPlan.
    """
    terms = tuple(terms)
    key = ""
    if task in plan.targets:
        key = task
    if key not in plan.targets:
        return {}
    targets = plan.targets[key]
    subtypes_of = expand_targets(targets, terms)
    weights = {code: Fraction(targets[code]) for code in subtypes_of}
    weight_sum = sum(weights.values())
    if not weight_sum:
        raise WrongPlan("No target of the plan is above zero.")
    base = Fraction(plan.samples.get(key, 0)) or weight_sum
    if weight_sum > MAX_TRAPS_PER_SAMPLE * base:
        raise WrongPlan(f"The plan asks for more than {MAX_TRAPS_PER_SAMPLE} traps per sample.")
    if max(weights.values()) > base:
        raise WrongPlan("The plan asks for one trap in more samples than it has.")
    total = int(weight_sum / base * count + Fraction(1, 2))
    counts: dict[str, int] = {}
    for code, number in largest_remainder(weights, total).items():
        # Rounding may lift the target of a trap that every sample should carry above `count`.
        counts |= largest_remainder(dict.fromkeys(subtypes_of[code], Fraction(1)), min(number, count))
    order = [term.code for term in terms if term.parent]
    return {code: counts[code] for code in sorted(counts, key=order.index)}


def parents_of(terms: Iterable[Term]) -> dict[str, str]:
    """Code -> the cluster that it belongs to, "" for a cluster."""
    return {term.code: term.parent for term in terms}


def distribute(targets: Mapping[str, int], count: int, terms: Iterable[Term], *, seed: str) -> list[tuple[str, ...]]:
    """Distribute the targets evenly: which subtypes each of `count` samples is asked for.

    The result depends on the arguments alone, so that the same batch over the same records always
    gives the same prompts. The traps of one cluster go to different samples as long as there are
    enough, because a cluster's target counts samples.
    """
    rng = Random(seed)
    parents = parents_of(terms)
    clusters = sorted({parents.get(code, "") for code in targets})
    rng.shuffle(clusters)
    codes: list[str] = []
    for cluster in clusters:
        cluster_codes = sorted(code for code in targets if parents.get(code, "") == cluster)
        rng.shuffle(cluster_codes)
        for code in cluster_codes:
            codes += [code] * targets[code]
    order = list(range(count))
    rng.shuffle(order)
    preferences: list[list[str]] = [[] for _ in order]
    # Equal codes are adjacent and at most `count`, so no sample gets one twice.
    for position, code in enumerate(codes):
        preferences[order[position % count]].append(code)
    return [tuple(sorted(preferred)) for preferred in preferences]


def count_clusters(preferences: Sequence[tuple[str, ...]], terms: Iterable[Term]) -> dict[str, int]:
    """For each cluster, the number of samples that are asked for any of its traps."""
    parents = parents_of(terms)
    counts: dict[str, int] = {}
    for preferred in preferences:
        for cluster in {parents.get(code, "") for code in preferred}:
            counts[cluster] = counts.get(cluster, 0) + 1
    return counts
