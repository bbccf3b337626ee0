"""The API of the results of releases."""

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from evaluation.models import Publication
from evaluation.releases import queries, services
from evaluation.releases.leaderboard import Leaderboard, LeaderboardEntry, Standing, leaderboard
from evaluation.reports.serializers import PlaceSerializer
from evaluation.runs.comparability import JudgingDifference
from generation.models import Release
from generation.releases import queries as releases_queries
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer, ModelRowSerializer, WithValues
from review.rules.permissions import Can


class ScoreSerializer(DataclassSerializer):
    """A rate on one data set with its 95 % interval. `excluded`: how many judgments it leaves out."""

    mirrors = Standing


class DifferenceSerializer(DataclassSerializer):
    """A part of how a run was judged that differs from the ranked runs, which have the `usual` value."""

    mirrors = JudgingDifference


class EntrySerializer(DataclassSerializer):
    """A model on the leaderboard, and the run that measured it.

    `judge` empty: code read the responses. `rank`: by the last of the scores; null where models were
    not compared. `differs`: how its judging differs from the ranked runs; such a run has no rank.
    `selected`: samples were selected because this model failed on them: its rate is biased, and by
    default it has no rank.
    """

    mirrors = LeaderboardEntry

    rank = PlaceSerializer(allow_null=True)


class PublicationSerializer(ModelRowSerializer):
    """The publication of results: its address and dates."""

    row = Publication
    shows = "address published_by.username published_at withdrawn_at"

    address = serializers.SerializerMethodField()

    def get_address(self, publication: Publication) -> str:
        release = publication.release
        return reverse("public-release-version", args=[release.name, release.version])


class ResultsSerializer(DataclassSerializer):
    """The leaderboard of a release: each model of its complete runs once, the best first.

    `left_out`: finished runs that are not complete or used other settings.
    """

    mirrors = Leaderboard
    shows = (
        "release=release.name version=release.version release_sha256=release.sha256 rate=rate.name rule=rate.rule "
        "lower_is_better simulated left_out entries"
    )

    publication = PublicationSerializer(allow_null=True)


class ResultsQuery(serializers.Serializer[Any]):
    """The models to rank."""

    all_ranked = serializers.BooleanField(
        default=False, help_text="Also rank models whose failures were used to select the samples."
    )


class ResultsViewSet(GenericViewSet[Release]):
    """The results of models on a release."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}
    queryset = releases_queries.releases()
    row = "<slug:name>/<int:version>"

    @answers(ResultsSerializer, query=ResultsQuery)
    @action(detail=True)
    def results(self, request: Request, query: Body, name: str, version: int) -> Any:
        """The leaderboard of a release."""
        release = releases_queries.release(name, version)
        board = leaderboard(release, **query)
        return WithValues(board, publication=queries.publication(release))

    @acts(PublicationSerializer)
    def publish(self, request: Request, name: str, version: int) -> Any:
        """Publish the results of this release: anyone can read them without signing in."""
        release = releases_queries.release(name, version)
        return services.publish(release, actor=signed_in_account(request))

    @acts(PublicationSerializer)
    def withdraw(self, request: Request, name: str, version: int) -> Any:
        """Withdraw the public page. 409 if there is none."""
        release = releases_queries.release(name, version)
        return services.withdraw(release, actor=signed_in_account(request))
