"""Pages of runs."""

from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import quote_plus, urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from evaluation.claims.queries import claims
from evaluation.errors import StillCounting
from evaluation.interchange import power
from evaluation.judges import costs, summary
from evaluation.models import Run
from evaluation.numbers.rates import rate_named
from evaluation.numbers.report_numbers import Options
from evaluation.numbers.rules import COMBINED, UNJUDGED
from evaluation.protocol import EXCLUDED, Rate
from evaluation.reports import paper_layout
from evaluation.reports import queries as reports_queries
from evaluation.reports import services as reports_services
from evaluation.reports.comparison_lines import rule_label, rule_names
from evaluation.reports.figures import Link, figures, first_chart
from evaluation.reports.forms import read_options
from evaluation.reports.headlines import answer, headlines
from evaluation.runs import estimate as runs_estimate
from evaluation.runs import forms, leaving, queries, services, trials
from evaluation.runs.kind import RUNS
from evaluation.runs.rows.result_cache import cached_page
from evaluation.runs.settings import RunSettings
from generation.endpoints import queries as endpoints_queries
from generation.jobs.queries import with_role_names
from generation.jobs.views import Launch, job_context
from generation.models import Endpoint, Release
from review.common.decorators import redirect_refused, redirect_saying, refusal_text, requires, signed_in_account
from review.common.lists import list_context
from review.rules.permissions import Can
from review.rules.text import whole_number

RUNNING = Run.Status.RUNNING
BATCHES_SHOWN = 20  # provider batches on a page, the newest ones


@requires(Can.READ_RESULTS, "GET")
def runs(request: HttpRequest) -> HttpResponse:
    """All runs with their progress and rates; those ticked (`?rows=`) are compared."""
    chosen = set()
    for row in request.GET.getlist("rows"):
        number = whole_number(row)
        if number is not None:
            chosen.add(number)
    if len(chosen) > 1:
        newest, *others = sorted(chosen, reverse=True)
        return redirect(f"{reverse('evaluation:run-compare', args=[newest])}?{urlencode({'run': others}, doseq=True)}")
    if "compare" in request.GET:
        messages.error(request, _("Select two or more runs to compare."))
    filters = forms.RunFilters(request.GET)
    context = list_context(request, filters, queries.runs(**filters.active).order_by("-pk"), ("created_at", "cost"))
    page = context["page"].rows
    running = [run.pk for run in page if run.status == RUNNING]
    percents = {run.pk: RUNS.progress(run).percent for run in RUNS.jobs_with_status().filter(pk__in=running)}
    rates = headlines(page)
    context["rows"] = [(run, percents.get(run.pk), rates.get(run.pk, "")) for run in page]
    context["has_releases"] = Release.objects.exists()
    context["columns"] = columns = forms.chosen_columns(request)
    context["column_choices"] = [(name, label, name in columns) for name, label in forms.COLUMNS]
    return render(request, "evaluation/runs/runs.html", context)


@requires(Can.MEASURE, acting=True)
def run_new(request: HttpRequest) -> HttpResponse:
    """Launch a run in two steps: settings, then estimate and budget."""
    last = None
    if request.method == "POST":
        form = forms.RunForm(request.POST)
    else:
        form = forms.RunForm(initial={"release": request.GET.get("release") or Release.objects.first()})
        if "defaults" not in request.GET:
            last, initial = services.last_settings(signed_in_account(request), form.chosen)
            form.initial.update(initial)
    context = {
        "last": last,
        "has_releases": Release.objects.exists(),
        "has_endpoints": Endpoint.objects.usable().exists(),
    }
    return _LAUNCH.respond(request, form, context)


def _launch(settings: RunSettings, **by: Any) -> str:
    return RUNS.address("", services.launch_run(settings, **by).pk)


def _power(settings: RunSettings) -> dict[str, Any]:
    """The precision to expect from these settings, and the cost of each way of judging."""
    cells = [(_(cell.dataset_label), cell) for cell in power.expected_power(settings)]
    expected = {"rate": power.RATE, "correlation": power.CORRELATION}
    ways = costs.judging_costs(settings)
    return {"power": cells, "compared": len(settings.tested), "expected": expected, "ways": ways}


_LAUNCH = Launch(
    "evaluation/runs/run_new.html", "evaluation/runs/run_estimate.html", runs_estimate.estimate_run, _launch, _power
)


