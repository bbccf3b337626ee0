"""Downloads of reports and their figures."""

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from evaluation.reports import figure_files, formats, forms, paper_layout, queries, services
from evaluation.reports.figures import figures
from evaluation.runs.kind import RUNS
from review.common import csv_text
from review.common.decorators import download, requires
from review.rules.permissions import Can


@requires(Can.READ_RESULTS, "GET")
def report_file(request: HttpRequest, pk: int, ending: str) -> HttpResponseBase:
    """The report as a JSON, Markdown, LaTeX or CSV file; `?table=` selects one table of the CSV."""
    run = RUNS.get(pk)
    options, problem = forms.read_options(request.GET, run)
    if problem:
        return HttpResponse(problem, status=422, content_type="text/plain; charset=utf-8")
    report = services.shown_report(run, options)
    write, content_type = formats.FORMATS[ending]
    name = f"{run.release.name}-v{run.release.version}-run-{run.pk}"
    content = write(report)
    if ending == "csv" and (table := request.GET.get("table", "")) in formats.tables(report):
        content, name = formats.as_csv(report, table), f"{name}-{table}"
    if ending == "csv":
        content = csv_text.BOM + content
    ending = {"latex": "tex"}.get(ending, ending)
    return download(content, f"{name}.{ending}", content_type)


@requires(Can.READ_RESULTS, "GET")
def figure_file(request: HttpRequest, pk: int, name: str, ending: str) -> HttpResponseBase:
    """One chart of the report page for the rate `?rate=`: as SVG, or its numbers as CSV."""
    report = services.shown_report(RUNS.get(pk))
    all_figures = figures(report, lambda *_selection: "", rate=request.GET.get("rate", ""))
    in_paper = paper_layout.views(paper_layout.paper_tables(report))
    named = figure_files.chart_named(all_figures, name, in_paper)
    if named is None:
        raise Http404
    return figure_response(report, named, ending)


def figure_response(report: queries.Report, named: figure_files.NamedChart, ending: str) -> HttpResponseBase:
    """A chart to download: as SVG, or its numbers as CSV."""
    if ending == "svg":
        body, content_type = figure_files.as_svg(report, named), "image/svg+xml"
    else:
        body, content_type = csv_text.BOM + figure_files.as_csv(named.chart), "text/csv; charset=utf-8"
    run = report.run
    day = timezone.localdate(run.finished_at or run.created_at)
    file_name = f"{run.release.name}-v{run.release.version}-run-{run.pk}-{day}-{named.chart.name}.{ending}"
    return download(body, file_name, content_type)
