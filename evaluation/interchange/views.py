"""Pages for imports, bundles, comparisons and added models."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRefresh

from evaluation.claims.queries import claims_of_run
from evaluation.errors import EvaluationError
from evaluation.interchange import bundle, comparing, forms, services
from evaluation.models import ResultsImport
from evaluation.protocol import Rate
from evaluation.reports.comparison_lines import format_difference, format_interval, format_p, reach_of, scale_of
from evaluation.runs import adding
from evaluation.runs.estimate import estimate_checks, estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.rows.result_cache import is_over
from evaluation.runs.settings import RunSettings
from generation.jobs.live_status import live_workers
from generation.jobs.views import Launch
from generation.models import Release
from generation.models.work import Work
from generation.releases import archive
from review.charts.interval import difference_mark
from review.charts.text_measure import format_share
from review.common.decorators import download, refusals_on, requires, signed_in_account
from review.rules.permissions import Can

IMPORTS_SHOWN = 10
MAX_COMPARED = 5  # runs on a page, beside the one they are compared with


@requires(Can.MEASURE)
def import_results(request: HttpRequest) -> HttpResponse:
    """Import a file of verdicts made elsewhere, and list the latest imports."""
    initial = {"release": request.GET.get("release") or Release.objects.first()}
    if request.method == "POST":
        form = forms.ImportResultsForm(request.POST, request.FILES, initial=initial)
    else:
        form = forms.ImportResultsForm(initial=initial)
    if form.is_valid():
        with refusals_on(form, EvaluationError):
            row = services.start_import(form.cleaned_data["file"], **form.values, actor=signed_in_account(request))
            return redirect("evaluation:results-import", row.pk)
    latest = ResultsImport.objects.select_related("release", "created_by").order_by("-pk")[:IMPORTS_SHOWN]
    context = {"form": form, "imports": latest, "has_releases": Release.objects.exists()}
    status = 200
    if form.errors:
        status = 422
    return render(request, "evaluation/interchange/import.html", context, status=status)


@requires(Can.MEASURE, "GET")
def results_import(request: HttpRequest, pk: int) -> HttpResponse:
    """An import of results with its progress, result, and refused rows."""
    return render(request, "evaluation/interchange/results_import.html", _import_context(pk))


@requires(Can.MEASURE, "GET")
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


@requires(Can.MEASURE, acting=True)
def add_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Add a model to a finished run: choose it, then confirm the estimate."""
    run = RUNS.get(pk)

    def add(settings: RunSettings, **_by: Any) -> str:
        [endpoint] = settings.endpoints
        adding.add_model(pk, endpoint, budget_money=settings.budget_money, budget_calls=settings.budget_calls)
        messages.success(request, _("Model %(name)s added.") % {"name": endpoint.name})
        return RUNS.address("", pk)

    pages = ("evaluation/interchange/add_model.html", "evaluation/interchange/add_model_estimate.html")
    if request.method == "POST":
        form = forms.AddModelForm(request.POST, run=run)
    else:
        form = forms.AddModelForm(run=run)
    return Launch(*pages, estimate_run, add, lambda _settings: {"run": run}).respond(request, form, {"run": run})


@requires(Can.MEASURE, acting=True)
def check_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Check a finished run by fixed texts or by asking again: choose, then confirm the estimate."""
    run = RUNS.get(pk)

    def check(checks: adding.Checks, **_by: Any) -> str:
        adding.add_checks(checks)
        messages.success(request, _("The checks have started. The claims show what they find."))
        return RUNS.address("", pk)

    pages = ("evaluation/interchange/checks.html", "evaluation/interchange/checks_estimate.html")
    if request.method == "POST":
        form = forms.ChecksForm(request.POST, run=run)
    else:
        form = forms.ChecksForm(run=run)
    return Launch(*pages, estimate_checks, check, lambda _checks: {"run": run}).respond(request, form, {"run": run})


@requires(Can.READ_RESULTS, "GET")
def run_bundle(request: HttpRequest, pk: int) -> HttpResponseBase:  # noqa: ARG001
    """The bundle of a run, as a zip."""
    return download(bundle.stream(RUNS.get(pk)), f"run-{pk}.zip", archive.ZIP)


@requires(Can.READ_RESULTS, "GET")
def compare(request: HttpRequest, pk: int) -> HttpResponse:
    """Compare a run with others of its benchmark (`?run=`, as often as there are others)."""
    run = RUNS.get(pk)
    others = list(dict.fromkeys(request.GET.getlist("run")))[:MAX_COMPARED]
    bound = [forms.CompareForm({"run": other}, of=run) for other in others]
    invalid = [form for form in bound if form.errors]
    comparisons = []
    for form in bound:
        if form.is_valid():
            other = RUNS.get(int(form.cleaned_data["run"]))
            comparisons.append(comparing.compare_runs(other, run, request.user))
    first, *_others = [*invalid, *bound] or [forms.CompareForm(of=run)]
    notes = RUNS.page_notes(run)
    simulated = notes["simulated"]
    compared = []
    for comparison in comparisons:
        simulated = RUNS.page_notes(comparison.first)["simulated"] or simulated
        compared.append((comparison, _comparison_rows(comparison)))
    claims = None
    if is_over(run):
        claims = claims_of_run(run)
    context: dict[str, Any] = {
        "run": run,
        "form": first,
        "offered": bool(first.choices),
        "claims": claims,
        "compared": compared,
        **notes,
        "simulated": simulated,
    }
    return render(request, "evaluation/interchange/compare.html", context)


def _comparison_rows(comparison: comparing.RunComparison) -> list[dict[str, Any]]:
    """The rows of the table: figures as text, a mark on a common scale, links to the answers."""
    rates: dict[str, Rate] = {rate.name: rate for rate in comparison.rates}
    shown = [change for change in comparison.rows if change.shared]
    reach = reach_of([change.difference for change in shown])

    def link(run: int, model: str, dataset: str) -> str:
        return f"{reverse('evaluation:judgments', args=[run])}?endpoint={model}&dataset={dataset}"

    def row(change: comparing.ModelChange) -> dict[str, Any]:
        difference, rate = change.difference, rates[change.rate]
        name = change.first
        if change.first != change.second:
            name = f"{change.first} → {change.second}"
        return {
            "change": change,
            "name": name,
            "dataset": _(change.label),
            "rate": _(rate.label),
            "first": format_share(difference.rates[1], percent=rate.percent),
            "second": format_share(difference.rates[0], percent=rate.percent),
            "first_href": link(comparison.first.pk, change.first, change.dataset),
            "second_href": link(comparison.second.pk, change.second, change.dataset),
            "difference": format_difference(difference.difference, rate),
            "interval": format_interval(difference.low, difference.high, rate),
            "mark": difference_mark(difference.difference, difference.low, difference.high, reach=reach),
            "scale": scale_of(reach, rate),
            "p": format_p(difference.p),
            "more": change.worse + change.better - len(change.flips),
        }

    return [row(change) for change in shown]
