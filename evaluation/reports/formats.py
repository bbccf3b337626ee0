"""A report as JSON, Markdown and CSV: the same numbers, each with numerator, denominator and what was left out."""

import csv
import io
import json
from dataclasses import asdict
from typing import Any

from evaluation.judges import markdown as judges_markdown
from evaluation.judges import summary
from evaluation.metrics import MeasuredRate
from evaluation.models import Run
from evaluation.protocol import Rate
from evaluation.reports.queries import Report, Row
from evaluation.runs.queries import models_asked
from review.charts.text_measure import format_share

SIMULATED = "Simulated models: not evidence."
SIMULATED_REVIEWERS = "Simulated reviewers: not evidence."


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON-able values; rates are null where nothing was counted."""
    run = report.run
    return {
        "run": run.pk,
        "release": run.release.name,
        "release_version": run.release.version,
        "release_sha256": run.release.sha256,
        "benchmark": run.release.benchmark,
        "judge": run.judge.name if run.judge else None,
        "judge_model": run.judge.model if run.judge else None,
        "judge_temperature": run.judge_temperature,
        "sampling": run.sampling,
        "models": [asdict(each) for each in models_asked(run)],
        "seed": run.seed,
        "finished": report.finished,
        "simulated": report.simulated,
        **({"notice": SIMULATED} if report.simulated else {}),
        "simulated_reviewers": bool(run.release.simulated_samples),
        "rate": _rate(report.rate),
        "rates": [_rate(rate) for rate in report.rates],
        "datasets": [{"name": name, "label": label} for name, label in report.datasets],
        "endpoints": list(report.endpoints),
        "responses_failed": dict(report.responses_failed),
        "overall": [_row(row) for row in report.overall],
        "facets": {name: [_row(row) for row in rows] for name, rows in report.facets.items()},
        "without": dict(report.without),
        "contrasts": [
            {
                "endpoint": each.endpoint,
                "label": str(each.label),
                "rate": each.rate,
                "first": {"dataset": each.first, "value": each.values[0]},
                "second": {"dataset": each.second, "value": each.values[1]},
                "difference": each.difference,
            }
            for each in report.contrasts
        ],
        **summary.as_dict(run),
        "cost": str(report.cost),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"name": rate.name, "label": str(rate.label), "rule": str(rate.rule), "interval": rate.interval}


def _row(row: Row) -> dict[str, Any]:
    """The first rate beside the row's name, as it was when there was one; and all of them by name."""
    return {
        "endpoint": row.endpoint,
        "dataset": row.dataset,
        **({"value": row.value, "label": row.label} if row.value else {}),
        **_measured(row.measured),
        "rates": {name: _measured(measured) for name, measured in row.rates.items()},
        "verdicts": dict(sorted(row.verdicts.items())),
    }


def _measured(measured: MeasuredRate) -> dict[str, Any]:
    low, high = measured.interval or (None, None)
    return {
        "rate": measured.value,
        "numerator": measured.numerator,
        "denominator": measured.denominator,
        "unjudged": measured.excluded,
        "low": low,
        "high": high,
    }


COLUMNS = (
    "facet",
    "value",
    "endpoint",
    "dataset",
    "rate",
    "share",
    "low",
    "high",
    "numerator",
    "denominator",
    "left_out",
)


