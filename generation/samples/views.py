"""Pages of samples and of the calls behind them."""

from collections.abc import Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.batches import queries as batches_queries
from generation.models import Draft, Erratum, ReleasedSample, Sample, SampleVersion
from generation.outcomes import regeneration
from generation.samples import errata, forms, queries
from review.audit.trail import record_read
from review.cases.forms import case_actions
from review.common.decorators import redirect_saying, requires, signed_in_account
from review.common.lists import apply_bulk_action, list_context
from review.rules.diffing import Span, diff_words
from review.rules.permissions import Can
from review.rules.state_machine import Ground
from review.rules.text import whole_number

CASE_ACTIONS = case_actions(queries.newest_case)


@requires(Can.PRODUCE, "GET", "POST")
def samples(request: HttpRequest) -> HttpResponse:
    """All samples, filtered by the query string; a POST acts on the cases of the selected ones."""
    if response := apply_bulk_action(request, CASE_ACTIONS, queries.samples(), lambda sample: sample.key):
        return response
    filters = forms.SampleFilters(request.GET)
    rows = queries.samples(**filters.active)
    sorts = ("record__title", "task", "status", "created_at", "versions_count")
    context = list_context(request, filters, rows, sorts, CASE_ACTIONS)
    return render(request, "generation/samples/samples.html", context, status=context["status"])


@requires(Can.PRODUCE, "GET")
def sample(request: HttpRequest, pk: int) -> HttpResponse:
    """One sample: version `?version=` (default: newest), or two side by side (`?beside=`)."""
    rows = Sample.objects.select_related("record__source", "batch").defer("record__private", "record__content")
    sample = get_object_or_404(rows, pk=pk)
    versions = queries.versions(sample)
    numbers = {str(version.number): version for version in versions}
    chosen = numbers.get(request.GET.get("version", ""), versions[-1])
    beside = numbers.get(request.GET.get("beside", ""))
    shown = [chosen]
    if beside is not None and beside != chosen:
        shown = sorted((beside, chosen), key=lambda version: version.number)
    else:
        beside = None
    shown_with_texts = []
    for version in shown:
        record_read(signed_in_account(request), version.case)
        lineage = queries.lineage(sample.benchmark, version.draft)
        shown_with_texts.append((version, version.case.frozen.blocks, _wordings(version), lineage))
    other_traps = []
    if sample.status == Sample.Status.DISCARDED:
        other_traps = regeneration.other_traps(sample)
    context = {
        "sample": sample,
        "versions": versions,
        "chosen": chosen,
        "beside": beside,
        "shown": shown_with_texts,
        "simulated": any(version.simulated for version in versions),
        "unreviewed": versions[-1].case.ground == Ground.UNREVIEWED,
        "held": batches_queries.stopped_versions(sample),
        "failed": regeneration.failed_version(sample),
        "other_traps": other_traps,
        "errata": errata.history(sample),
        "reported": errata.history(sample).values_list("kind", flat=True).last() == Erratum.Kind.REPORTED,
    }
    return render(request, "generation/samples/sample.html", context)


@requires(Can.READ_RESULTS, "POST")
def sample_report(request: HttpRequest, pk: int) -> HttpResponse:
    """Report an approved sample as wrong; leads back to the sample in the release that was open."""
    errata.report(pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    messages.success(request, _("Sample reported. An admin will decide."))
    released = ReleasedSample.objects.filter(
        version__sample=pk, release=whole_number(request.POST.get("back", "")) or 0
    )
    row = released.select_related("release").first()
    if row is None:
        return redirect("generation:releases")
    url = reverse("generation:release-samples", args=[row.release.name, row.release.version])
    return redirect(f"{url}?selected={row.pk}")


@requires(Can.PRODUCE, "POST")
def sample_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Generate the next version of a sample again, after it failed."""
    regeneration.retry_version(pk)
    return redirect_saying(request, _("The next version is being generated again."), "generation:sample", pk)


@requires(Can.PRODUCE, "POST")
def sample_draw_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Generate another version of a discarded sample, with another trap."""
    regeneration.draw_again(pk, request.POST.get("trap", ""))
    return redirect_saying(request, _("Another version is being generated."), "generation:sample", pk)


@requires(Can.REVIEW, "POST")
def review_report(request: HttpRequest, review_id: int) -> HttpResponse:
    """Report the approved sample behind the reader's own review."""
    me = signed_in_account(request)
    errata.report(errata.reviewed_sample_id(me, review_id), actor=me, reason=request.POST.get("reason", ""))
    return redirect_saying(request, _("Sample reported. An admin will decide."), "review:mine-detail", review_id)


@requires(Can.PRODUCE, "POST")
def sample_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    """Withdraw an approved sample from all later releases."""
    errata.withdraw(pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    return redirect_saying(request, _("Sample withdrawn."), "generation:sample", pk)


@requires(Can.PRODUCE, "POST")
def sample_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    """Dismiss the report of a sample."""
    errata.dismiss(pk, actor=signed_in_account(request), reason=request.POST.get("reason", ""))
    return redirect_saying(request, _("Report dismissed."), "generation:sample", pk)


def _wordings(version: SampleVersion) -> list[dict[str, object]]:
    """Each rubric with the physicians' changes to it."""
    wordings: list[dict[str, object]] = []
    for rubric in version.rubrics.all():
        severities: Sequence[str] = ()
        diff: Sequence[Span] = ()
        if len(set(rubric.severities)) > 1:
            severities = rubric.severities
        if rubric.approved and rubric.approved != rubric.criterion:
            diff = diff_words(rubric.criterion, rubric.approved)
        wordings.append(
            {
                "key": rubric.key,
                "traps": rubric.traps,
                "polarity": rubric.polarity,
                "severity": rubric.severity,
                "removed": rubric.removed,
                "added": rubric.added,
                "criterion": rubric.criterion,
                "severities": severities,
                "diff": diff,
            }
        )
    return wordings


@requires(Can.PRODUCE, "GET")
def calls(request: HttpRequest, pk: int) -> HttpResponse:
    """The calls of a draft, exactly as they were sent and answered."""
    draft = get_object_or_404(Draft.objects.select_related("batch", "record").defer("record__private"), pk=pk)
    version = SampleVersion.objects.filter(draft=draft).select_related("sample").first()
    context = {"draft": draft, "version": version, "calls": batches_queries.calls_of_draft(draft)}
    return render(request, "generation/jobs/calls.html", context)
