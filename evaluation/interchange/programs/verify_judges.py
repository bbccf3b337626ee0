"""How far judges agree, the variance of repeats and self-preference, counted again; part of verify_run.py, which says what it
checks. Needs Python 3.9 and nothing else.

The same estimators as docs/statistics.md describes, written once more: what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

Table = Sequence[Sequence[float]]
NO_MAJORITY = "NoMajority"


# --------------------------------------------------------------------------------------------------------- agreement


def raw(table: Table) -> float | None:
    """The share of pairs that are the same."""
    total = sum(map(sum, table))
    return sum(table[at][at] for at in range(len(table))) / total if total else None


def _corrected(table: Table, by_chance: float) -> float | None:
    """(po - pe) / (1 - pe); None where chance alone would agree."""
    observed = raw(table)
    return None if observed is None or 1 - by_chance <= 1e-12 else (observed - by_chance) / (1 - by_chance)


def _margins(table: Table) -> tuple[list[float], list[float], float]:
    columns = [sum(row[at] for row in table) for at in range(len(table))]
    return [sum(row) for row in table], columns, sum(columns)


def kappa(table: Table) -> float | None:
    """Cohen's (1960) kappa of a table of both raters' answers."""
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
    return _corrected(table, sum(each * (1 - each) for each in shares) / (len(table) - 1))


def _agreement(judges: Sequence[str], pairs: Iterable[tuple[str, str]], known: Iterable[str]) -> dict[str, Any]:
    counts = Counter(pairs)
    verdicts = sorted({*known, *(verdict for pair in counts for verdict in pair)})
    table = [[float(counts[one, other]) for other in verdicts] for one in verdicts]
    n = sum(counts.values())
    return {"judges": list(judges), "n": n, "raw": raw(table), "kappa": kappa(table), "ac1": ac1(table)}


def judges(found: Any) -> dict[str, Any] | None:
    """The panel of the run, and how far its judges agree with one another and each with itself. None: one decided once.

    `found`: the rows of a bundle (`verify_run.Counted`).
    """
    run = found.run
    if not run["panel"]:
        return None
    names, known = [run["judge"], *run["further_judges"]], run["verdicts"]["known"]
    between: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for of in found.votes.values():
        first = {judge: votes[0] for judge, votes in of.items() if votes.get(0)}
        for one, other in combinations(names, 2):
            if one in first and other in first:
                between[one, other].append((first[one], first[other]))
        if run["settings"]["judgments"] > 1:
            for judge, votes in of.items():
                if votes.get(0) and votes.get(1):
                    between[judge, judge].append((votes[0], votes[1]))
    states = found.judgments.values()
    return {
        "panel": run["panel"],
        "judges": names,
        "judgments": run["settings"]["judgments"],
        "pairs": [_agreement(pair, between[pair], known) for pair in combinations(names, 2) if pair in between],
        "repeats": [_agreement((name,) * 2, between[name, name], known) for name in names if (name, name) in between],
        "decided": sum(each["status"] == "done" for each in states),
        "undecided": sum(each["error"] == NO_MAJORITY for each in states),
    }


# ------------------------------------------------------------------------------------------------------------ repeats


def components(rows: Sequence[tuple[Any, Any, float]]) -> dict[str, Any]:
    """The variance of values, one (sample, answer, value) a judgment, split by nested analysis of variance."""
    of_sample: dict[Any, list[float]] = defaultdict(list)
    of_answer: dict[Any, list[float]] = defaultdict(list)
    answers_of: dict[Any, set[Any]] = defaultdict(set)
    for sample, answer, value in rows:
        of_sample[sample].append(value)
        of_answer[sample, answer].append(value)
        answers_of[sample].add((sample, answer))
    total, a, b = len(rows), len(of_sample), len(of_answer)
    squares = [
        sum(value for *_of, value in rows) ** 2 / total,
        sum(sum(values) ** 2 / len(values) for values in of_sample.values()),
        sum(sum(values) ** 2 / len(values) for values in of_answer.values()),
    ]
    found: dict[str, Any] = {"samples": a, "sample": None, "answer": None, "judge": None, "clipped": []}

    def positive(name: str, value: float) -> float:
        if value < -1e-12:
            found["clipped"].append(name)
        found[name] = max(0.0, value)
        return max(0.0, value)

    within = (sum(value * value for *_of, value in rows) - squares[2]) / (total - b) if total > b else 0.0
    if total > b:
        positive("judge", within)
    inside = sum(len(of_answer[each]) ** 2 / len(of_sample[sample]) for sample, of in answers_of.items() for each in of)
    between = 0.0
    if b > a:
        k1 = (total - inside) / (b - a)
        between = positive("answer", ((squares[2] - squares[1]) / (b - a) - within) / k1)
    if a > 1:
        k2 = (inside - sum(len(values) ** 2 for values in of_answer.values()) / total) / (a - 1)
        k3 = (total - sum(len(values) ** 2 for values in of_sample.values()) / total) / (a - 1)
        positive("sample", ((squares[1] - squares[0]) / (a - 1) - within - k2 * between) / k3)
    return found


def repeats(found: Any) -> dict[str, Any]:
    """How often models and judges were asked, and the variance that samples, answers and judges add."""
    run = found.run
    told = {"answers": run["settings"]["answers"], "judgments": run["settings"]["judgments"]}
    if told["answers"] == 1 and not run["panel"]:
        return {**told, "models": []}
    counts: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for who, (model, sample, variant, repeat, _rubric), verdict in _verdicts(found):
        if verdict in run["verdicts"]["first_rate"]:
            count = counts[(*who, model, sample, variant, repeat)]
            count[0] += verdict in run["verdicts"]["against"]
            count[1] += 1
    by_model: dict[str, list[tuple[Any, Any, float]]] = defaultdict(list)
    for (*_who, model, sample, variant, repeat), (failed, n) in counts.items():
        by_model[model].append(((sample, variant), repeat, failed / n))
    models = [{"endpoint": model, **components(by_model[model])} for model in run["endpoints"] if by_model.get(model)]
    return {**told, "models": models}


def _verdicts(found: Any) -> Iterable[tuple[tuple[Any, ...], Any, str]]:
    """(judge and vote, judgment, verdict): votes where there is a panel, else judgments."""
    if not found.run["panel"]:
        return [((), key, each["verdict"]) for key, each in found.judgments.items() if each["verdict"]]
    return [
        ((judge, vote), key, verdict)
        for key, of in found.votes.items()
        for judge, votes in of.items()
        for vote, verdict in votes.items()
        if verdict
    ]


# ---------------------------------------------------------------------------------------------------- self-preference


def preference(found: Any) -> dict[str, Any]:
    """Who is of a tested model's family, the rates by family, and by how much each judge favours its own."""
    run, families = found.run, found.run["families"]
    judges_of = [run["judge"], *run["further_judges"]] if run["judge"] else []
    parts = [("judge", name, families[name]) for name in judges_of]
    parts += [(each["role"], each["endpoint"], each["family"]) for each in run["makers"]]
    kin = []
    for role, name, family in dict.fromkeys(parts):
        if own := [model for model in run["endpoints"] if families[model] == family]:
            kin.append({"role": role, "endpoint": name, "family": family, "tested": own})
    rates: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for model, verdicts in found.given.items() if kin else ():
        for verdict, n in verdicts.items():
            if verdict in run["verdicts"]["first_rate"]:
                rates[families[model]][0] += n * (verdict in run["verdicts"]["against"])
                rates[families[model]][1] += n
    wanted = {each["endpoint"] for each in kin if each["role"] == "judge"}
    favoured = [_preference(found, judge, judges_of) for judge in judges_of if judge in wanted]
    return {
        "kin": kin,
        "rates": [
            {"family": family, "failed": failed, "judged": n, "rate": failed / n}
            for family, (failed, n) in sorted(rates.items())
            if n
        ],
        "preferences": [each for each in favoured if each is not None],
    }


