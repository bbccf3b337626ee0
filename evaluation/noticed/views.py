"""The page on what physicians noticed and models fell for."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation.noticed import queries
from evaluation.noticed.queries import LEAST, NoticedReport
from evaluation.runs.kind import RUNS
from evaluation.statistics.intervals import MINIMUM, RateInterval
from review.charts.text_measure import format_share
from review.common.decorators import requires
from review.rules.blocks import Point, Points
from review.rules.permissions import Can

SHOWN = 50  # samples in the table: those that models fail most often


@require_safe
@requires(Can.READ_RESULTS)
def noticed(request: HttpRequest, pk: int) -> HttpResponse:
    """What physicians noticed before a trap was revealed, beside how often models fell for it."""
    found = RUNS.get(pk)
    report = queries.noticed_report(found)
    hardest = sorted(report.samples, key=lambda each: (-(each.models.share or 0), each.physicians.share, each.key))
    names = {"none": _("No physician"), "some": _("Some physicians"), "all": _("All physicians")}
    context = {
        "run": found,
        "report": report,
        "rate": _(report.rate.label),
        "chart": _chart(report),
        "traps": [(each, _share(each.physicians), _share(each.models)) for each in report.traps],
        "bands": [(names[each.name], each, [_rate(one) for one in each.rates]) for each in report.groups],
        "samples": [(each, _share(each.models)) for each in hardest[:SHOWN]],
        "left_out": max(0, len(hardest) - SHOWN),
        "minimum": MINIMUM,
        "least": LEAST,
        **RUNS.page_notes(found),
    }
    return render(request, "evaluation/noticed/noticed.html", context)


def _share(of: queries.Noticed | queries.Failures | None) -> str:
    return format_share(of.share) if of is not None else ""


def _rate(rate: RateInterval) -> tuple[str, str, int]:
    limits = [format_share(limit) for limit in (rate.low, rate.high) if limit is not None]
    return format_share(rate.value), "–".join(limits), rate.n


def _chart(report: NoticedReport) -> Points | None:
    """A mark for each trap that enough physicians were asked about."""
    points = tuple(
        Point(
            round(100 * each.physicians.share, 1),
            round(100 * each.models.share, 1),
            f"{each.code} {_(each.label)}",
            float(each.answers),
        )
        for each in report.traps
        if each.physicians is not None and each.models.share is not None
    )
    title = _("Traps: physicians who noticed, and models that fell for them")
    rate = _("%(rate)s of the models, %%") % {"rate": _(report.rate.label)}
    return Points(title, _("Physicians who noticed something, %"), rate, points, percent=True) if points else None
