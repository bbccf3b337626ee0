"""The pages about agreement, physicians' figures and progress, and the post of active time."""

from contextlib import suppress

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from review.access import visibility
from review.assignments import retraction
from review.cases import care, queries
from review.cases.forms import WithdrawForm
from review.charts import daily_bars, lines, scatter
from review.charts.text_measure import LegendEntry
from review.common.decorators import redirect_refused, refusal_text, requires, signed_in_account
from review.common.figures import telling_age
from review.common.paging import offset_page
from review.models import User
from review.people.queries import physician
from review.quality import activity, pairs, reliability
from review.quality.progress import progress
from review.rules import json_nesting
from review.rules.permissions import Can
from review.rules.state_machine import State
from review.rules.text import whole_number


@requires(Can.OVERSEE, "GET")
@telling_age
def agreement(request: HttpRequest) -> HttpResponse:
    """Agreement between physicians; tab and filters are in the URL.

    Tabs: the verdicts of all benchmarks, the criteria of one (`?benchmark=`), and pairs of
    physicians (`?pairs`, and `?physicians=` with the cases of one pair).
    """
    filters = {name: request.GET.get(name, "").replace("\0", "") for name in ("benchmark", "task", "pair")}
    first, _dash, second = request.GET.get("physicians", "").partition("-")
    pair = [number for key in (first, second) if (number := whole_number(key)) is not None]
    chosen = None
    if len(pair) == 2:
        differed = "differed" in request.GET
        rows = pairs.cases_of_pair(pair[0], pair[1], filters["benchmark"], differed=differed)
        chosen = {"page": offset_page(rows, request), "differed": differed, "people": User.objects.filter(pk__in=pair)}
    table = reliability.agreement_table(**filters)
    tab = "verdicts"
    if chosen or "pairs" in request.GET:
        tab = "pairs"
    elif filters["benchmark"] or len(table.benchmarks) == 1:
        tab = "criteria"
    context = {
        "tab": tab,
        "physician_pairs": pairs.physician_pairs(filters["benchmark"]),
        "chosen": chosen,
        "table": table,
        "verdicts": [line for line in table.lines if line.key == "verdict"],
        "asked": filters,
        "pairs": list(reliability.RaterPair),
        "simulated_reviewers": visibility.counted_reviews().filter(physician__simulated=True).exists(),
    }
    return render(request, "review/quality/agreement.html", context)


@requires(Can.OVERSEE, "GET")
def reviewer(request: HttpRequest, person_id: int) -> HttpResponse:
    """One physician's figures, for those who oversee the reviews."""
    return _figures(request, physician(person_id))


@requires(Can.OVERSEE, "POST")
def set_aside(request: HttpRequest, person_id: int) -> HttpResponse:
    """Pause a physician and have their open cases reviewed again; or (`restore`) undo that."""
    physician(person_id)
    actor, form = signed_in_account(request), WithdrawForm(request.POST)
    if "restore" in request.POST:
        result = retraction.restore(person_id, actor=actor)
        messages.success(request, _("Reviews that count again: %(n)s.") % {"n": result.cases})
    elif not form.is_valid():
        return redirect_refused(request, refusal_text(form), "review:reviewer", person_id)
    else:
        result = retraction.set_aside(person_id, actor=actor, reason=form.cleaned_data["reason"])
        messages.success(
            request, _("The physician is paused. Cases that others will review again: %(n)s.") % {"n": result.cases}
        )
    if result.built_on:
        messages.info(request, _("Left as they are, as others work on them: %(n)s.") % {"n": result.built_on})
    if result.closed:
        messages.info(request, _("Left as they are, as they have ended: %(n)s.") % {"n": result.closed})
    return redirect("review:reviewer", person_id)


@requires(Can.REVIEW, "GET")
def me(request: HttpRequest) -> HttpResponse:
    """The user's own figures. No URL gives physicians access to another's figures."""
    return _figures(request, signed_in_account(request))


def _figures(request: HttpRequest, shown: User) -> HttpResponse:
    figures = reliability.figures(shown)
    own = shown.pk == signed_in_account(request).pk
    context: dict[str, object] = {"shown": shown, "own": own, "figures": figures}
    if not own:
        signs_of_carelessness = {found.physician: found for found in care.careless_physicians()}
        context["care"] = signs_of_carelessness.get(shown.pk)
        context["set_aside"] = retraction.is_set_aside(shown.pk)
    if figures.dots:
        context["scatter"] = scatter.scatter(figures.dots)
    if len(figures.weeks) > 1:
        context["drift"] = lines.drift(figures.weeks)
    return render(request, "review/quality/reviewer.html", context)


@requires(Can.OVERSEE, "GET")
def progress_page(request: HttpRequest) -> HttpResponse:
    """Throughput, backlog and the projected finish."""
    benchmark = request.GET.get("benchmark", "").replace("\0", "")
    current = progress(benchmark)
    context = {
        "progress": current,
        "stages": [stage for stage in State if not stage.final],
        "days": daily_bars.days(
            [(day.day, (day.reviews, day.closed)) for day in current.days],
            [LegendEntry(_("reviews submitted"), 0), LegendEntry(_("cases closed"), 0, hollow=True)],
            title=_("Reviews submitted and cases closed on each of the last 30 days."),
        ),
        "busy": any(day.reviews or day.closed for day in current.days),
        "benchmark": benchmark,
        "benchmarks": queries.benchmarks(),
    }
    return render(request, "review/quality/progress.html", context)


@requires(Can.REVIEW, "POST")
def record_activity(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """Store active time: `stretches`, a JSON list of [began, ended] in milliseconds.

    Responds with 204.
    """
    pairs: object = None
    with suppress(ValueError):
        pairs = json_nesting.loads(request.POST.get("stretches", ""))
    activity.record_stretches(signed_in_account(request), assignment_id, activity.parse_stretches(pairs))
    return HttpResponse(status=204)
