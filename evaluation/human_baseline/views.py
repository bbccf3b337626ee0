"""The page on traps that physicians noticed and models fell for."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from evaluation.human_baseline import queries
from evaluation.human_baseline.queries import MIN_SAMPLE_ANSWERS, NoticedReport
from evaluation.runs.kind import RUNS
from evaluation.statistics.intervals import MINIMUM
from review.common.decorators import requires
from review.rules.blocks import Point, Points
from review.rules.permissions import Can

SAMPLES_SHOWN = 50  # those that models fail most often


@requires(Can.READ_RESULTS, "GET")
def human_baseline(request: HttpRequest, pk: int) -> HttpResponse:
    """Compare what physicians noticed before a trap was revealed with models' failures."""
    run = RUNS.get(pk)
    report = queries.noticed_report(run, request.user)
    hardest = sorted(
        report.samples, key=lambda sample: (-(sample.models.share or 0), sample.physicians.share, sample.key)
    )
    context = {
        "run": run,
        "report": report,
        "rate": _(report.rate.label),
        "chart": _chart(report),
        "samples": hardest[:SAMPLES_SHOWN],
        "left_out": max(0, len(hardest) - SAMPLES_SHOWN),
        "minimum": MINIMUM,
        "least": MIN_SAMPLE_ANSWERS,
        **RUNS.page_notes(run),
    }
    return render(request, "evaluation/human_baseline/human_baseline.html", context)


def _chart(report: NoticedReport) -> Points | None:
    """A chart with a point for each trap that enough physicians were asked about."""
    points = []
    for trap in report.traps:
        if trap.physicians is not None and trap.models.share is not None:
            noticed, fell = round(100 * trap.physicians.share, 1), round(100 * trap.models.share, 1)
            points.append(Point(noticed, fell, f"{trap.code} {_(trap.label)}", float(trap.answers)))
    title = _("Traps: physicians who noticed, and models that fell for them")
    rate = _("%(rate)s of the models, %%") % {"rate": _(report.rate.label)}
    if points:
        return Points(title, _("Physicians who noticed something, %"), rate, tuple(points), percent=True)
    return None
