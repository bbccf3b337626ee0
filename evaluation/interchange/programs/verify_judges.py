"""Recomputes the agreement of judges, the variance of repeats, and self-preference.

Part of verify_run.py; needs only Python 3.9. The estimators of docs/statistics.md, implemented
independently: an error in one implementation is not repeated in the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

Table = Sequence[Sequence[float]]
NO_MAJORITY = "NoMajority"


# ---------------------------------------------------------------------------------------- agreement


def raw(table: Table) -> float | None:
    """The share of equal pairs."""
    total = sum(map(sum, table))
    return sum(table[index][index] for index in range(len(table))) / total if total else None


def _corrected(table: Table, by_chance: float) -> float | None:
    """(po - pe) / (1 - pe); None if chance alone gives perfect agreement."""
    observed = raw(table)
    return None if observed is None or 1 - by_chance <= 1e-12 else (observed - by_chance) / (1 - by_chance)


def _margins(table: Table) -> tuple[list[float], list[float], float]:
    columns = [sum(row[index] for row in table) for index in range(len(table))]
    return [sum(row) for row in table], columns, sum(columns)


def kappa(table: Table) -> float | None:
    """Cohen's (1960) kappa of the contingency table of two raters."""
    rows, columns, total = _margins(table)
    if not total:
        return None
    return _corrected(table, sum(one * other for one, other in zip(rows, columns)) / total**2)  # noqa: B905


def ac1(table: Table) -> float | None:
    """Gwet's (2008) AC1."""
    rows, columns, total = _margins(table)
    if not total or len(table) < 2:
        return None
    shares = [(one + other) / (2 * total) for one, other in zip(rows, columns)]  # noqa: B905
    return _corrected(table, sum(share * (1 - share) for share in shares) / (len(table) - 1))


def _agreement(judges: Sequence[str], pairs: Iterable[tuple[str, str]], known: Iterable[str]) -> dict[str, Any]:
    counts = Counter(pairs)
    verdicts = sorted({*known, *(verdict for pair in counts for verdict in pair)})
    table = [[float(counts[one, other]) for other in verdicts] for one in verdicts]
    n = sum(counts.values())
    return {"judges": list(judges), "n": n, "raw": raw(table), "kappa": kappa(table), "ac1": ac1(table)}


def judges(counts: Any) -> dict[str, Any] | None:
    """The panel of the run and the agreement of its judges; None if one judge decided once.

    `counts`: the rows of a bundle (`verify_counts.BundleCounts`).
    """
    run = counts.run
    if not run["panel"]:
        return None
    names, known = [run["judge"], *run["further_judges"]], run["verdicts"]["known"]
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for by_judge in counts.votes.values():
        first = {judge: votes[0] for judge, votes in by_judge.items() if votes.get(0)}
        for one, other in combinations(names, 2):
            if one in first and other in first:
                pairs[one, other].append((first[one], first[other]))
        if run["settings"]["judgments"] > 1:
            for judge, votes in by_judge.items():
                if votes.get(0) and votes.get(1):
                    pairs[judge, judge].append((votes[0], votes[1]))
    judgments = counts.judgments.values()
    return {
        "panel": run["panel"],
        "judges": names,
        "judgments": run["settings"]["judgments"],
        "pairs": [_agreement(pair, pairs[pair], known) for pair in combinations(names, 2) if pair in pairs],
        "repeats": [_agreement((name,) * 2, pairs[name, name], known) for name in names if (name, name) in pairs],
        "decided": sum(judgment["status"] == "done" for judgment in judgments),
        "undecided": sum(judgment["error"] == NO_MAJORITY for judgment in judgments),
    }


# ------------------------------------------------------------------------------------------ repeats


def components(rows: Sequence[tuple[Any, Any, float]]) -> dict[str, Any]:
    """The variance components by nested analysis of variance.

    `rows`: (sample, answer, value) of each judgment.
    """
    of_sample: dict[Any, list[float]] = defaultdict(list)
    of_answer: dict[Any, list[float]] = defaultdict(list)
    answers_of: dict[Any, set[Any]] = defaultdict(set)
    for sample, answer, value in rows:
        of_sample[sample].append(value)
        of_answer[sample, answer].append(value)
        answers_of[sample].add((sample, answer))
    total, a, b = len(rows), len(of_sample), len(of_answer)
    squares = [
        sum(value for *_rest, value in rows) ** 2 / total,
        sum(sum(values) ** 2 / len(values) for values in of_sample.values()),
        sum(sum(values) ** 2 / len(values) for values in of_answer.values()),
    ]
    result: dict[str, Any] = {"samples": a, "sample": None, "answer": None, "judge": None, "clipped": []}

    def store_clipped(name: str, value: float) -> float:
        if value < -1e-12:
            result["clipped"].append(name)
        result[name] = max(0.0, value)
        return max(0.0, value)

    within = (sum(value * value for *_rest, value in rows) - squares[2]) / (total - b) if total > b else 0.0
    if total > b:
        store_clipped("judge", within)
    inside = sum(
        len(of_answer[answer]) ** 2 / len(of_sample[sample])
        for sample, answers in answers_of.items()
        for answer in answers
    )
    between = 0.0
    if b > a:
        k1 = (total - inside) / (b - a)
        between = store_clipped("answer", ((squares[2] - squares[1]) / (b - a) - within) / k1)
    if a > 1:
        k2 = (inside - sum(len(values) ** 2 for values in of_answer.values()) / total) / (a - 1)
        k3 = (total - sum(len(values) ** 2 for values in of_sample.values()) / total) / (a - 1)
        store_clipped("sample", ((squares[1] - squares[0]) / (a - 1) - within - k2 * between) / k3)
    return result


