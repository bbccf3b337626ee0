"""Results of releases: for readers of results, and for everybody once they are published."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation.errors import NotPublished
from evaluation.releases import queries, services
from evaluation.releases.leaderboard import Leaderboard, leaderboard
from generation.models import Release
from generation.releases import queries as releases_queries
from generation.samples import errata
from review.charts.text_measure import format_share
from review.common.decorators import requires, signed_in_account
from review.rules.permissions import Can


def _release(name: str, version: int) -> Release:
    return get_object_or_404(releases_queries.releases(), name=name, version=version)


def _all_ranked(request: HttpRequest) -> bool:
    """Whether the address asks to rank the models by whose failures samples were chosen, too."""
    return request.GET.get("all_ranked", "") in ("1", "true", "on")


@require_safe
@requires(Can.READ_RESULTS)
def results(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """The leaderboard of a release, and whether it is published."""
    found = _release(name, version)
    board = leaderboard(found, all_ranked=_all_ranked(request))
    context = {
        "release": found,
        "all_ranked": _all_ranked(request),
        "publication": queries.publication(found),
        "simulated": found.simulated or board.simulated,
        "simulated_reviewers": bool(found.simulated_samples),
        **_board(board),
    }
    return render(request, "evaluation/releases/results.html", context)


def _board(board: Leaderboard) -> dict[str, object]:
    percent = board.rate.percent
    return {
        "board": board,
        "rate": _(board.rate.label),
        "rule": _(board.rate.rule),
        "datasets": [_(label) for _name, label in board.datasets],
        "board_lines": [
            (
                entry,
                [
                    (
                        format_share(score.value, percent=percent),
                        "–".join(
                            format_share(limit, percent=percent)
                            for limit in (score.low, score.high)
                            if limit is not None
                        ),
                        score,
                    )
                    for score in entry.scores
                ],
            )
            for entry in board.entries
        ],
    }


@requires(Can.PRODUCE)
def publish(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Publish the results of a release: first what anybody could then read."""
    found = _release(name, version)
    if request.method == "POST":
        services.publish(found, actor=signed_in_account(request))
        messages.success(request, _("The results are published. Anyone with the link can read them."))
        return redirect("evaluation:results", name, version)
    return render(request, "evaluation/releases/publish.html", {"release": found})


@requires(Can.PRODUCE)
def withdraw(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Take the public page away again."""
    found = _release(name, version)
    if request.method == "POST":
        try:
            services.withdraw(found, actor=signed_in_account(request))
        except NotPublished as error:
            messages.error(request, str(error))
        else:
            messages.success(request, _("The results are no longer public."))
        return redirect("evaluation:results", name, version)
    context = {"release": found, "publication": queries.publication(found)}
    return render(request, "evaluation/releases/withdraw.html", context)


@require_safe
def public(request: HttpRequest, name: str, version: int | None = None) -> HttpResponse:
    """The published results of a release, for everybody: numbers and terms, no sample and no name.

    Without a version, of the latest that is published.
    """
    versions = list(queries.published(name))
    found = next((one for one in versions if version in (None, one.version)), None)
    if found is None:
        raise Http404
    board = leaderboard(found, all_ranked=_all_ranked(request))
    context = {
        "release": found,
        "all_ranked": _all_ranked(request),
        "versions": [one for one in versions if one != found],
        "planted": releases_queries.term_counts(found.benchmark, found.counts),
        "errata": list(errata.errata_of(found)),
        "simulated": found.simulated or board.simulated,
        "simulated_reviewers": bool(found.simulated_samples),
        **_board(board),
    }
    answer = render(request, "evaluation/releases/public.html", context)
    answer["X-Robots-Tag"] = "all"
    return answer
