"""Pages with the results of releases, open to everybody once published."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation.errors import NotPublished
from evaluation.releases import queries, services
from evaluation.releases.leaderboard import beside_published, leaderboard
from evaluation.reports import paper_layout
from generation.models import Release
from generation.probes import queries as probes_queries
from generation.releases import queries as releases_queries
from generation.samples import errata
from review.common.decorators import requires, signed_in_account
from review.rules.permissions import Can


@requires(Can.READ_RESULTS, "GET")
def results(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The leaderboard of a release, and whether it is published."""
    release = releases_queries.release(name, version)
    context = {"publication": queries.publication(release), **_board_context(release, request)}
    return render(request, "evaluation/releases/results.html", context)


def _board_context(release: Release, request: HttpRequest) -> dict[str, object]:
    all_ranked = request.GET.get("all_ranked", "") in ("1", "true", "on")
    board = leaderboard(release, all_ranked=all_ranked)
    return {
        "release": release,
        "all_ranked": all_ranked,
        "simulated": release.simulated or board.simulated,
        "simulated_reviewers": bool(release.simulated_samples),
        "paper": paper_layout.views(beside_published(board, release.benchmark)),
        "board": board,
        "rate": _(board.rate.label),
    }


@requires(Can.PRODUCE, acting=True)
def publish(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Publish the results of a release, after showing what anybody could then read."""
    release = releases_queries.release(name, version)
    if request.method == "POST":
        services.publish(release, actor=signed_in_account(request))
        messages.success(request, _("The results are published. Anyone with the link can read them."))
        return redirect("evaluation:results", name, version)
    return render(request, "evaluation/releases/publish.html", {"release": release})


@requires(Can.PRODUCE, acting=True)
def withdraw(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Withdraw the public page."""
    release = releases_queries.release(name, version)
    if request.method == "POST":
        try:
            services.withdraw(release, actor=signed_in_account(request))
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
    release = next((candidate for candidate in versions if version in (None, candidate.version)), None)
    if release is None:
        raise Http404
    context = {
        "versions": [other for other in versions if other != release],
        "planted": releases_queries.term_counts(release.benchmark, release.counts),
        "errata": list(errata.errata_of(release, reader=None)),
        "found": probes_queries.shown(release, with_held_out=False),
        **_board_context(release, request),
    }
    response = render(request, "evaluation/releases/public.html", context)
    response["X-Robots-Tag"] = "all"
    return response
