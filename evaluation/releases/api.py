"""The API of the results of releases."""

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from evaluation.claims.api import ClaimsSerializer
from evaluation.models import IncompletePublication, Publication
from evaluation.releases import queries, services
from evaluation.releases.board_claims import board_claims
from evaluation.releases.leaderboard import (
    IncompleteResult,
    Leaderboard,
    LeaderboardEntry,
    Standing,
    incomplete_results,
    leaderboard,
)
from evaluation.reports.serializers import CoverageSerializer, PlaceSerializer
from generation.models import Release
from generation.releases import queries as releases_queries
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer, ModelRowSerializer, WithValues
from review.rules.permissions import Can


class ScoreSerializer(DataclassSerializer):
    """A rate on one data set with its 95 % interval. `excluded`: how many judgments it leaves out."""

    mirrors = Standing


class EntrySerializer(DataclassSerializer):
    """A model on the leaderboard, and the run that measured it.

    `judge` empty: code read the responses. `rank`: by the last of the scores; null where models were
    not compared. `differs`: how its judging differs from the ranked runs; such a run has no rank.
    `selected`: samples were selected because this model failed on them: its rate is biased, and by
    default it has no rank. `coverage`: of incomplete results, which have no rank either; else null.
    """

    mirrors = LeaderboardEntry

    rank = PlaceSerializer(allow_null=True)
    coverage = CoverageSerializer(allow_null=True)


class IncompletePublicationSerializer(ModelRowSerializer):
    """Incomplete results that were published, and the coverage that was named then."""

    row = IncompletePublication
    shows = "run endpoint.name settled criteria published_by.username published_at withdrawn_at"


class PublicationSerializer(ModelRowSerializer):
    """The publication of results: its address and dates, and the incomplete results that it shows or has shown."""

    row = Publication
    shows = "address published_by.username published_at withdrawn_at incomplete"

    incomplete = IncompletePublicationSerializer(many=True)
    address = serializers.SerializerMethodField()

    def get_address(self, publication: Publication) -> str:
        release = publication.release
        return reverse("public-release-version", args=[release.name, release.version])


class IncompleteResultSerializer(DataclassSerializer):
    """A model of a finished run that lacks verdicts, and its coverage."""

    mirrors = IncompleteResult
    shows = "run=run.pk endpoint=endpoint.name coverage"

    coverage = CoverageSerializer()


class BoardClaimsSerializer(ClaimsSerializer):
    """What the newest run of a leaderboard says of its benchmark, with the fixed texts, which have no rank."""

    typed = {**ClaimsSerializer.typed, int: "run failed"}


class ResultsSerializer(DataclassSerializer):
    """The leaderboard of a release: each model of its complete runs once, the best first.

    Incomplete results that are published as such come last. `left_out`: finished runs that are not
    shown, as they are not complete or used other settings. `incomplete`: models of finished runs
    that lack verdicts, with their coverage, published or not. `undecided`: samples that are
    reported as wrong, without a decision; they count.
    """

    mirrors = Leaderboard
    shows = (
        "release=release.name version=release.version release_sha256=release.sha256 rate=rate.name rule=rate.rule "
        "lower_is_better simulated left_out undecided entries"
    )

    incomplete = IncompleteResultSerializer(many=True)
    publication = PublicationSerializer(allow_null=True)
    claims = BoardClaimsSerializer(allow_null=True)


class NamedResultSerializer(serializers.Serializer[Any]):
    """A model of a run, of which results are incomplete."""

    run = serializers.IntegerField(min_value=1, help_text="The number of the run.")
    model = serializers.CharField()


class PublishIncompleteSerializer(NamedResultSerializer):
    """A model of a run, and the coverage of its results: how many of how many criteria are settled."""

    settled = serializers.IntegerField(min_value=0)
    criteria = serializers.IntegerField(min_value=0)


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
        board, publication = leaderboard(release, **query), queries.publication(release)
        found = board_claims(board)
        claims = found and {"run": found.run, "failed": found.claims.failed, **found.claims.as_json()}
        return WithValues(board, publication=publication, incomplete=incomplete_results(release), claims=claims)

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

    @acts(PublicationSerializer, PublishIncompleteSerializer, url_path="publish/incomplete")
    def publish_incomplete(self, request: Request, body: Body, name: str, version: int) -> Any:
        """Show incomplete results of a model on the public page, beside their coverage and without a rank.

        409 if this is not their coverage or the page is not public, 422 if there are none.
        """
        release = releases_queries.release(name, version)
        return services.publish_incomplete(release, **body, actor=signed_in_account(request))

    @acts(PublicationSerializer, NamedResultSerializer, url_path="withdraw/incomplete")
    def withdraw_incomplete(self, request: Request, body: Body, name: str, version: int) -> Any:
        """Take incomplete results of a model off the public page. 409 if they are not there."""
        release = releases_queries.release(name, version)
        return services.withdraw_incomplete(release, **body, actor=signed_in_account(request))
