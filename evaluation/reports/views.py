"""Reports to download, and the answers behind every number."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation import registry
from evaluation.labels import verdict_label, verdict_state
from evaluation.models import Judgment, Run
from evaluation.protocol import Protocol
from evaluation.reports import formats, forms, queries
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from review.common.decorators import requires
from review.common.paging import keyset
from review.rules.permissions import Can


@require_safe
@requires(Can.READ_RESULTS)
def report_file(request: HttpRequest, pk: int, ending: str) -> HttpResponse:
    """The report as a file: JSON, Markdown, LaTeX or CSV, which may be the table behind one picture alone."""
    run = RUNS.get(pk)
    options, problem = forms.read_options(request.GET, run)
    if problem:
        return HttpResponse(problem, status=422, content_type="text/plain; charset=utf-8")
    report = queries.report(run, options)
    write, content_type = formats.FORMATS[ending]
    name = f"{run.release.name}-v{run.release.version}-run-{run.pk}"
    said = write(report)
    if ending == "csv" and (table := request.GET.get("table", "")) in formats.tables(report):
        said, name = formats.as_csv(report, table), f"{name}-{table}"
    ending = {"latex": "tex"}.get(ending, ending)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
    return HttpResponse(said, content_type=content_type, headers=headers)


@require_safe
@requires(Can.READ_RESULTS)
def judgments(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers behind a number: a list, and the one that is read."""
    found = RUNS.get(pk)
    filters = forms.JudgmentFilters(request.GET, run=found)
    protocol = registry.protocol(found.release.benchmark)
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
        **RUNS.page_notes(found),
        **(_reading(found, selected, protocol, request) if selected else {}),
    }
    return render(request, "evaluation/reports/judgments.html", context)


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
    asks = protocol.ask(runs_queries.sample_value(sample), run.seed)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    return {
        "asked": next((ask.messages for ask in asks if ask.variant == response.variant), ()),
        "about": sorted(response.about.items()),
        "dataset": labels.get((sample.task, response.variant), sample.task),
        "response": response,
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
    judgment = queries.judgment(found, judgment_id)
    if judgment is None:
        raise Http404
    said, judged = queries.calls_behind(judgment)
    context = {"run": found, "judgment": judgment, "response_calls": said, "judge_calls": judged}
    return render(
        request,
        "evaluation/reports/calls.html",
        {**context, **RUNS.page_notes(found)},
    )
