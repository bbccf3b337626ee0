"""Reports to download."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from evaluation.reports import formats, queries
from evaluation.runs.kind import RUNS
from review.common.decorators import requires
from review.rules.permissions import Can


@require_safe
@requires(Can.READ_RESULTS)
def report_file(request: HttpRequest, pk: int, ending: str) -> HttpResponse:  # noqa: ARG001
    """The report as a file: JSON, Markdown, or CSV with a line for each rate."""
    report = queries.report(RUNS.get(pk))
    write, content_type = formats.FORMATS[ending]
    name = f"{report.run.release.name}-v{report.run.release.version}-run-{report.run.pk}.{ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(write(report), content_type=content_type, headers=headers)
