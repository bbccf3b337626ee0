"""Charts of the composition of samples, the progress of trap plans, and first-version approvals."""

from collections.abc import Iterable, Sequence

from django import template
from django.utils.translation import gettext as _

from generation.batches.queries import TrapTarget
from generation.outcomes.attempts import Attempts
from generation.releases.queries import TermCounts
from review.charts.bars import Bar, BarAmount, BarChart, amounts, bars
from review.labels import task_label
from review.rules.wilson_interval import wilson

register = template.Library()


@register.simple_tag
def distribution_chart(planted: Iterable[TermCounts], title: str = "") -> BarChart:
    """`{% distribution_chart planted title as chart %}`: samples and rubrics by trap, none of 0."""
    rows = []
    for row in planted:
        if row.samples:
            rows.append(BarAmount(row.label, row.samples, row.rubrics, group=row.cluster))
    return amounts(rows, (_("samples"), _("rubrics")), name="traps", title=title)


@register.filter
def without_samples(planted: Iterable[TermCounts]) -> list[str]:
    """The traps that no sample has: makers look for them."""
    return [row.label for row in planted if not row.samples]


@register.simple_tag
def plan_charts(plans: Iterable[tuple[str, Sequence[TrapTarget]]]) -> list[BarChart]:
    """`{% plan_charts plans as charts %}`: reached and planned samples, all tasks on one scale."""
    by_task = [(task_label(task), targets) for task, targets in plans]
    top = 0
    for _task, targets in by_task:
        for target in targets:
            top = max(top, target.reached, target.planned)
    heads = (_("reached"), _("planned"))
    charts = []
    for place, (title, targets) in enumerate(by_task):
        marks = [BarAmount(target.label, target.reached, target.planned, group=target.cluster) for target in targets]
        charts.append(amounts(marks, heads, name=f"plan-{place}", title=title, top=top))
    return charts


@register.simple_tag
def attempts_chart(rows: Iterable[Attempts]) -> BarChart:
    """`{% attempts_chart rows as chart %}`: the approved share of first versions, with interval."""
    bar_rows = []
    for row in rows:
        label = " · ".join(value or "–" for value in row.key)
        if row.first:
            low, high = wilson(row.first_approved, row.first)
            share = row.first_approved / row.first
            bar_rows.append(Bar(label, share, low, high, row.first_approved, row.first))
        else:
            bar_rows.append(Bar(label, None))
    return bars(bar_rows, name="attempts", title="")