def _preference(found: Any, judge: str, names: Sequence[str]) -> dict[str, Any] | None:
    run, families = found.run, found.run["families"]
    others = [each for each in names if families[each] != families[judge]]
    if not run["panel"] or not others:
        return None
    gaps: dict[bool, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for key, of in found.votes.items():
        mine, theirs = (_counted(run, of, some) for some in ([judge], others))
        if not mine or not theirs:
            continue
        gap = gaps[families[key[0]] == families[judge]]
        for at, said in ((0, mine), (2, theirs)):
            gap[at] += sum(verdict in run["verdicts"]["against"] for verdict in said)
            gap[at + 1] += len(said)
    if not all(gaps[same][1] and gaps[same][3] for same in (True, False)):
        return None
    own, other = (gaps[same][0] / gaps[same][1] - gaps[same][2] / gaps[same][3] for same in (True, False))
    told = {"judge": judge, "family": families[judge], "own": own, "others": other, "difference": own - other}
    return {**told, "own_n": gaps[True][1], "others_n": gaps[False][1]}


def _counted(run: Mapping[str, Any], of: Mapping[str, Mapping[int, str]], judges_: Iterable[str]) -> list[str]:
    within = run["verdicts"]["first_rate"]
    return [verdict for judge in judges_ for verdict in of.get(judge, {}).values() if verdict in within]
