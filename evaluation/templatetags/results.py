"""What pages of other apps show of evaluation: generation knows nothing of it, but a page of the site may."""

from collections.abc import Iterable

from django import template
from django.db.models import QuerySet

from evaluation import queries
from evaluation.charts import Amount, DistributionChart, distribution
from evaluation.models import Run
from generation.models import Release
from generation.queries import Planted

register = template.Library()


@register.simple_tag
def distribution_chart(planted: Iterable[Planted], title: str = "") -> DistributionChart:
    """`{% distribution_chart planted title as chart %}`: samples and rubrics over traps, to be drawn by its template."""
    amounts = [Amount(row.label, row.samples, row.rubrics, group=row.cluster) for row in planted]
    return distribution(amounts, name="traps", title=title)


@register.simple_tag
def runs_on(release: Release) -> QuerySet[Run]:
    """`{% runs_on release as runs %}`: the runs on a release, newest first."""
    return queries.runs_on(release)
