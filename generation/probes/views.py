"""Pages of what probes tell of releases, sources and batches."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from generation.jobs.live_status import live_workers
from generation.models import Batch, Release, SourceRecord
from generation.probes import queries, services
from generation.probes.labels import LEFT_OUT
from generation.probes.stored import as_shown
from generation.releases import queries as releases_queries
from generation.sources import queries as sources_queries
from review.common.decorators import requires, signed_in_account
from review.rules.permissions import Can, may_read, require


@requires(Can.PRODUCE)
def source_probes(request: HttpRequest, name: str) -> HttpResponse:
    """What probes tell of a source; a POST has it probed."""
    source = sources_queries.source(name)
    trail = [(reverse("generation:sources"), _("Sources")), (reverse("generation:source", args=[name]), name)]
    return _respond(request, source, trail)


@requires(Can.READ_RESULTS)
def release_probes(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """What probes tell of a release; a POST has it probed."""
    release = releases_queries.release(name, version)
    address = reverse("generation:release", args=[name, version])
    return _respond(request, release, [(reverse("generation:releases"), _("Releases")), (address, str(release))])


@requires(Can.PRODUCE)
def batch_probes(request: HttpRequest, pk: int) -> HttpResponse:
    """What probes tell of a batch so far; a POST has it probed."""
    batch = get_object_or_404(Batch, pk=pk)
    name = _("Batch %(n)s") % {"n": pk}
    address = reverse("generation:batch", args=[pk])
    return _respond(request, batch, [(reverse("generation:batches"), _("Batches")), (address, name)])


def _respond(request: HttpRequest, target: queries.Target, trail: list[tuple[str, str]]) -> HttpResponse:
    if request.method == "POST":
        require(request.user, Can.PRODUCE)
        services.start(target, signed_in_account(request))
        return redirect(request.path)
    report, work = queries.report(target), queries.unfinished(target)
    found = word = None
    left_out: list[tuple[str, int]] = []
    word_cases: list[tuple[str, str]] = []
    samples: list[tuple[str, str]] = []
    if report is not None:
        found = as_shown(report, with_held_out=may_read(request.user, Can.PRODUCE))
        left_out = [(_(LEFT_OUT.get(name, name)), n) for name, n in report.left_out.items()]
        samples = _linked(target, [sample["key"] for sample in found["samples"]])
        for each in found["words"]:
            if each["word"] == request.GET.get("word", ""):
                word, word_cases = each, _linked(target, each["cases"])
                break
    failed = None
    if work is None:
        failed = queries.failed(target)
    context = {
        "trail": trail,
        "found": found,
        "left_out": left_out,
        "work": work,
        "failed": failed,
        "idle": work is not None and not live_workers(runs_tasks=True).exists(),
        "can_be_probed": queries.can_be_probed(target),
        "frozen": isinstance(target, Release) and queries.frozen_report(target) is not None,
        "word": word,
        "word_cases": word_cases,
        "samples": samples,
    }
    return render(request, "generation/probes/probes.html", context)


def _linked(target: queries.Target, keys: list[str]) -> list[tuple[str, str]]:
    """(key, address) of cases."""
    addresses: dict[str, Any] = {}
    match queries.target_field(target):
        case "release":
            names = [getattr(target, "name"), getattr(target, "version")]  # noqa: B009
            addresses = {key: reverse("generation:release-sample", args=[*names, key]) for key in keys}
        case "batch":
            addresses = {key: reverse("generation:sample", args=[int(key.rpartition("-")[2])]) for key in keys}
        case _:
            records = SourceRecord.objects.filter(source=target.pk, external_id__in=keys, latest=True)
            for pk, external_id in records.values_list("pk", "external_id"):
                addresses[external_id] = reverse("generation:record", args=[getattr(target, "name"), pk])  # noqa: B009
    return [(key, addresses[key]) for key in keys if key in addresses]
