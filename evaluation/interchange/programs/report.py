"""The report of a run, counted again from the rows of its bundle."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from evaluation.interchange.programs.bundle_rows import (
    ANSWER,
    CRITERION,
    Answer,
    Criterion,
    Rows,
    answer_of,
    criterion_of,
    spelled,
)
from evaluation.interchange.programs.files import lines
from evaluation.judges.numbers import families, validation, values
from evaluation.judges.numbers.agreement import panel_report
from evaluation.judges.numbers.criteria import judged_criteria
from evaluation.judges.numbers.families import Counts, Member
from evaluation.judges.numbers.variance import ModelVariance, variances
from evaluation.numbers import values as report_values
from evaluation.numbers.report_numbers import ReportNumbers
from evaluation.protocol import UNDECIDED
from evaluation.statistics.label_agreement import LabelAgreement

PRIMARY, SECONDARY = "primary", "secondary"
STATED = ("run", "judge", "models", "simulated", "simulated_reviewers", "endpoints", "estimated", "undecided_reports")
SETTINGS = ("seed", "sampling", "judge_temperature", "prompts", "prompts_sha256")  # of its settings, as they are


def report_of(rows: Rows, numbers: ReportNumbers, folder: Path) -> dict[str, Any]:
    """The expected content of report.json."""
    run, release = rows.run, rows.run["release"]
    model_of = {model["endpoint"]: model["model"] for model in run["models"]}
    checked = None
    if run["validation"]:
        checked = _validation(rows, folder)
    oddities = []
    for (endpoint, ending), n in sorted(rows.oddities.items()):
        oddities.append({"endpoint": endpoint, "ending": ending, "responses": n})
    by_error = dict(sorted(rows.judged.items()))
    by_error.pop("", None)  # those that were read
    cost = Decimal(0)
    for row in lines(folder / "calls.jsonl"):
        cost += Decimal(row["cost"])
    as_stated = {name: run[name] for name in STATED}
    as_set = {name: run["settings"][name] for name in SETTINGS}
    return {
        **as_stated,
        **as_set,
        "release": release["name"],
        "release_version": release["version"],
        "release_sha256": release["sha256"],
        "benchmark": release["benchmark"],
        "judge_model": model_of.get(run["judge"]),
        "finished": run["status"] == "finished",
        "common_samples": False,
        **report_values.as_dict(numbers, rows.protocol, rows.plan),
        "judges": _panel(rows),
        "repeats": _repeats(rows),
        "self_preference": _preference(rows, numbers.judged),
        "selection": run["selection"],
        "validation": checked,
        "oddities": oddities,
        "unread": {"asked": rows.judged.total(), "by_error": by_error},
        "cost": str(cost),
    }


def _panel(rows: Rows) -> dict[str, Any] | None:
    run = rows.run
    if not run["panel"]:
        return None
    report = panel_report(
        run["panel"],
        rows.judges,
        run["settings"]["judgments"],
        rows.frame.current,
        rows.run["protocol"].get("given", rows.protocol.known_verdicts),
        rows.votes,
        rows.plan.outcomes[UNDECIDED],
    )
    return values.panel(report)


def _repeats(rows: Rows) -> dict[str, Any]:
    settings, has_panel = rows.run["settings"], bool(rows.run["panel"])
    votes = None
    if has_panel:
        votes = rows.votes
    models: tuple[ModelVariance, ...] = ()
    if settings["answers"] > 1 or has_panel:
        models = variances(rows.frame.current, rows.protocol, votes)
    return values.repeats(settings["answers"], settings["judgments"], models)


def _preference(rows: Rows, judged: Counts) -> dict[str, Any]:
    run, family_of = rows.run, rows.run["families"]
    tested = [Member(name, family_of[name]) for name in run["endpoints"]]
    judges = [Member(name, family_of[name]) for name in rows.judges]
    makers = [(maker["role"], Member(maker["endpoint"], maker["family"])) for maker in run["makers"]]
    found = families.self_preference(
        lambda: (rows.frame.current, rows.votes),
        rows.protocol,
        has_panel=bool(run["panel"]),
        judges=judges,
        makers=makers,
        tested=tested,
    )
    return values.preference(found, tested, judged)


def _validation(rows: Rows, folder: Path) -> dict[str, Any]:
    run = rows.run
    drawn = list(lines(folder / "validation.jsonl"))
    response_of = {tuple(answer): pk for *answer, pk in rows.responses.select(*ANSWER, "response").iter_rows()}
    closed = dict(_closed(rows, response_of, drawn))
    rubric_of = {tuple(key): number for *key, number in rows.judgments.select(*CRITERION, "number").iter_rows()}
    answers, reviews = _answers(rows, closed, rubric_of, folder), list(lines(folder / "physicians.jsonl"))
    by_physicians = {}
    for key, by_role in answers.items():
        if PRIMARY in by_role:
            place = response_of[key[:4]], rubric_of[key]
            primary, secondary = by_role.pop(PRIMARY), by_role.pop(SECONDARY, "")
            others = list(by_role.values())
            by_physicians[place] = validation.physician_verdict(*place, closed[key[:4]], primary, secondary, others)
    judged = judged_criteria(rows.frame.current, rows.protocol, rows.plan)
    keys = dict(rows.rubrics.select("rubric", "key").iter_rows())
    models_drawn = {row["model"] for row in drawn}
    not_drawn = [model for model in run["endpoints"] if model not in models_drawn]
    labels: tuple[LabelAgreement, ...] = ()
    if run["validation"]["by_rubric"]:
        labels = validation.labels(judged, by_physicians, keys, rows.plan.minimum)
    still_counted = {answer for answer, response in response_of.items() if response in judged.responses}
    reviews = [row for row in reviews if answer_of(row) in still_counted]
    by_third = set()
    for row in reviews:
        if row["role"] not in (PRIMARY, SECONDARY):
            by_third.add(answer_of(row))
    models, comparisons = validation.models_and_pairs(judged, rows.protocol.datasets, by_physicians, rows.plan)
    report = validation.ValidationReport(
        rate=judged.rate,
        drawn=len(still_counted.intersection(map(answer_of, drawn))),
        closed=len(still_counted.intersection(closed)),
        third=len(by_third),
        simulated=any(row["simulated"] for row in reviews),
        seed=run["validation"]["seed"],
        created_at=datetime.fromisoformat(run["validation"]["created_at"]),
        models=models,
        labels=labels,
        not_drawn=tuple(not_drawn),
        comparisons=comparisons,
    )
    return values.validation(report)


def _closed(
    rows: Rows, response_of: Mapping[Answer, int], drawn: list[Mapping[str, Any]]
) -> Iterator[tuple[Answer, float]]:
    """The drawn answers that physicians have decided, with their weights."""
    seen: set[Answer] = set()
    for row in drawn:
        answer = answer_of(row)
        name = f"validation.jsonl: {spelled(answer)}"
        if answer not in response_of:
            rows.faults.append(f"{name}: no such response")
        if answer in seen:
            rows.faults.append(f"{name}: twice")
        if row["weight"] < 1:
            rows.faults.append(f"{name}: a weight is at least 1")
        seen.add(answer)
        if row["closed"]:
            yield answer, row["weight"]


def _answers(
    rows: Rows, closed: Mapping[Answer, float], rubric_of: Mapping[Criterion, int], folder: Path
) -> dict[Criterion, dict[str, str]]:
    """What physicians answered on each criterion, by their role."""
    answers: dict[Criterion, dict[str, str]] = defaultdict(dict)
    for row in lines(folder / "physicians.jsonl"):
        key = criterion_of(row)
        name = f"physicians.jsonl: {spelled(key)} by {row['physician']}"
        if key[:4] not in closed or key not in rubric_of:
            rows.faults.append(f"{name}: not drawn, or not decided")
            continue
        if row["role"] in answers[key]:
            rows.faults.append(f"{name}: twice")
        answers[key][row["role"]] = row["answer"]
    return answers
