"""Pages of runs."""

from functools import partial
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import get_random_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from evaluation import tasks
from evaluation.errors import EvaluationError
from evaluation.metrics import UNJUDGED
from evaluation.models import Run
from evaluation.reports import queries as reports_queries
from evaluation.reports.figures import Link, chosen, figures
from evaluation.reports.views import simulation_note
from evaluation.runs import estimate as runs_estimate
from evaluation.runs import forms, queries, services
from evaluation.statistics.bootstrap import DRAWS
from generation.batches import queries as batches_queries
from generation.batches.queries import failed_calls
from generation.jobs.forms import LAUNCH_KEY, BudgetForm
from generation.jobs.life_cycle import advice
from generation.models import Endpoint, Release
from generation.tasks import wake
from review.common.decorators import person, requires
from review.common.paging import keyset
from review.rules.permissions import Can

RUNNING = Run.Status.RUNNING
CALLS_SHOWN = 5  # of those that failed, with what came back
BATCHES_SHOWN = 20  # of those that went to providers, the newest


@require_safe
@requires(Can.READ_RESULTS)
def runs(request: HttpRequest) -> HttpResponse:
    """All runs with how far each is."""
    page = keyset(queries.runs(), request, size=25, newest_first=True)
    percents = reports_queries.percents(run for run in page.rows if run.status == RUNNING)
    rows = [(run, percents.get(run.pk), _simulated(run)) for run in page.rows]
    context = {"rows": rows, "page": page, "has_releases": Release.objects.exists()}
    return render(request, "evaluation/runs/runs.html", context)


def _simulated(run: Run) -> bool:
    """As `queries.is_simulated`, from what a list has loaded already."""
    judged = run.judge is not None and run.judge.simulated
    return run.release.simulated or judged or any(one.simulated for one in run.endpoints.all())


