"""Pages with the results of releases, open to everybody once published."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation.errors import EvaluationError, NotPublished
from evaluation.releases import queries, services
from evaluation.releases.board_claims import board_claims
from evaluation.releases.forms import IncompleteForm, NamedResultForm
from evaluation.releases.leaderboard import beside_published, incomplete_result, incomplete_results, leaderboard
from evaluation.reports import paper_layout
from generation.models import Release
from generation.probes import queries as probes_queries
from generation.releases import queries as releases_queries
from generation.samples import errata
from review.common.decorators import redirect_refused, redirect_saying, requires, signed_in_account
from review.rules.permissions import Can


@requires(Can.READ_RESULTS, "GET")
def results(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The leaderboard of a release, and whether it is published."""
    release = releases_queries.release(name, version)
    context = _board_context(release, request)
    listed = {(entry.run, entry.endpoint) for entry in context["board"].entries if entry.coverage}
    context["publication"] = queries.publication(release)
    incomplete = []
    for result in incomplete_results(release):
        incomplete.append((result, (result.run.pk, result.endpoint.name) in listed))
    context["incomplete"] = incomplete
    return render(request, "evaluation/releases/results.html", context)


def _board_context(release: Release, request: HttpRequest) -> dict[str, Any]:
    all_ranked = request.GET.get("all_ranked", "") in ("1", "true", "on")
    board = leaderboard(release, all_ranked=all_ranked)
    found = board_claims(board)
    fixed_texts: list[Any] = []
    if found:
        fixed_texts = found.standings(board)
    return {
        "release": release,
        "all_ranked": all_ranked,
        "simulated": release.simulated or board.simulated,
        "simulated_reviewers": bool(release.simulated_samples),
        "paper": paper_layout.views(beside_published(board, release.benchmark)),
        "board": board,
        "found_claims": found,
        "fixed_texts": fixed_texts,
        "rate": _(board.rate.label),
    }


@requires(Can.PRODUCE, acting=True)
def publish(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Publish the results of a release, after showing what anybody could then read.

    With `run` and `model`: publish these incomplete results, beside their coverage.
    """
    release = releases_queries.release(name, version)
    if request.method == "GET":
        named = NamedResultForm(request.GET)
        result = None
        if named.is_valid():
            result = incomplete_result(release, **named.cleaned_data)
        context = {"release": release, "result": result}
        return render(request, "evaluation/releases/publish.html", context)
    if "run" not in request.POST:
        services.publish(release, actor=signed_in_account(request))
        messages.success(request, _("The results are published. Anyone with the link can read them."))
        return redirect("evaluation:results", name, version)
    form = IncompleteForm(request.POST)
    if not form.is_valid():
        return HttpResponse(status=422)
    try:
        services.publish_incomplete(release, **form.cleaned_data, actor=signed_in_account(request))
    except EvaluationError as error:
        return redirect_refused(request, str(error), "evaluation:results", name, version)
    text = _("The incomplete results are published with their coverage.")
    return redirect_saying(request, text, "evaluation:results", name, version)


@requires(Can.PRODUCE, acting=True)
def withdraw(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Withdraw the public page; with `run` and `model`, these incomplete results alone."""
    release = releases_queries.release(name, version)
    if request.method == "POST":
        named, actor = NamedResultForm(request.POST), signed_in_account(request)
        try:
            if named.is_valid():
                services.withdraw_incomplete(release, **named.cleaned_data, actor=actor)
            else:
                services.withdraw(release, actor=actor)
        except NotPublished as error:
            messages.error(request, str(error))
        else:
            messages.success(request, _("The results are no longer public."))
        return redirect("evaluation:results", name, version)
    context = {"release": release, "publication": queries.publication(release)}
    return render(request, "evaluation/releases/withdraw.html", context)


@require_safe
def public(request: HttpRequest, name: str, version: int | None = None) -> HttpResponse:
    """The published results of a release: numbers and terms, but no samples or people's names.

    Without a version, shows the latest published one.
    """
    versions = list(queries.published_releases(name))
    wanted = [candidate for candidate in versions if version in (None, candidate.version)]
    if not wanted:
        raise Http404
    release = wanted[0]
    versions.remove(release)
    context = {
        "versions": versions,
        "planted": releases_queries.term_counts(release.benchmark, release.counts),
        "errata": list(errata.errata_of(release, reader=None)),
        "found": probes_queries.shown(release, with_held_out=False),
        **_board_context(release, request),
    }
    response = render(request, "evaluation/releases/public.html", context)
    response["X-Robots-Tag"] = "all"
    return response
