"""Pages of evaluation: runs, their reports, and the answers behind every number."""

from functools import partial
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import get_random_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from evaluation import benchmarks, estimates, forms, queries, reports, services, tasks
from evaluation.errors import EvaluationError
from evaluation.figures import Link, chosen, figures
from evaluation.labels import verdict_label, verdict_state
from evaluation.metrics import DRAWS, UNJUDGED
from evaluation.models import Judgment, Run
from evaluation.protocol import Protocol
from evaluation.queries import Report
from generation import queries as generation
from generation.forms import LAUNCH_KEY, BudgetForm
from generation.jobs import advice
from generation.models import Endpoint, Release
from generation.paging import keyset
from generation.queries import failed_calls
from generation.tasks import wake
from review.access import person, requires
from review.permissions import Can

RUNNING = Run.Status.RUNNING
CALLS_SHOWN = 5  # of those that failed, with what came back
BATCHES_SHOWN = 20  # of those that went to providers, the newest


@require_safe
@requires(Can.READ_RESULTS)
def runs(request: HttpRequest) -> HttpResponse:
    """All runs with how far each is."""
    page = keyset(queries.runs(), request, size=25, newest_first=True)
    percents = queries.percents(run for run in page.rows if run.status == RUNNING)
    rows = [(run, percents.get(run.pk), _simulated(run)) for run in page.rows]
    context = {"rows": rows, "page": page, "has_releases": Release.objects.exists()}
    return render(request, "evaluation/runs.html", context)


