"""The response browser: the answers behind every number of a report."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from evaluation import registry
from evaluation.answers import changes as changed_answers
from evaluation.answers import forms, queries
from evaluation.answers.search import MAX_LETTERS, MAX_MATCHES, MAX_SCANNED, MAX_WORDS, search
from evaluation.judges.content import stored_images
from evaluation.models import Judgment, Run
from evaluation.numbers.rates import of_rate, rate_named
from evaluation.protocol import Ask, Protocol, Rate
from evaluation.reports import figure_files
from evaluation.reports import queries as reports_queries
from evaluation.reports import services as reports_services
from evaluation.reports.views import figure_response
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from generation.llm.types import Message
from generation.models import ReleasedSample
from review.common.decorators import requires
from review.common.paging import keyset_page
from review.rules.blocks import Images
from review.rules.permissions import Can
from review.rules.text import whole_number

SAMPLES_LISTED = 30  # in the list beside the selected sample


@requires(Can.READ_RESULTS, "GET")
def judgments(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers behind a number of the report: a list, and the selected one in full."""
    run = RUNS.get(pk)
    filters = forms.JudgmentFilters(request.GET, run=run)
    protocol = registry.protocol(run.release.benchmark)
    chosen = filters.chosen
    searched = " ".join(chosen.pop("text", "")[:MAX_LETTERS].split()[:MAX_WORDS])
    matches = search(run, searched, request.user)
    rows = queries.judgments(run, request.user, **chosen, text=matches or "")
    page = keyset_page(rows.defer(*queries.LARGE_COLUMNS), request, queries.ORDER, size=30)
    pk_given = whole_number(request.GET.get("selected", ""))
    selected = place = None
    if pk_given is not None:
        selected = reports_queries.judgment(run, pk_given, request.user)
    if selected is None and page.rows:
        selected = reports_queries.judgment(run, page.rows[0].pk, request.user)
    if selected in page.rows:
        place = page.rows.index(selected)
    found = 0
    if matches:
        found = rows.order_by().count()
    context = {
        "run": run,
        "filters": filters,
        "searched": searched,
        "found": found,
        "more": matches is not None and matches.more,
        "max_matches": MAX_MATCHES,
        "partial": matches is not None and matches.partial,
        "max_scanned": MAX_SCANNED,
        "page": page,
        "items": [_item(row, protocol, request) for row in page.rows],
        "place": place,
        "selected": selected,
        **RUNS.page_notes(run),
    }
    if selected:
        context |= _selected_judgment(run, selected, protocol, request)
    return render(request, "evaluation/answers/judgments.html", context)