@requires(Can.MEASURE)
def run_new(request: HttpRequest) -> HttpResponse:
    """Launch a run: first what it is to be, then what it may cost."""
    if request.method == "POST":
        form = forms.LaunchForm(request.POST)
    else:
        form = forms.LaunchForm(initial={"release": request.GET.get("release") or Release.objects.first()})
    if form.is_valid():
        data = form.cleaned_data
        try:
            if "confirmed" not in request.POST:
                estimate = runs_estimate.of_run(form.settings)
                budget = BudgetForm.proposed(estimate, data)
                carried = [*form.carried, (LAUNCH_KEY, get_random_string(32))]
                context = {"estimate": estimate, "carried": carried, "form": budget, "release": data["release"]}
                return render(request, "evaluation/runs/run_estimate.html", context)
            key = request.POST.get(LAUNCH_KEY, "")
            made = services.launch_run(form.settings, actor=person(request), key=key)
        except EvaluationError as error:
            form.add_error(None, str(error))
        else:
            transaction.on_commit(partial(wake, tasks.work_on_run, made.pk))
            return redirect("evaluation:run", made.pk)
    context = {
        "form": form,
        "has_releases": Release.objects.exists(),
        "has_endpoints": Endpoint.objects.exists(),
    }
    return render(request, "evaluation/runs/run_new.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.READ_RESULTS)
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """The report of a run; while it works, of what is there."""
    found = queries.watched(pk)
    report = reports_queries.report(found)
    sort, rate = request.GET.get("sort", ""), request.GET.get("rate", "")
    drawn = chosen(report.protocol, rate)
    in_batches = found.transport == Run.Transport.BATCH
    batches = list(queries.provider_batches_of(found).reverse()[: BATCHES_SHOWN + 1]) if in_batches else []
    context = {
        **_progress(found),
        "provider_batches": batches[:BATCHES_SHOWN],
        "more_batches": len(batches) > BATCHES_SHOWN,
        "advice": advice(found),
        "behind": batches_queries.behind_the_pause(found, queries.endpoints_of(found)),
        "budget": BudgetForm.of(found),
        "report": report,
        "rule": _(drawn.rule),
        "rate": _(drawn.label),
        "rates": [(each, _(each.label), _(each.rule)) for each in report.rates],
        "benchmark": _(report.protocol.label),
        "asked_how": queries.asked_how(found),
        "intervals": {each.interval for each in report.rates},
        "draws": DRAWS,
        "datasets": [_(label) for name, label in report.datasets if name != reports_queries.COMBINED],
        "figures": figures(report, _link(found), sort=sort, rate=rate),
        "sort": sort,
        "simulated": report.simulated,
        "simulated_reviewers": report.run.release.simulated_samples,
        "failures": failed_calls(found)[:CALLS_SHOWN],
        "failed": [
            (endpoint, count, _link(found)(endpoint, "", "", "", UNJUDGED))
            for endpoint, count in sorted(report.responses_failed.items())
        ],
    }
    return render(request, "evaluation/runs/run.html", context)


def _link(run: Run) -> Link:
    """Addresses of the answers behind a number of this run."""
    page = reverse("evaluation:judgments", args=[run.pk])

    def link(endpoint: str, dataset: str, facet: str, value: str, verdict: str) -> str:
        asked = {"endpoint": endpoint, "dataset": dataset, "facet": facet, "value": value, "verdict": verdict}
        return f"{page}?{urlencode({name: given for name, given in asked.items() if given})}"

    return link


@require_safe
@requires(Can.READ_RESULTS)
def run_progress(request: HttpRequest, pk: int) -> HttpResponse:
    """How far a run is, in one statement; once it has ended, the page is loaded afresh."""
    found = queries.watched(pk)
    if found.status != RUNNING:
        return HttpResponseClientRefresh()
    return render(request, "evaluation/runs/_run_progress.html", _progress(found))


def _progress(run: Run) -> dict[str, object]:
    running, now = run.status == RUNNING, queries.live_of(run)
    return {
        "run": run,
        "job": run,
        "progress": queries.progress(run),
        "live": now,
        "failures_page": reverse("evaluation:run-failures", args=[run.pk]),
        "running": running,
        "idle": running and not now.worker_lives,
    }


@require_safe
@requires(Can.READ_RESULTS)
def run_failures(request: HttpRequest, pk: int) -> HttpResponse:
    """Every call of a run that ended in an error, or those of one class (`?error=`), with what came back."""
    found = queries.run(pk)
    error = request.GET.get("error", "")
    page = keyset(failed_calls(found, error), request, size=25, newest_first=True)
    context = {
        "run": found,
        "page": page,
        "error": error,
        **simulation_note(found),
    }
    return render(request, "evaluation/runs/failures.html", context)


@requires(Can.MEASURE)
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Take nothing further of it; it cannot be taken back, so the page asks first."""
    found = queries.run(pk)
    if request.method != "POST":
        return render(request, "evaluation/runs/run_cancel.html", {"run": found, **_progress(found)})
    services.cancel_run(found.pk)
    messages.success(request, _("Run cancelled. Responses and judgments so far are kept."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_pause(request: HttpRequest, pk: int) -> HttpResponse:
    """Start no further call of it."""
    services.pause_run(queries.run(pk).pk)
    messages.success(request, _("Paused. Calls in progress will finish."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with it."""
    services.resume_run(queries.run(pk).pk)
    transaction.on_commit(partial(wake, tasks.work_on_run, pk))
    messages.success(request, _("Resumed."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_budget(request: HttpRequest, pk: int) -> HttpResponse:
    """Give it another budget; one that had paused for want of it goes on."""
    found = queries.run(pk)
    form = BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.said)
        return redirect("evaluation:run", pk)
    data = form.cleaned_data
    services.set_run_budget(found.pk, money=data["budget_money"], calls=data["budget_calls"])
    transaction.on_commit(partial(wake, tasks.work_on_run, pk))
    messages.success(request, _("Budget changed."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Try again what failed."""
    count = services.retry_failed(queries.run(pk).pk)
    transaction.on_commit(partial(wake, tasks.work_on_run, pk))
    said = ngettext("Retrying %(count)d failed item.", "Retrying %(count)d failed items.", count)
    messages.success(request, said % {"count": count})
    return redirect("evaluation:run", pk)
