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
    incomplete_results,
    leaderboard,
)
from generation.models import Release
from generation.releases import queries as releases_queries
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, RowSerializer, WithValues, extended, related, rows_of, serializer_of
from review.rules.permissions import Can

IncompletePublicationSerializer = rows_of(
    "IncompletePublication",
    IncompletePublication,
    "run settled criteria published_at withdrawn_at",
    "Incomplete results that were published, and the coverage that was named then.",
    endpoint=serializers.CharField(source="endpoint.name"),
    published_by=related("published_by.username"),
)


class PublicationSerializer(RowSerializer):
    """The publication of results: its address and dates, and the incomplete results that it shows or has shown."""

    published_by = related("published_by.username")

    incomplete = IncompletePublicationSerializer(many=True)
    address = serializers.SerializerMethodField()

    class Meta:
        model = Publication
        fields = ["published_at", "withdrawn_at"]

    def get_address(self, publication: Publication) -> str:
        release = publication.release
        return reverse("public-release-version", args=[release.name, release.version])


BoardClaimsSerializer = extended(
    "BoardClaims",
    ClaimsSerializer,
    "What the newest run of a leaderboard says of its benchmark, with the fixed texts, which have no rank.",
    run=serializers.IntegerField(),
)

ResultsSerializer = extended(
    "Results",
    serializer_of(Leaderboard),
    """The leaderboard of a release: each model of its complete runs once, the best first.

    Incomplete results that are published as such come last. `left_out`: finished runs that are not
    shown, as they are not complete or used other settings. `incomplete`: models of finished runs
    that lack verdicts, with their coverage, published or not. `undecided`: samples that are
    reported as wrong, without a decision; they count.
    """,
    incomplete=serializer_of(IncompleteResult)(many=True),
    publication=PublicationSerializer(allow_null=True),
    claims=BoardClaimsSerializer(allow_null=True),
)


NAMED_RESULT_BODY: Fields = {
    "run": serializers.IntegerField(min_value=1, help_text="The number of the run."),
    "model": serializers.CharField(),
}
PUBLISH_INCOMPLETE_BODY: Fields = {
    **NAMED_RESULT_BODY,
    "settled": serializers.IntegerField(min_value=0, help_text="How many criteria are."),
    "criteria": serializers.IntegerField(min_value=0, help_text="Of how many."),
}


RESULTS_QUERY: Fields = {
    "all_ranked": serializers.BooleanField(
        default=False, help_text="Also rank models whose failures were used to select the samples."
    )
}


class ResultsViewSet(GenericViewSet[Release]):
    """The results of models on a release."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}
    queryset = releases_queries.releases()
    row = "<slug:name>/<int:version>"

    @answers(ResultsSerializer, query=RESULTS_QUERY)
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

    @acts(PublicationSerializer, PUBLISH_INCOMPLETE_BODY, url_path="publish/incomplete")
    def publish_incomplete(self, request: Request, body: Body, name: str, version: int) -> Any:
        """Show incomplete results of a model on the public page, beside their coverage and without a rank.

        409 if this is not their coverage or the page is not public, 422 if there are none.
        """
        release = releases_queries.release(name, version)
        return services.publish_incomplete(release, **body, actor=signed_in_account(request))

    @acts(PublicationSerializer, NAMED_RESULT_BODY, url_path="withdraw/incomplete")
    def withdraw_incomplete(self, request: Request, body: Body, name: str, version: int) -> Any:
        """Take incomplete results of a model off the public page. 409 if they are not there."""
        release = releases_queries.release(name, version)
        return services.withdraw_incomplete(release, **body, actor=signed_in_account(request))
