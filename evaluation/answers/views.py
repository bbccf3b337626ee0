"""The response browser: the answers behind every number, one by one or side by side."""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation import registry
from evaluation.answers import changes as changed_answers
from evaluation.answers import forms, queries
from evaluation.answers.search import MOST_FOUND, MOST_READ, search
from evaluation.judges.content import stored_images
from evaluation.labels import verdict_label, verdict_state
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import Protocol, Rate
from evaluation.reports import figure_files
from evaluation.reports import queries as reports_queries
from evaluation.reports.views import figure_response
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from generation.llm.types import Message
from generation.models import ReleasedSample
from review.charts.text_measure import format_share
from review.common.decorators import requires
from review.common.paging import keyset_page_by_columns
from review.rules.blocks import Images
from review.rules.permissions import Can

SHOWN = 30  # samples in the list beside the one that is read


@require_safe
@requires(Can.READ_RESULTS)
def judgments(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers behind a number: a list, and the one that is read."""
    found = RUNS.get(pk)
    filters = forms.JudgmentFilters(request.GET, run=found)
    protocol = registry.protocol(found.release.benchmark)
    chosen = filters.chosen
    words = search(found, chosen.pop("text", ""))
    rows = queries.judgments(found, **chosen, text=words or "")
    page = keyset_page_by_columns(rows.defer(*queries.HEAVY), request, queries.ORDER, size=30)
    wanted = request.GET.get("selected", "")
    selected = reports_queries.judgment(found, int(wanted)) if wanted.isdecimal() and len(wanted) < 19 else None
    if selected is None and page.rows:
        selected = reports_queries.judgment(found, page.rows[0].pk)
    place = next((i for i, row in enumerate(page.rows) if selected and row.pk == selected.pk), None)
    context = {
        "run": found,
        "filters": filters,
        "more": words is not None and words.more,
        "most": MOST_FOUND,
        "partial": words is not None and words.partial,
        "read": MOST_READ,
        "page": page,
        "items": [_item(row, protocol, request) for row in page.rows],
        "place": place,
        "selected": selected,
        **RUNS.page_notes(found),
        **(_reading(found, selected, protocol, request) if selected else {}),
    }
    return render(request, "evaluation/answers/judgments.html", context)


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
    response.sample = sample
    ask = queries.question_asked(protocol, response, run.seed)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    return {
        "asked": ask.messages if ask else (),
        "images": stored_images(ask.messages if ask else (), runs_queries.question_text(sample)),
        "about": sorted(response.about.items()),
        "dataset": labels.get((sample.task, response.variant), sample.task),
        "response": response,
        "outcome": response.get_outcome_display(),
        "sample": sample,
        "language": runs_queries.language_of(sample),
        "verdict": verdict_label(judgment.verdict, protocol),
        "state": verdict_state(judgment.verdict, protocol),
        "others": [_item(row, protocol, request) for row in runs_queries.judgments_of(response)],
    }


@require_safe
@requires(Can.READ_RESULTS)
def calls(request: HttpRequest, pk: int, judgment_id: int) -> HttpResponse:
    """The ledger behind a judgment: the response's calls and the judge's, exactly as sent and answered."""
    found = RUNS.get(pk)
    judgment = reports_queries.judgment(found, judgment_id)
    if judgment is None:
        raise Http404
    said, judged = reports_queries.calls_behind(judgment)
    context = {"run": found, "judgment": judgment, "response_calls": said, "judge_calls": judged}
    return render(
        request,
        "evaluation/answers/calls.html",
        {**context, **RUNS.page_notes(found)},
    )


@require_safe
@requires(Can.READ_RESULTS)
def sample(request: HttpRequest, pk: int, key: str) -> HttpResponse:
    """One sample: what all models of a run answered, and every verdict in one table."""
    found = RUNS.get(pk)
    beside = queries.side_by_side(found, key)
    if beside is None:
        raise Http404
    protocol = registry.protocol(found.release.benchmark)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    asked = _asked(found, beside.sample, beside.responses, protocol)
    context = {
        "run": found,
        "beside": beside,
        "images": stored_images(
            [each for _label, turns in asked for each in turns], runs_queries.question_text(beside.sample)
        ),
        "columns": [
            (response, labels.get((beside.sample.task, response.variant), "")) for response in beside.responses
        ],
        "several": len({response.variant for response in beside.responses}) > 1,
        "repeated": any(response.repeat for response in beside.responses),
        "rows": [
            (criterion.rubric, [_cell(row, protocol) for row in criterion.judgments]) for criterion in beside.criteria
        ],
        "asked": asked,
        "language": runs_queries.language_of(beside.sample),
        **RUNS.page_notes(found),
    }
    return render(request, "evaluation/answers/sample.html", context)


def _cell(row: Judgment | None, protocol: Protocol) -> dict[str, object] | None:
    if row is None:
        return None
    label = verdict_label(row.verdict, protocol)
    return {"judgment": row, "label": label, "state": verdict_state(row.verdict, protocol)}


def _asked(
    run: Run, sample: ReleasedSample, responses: tuple[Response, ...], protocol: Protocol
) -> list[tuple[str, tuple[Message, ...]]]:
    """The messages of each variant that was asked, under its label."""
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    variants = {response.variant for response in responses}
    asks = protocol.ask(runs_queries.sample_value(sample), run.seed)
    return [(labels.get((sample.task, ask.variant), ""), ask.messages) for ask in asks if ask.variant in variants]


def _images_of(run: Run, protocol: Protocol, sample: ReleasedSample) -> Images | None:
    asks = protocol.ask(runs_queries.sample_value(sample), run.seed)
    return stored_images([each for ask in asks for each in ask.messages], runs_queries.question_text(sample))


def _changes_asked(request: HttpRequest, report: reports_queries.Report) -> tuple[list[Rate], Rate, str]:
    """The rates that have changes, the one that is shown, and the model; '' for all together."""
    rates = changed_answers.rates_with_changes(report) or [report.rate]
    rate = next((each for each in rates if each.name == request.GET.get("rate")), rates[0])
    everybody = "" if len(report.endpoints) > 1 else report.endpoints[0]
    model = request.GET.get("model", everybody)
    return rates, rate, model if model in report.endpoints else everybody


@require_safe
@requires(Can.READ_RESULTS)
def flow_file(request: HttpRequest, pk: int, name: str, ending: str) -> HttpResponse:
    """One flow of the page of changes, of the metric and model shown there: as SVG, or its numbers as CSV."""
    report = reports_queries.report(RUNS.get(pk))
    _rates, rate, model = _changes_asked(request, report)
    chart = next((each for each in changed_answers.flows(report, rate, model) if each.name == name), None)
    if chart is None:
        raise Http404
    shows = f"{_(rate.label)}, {model or _('All models together')}"
    return figure_response(report, figure_files.Named(chart, shows), ending)


@require_safe
@requires(Can.READ_RESULTS)
def changes(request: HttpRequest, pk: int) -> HttpResponse:
    """What asking in another way fixed and broke: pictures, and the numbers by data set and model."""
    found = RUNS.get(pk)
    report = reports_queries.report(found)
    rates, rate, model = _changes_asked(request, report)
    several = len(report.endpoints) > 1
    labels = {each.name: _(each.label) for each in report.rates}
    datasets = {name: _(label) for name, label in report.datasets}
    context = {
        "run": found,
        "report": report,
        "rate": rate,
        "rate_label": _(rate.label),
        "rule": _(rate.rule),
        "rates": [(each.name, _(each.label)) for each in rates],
        "models": report.endpoints if several else (),
        "model": model,
        "lines": changed_answers.change_lines(report, rate),
        "charts": changed_answers.flows(report, rate, model),
        "bottlenecks": changed_answers.bottleneck_lines(report, rate),
        "figures_at": reverse("evaluation:changes", args=[pk]) + "figures/",
        "figures_query": f"?{urlencode({'rate': rate.name, 'model': model})}",
        "averages": [
            (
                labels[name],
                variant,
                [(datasets[one], format_share(v, percent=True)) for one, v in of.by_dataset.items()],
                [(one, format_share(v, percent=True)) for one, v in of.by_model.items()],
            )
            for name, variant, of in report.averages
            if name == rate.name
        ],
        **RUNS.page_notes(found),
    }
    return render(request, "evaluation/answers/changes.html", context)


@require_safe
@requires(Can.READ_RESULTS)
def changed(request: HttpRequest, pk: int) -> HttpResponse:
    """The samples behind a mark of a flow, and the answers to one of them part by part."""
    found = RUNS.get(pk)
    report = reports_queries.report(found)
    asked = {name: request.GET.get(name, "") for name in ("first", "second", "rate", "model", "move")}
    numbers = changed_answers.samples_that(found, report, asked)
    wanted = request.GET.get("selected", "")
    at = numbers.index(int(wanted)) if wanted.isdecimal() and len(wanted) < 19 and int(wanted) in numbers else 0
    start = at - at % SHOWN
    samples = ReleasedSample.objects.in_bulk(numbers[start : start + SHOWN])
    labels = {one.name: _(one.label) for one in report.protocol.datasets}

    def href(number: int) -> str:
        return f"?{urlencode({**asked, 'selected': number})}"

    context = {
        "run": found,
        "title": changed_answers.MOVES.get(asked["move"], ""),
        "model": asked["model"],
        "datasets": [labels[asked[name]] for name in ("second", "first") if asked[name] in labels],
        "items": [(samples[number], href(number)) for number in numbers[start : start + SHOWN]],
        "count": len(numbers),
        "place": at + 1,
        "before": href(numbers[at - 1]) if at else "",
        "after": href(numbers[at + 1]) if at + 1 < len(numbers) else "",
        "selected": samples[numbers[at]] if numbers else None,
        "images": _images_of(found, report.protocol, samples[numbers[at]]) if numbers else None,
        "beside": changed_answers.parts_beside(found, samples[numbers[at]], asked) if numbers else None,
        **RUNS.page_notes(found),
    }
    return render(request, "evaluation/answers/changed.html", context)