@requires(Can.MEASURE, "POST")
def describe(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a run a title and a note."""
    form = forms.DescriptionForm(request.POST)
    if not form.is_valid():
        return redirect_refused(request, refusal_text(form), "evaluation:run", pk)
    services.describe_run(pk, **form.cleaned_data, actor=signed_in_account(request))
    return redirect_saying(request, _("Title and note saved."), "evaluation:run", pk)


@requires(Can.MEASURE, "POST")
def leave_out(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """Leave a model or a judge out of a run."""
    because, role = request.POST.get("because", ""), request.POST.get("role", "")
    leaving.leave_out(RUNS.get(pk).pk, endpoints_queries.endpoint(name), because=because, role=role)
    messages.success(request, _("%(name)s is left out. The run goes on without it.") % {"name": name})
    return redirect(f"{reverse('evaluation:run', args=[pk])}#model-states")


@requires(Can.MEASURE, "POST")
def add_again(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """Add a model or a judge again that was left out of a run."""
    leaving.add_again(RUNS.get(pk).pk, endpoints_queries.endpoint(name), role=request.POST.get("role", ""))
    messages.success(request, _("%(name)s is asked again.") % {"name": name})
    return redirect(f"{reverse('evaluation:run', args=[pk])}#model-states")


@requires(Can.READ_RESULTS, "GET")
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """The report of a run, with results so far while it is in progress."""
    watched_run = RUNS.get_with_status(pk, request.user)
    options, problem = read_options(request.GET, watched_run)
    try:
        report = reports_services.shown_report(watched_run, options)
    except StillCounting as counting:
        context = {**job_context(RUNS, watched_run, request), "run": watched_run, "message": counting.message}
        return render(request, "evaluation/runs/counting.html", context)
    sort, rate_name = request.GET.get("sort", ""), request.GET.get("rate", "")
    shown_rate = report.shown_rate(rate_name)
    option_values = _option_values(options)
    query = ""
    if rate_name:
        query = f"?{urlencode({'rate': rate_name})}"
    in_batches = watched_run.transport == Run.Transport.BATCH
    batches = []
    if in_batches:
        batches = list(RUNS.provider_batches(watched_run, request.user).reverse()[: BATCHES_SHOWN + 1])
    weights: list[tuple[str, int]] = []
    for rate in report.rates:
        if rate.weights:
            weights += rate.weights.of.items()
    datasets = [_(label) for name, label in report.datasets if name != COMBINED]
    context = {
        **job_context(RUNS, watched_run, request),
        "run": watched_run,
        "provider_batches": batches[:BATCHES_SHOWN],
        "more_batches": len(batches) > BATCHES_SHOWN,
        "report": report,
        "answer": answer(report, shown_rate),
        "first_chart": first_chart(report, shown_rate, _link(watched_run)),
        "rule": _(shown_rate.rule),
        "rate": _(shown_rate.label),
        "rates": _labelled(report, report.rates),
        "facet_rates": _labelled(report, report.facet_rates),
        "planned": report.is_planned(shown_rate),
        "plan": _plan(report),
        "problem": problem,
        "options": options,
        "weights": weights,
        "option_values": option_values,
        "options_query": urlencode(option_values),
        "benchmark": _(report.protocol.label),
        "example_requests": trials.example_questions(watched_run),
        "intervals": {rate.interval for rate in report.rates},
        "datasets": datasets,
        "figures_at": reverse("evaluation:run", args=[watched_run.pk]) + "figures/",
        "figures_query": query,
        "sort": sort,
        "simulated": report.simulated,
        "models": with_role_names(queries.models_asked(watched_run), lambda role: _(queries.ROLES[role])),
        "judging": summary.as_dict(watched_run, report.numbers.judged),
        "further_judges": queries.further_judges(watched_run),
        "left_out": report.left_out,
        "model_checks": _model_checks(watched_run),
        "model_states": _model_states(watched_run),
        "failed": _failed(watched_run, report),
    }
    context["description"] = forms.DescriptionForm(initial={"title": watched_run.title, "note": watched_run.note})
    if report.finished:
        context["claims"] = claims(watched_run, report, context["judging"]["validation"])
    if watched_run.origin == Run.Origin.IMPORTED:
        context["may_control"] = False  # an imported run makes no calls

    def render_report() -> str:
        pictures = {
            "figures": figures(report, _link(watched_run), sort=sort, rate=rate_name),
            "paper": paper_layout.views(paper_layout.paper_tables(report)),
        }
        return render_to_string("evaluation/runs/_report.html", {**context, **pictures}, request)

    # Pages with options are not cached, because there are too many combinations.
    if request.GET:
        cache_key = ""
    else:
        cache_key = report.numbers_key
    report_html = cached_page(cache_key and f"page:{cache_key}", render_report, watched_run)
    context["report_html"] = mark_safe(report_html)  # noqa: S308 - rendered by our template
    return render(request, "evaluation/runs/run.html", context)


def _model_states(run: Run) -> list[tuple[queries.ModelState, Any]]:
    """Models under test, judges of a panel, and their endpoints now, unless all simply ended."""
    states = []
    if run.origin == Run.Origin.LAUNCHED:
        states = queries.model_states(run)
    if run.status == Run.Status.FINISHED and not any(state.is_left_out for state in states):
        return []
    now = {endpoint.name: endpoint for endpoint in RUNS.live(run).endpoints}
    return [(state, now.get(state.name)) for state in states]


def _option_values(options: Options) -> dict[str, str]:
    """The options that a reader chose, as the form has them."""
    chosen = {}
    if options.common:
        chosen["common"] = "1"
    if options.weights:
        chosen["weights"] = ",".join([f"{value}:{weight}" for value, weight in options.weights.items()])
    if options.all_ranked:
        chosen["all_ranked"] = "1"
    return chosen


def _labelled(report: reports_queries.Report, rates: Iterable[Rate]) -> list[tuple[Rate, str, str, bool]]:
    """Rates with label, rule, and whether they answer the plan."""
    return [(rate, _(rate.label), _(rate.rule), report.is_planned(rate)) for rate in rates]


def _model_checks(run: Run) -> list[dict[str, Any]]:
    """The checks of the run's models, with the roles in words."""
    checks = []
    for entry in run.model_checks.values():
        tried = [{**each, "role": _(queries.ROLES.get(each["role"], ""))} for each in entry["tried"]]
        checks.append({**entry, "tried": tried})
    return checks


def _failed(run: Run, report: reports_queries.Report) -> list[tuple[str, int, str]]:
    """The models with failed responses: how many, and the address of the judgments on them."""
    link = _link(run)
    failed = []
    for name, n in sorted(report.numbers.failed.items()):
        failed.append((name, n, link(name, "", "", "", UNJUDGED)))
    return failed


def _plan(report: reports_queries.Report) -> dict[str, object]:
    """The analysis plan in the words of the page."""
    plan, protocol = report.plan, report.protocol
    metric, preset, dataset = plan.metric, "", ""
    if rate := rate_named(protocol.rates, plan.metric):
        metric = _(rate.label)
    if plan.preset in protocol.presets:
        preset = _(protocol.presets[plan.preset].label)
    if plan.dataset:
        dataset = _(dict(report.datasets).get(plan.dataset, plan.dataset))
    rules = []
    for outcome, label in rule_names(protocol):
        rules.append((label, rule_label(plan.outcomes.get(outcome, EXCLUDED), protocol)))
    return {
        "frozen": plan.frozen,
        "metric": metric,
        "preset": preset,
        "dataset": dataset,
        "comparisons": [" – ".join(pair) for pair in plan.comparisons],
        "minimum": plan.minimum,
        "thresholds": plan.thresholds,
        "rules": rules,
    }


def _link(run: Run) -> Link:
    """A function that builds the address of the answers behind a number of this run."""
    page = reverse("evaluation:judgments", args=[run.pk])
    quoted = cache(quote_plus)  # the many links of a page repeat few words

    def link(
        endpoint: str, dataset: str, facet: str, value: str, verdict: str, arm: str = "", outcome: str = ""
    ) -> str:
        query = {"endpoint": endpoint, "dataset": dataset, "facet": facet, "value": value, "verdict": verdict}
        query |= {"arm": arm, "outcome": outcome}
        fields = [f"{name}={quoted(text)}" for name, text in query.items() if text]
        return f"{page}?{'&'.join(fields)}"

    return link
