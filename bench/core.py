"""What every bench shares: rows of results, percentiles, and how they are printed."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One figure. `goal` says what it should be (``<= 20``); None: it is told, not judged, and so is `met`.

    A part that could not be run is a row without a value, whose name ends in the reason.
    """

    name: str
    value: float | None
    unit: str
    goal: str | None = None
    met: bool | None = None


def at_most(name: str, value: float, unit: str, limit: float) -> Result:
    """A figure that must not exceed `limit`; judged before it is rounded for print."""
    return Result(name, value, unit, f"<= {limit:g}", value <= limit)


def at_least(name: str, value: float, unit: str, limit: float) -> Result:
    """A figure that must reach `limit`."""
    return Result(name, value, unit, f">= {limit:g}", value >= limit)


def exactly(name: str, value: float, unit: str, wanted: float) -> Result:
    """A figure that admits no tolerance."""
    return Result(name, value, unit, f"= {wanted:g}", value == wanted)


def told(name: str, value: float, unit: str) -> Result:
    """A figure without a goal."""
    return Result(name, value, unit)


def skipped(what: str, reason: str) -> Result:
    """A part that was not run, by name and reason."""
    return Result(f"{what}: skipped, {reason}", None, "")


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value with at least `share` (0..1] of all at or below it.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def table(rows: Sequence[Result]) -> str:
    """The rows under their headings, as Markdown, so that the output of a full run can be kept as it is."""
    cells = [("what", "value", "unit", "goal", "met")]
    cells += [(row.name, _figure(row.value), row.unit, row.goal or "", _word(row.met)) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    rule = "|".join(
        f" {'-' * (width - (column == 1))}{':' if column == 1 else ''} " for column, width in enumerate(widths)
    )
    lines = [_line(line, widths) for line in cells]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    sides = "<><<<"  # figures stand under one another
    return (
        "| "
        + " | ".join(f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True))
        + " |"
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _word(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"


def as_json(rows: Sequence[Result]) -> str:
    """The rows as a JSON list of {name, value, unit, goal, met}."""
    return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