def _item(row: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    query = request.GET.copy()
    query["selected"] = str(row.pk)
    return {**queries.with_verdict(row, protocol), "href": f"?{query.urlencode()}"}


def _data_set_labels(protocol: Protocol) -> dict[tuple[str, str], str]:
    return {(dataset.task, dataset.variant): _(dataset.label) for dataset in protocol.datasets}


def _selected_judgment(run: Run, judgment: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    """Template context of a judgment: the exact question, the response, and all its judgments."""
    response, sample = judgment.response, judgment.rubric.sample
    response.sample = sample
    judged = Judgment.objects.filter(response=response).select_related("rubric").order_by("rubric__pk")
    tokens_in, tokens_cached = reports_queries.tokens_of_judge(judgment)
    ask, shown = queries.question_asked(protocol, response, run.seed), queries.with_verdict(judgment, protocol)
    messages: Sequence[Message] = ()
    if ask:
        messages = ask.messages
    return {
        "question_messages": messages,
        "images": stored_images(messages, runs_queries.question_text(sample)),
        "about": sorted(response.about.items()),
        "dataset": _data_set_labels(protocol).get((sample.task, response.variant), sample.task),
        "response": response,
        "outcome": response.get_outcome_display(),
        "sample": sample,
        "language": runs_queries.language_of(sample),
        "verdict": shown["label"],
        "state": shown["state"],
        "tokens_in": tokens_in,
        "tokens_cached": tokens_cached,
        "response_judgments": [_item(row, protocol, request) for row in judged],
    }


@requires(Can.READ_RESULTS, "GET")
def calls(request: HttpRequest, pk: int, judgment_id: int) -> HttpResponse:
    """The calls behind a judgment, of the model and of the judge, verbatim from the ledger."""
    run = RUNS.get(pk)
    judgment = reports_queries.judgment(run, judgment_id, request.user)
    if judgment is None:
        raise Http404
    response_calls, judge_calls = reports_queries.calls_behind(judgment)
    context = {
        "run": run,
        "judgment": judgment,
        "response_calls": response_calls,
        "judge_calls": judge_calls,
        **RUNS.page_notes(run),
    }
    return render(request, "evaluation/answers/calls.html", context)


@requires(Can.READ_RESULTS, "GET")
def sample(request: HttpRequest, pk: int, key: str) -> HttpResponse:
    """One sample with the responses of all models and a table of their verdicts."""
    run = RUNS.get(pk)
    comparison = queries.side_by_side(run, key, request.user)
    if comparison is None:
        raise Http404
    protocol, shown, responses = registry.protocol(run.release.benchmark), comparison.sample, comparison.responses
    labels, variants = _data_set_labels(protocol), {response.variant for response in responses}
    with runs_queries.prompts_of(run):
        asks = [ask for ask in protocol.ask(runs_queries.sample_value(shown), run.seed) if ask.variant in variants]
    rows = []
    for rubric, judgments in comparison.criteria:
        rows.append((rubric, [row and queries.with_verdict(row, protocol) for row in judgments]))

    def label_of(variant: str) -> str:
        return labels.get((shown.task, variant), "")

    context = {
        "run": run,
        "comparison": comparison,
        "images": _images(asks, shown),
        "columns": [(response, label_of(response.variant)) for response in responses],
        "several": len(variants) > 1,
        "repeated": any(response.repeat for response in responses),
        "rows": rows,
        "questions": [(label_of(ask.variant), ask.messages) for ask in asks],
        "language": runs_queries.language_of(shown),
        **RUNS.page_notes(run),
    }
    return render(request, "evaluation/answers/sample.html", context)


def _images(asks: Iterable[Ask], sample: ReleasedSample) -> Images | None:
    """The stored images in these questions about a sample."""
    messages: list[Message] = []
    for ask in asks:
        messages += ask.messages
    return stored_images(messages, runs_queries.question_text(sample))


def _changes_shown(request: HttpRequest, report: reports_queries.Report) -> tuple[list[Rate], Rate, str]:
    """The rates with changes, the selected rate, and the selected model ('' for all together)."""
    rates = changed_answers.rates_with_changes(report) or [report.rate]
    rate = rate_named(rates, request.GET.get("rate", "")) or rates[0]
    model = request.GET.get("model")
    if model in report.endpoints:
        return rates, rate, model
    if len(report.endpoints) > 1:
        return rates, rate, ""
    return rates, rate, report.endpoints[0]


@requires(Can.READ_RESULTS, "GET")
def flow_file(request: HttpRequest, pk: int, name: str, ending: str) -> HttpResponseBase:
    """A chart of the changes page for the selected metric and model, as SVG or its data as CSV."""
    report = reports_services.shown_report(RUNS.get(pk))
    _rates, rate, model = _changes_shown(request, report)
    charts = {chart.name: chart for chart in changed_answers.flows(report, rate, model)}
    if name not in charts:
        raise Http404
    title = f"{_(rate.label)}, {model or _('All models together')}"
    return figure_response(report, figure_files.NamedChart(charts[name], title), ending)


@requires(Can.READ_RESULTS, "GET")
def changes(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers fixed and broken by asking in another variant, by data set and model."""
    run = RUNS.get(pk)
    report = reports_services.shown_report(run)
    rates, rate, model = _changes_shown(request, report)
    models: tuple[str, ...] = ()
    if len(report.endpoints) > 1:
        models = report.endpoints
    averages = []
    for name, variant, means in report.numbers.averages:
        if name == rate.name:
            averages.append((variant, means))
    context = {
        "run": run,
        "report": report,
        "rate": rate,
        "rate_label": _(rate.label),
        "rule": _(rate.rule),
        "rates": [(option.name, _(option.label)) for option in rates],
        "models": models,
        "model": model,
        "lines": changed_answers.change_lines(report, rate),
        "charts": changed_answers.flows(report, rate, model),
        "bottlenecks": of_rate(report.numbers.bottlenecks, rate),
        "figures_at": reverse("evaluation:changes", args=[pk]) + "figures/",
        "figures_query": f"?{urlencode({'rate': rate.name, 'model': model})}",
        "averages": averages,
        **RUNS.page_notes(run),
    }
    return render(request, "evaluation/answers/changes.html", context)


@requires(Can.READ_RESULTS, "GET")
def changed(request: HttpRequest, pk: int) -> HttpResponse:
    """The samples behind a stream of a chart, and the answers to the selected one by parts."""
    run = RUNS.get(pk)
    report = reports_services.shown_report(run)
    query = {name: request.GET.get(name, "") for name in ("first", "second", "rate", "model", "move")}
    pks = changed_answers.samples_with_move(run, report, query, request.user)
    pk_given = whole_number(request.GET.get("selected", ""))
    index = 0
    if pk_given in pks:
        index = pks.index(pk_given)
    start = index - index % SAMPLES_LISTED
    listed = pks[start : start + SAMPLES_LISTED]
    samples = ReleasedSample.objects.in_bulk(listed)
    labels = {dataset.name: _(dataset.label) for dataset in report.protocol.datasets}

    def href(sample_pk: int) -> str:
        return f"?{urlencode({**query, 'selected': sample_pk})}"

    selected = images = parts = None
    before = after = ""
    if index:
        before = href(pks[index - 1])
    if index + 1 < len(pks):
        after = href(pks[index + 1])
    if pks:
        selected = samples[pks[index]]
        parts = changed_answers.parts_table(run, selected, query)
        images = _images(report.protocol.ask(runs_queries.sample_value(selected), run.seed), selected)
    datasets = []
    for side in (query["second"], query["first"]):
        if side in labels:
            datasets.append(labels[side])
    context = {
        "run": run,
        "title": changed_answers.MOVES.get(query["move"], ""),
        "model": query["model"],
        "datasets": datasets,
        "items": [(samples[sample_pk], href(sample_pk)) for sample_pk in listed],
        "count": len(pks),
        "place": index + 1,
        "before": before,
        "after": after,
        "selected": selected,
        "images": images,
        "parts": parts,
        **RUNS.page_notes(run),
    }
    return render(request, "evaluation/answers/changed.html", context)
