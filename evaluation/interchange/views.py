"""Pages for imports, bundles, comparisons and added models."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from evaluation import tasks as evaluation_tasks
from evaluation.errors import EvaluationError
from evaluation.interchange import bundle, comparing, forms, uploads
from evaluation.models import ResultsImport
from evaluation.protocol import Rate
from evaluation.runs import adding
from evaluation.runs import estimate as runs_estimate
from evaluation.runs.kind import RUNS
from generation import tasks
from generation.jobs.forms import BudgetForm
from generation.jobs.live_status import live_workers
from generation.models import Release
from generation.models.work import Work
from generation.releases import archive
from review.charts.text_measure import format_share
from review.common.decorators import requires, signed_in_account
from review.common.waking import wake_after_commit
from review.rules.permissions import Can

IMPORTS_SHOWN = 10


@requires(Can.MEASURE)
def import_results(request: HttpRequest) -> HttpResponse:
    """Import a file of verdicts made elsewhere, and list the latest imports."""
    posted = request.method == "POST"
    initial = {"release": request.GET.get("release") or Release.objects.first()}
    form = forms.ImportResultsForm(request.POST if posted else None, request.FILES if posted else None, initial=initial)
    if form.is_valid():
        data = form.cleaned_data
        try:
            row = uploads.start_import(
                data["file"],
                release=data["release"],
                study=data["study"],
                sha256=data["sha256"],
                models=data["models"].splitlines(),
                actor=signed_in_account(request),
            )
        except EvaluationError as error:
            form.add_error(None, str(error))
        else:
            wake_after_commit(evaluation_tasks.import_results, row.pk)
            return redirect("evaluation:results-import", row.pk)
    latest = ResultsImport.objects.select_related("release", "created_by").order_by("-pk")[:IMPORTS_SHOWN]
    context = {"form": form, "imports": latest, "has_releases": Release.objects.exists()}
    return render(request, "evaluation/interchange/import.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.MEASURE)
def results_import(request: HttpRequest, pk: int) -> HttpResponse:
    """An import of results with its progress, result, and refused rows."""
    return render(request, "evaluation/interchange/results_import.html", _import_context(pk))


@require_safe
@requires(Can.MEASURE)
def results_import_progress(request: HttpRequest, pk: int) -> HttpResponse:
    """The progress of an import, polled by its page; reloads the page once the import has ended."""
    context = _import_context(pk)
    if not context["importing"]:
        return HttpResponseClientRefresh()
    return render(request, "evaluation/interchange/_results_import.html", context)


def _import_context(pk: int) -> dict[str, Any]:
    row = get_object_or_404(ResultsImport.objects.select_related("release", "run"), pk=pk)
    importing = row.status in (Work.Status.QUEUED, Work.Status.RUNNING)
    return {"row": row, "importing": importing, "idle": importing and not live_workers(runs_tasks=True).exists()}


@requires(Can.MEASURE)
def add_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Add a model to a finished run: choose it, then confirm the estimate."""
    run = RUNS.get(pk)
    form = forms.AddModelForm(request.POST if request.method == "POST" else None, run=run)
    if "back" not in request.POST and form.is_valid():
        endpoint, budget = form.cleaned_data["endpoint"], BudgetForm(request.POST)
        try:
            settings = adding.check_model(run, endpoint)
            if "confirmed" in request.POST and budget.is_valid():
                limits = budget.cleaned_data
                adding.add_model(pk, endpoint, money=limits["budget_money"], calls=limits["budget_calls"])
                wake_after_commit(tasks.work_on_job, pk)
                messages.success(request, _("Model %(name)s added.") % {"name": endpoint.name})
                return redirect("evaluation:run", pk)
            estimate = runs_estimate.estimate_run(settings)
            shown = budget if "confirmed" in request.POST else BudgetForm.for_estimate(estimate, {})
            context = {"run": run, "estimate": estimate, "form": shown, "carried": [("endpoint", endpoint.name)]}
            return render(request, "evaluation/interchange/add_model_estimate.html", context)
        except EvaluationError as error:
            form.add_error(None, str(error))
    status = 422 if form.errors and "back" not in request.POST else 200
    return render(request, "evaluation/interchange/add_model.html", {"run": run, "form": form}, status=status)


@require_safe
@requires(Can.READ_RESULTS)
def run_bundle(request: HttpRequest, pk: int) -> HttpResponseBase:  # noqa: ARG001
    """The bundle of a run, as a zip."""
    return archive.as_download(bundle.stream(RUNS.get(pk)), f"run-{pk}.zip")


@require_safe
@requires(Can.READ_RESULTS)
def compare(request: HttpRequest, pk: int) -> HttpResponse:
    """Compare a run with another one of its benchmark (`?run=`)."""
    run = RUNS.get(pk)
    form = forms.CompareForm(request.GET if "run" in request.GET else None, of=run)
    context: dict[str, Any] = {"run": run, "form": form, "offered": bool(form.choices)}
    if form.is_valid():
        comparison = comparing.compare_runs(RUNS.get(int(form.cleaned_data["run"])), run)
        rows = [_comparison_row(comparison, change) for change in comparison.rows if change.shared]
        context |= {"comparison": comparison, "rows": rows}
        context |= RUNS.page_notes(run)
        context["simulated"] = context["simulated"] or RUNS.page_notes(comparison.first)["simulated"]
    return render(request, "evaluation/interchange/compare.html", context)


def _comparison_row(comparison: comparing.RunComparison, change: comparing.ModelChange) -> dict[str, Any]:
    """A row of the table: figures as text, and links to the answers behind them."""
    rates: dict[str, Rate] = {rate.name: rate for rate in comparison.rates}
    percent = rates[change.rate].percent
    difference = change.difference

    def signed(value: float | None) -> str:
        text = format_share(None if value is None else abs(value), percent=percent)
        return text if value is None or not text else ("−" if value < 0 else "+") + text

    def link(run: int, model: str) -> str:
        return f"{reverse('evaluation:judgments', args=[run])}?endpoint={model}&dataset={change.dataset}"

    return {
        "change": change,
        "name": change.first if change.first == change.second else f"{change.first} → {change.second}",
        "dataset": _(change.label),
        "rate": _(rates[change.rate].label),
        "first": format_share(difference.rates[1], percent=percent),
        "second": format_share(difference.rates[0], percent=percent),
        "first_href": link(comparison.first.pk, change.first),
        "second_href": link(comparison.second.pk, change.second),
        "difference": signed(difference.difference),
        "interval": "" if difference.low is None else f"{signed(difference.low)} – {signed(difference.high)}",
        "p": "" if difference.p is None else "< 0.001" if difference.p < 0.001 else f"{difference.p:.3f}",
        "more": change.worse + change.better - len(change.flips),
    }
