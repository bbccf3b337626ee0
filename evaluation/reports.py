"""A report as JSON and as Markdown: the same numbers, each with numerator, denominator and what was left out."""

import json
from typing import Any

from evaluation.queries import Report, Row

SIMULATED = "Simulated models: not evidence."


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON-able values; rates are null where nothing was counted."""
    run = report.run
    return {
        "run": run.pk,
        "release": run.release.name,
        "release_version": run.release.version,
        "release_sha256": run.release.sha256,
        "benchmark": run.release.benchmark,
        "judge": run.judge.name,
        "judge_model": run.judge.model,
        "judge_temperature": run.judge_temperature,
        "finished": report.finished,
        "simulated": report.simulated,
        **({"notice": SIMULATED} if report.simulated else {}),
        "rate": {"name": report.rate.name, "label": str(report.rate.label), "rule": str(report.rate.rule)},
        "datasets": [{"name": name, "label": label} for name, label in report.datasets],
        "endpoints": list(report.endpoints),
        "responses_failed": dict(report.responses_failed),
        "overall": [_row(row) for row in report.overall],
        "facets": {name: [_row(row) for row in rows] for name, rows in report.facets.items()},
        "cost": str(report.cost),
    }


def _row(row: Row) -> dict[str, Any]:
    measured = row.measured
    low, high = measured.interval or (None, None)
    return {
        "endpoint": row.endpoint,
        "dataset": row.dataset,
        **({"value": row.value, "label": row.label} if row.value else {}),
        "rate": measured.value,
        "numerator": measured.numerator,
        "denominator": measured.denominator,
        "unjudged": measured.excluded,
        "low": low,
        "high": high,
    }


def as_json(report: Report) -> str:
    """One JSON object on one line."""
    return json.dumps(as_dict(report), ensure_ascii=False)


def as_markdown(report: Report) -> str:
    """Tables for a paper or an issue: one overall, one for each facet."""
    run = report.run
    lines = [f"# {run.release}: {report.rate.label}", ""]
    if report.simulated:
        lines += [f"> **{SIMULATED}**", ""]
    if not report.finished:
        lines += ["> The run has not finished: the numbers are of what is there.", ""]
    lines += [
        f"Run {run.pk}, judge `{run.judge.name}` ({run.judge.model}). {report.rate.rule}",
        f"Release SHA-256 `{run.release.sha256}`.",
        "",
        *_table(report.overall, dict(report.datasets), facet=""),
    ]
    for view in report.views:
        if not report.facets[view.name]:
            continue  # nothing is counted under it: a release without severities
        lines += [
            "",
            f"## By {view.label}",
            "",
            *_table(report.facets[view.name], dict(report.datasets), facet=view.label),
        ]
    return "\n".join(lines) + "\n"


def _table(rows: tuple[Row, ...], datasets: dict[str, str], *, facet: str) -> list[str]:
    head = ["Model", "Data set", *([facet] if facet else []), "Rate", "95 % interval", "Hits / counted", "Unjudged"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        measured = row.measured
        if facet and not measured.denominator and not measured.excluded:
            continue  # no rubric of this kind in this data set
        low, high = measured.interval or (None, None)
        cells = [
            row.endpoint,
            datasets.get(row.dataset, row.dataset),
            *([f"{row.value} {row.label}" if row.label != row.value else row.value] if facet else []),
            "–" if measured.value is None else f"{measured.value:.3f}",
            "–" if low is None or high is None else f"{low:.3f}–{high:.3f}",
            f"{measured.numerator} / {measured.denominator}",
            str(measured.excluded),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
