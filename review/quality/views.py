"""The pages that say whether to trust the reviews: agreement, one physician's figures, progress; and where active time goes."""

from contextlib import suppress

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from review.access import visibility
from review.cases import queries
from review.charts import daily_bars, lines, scatter
from review.charts.text_measure import Entry
from review.common.decorators import requires, signed_in_account
from review.models import User
from review.quality import activity, reliability
from review.quality.progress import progress
from review.rules import json_nesting
from review.rules.permissions import Can, UserRole
from review.rules.state_machine import State


@requires(Can.OVERSEE)
@require_GET
def agreement(request: HttpRequest) -> HttpResponse:
    """How far physicians agree, by criterion; what is looked at stands in the address."""
    asked = {name: request.GET.get(name, "").replace("\0", "") for name in ("benchmark", "task", "pair")}
    context = {
        "table": reliability.agreement_table(**asked),
        "asked": asked,
        "pairs": list(reliability.RaterPair),
        "simulated_reviewers": visibility.reviewed_by_simulated(),
    }
    return render(request, "review/quality/agreement.html", context)


@requires(Can.OVERSEE)
@require_GET
def reviewer(request: HttpRequest, person_id: int) -> HttpResponse:
    """One physician's figures, for those who oversee the work."""
    shown = User.objects.filter(pk=person_id, role=UserRole.PHYSICIAN).first()
    if shown is None:
        raise Http404
    return _figures(request, shown)


@requires(Can.REVIEW)
@require_GET
def me(request: HttpRequest) -> HttpResponse:
    """Your figures. There is no address under which a physician could ask for another's."""
    return _figures(request, signed_in_account(request))


def _figures(request: HttpRequest, shown: User) -> HttpResponse:
    found = reliability.figures(shown)
    context = {
        "shown": shown,
        "own": shown.pk == signed_in_account(request).pk,
        "figures": found,
        "scatter": scatter.scatter(found.dots) if found.dots else None,
        "drift": lines.drift(found.weeks) if len(found.weeks) > 1 else None,
    }
    return render(request, "review/quality/reviewer.html", context)


@requires(Can.OVERSEE)
@require_GET
def progress_page(request: HttpRequest) -> HttpResponse:
    """Throughput, backlog and the projected finish."""
    chosen = request.GET.get("benchmark", "").replace("\0", "")
    found = progress(chosen)
    context = {
        "progress": found,
        "stages": [stage for stage in State if not stage.final],
        "days": daily_bars.days(
            [(day.day, (day.reviews, day.closed)) for day in found.days],
            [Entry(_("reviews submitted"), 0), Entry(_("cases closed"), 0, hollow=True)],
            title=_("Reviews submitted and cases closed on each of the last 30 days."),
        ),
        "busy": any(day.reviews or day.closed for day in found.days),
        "benchmark": chosen,
        "benchmarks": queries.benchmarks(),
    }
    return render(request, "review/quality/progress.html", context)


@requires(Can.REVIEW)
@require_POST
def record_activity(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Keep what the page measured: `stretches`, a JSON list of [began, ended] in milliseconds. Answers nothing (204)."""
    sent: object = None
    with suppress(ValueError):
        sent = json_nesting.loads(request.POST.get("stretches", ""))
    activity.record(signed_in_account(request), assignment_id, activity.parse_stretches(sent))
    return HttpResponse(status=204)
