"""Shared by all benches: results, percentiles, and their output as tables or JSON."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """One figure.

    `goal` is what it should be (``<= 20``); without a goal, `goal` and `met` are None.

    A part that could not be run has no value, and its name ends in the reason.
    """

    name: str
    value: float | None
    unit: str
    goal: str | None = None
    met: bool | None = None


def at_most(name: str, value: float, unit: str, limit: float) -> Result:
    """A figure that must not exceed `limit`; compared before it is rounded for display."""
    return Result(name, value, unit, f"<= {limit:g}", value <= limit)


def at_least(name: str, value: float, unit: str, limit: float) -> Result:
    """A figure that must reach `limit`."""
    return Result(name, value, unit, f">= {limit:g}", value >= limit)


def exactly(name: str, value: float, unit: str, expected: float) -> Result:
    """A figure that must equal `expected`."""
    return Result(name, value, unit, f"= {expected:g}", value == expected)


def without_goal(name: str, value: float, unit: str) -> Result:
    """A figure without a goal."""
    return Result(name, value, unit)


def skipped(part: str, reason: str) -> Result:
    """A part that was not run, with the reason."""
    return Result(f"{part}: skipped, {reason}", None, "")


def in_process(bench: str, environment: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What the part of a bench prints that runs in a process and on a site of its own."""
    settings = {"MHB_SECRET_KEY": "only-for-this-bench-" * 3, "MHB_HTTPS": "0", **environment}
    command = [sys.executable, "-m", bench, "part", *arguments]
    process = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    if process.returncode:
        raise RuntimeError(process.stderr[-3000:])
    return dict(json.loads(process.stdout.strip().splitlines()[-1]))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value with at least `share` of all at or below it.

    `share` is in (0, 1]. Raises ValueError if there are no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def table(rows: Sequence[Result]) -> str:
    """Format rows as a Markdown table, which can be pasted into docs/performance.md."""
    cells = [("what", "value", "unit", "goal", "met")]
    cells += [(row.name, _format_value(row.value), row.unit, row.goal or "", _format_met(row.met)) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    rule = "|".join(
        f" {'-' * (width - (column == 1))}{':' if column == 1 else ''} " for column, width in enumerate(widths)
    )
    lines = [_format_line(line, widths) for line in cells]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    alignments = "<><<<"  # numbers are right-aligned
    return (
        "| "
        + " | ".join(
            f"{cell:{alignment}{width}}" for cell, alignment, width in zip(cells, alignments, widths, strict=True)
        )
        + " |"
    )


def _format_value(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _format_met(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"


def by_size(results: Iterable[Result]) -> str:
    """Format rows that are named `SETTING, N UNITS` as Markdown, with a column for each N."""
    rows: dict[str, dict[int, float | None]] = {}
    for result in results:
        setting, _, size = result.name.split(": skipped")[0].rpartition(", ")
        rows.setdefault(setting, {})[int(size.split()[0])] = result.value
    columns = sorted({size for row in rows.values() for size in row})
    lines = ["| | " + " | ".join(f"{size:,}" for size in columns) + " |", "|---|" + "---|" * len(columns)]
    for setting, row in rows.items():
        cells = (
            "" if size not in row else "–" if (value := row[size]) is None else _format_value(value) for size in columns
        )
        lines.append(f"| {setting} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_json(rows: Sequence[Result]) -> str:
    """Format rows as a JSON list of {name, value, unit, goal, met}."""
    return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
