"""Charts of what samples are made of, what a plan has reached, and how often first versions were approved."""

from collections.abc import Iterable

from django import template

from generation.batches.queries import TrapTarget
from generation.outcomes.attempts import Attempts
from generation.releases.queries import TermCounts
from review.charts.bars import Bar, BarChart, bars
from review.charts.distribution import Amount, DistributionChart, distribution
from review.rules.intervals import wilson

register = template.Library()


@register.simple_tag
def distribution_chart(planted: Iterable[TermCounts], title: str = "") -> DistributionChart:
    """`{% distribution_chart planted title as chart %}`: samples and rubrics over traps, to be drawn by its template."""
    amounts = [Amount(row.label, row.samples, row.rubrics, group=row.cluster) for row in planted]
    return distribution(amounts, name="traps", title=title)


@register.simple_tag
def plan_chart(aims: Iterable[TrapTarget], title: str = "") -> DistributionChart:
    """`{% plan_chart aims title as chart %}`: what was reached (as samples) beside what was planned (as rubrics)."""
    amounts = [Amount(aim.label, aim.reached, aim.planned, group=aim.cluster) for aim in aims]
    return distribution(amounts, name=f"plan-{title}", title=title)


@register.simple_tag
def attempts_chart(rows: Iterable[Attempts]) -> BarChart:
    """`{% attempts_chart rows as chart %}`: the share of first versions that were approved, with its interval."""
    drawn = []
    for row in rows:
        label = " · ".join(value or "–" for value in row.key)
        if row.first:
            low, high = wilson(row.first_approved, row.first)
            share = row.first_approved / row.first
            drawn.append(Bar(label, share, low, high, row.first_approved, row.first))
        else:
            drawn.append(Bar(label, None))
    return bars(drawn, name="attempts", title="")