def _simulation(run: Run) -> dict[str, bool]:
    """What the banners of a run's pages say: whether models, and whether reviewers of its release, are simulated."""
    return {"simulated": queries.is_simulated(run), "simulated_reviewers": bool(run.release.simulated_samples)}


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
                estimate = estimates.of_run(**form.setting)
                budget = BudgetForm.proposed(estimate, data)
                carried = [*form.carried, (LAUNCH_KEY, get_random_string(32))]
                context = {"estimate": estimate, "carried": carried, "form": budget, "release": data["release"]}
                return render(request, "evaluation/run_estimate.html", context)
            made = services.launch_run(
                **form.setting,
                judge_temperature=data.get("judge_temperature"),
                budget_money=data["budget_money"],
                budget_calls=data["budget_calls"],
                actor=person(request),
                key=request.POST.get(LAUNCH_KEY, ""),
            )
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
    return render(request, "evaluation/run_new.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.READ_RESULTS)
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """The report of a run; while it works, of what is there."""
    found = queries.watched(pk)
    report = queries.report(found)
    sort, rate = request.GET.get("sort", ""), request.GET.get("rate", "")
    drawn = chosen(report.protocol, rate)
    in_batches = found.transport == Run.Transport.BATCH
    batches = list(queries.provider_batches_of(found).reverse()[: BATCHES_SHOWN + 1]) if in_batches else []
    context = {
        **_progress(found),
        "provider_batches": batches[:BATCHES_SHOWN],
        "more_batches": len(batches) > BATCHES_SHOWN,
        "advice": advice(found),
        "behind": generation.behind_the_pause(found, queries.endpoints_of(found)),
        "budget": BudgetForm.of(found),
        "report": report,
        "rule": _(drawn.rule),
        "rate": _(drawn.label),
        "rates": [(each, _(each.label), _(each.rule)) for each in report.rates],
        "benchmark": _(report.protocol.label),
        "asked_how": queries.asked_how(found),
        "intervals": {each.interval for each in report.rates},
        "draws": DRAWS,
        "datasets": [_(label) for name, label in report.datasets if name != queries.COMBINED],
        "figures": figures(report, _link(found), sort=sort, rate=rate),
        "sort": sort,
        "simulated": report.simulated,
        "simulated_reviewers": report.run.release.simulated_samples,
        "failures": failed_calls(found.job)[:CALLS_SHOWN],
        "failed": [
            (endpoint, count, _link(found)(endpoint, "", "", "", UNJUDGED))
            for endpoint, count in sorted(report.responses_failed.items())
        ],
    }
    return render(request, "evaluation/run.html", context)


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
    return render(request, "evaluation/_run_progress.html", _progress(found))


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
    page = keyset(failed_calls(found.job, error), request, size=25, newest_first=True)
    context = {
        "run": found,
        "page": page,
        "error": error,
        **_simulation(found),
    }
    return render(request, "evaluation/failures.html", context)


@requires(Can.MEASURE)
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Take nothing further of it; it cannot be taken back, so the page asks first."""
    found = queries.run(pk)
    if request.method != "POST":
        return render(request, "evaluation/run_cancel.html", {"run": found, **_progress(found)})
    services.cancel_run(found.pk)
    messages.success(request, _("The run was cancelled. What was said and judged stays."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_pause(request: HttpRequest, pk: int) -> HttpResponse:
    """Start no further call of it."""
    services.pause_run(queries.run(pk).pk)
    messages.success(request, _("It is paused. What was under way is brought to its end and kept."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with it."""
    services.resume_run(queries.run(pk).pk)
    transaction.on_commit(partial(wake, tasks.work_on_run, pk))
    messages.success(request, _("It goes on."))
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
    messages.success(request, _("The budget was changed."))
    return redirect("evaluation:run", pk)


@require_POST
@requires(Can.MEASURE)
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Try again what failed."""
    count = services.retry_failed(queries.run(pk).pk)
    transaction.on_commit(partial(wake, tasks.work_on_run, pk))
    said = ngettext("%(count)d piece of work is tried again.", "%(count)d pieces of work are tried again.", count)
    messages.success(request, said % {"count": count})
    return redirect("evaluation:run", pk)


@require_safe
@requires(Can.READ_RESULTS)
def report_json(request: HttpRequest, pk: int) -> HttpResponse:  # noqa: ARG001
    """The report as JSON."""
    report = queries.report(queries.run(pk))
    return _download(report, reports.as_json(report), "application/json", "json")


@require_safe
@requires(Can.READ_RESULTS)
def report_markdown(request: HttpRequest, pk: int) -> HttpResponse:  # noqa: ARG001
    """The report as Markdown."""
    report = queries.report(queries.run(pk))
    return _download(report, reports.as_markdown(report), "text/markdown; charset=utf-8", "md")


@require_safe
@requires(Can.READ_RESULTS)
def report_csv(request: HttpRequest, pk: int) -> HttpResponse:  # noqa: ARG001
    """The report as CSV: a line for each rate."""
    report = queries.report(queries.run(pk))
    return _download(report, reports.as_csv(report), "text/csv; charset=utf-8", "csv")


def _download(report: Report, text: str, content_type: str, ending: str) -> HttpResponse:
    name = f"{report.run.release.name}-v{report.run.release.version}-run-{report.run.pk}.{ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type=content_type, headers=headers)


@require_safe
@requires(Can.READ_RESULTS)
def judgments(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers behind a number: a list, and the one that is read."""
    found = queries.run(pk)
    filters = forms.JudgmentFilters(request.GET, run=found)
    protocol = benchmarks.protocol(found.release.benchmark)
    heavy = ("response__text", "response__reasoning", "rubric__sample__exported")
    rows = queries.judgments(found, **filters.chosen).select_related(None)
    rows = rows.select_related("response__endpoint", "rubric__sample").defer(*heavy)
    page = keyset(rows, request, size=30)
    wanted = request.GET.get("selected", "")
    selected = queries.judgment(found, int(wanted)) if wanted.isdecimal() and len(wanted) < 19 else None
    if selected is None and page.rows:
        selected = queries.judgment(found, page.rows[0].pk)
    place = next((i for i, row in enumerate(page.rows) if selected and row.pk == selected.pk), None)
    context = {
        "run": found,
        "filters": filters,
        "page": page,
        "items": [_item(row, protocol, request) for row in page.rows],
        "place": place,
        "selected": selected,
        **_simulation(found),
        **(_reading(found, selected, protocol, request) if selected else {}),
    }
    return render(request, "evaluation/judgments.html", context)


def _item(row: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    address = request.GET.copy()
    address["selected"] = str(row.pk)
    return {
        "judgment": row,
        "href": f"?{address.urlencode()}",
        "label": verdict_label(row.verdict, protocol),
        "state": verdict_state(row.verdict, protocol),
    }


def _reading(run: Run, judgment: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    """What was asked, exactly as it was put to the model, and every judgment of the response."""
    response, sample = judgment.response, judgment.rubric.sample
    asks = protocol.ask(queries.sample_value(sample), run.seed)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    return {
        "asked": next((ask.messages for ask in asks if ask.variant == response.variant), ()),
        "about": sorted(response.about.items()),
        "dataset": labels.get((sample.task, response.variant), sample.task),
        "response": response,
        "sample": sample,
        "language": queries.language_of(sample),
        "verdict": verdict_label(judgment.verdict, protocol),
        "state": verdict_state(judgment.verdict, protocol),
        "others": [_item(row, protocol, request) for row in queries.judgments_of(response)],
    }


@require_safe
@requires(Can.READ_RESULTS)
def calls(request: HttpRequest, pk: int, judgment_id: int) -> HttpResponse:
    """The ledger behind a judgment: the response's calls and the judge's, exactly as sent and answered."""
    found = queries.run(pk)
    judgment = queries.judgment(found, judgment_id)
    if judgment is None:
        raise Http404
    said, judged = queries.calls_behind(judgment)
    context = {"run": found, "judgment": judgment, "response_calls": said, "judge_calls": judged}
    return render(
        request,
        "evaluation/calls.html",
        {**context, **_simulation(found)},
    )
