"""Pages of samples and of the calls behind them."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from generation.batches import queries as batches_queries
from generation.models import Draft, Sample, SampleVersion
from generation.samples import forms, queries
from review.cases.bulk import case_actions
from review.common.decorators import requires
from review.common.lists import act_on_chosen, listing
from review.rules.diffing import diff_words
from review.rules.permissions import Can
from review.rules.state_machine import Ground

CASE_ACTIONS = case_actions(queries.newest_case)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Can.PRODUCE)
def samples(request: HttpRequest) -> HttpResponse:
    """Every sample, filtered by what the address says; a post acts on the cases of those that were chosen."""
    if request.method == "POST":
        return act_on_chosen(request, CASE_ACTIONS, queries.samples(), lambda sample: sample.key)
    filters = forms.SampleFilters(request.GET)
    found = queries.samples(**filters.wanted)
    sorts = ("record__title", "task", "status", "created_at", "versions_count")
    context = listing(request, filters, found, sorts, CASE_ACTIONS)
    return render(request, "generation/samples/samples.html", context)


@require_safe
@requires(Can.PRODUCE)
def sample(request: HttpRequest, pk: int) -> HttpResponse:
    """One sample: the version asked for (`?version=`, else the newest), or two side by side (`?beside=`)."""
    rows = Sample.objects.select_related("record__source", "batch").defer("record__private", "record__content")
    found = get_object_or_404(rows, pk=pk)
    versions = queries.versions(found)
    numbers = {str(version.number): version for version in versions}
    chosen = numbers.get(request.GET.get("version", ""), versions[-1])
    beside = numbers.get(request.GET.get("beside", ""))
    shown = [chosen] if beside is None or beside == chosen else sorted((beside, chosen), key=lambda v: v.number)
    context = {
        "sample": found,
        "versions": versions,
        "chosen": chosen,
        "beside": beside if len(shown) == 2 else None,
        "shown": [
            (version, version.case.frozen.blocks, _wordings(version), queries.lineage(found.benchmark, version.draft))
            for version in shown
        ],
        "simulated": any(version.simulated for version in versions),
        "unreviewed": versions[-1].case.ground == Ground.UNREVIEWED,
        "held": batches_queries.stopped_versions(found),
    }
    return render(request, "generation/samples/sample.html", context)


def _wordings(version: SampleVersion) -> list[dict[str, object]]:
    """Each rubric with what physicians made of it."""
    return [
        {
            "key": rubric.key,
            "traps": rubric.traps,
            "polarity": rubric.polarity,
            "severity": rubric.severity,
            "severities": rubric.severities if len(set(rubric.severities)) > 1 else (),
            "removed": rubric.removed,
            "added": rubric.added,
            "criterion": rubric.criterion,
            "diff": diff_words(rubric.criterion, rubric.approved)
            if rubric.approved and rubric.approved != rubric.criterion
            else (),
        }
        for rubric in version.rubrics.all()
    ]


@require_safe
@requires(Can.PRODUCE)
def calls(request: HttpRequest, pk: int) -> HttpResponse:
    """The ledger of a draft: every call exactly as it was sent and answered."""
    draft = get_object_or_404(Draft.objects.select_related("batch", "record").defer("record__private"), pk=pk)
    version = SampleVersion.objects.filter(draft=draft).select_related("sample").first()
    context = {"draft": draft, "version": version, "calls": batches_queries.calls_of_draft(draft)}
    return render(request, "generation/jobs/calls.html", context)