def repeats(counts: Any) -> dict[str, Any]:
    """Answers per question, judgments per criterion, and the components of the variance."""
    run = counts.run
    result = {"answers": run["settings"]["answers"], "judgments": run["settings"]["judgments"]}
    if result["answers"] == 1 and not run["panel"]:
        return {**result, "models": []}
    failures: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for voter, (model, sample, variant, repeat, _rubric), verdict in _verdicts(counts):
        dataset = counts.dataset_of(sample, variant)
        if verdict in run["verdicts"]["first_rate"] and dataset is not None:
            count = failures[(*voter, model, sample, variant, repeat)]
            count[0] += verdict in run["verdicts"]["against"]
            count[1] += 1
    by_model: dict[str, list[tuple[Any, Any, float]]] = defaultdict(list)
    for (*_voter, model, sample, variant, repeat), (failed, n) in failures.items():
        by_model[model].append(((sample, variant), repeat, failed / n))
    models = [{"endpoint": model, **components(by_model[model])} for model in run["endpoints"] if by_model.get(model)]
    return {**result, "models": models}


def _verdicts(counts: Any) -> Iterable[tuple[tuple[Any, ...], Any, str]]:
    """(judge and vote, key of the judgment, verdict) of all votes, or judgments without a panel.

    Only what the first rate is about.
    """
    rate = counts.run["protocol"]["rates"][0]
    if not counts.run["panel"]:
        return [((), key, counts.verdict_of(key)) for key in counts.judgments if counts.in_rate(key, rate)]
    return [
        ((judge, vote), key, verdict)
        for key, by_judge in counts.votes.items()
        for judge, votes in by_judge.items()
        for vote, verdict in votes.items()
        if verdict and counts.in_rate(key, rate)
    ]


# ---------------------------------------------------------------------------------- self-preference


def preference(counts: Any) -> dict[str, Any]:
    """Endpoints of a tested model's family, rates by family, and preferences of judges."""
    run, families = counts.run, counts.run["families"]
    judges_of = [run["judge"], *run["further_judges"]] if run["judge"] else []
    contributors = [("judge", name, families[name]) for name in judges_of]
    contributors += [(maker["role"], maker["endpoint"], maker["family"]) for maker in run["makers"]]
    kin = []
    for role, name, family in dict.fromkeys(contributors):
        if tested := [model for model in run["endpoints"] if families[model] == family]:
            kin.append({"role": role, "endpoint": name, "family": family, "tested": tested})
    rates: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    first_rate = run["protocol"]["rates"][0]
    for key in counts.judgments if kin else ():
        verdict = counts.verdict_of(key)
        if verdict in run["verdicts"]["first_rate"] and counts.in_rate(key, first_rate):
            rates[families[key[0]]][0] += verdict in run["verdicts"]["against"]
            rates[families[key[0]]][1] += 1
    kin_judges = {relative["endpoint"] for relative in kin if relative["role"] == "judge"}
    preferences = [_preference(counts, judge, judges_of) for judge in judges_of if judge in kin_judges]
    return {
        "kin": kin,
        "rates": [
            {"family": family, "failed": failed, "judged": n, "rate": failed / n}
            for family, (failed, n) in sorted(rates.items())
            if n
        ],
        "preferences": [row for row in preferences if row is not None],
    }


def _preference(counts: Any, judge: str, names: Sequence[str]) -> dict[str, Any] | None:
    run, families = counts.run, counts.run["families"]
    others = [other for other in names if families[other] != families[judge]]
    if not run["panel"] or not others:
        return None
    # Is the model of the judge's family? -> failed and judged by the judge, then by the others
    sums: dict[bool, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for key, by_judge in counts.votes.items():
        if not counts.in_rate(key, run["protocol"]["rates"][0]):
            continue
        by_this, by_others = (_counted_verdicts(run, by_judge, judges_) for judges_ in ([judge], others))
        if not by_this or not by_others:
            continue
        total = sums[families[key[0]] == families[judge]]
        for index, verdicts in ((0, by_this), (2, by_others)):
            total[index] += sum(verdict in run["verdicts"]["against"] for verdict in verdicts)
            total[index + 1] += len(verdicts)
    if not all(sums[same][1] and sums[same][3] for same in (True, False)):
        return None
    own, other = (sums[same][0] / sums[same][1] - sums[same][2] / sums[same][3] for same in (True, False))
    row = {"judge": judge, "family": families[judge], "own": own, "others": other, "difference": own - other}
    return {**row, "own_n": sums[True][1], "others_n": sums[False][1]}


def _counted_verdicts(
    run: Mapping[str, Any], by_judge: Mapping[str, Mapping[int, str]], judges_: Iterable[str]
) -> list[str]:
    counted = run["verdicts"]["first_rate"]
    return [verdict for judge in judges_ for verdict in by_judge.get(judge, {}).values() if verdict in counted]