def as_csv(report: Report) -> str:
    """A line for each rate of each row; `facet` and `value` are empty overall, what is undefined is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for facet, rows in {"": report.overall, **report.facets}.items():
        for row in rows:
            for name, measured in row.rates.items():
                found = _measured(measured)
                shares = (found[column] for column in ("rate", "low", "high", "numerator", "denominator", "unjudged"))
                writer.writerow([facet, row.value, row.endpoint, row.dataset, name, *shares])
    return out.getvalue()


def as_json(report: Report) -> str:
    """One JSON object on one line."""
    return json.dumps(as_dict(report), ensure_ascii=False)


def as_markdown(report: Report) -> str:
    """Tables for a paper or an issue: one overall, one for each facet."""
    run = report.run
    lines = [f"# {run.release}: {', '.join(str(rate.label) for rate in report.rates)}", ""]
    if report.simulated:
        lines += [f"> **{SIMULATED}**", ""]
    if run.release.simulated_samples:
        lines += [f"> **{SIMULATED_REVIEWERS}**", ""]
    if not report.finished:
        lines += ["> Results so far: unfinished items count as not judged.", ""]
    lines += [
        f"Run {run.pk}, {_decided(report)}. {' '.join(_rule(report, rate) for rate in report.rates)}",
        f"Release SHA-256 `{run.release.sha256}`.",
        "",
        *_table(report, report.overall, facet=""),
        *_contrasts(report),
        "",
        *_models(report),
        *judges_markdown.section(run),
    ]
    for view in report.views:
        if not report.facets[view.name]:
            continue  # nothing is counted under it: a release without severities
        lines += [
            "",
            f"## Breakdown: {view.label}",
            "",
            *([str(view.note), ""] if view.note else []),
            *_table(report, report.facets[view.name], facet=view.label),
        ]
        if n := report.without[view.name]:
            judgments, are = ("judgment has", "is") if n == 1 else ("judgments have", "are")
            lines += ["", f"{n} {judgments} no value for this breakdown and {are} not counted above."]
    return "\n".join(lines) + "\n"


def _models(report: Report) -> list[str]:
    """Which models were asked, in which versions, with which settings and prompts."""
    lines = [
        "## Models",
        "",
        "| Endpoint | Role | Model | Reported by the server | Settings | Prompts |",
        "|" + "---|" * 6,
    ]
    for each in models_asked(report.run):
        settings = ", ".join(f"{name}={_cell(value)}" for name, value in each.settings.items())
        cells = [
            each.endpoint,
            ", ".join(each.roles),
            each.model,
            ", ".join(each.reported),
            settings,
            ", ".join(each.prompts),
        ]
        lines.append("| " + " | ".join(_cell(cell) or "–" for cell in cells) + " |")
    return lines


def _cell(value: Any) -> str:
    """A value from outside, as a cell of a table can hold it."""
    return " ".join(str(value).replace("|", "\\|").split())


def _decided(report: Report) -> str:
    judge = report.run.judge
    said = f"judge `{judge.name}` ({judge.model})" if judge else f"responses read by code, seed {report.run.seed}"
    own = ", sampled with the settings of the endpoints, not of the benchmark"
    return said + (own if report.run.sampling == Run.Sampling.ENDPOINT else "")


def _rule(report: Report, rate: Rate) -> str:
    return str(rate.rule) if len(report.rates) == 1 else f"{rate.label}: {rate.rule}"


def _table(report: Report, rows: tuple[Row, ...], *, facet: str) -> list[str]:
    datasets, several = dict(report.datasets), len(report.rates) > 1
    head = [
        "Model",
        "Data set",
        *([facet] if facet else []),
        *(["Metric"] if several else []),
        "Rate",
        "95 % interval",
        "Numerator / denominator",
        "Not judged" if report.run.judge else "Excluded",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        if facet and not any(row.verdicts.values()):
            continue  # no rubric of this kind in this data set
        for rate in report.rates:
            measured = row.rates[rate.name]
            cells = [
                row.endpoint,
                datasets.get(row.dataset, row.dataset),
                *([_name(row)] if facet else []),
                *([str(rate.label)] if several else []),
                format_share(measured.value, percent=False) or "–",
                "–".join(format_share(limit, percent=False) for limit in measured.interval or ()) or "–",
                f"{measured.numerator} / {measured.denominator}",
                str(measured.excluded),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _name(row: Row) -> str:
    same = row.label.casefold() == row.value.casefold()
    return str(row.label) if same else f"{row.value} {row.label}"


def _contrasts(report: Report) -> list[str]:
    labels = {rate.name: str(rate.label) for rate in report.rates}
    if not report.contrasts:
        return []
    lines = ["", "## Effects of the variants", "", "| Comparison | Model | Metric | Variant | Baseline | Difference |"]
    lines.append("|" + "---|" * 6)
    for each in report.contrasts:
        first, second = (format_share(value, percent=False) or "–" for value in each.values)
        difference = "–" if each.difference is None else f"{each.difference:+.3f}"
        lines.append(f"| {each.label} | {each.endpoint} | {labels[each.rate]} | {first} | {second} | {difference} |")
    return lines


# Ending of a file -> how the report is written, and its media type.
FORMATS = {
    "json": (as_json, "application/json"),
    "md": (as_markdown, "text/markdown; charset=utf-8"),
    "csv": (as_csv, "text/csv; charset=utf-8"),
}
