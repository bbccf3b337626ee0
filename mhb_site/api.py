"""The API's addresses, its sign-in, its schema and the page that shows it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.models import update_last_login
from django.db import transaction
from django.http.response import HttpResponseBase
from django.urls import include, path
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from knox.models import AuthToken
from knox.settings import knox_settings
from rest_framework import serializers
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evaluation import api as evaluation
from generation import api as generation
from review import api as review
from review import api_assign as assign
from review import api_trust as trust
from review import public_ids as public_ids  # registers <assignment:>
from review import signing
from review.access import requires
from review.models import User
from review.permissions import Can
from review.rest import BearerToken, Needs, sent

TTL: timedelta = knox_settings.TOKEN_TTL
LIMIT: int = knox_settings.TOKEN_LIMIT_PER_USER

# ---------------------------------------------------------------------------------------------------------- sign-in


class SignInSerializer(serializers.Serializer[Any]):
    """Who asks for a token, and for how long it shall last."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, style={"input_type": "password"})
    code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=20,
        help_text="The code your authenticator app shows, or a recovery code, where you have set up a second factor.",
    )
    days = serializers.IntegerField(min_value=1, max_value=TTL.days, default=TTL.days)


class IssuedSerializer(serializers.Serializer[Any]):
    """A token, shown this once: only its hash is stored."""

    token = serializers.CharField()
    expires_at = serializers.DateTimeField()


class Token(APIView):
    """A token for a username, a password and, where one is set up, a second factor's code; send it as
    `Authorization: Bearer TOKEN`. An account has at most 20: the oldest gives way. Too many failures: 429."""

    authentication_classes = [BearerToken]
    permission_classes = [AllowAny]

    @extend_schema(request=SignInSerializer, responses={201: IssuedSerializer})
    def post(self, request: Request) -> Response:
        body = sent(SignInSerializer, request)
        # The plain request: axes counts on it, and marks it where the account is locked.
        user = authenticate(request._request, username=body["username"], password=body["password"])
        if not isinstance(user, User):
            raise AuthenticationFailed(_("Username or password is wrong."))
        if signing.has_second_factor(user):
            with signing.counting(request._request, user, AuthenticationFailed()):
                if not signing.takes_code(user, body["code"], recovery=True):
                    raise AuthenticationFailed(_("The code of your second factor is missing or wrong."))
        issued, token = _issue(user, timedelta(days=body["days"]))
        update_last_login(User, user)  # the signal would have axes start a session
        answer = IssuedSerializer({"token": token, "expires_at": issued.expiry}).data
        return Response(answer, status=201)


@transaction.atomic
def _issue(user: User, ttl: timedelta) -> tuple[AuthToken, str]:
    """A new token. Where there are as many as there may be, the oldest give way: a lost one could not be signed out."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # two at once must not both be the last one allowed
    kept = AuthToken.objects.filter(user=user, expiry__gt=timezone.now()).order_by("-created", "-pk")[: LIMIT - 1]
    AuthToken.objects.filter(user=user).exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()
    issued: tuple[AuthToken, str] = AuthToken.objects.create(user, expiry=ttl)
    return issued


class Logout(APIView):
    """Forget the token that this request came with."""

    authentication_classes = [BearerToken]
    permission_classes = [IsAuthenticated]

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request) -> Response:
        AuthToken.objects.filter(pk=request.auth.pk).delete()
        return Response(status=204)


class LogoutAll(APIView):
    """Forget all tokens of this account."""

    authentication_classes = [BearerToken]
    permission_classes = [IsAuthenticated]

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request) -> Response:
        AuthToken.objects.filter(user=request.user).delete()
        return Response(status=204)


# ----------------------------------------------------------------------------------------------------------- schema


class SchemaView(SpectacularJSONAPIView):
    """The schema as OpenAPI JSON."""

    can = Can.READ_RESULTS
    permission_classes = [Needs]


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI from our own static files; its start script is an address of its own, so that CSP needs no exception."""

    can = Can.READ_RESULTS
    permission_classes = [Needs]
    url_name = "api:schema"
    template_name = "site/api_docs.html"


docs: Callable[..., HttpResponseBase] = requires(Can.READ_RESULTS)(DocsView.as_view())

# -------------------------------------------------------------------------------------------------------- addresses

_RELEASE = "releases/<slug:name>/<int:version>/"

_v1 = [
    path("auth/token/", Token.as_view(), name="token"),
    path("auth/logout/", Logout.as_view(), name="logout"),
    path("auth/logoutall/", LogoutAll.as_view(), name="logoutall"),
    path("me/", review.Me.as_view(), name="me"),
    path("schema/", SchemaView.as_view(), name="schema"),
    # make
    path("sources/", generation.Sources.as_view(), name="sources"),
    path("sources/<slug:name>/", generation.SourceDetail.as_view(), name="source"),
    path("sources/<slug:name>/records/", generation.Records.as_view(), name="records"),
    path("imports/", generation.Imports.as_view(), name="imports"),
    path("imports/<int:pk>/", generation.ImportDetail.as_view(), name="import"),
    path("imports/<int:pk>/cancel/", generation.CancelImport.as_view(), name="import-cancel"),
    path("imports/<int:pk>/refusals/", generation.Refusals.as_view(), name="refusals"),
    path("endpoints/", generation.Endpoints.as_view(), name="endpoints"),
    path("endpoints/<slug:name>/", generation.EndpointDetail.as_view(), name="endpoint"),
    path("endpoints/<slug:name>/usage/", generation.EndpointUsage.as_view(), name="endpoint-usage"),
    path("batches/", generation.Batches.as_view(), name="batches"),
    path("batches/<int:pk>/", generation.BatchDetail.as_view(), name="batch"),
    path("batches/<int:pk>/analysis/", generation.BatchAnalysis.as_view(), name="batch-analysis"),
    path("batches/<int:pk>/failures/", generation.BatchFailures.as_view(), name="batch-failures"),
    path("batches/estimate/", generation.EstimateBatch.as_view(), name="batch-estimate"),
    path("batches/<int:pk>/pause/", generation.PauseBatch.as_view(), name="batch-pause"),
    path("batches/<int:pk>/resume/", generation.ResumeBatch.as_view(), name="batch-resume"),
    path("batches/<int:pk>/budget/", generation.BatchBudget.as_view(), name="batch-budget"),
    path("batches/<int:pk>/cancel/", generation.CancelBatch.as_view(), name="batch-cancel"),
    path("batches/<int:pk>/retry-failed/", generation.RetryBatch.as_view(), name="batch-retry"),
    path("batches/<int:pk>/drafts/", generation.Drafts.as_view(), name="drafts"),
    path("batches/<int:pk>/findings/", generation.Findings.as_view(), name="findings"),
    path("drafts/<int:pk>/let-through/", generation.LetThrough.as_view(), name="draft-let-through"),
    path("drafts/<int:pk>/discard/", generation.DiscardStopped.as_view(), name="draft-discard"),
    path("attempts/", generation.AttemptsView.as_view(), name="attempts"),
    path("comparisons/", generation.Comparisons.as_view(), name="comparisons"),
    path("comparisons/estimate/", generation.EstimateComparison.as_view(), name="comparison-estimate"),
    path("comparisons/<int:pk>/", generation.ComparisonDetail.as_view(), name="comparison"),
    path("comparisons/<int:pk>/pairs/", generation.Pairs.as_view(), name="comparison-pairs"),
    path("drafts/<int:pk>/calls/", generation.Calls.as_view(), name="calls"),
    path("samples/", generation.Samples.as_view(), name="samples"),
    path("samples/<int:pk>/", generation.SampleDetail.as_view(), name="sample"),
    # review
    path("cases/", review.Cases.as_view(), name="cases"),
    path("cases/<int:pk>/", review.CaseDetail.as_view(), name="case"),
    path("cases/<int:pk>/withdraw/", review.Withdraw.as_view(), name="case-withdraw"),
    path("cases/<int:pk>/priority/", review.Prioritise.as_view(), name="case-priority"),
    path("cases/<int:pk>/reassign/", assign.Reassign.as_view(), name="case-reassign"),
    path("cases/<int:pk>/specialty/", assign.SetSpecialty.as_view(), name="case-specialty"),
    path("cases/<int:pk>/set-back/", assign.SetBack.as_view(), name="case-set-back"),
    path("cases/<int:pk>/calibration/", assign.MakeCalibration.as_view(), name="case-calibration"),
    path("calibration/", assign.Calibration.as_view(), name="calibration"),
    path("calibration/<int:pk>/", assign.CalibrationDetail.as_view(), name="calibration-item"),
    path("people/", assign.People.as_view(), name="people"),
    path("people/<int:pk>/", assign.PersonDetail.as_view(), name="person"),
    path("people/<int:pk>/pause/", assign.Pause.as_view(), name="person-pause"),
    path("people/<int:pk>/calibration/", assign.GiveAgain.as_view(), name="person-calibration"),
    path("assignments/next/", review.Next.as_view(), name="assignment-next"),
    path("assignments/<assignment:assignment_id>/", review.Work.as_view(), name="assignment"),
    path("assignments/<assignment:assignment_id>/heartbeat/", review.Heartbeat.as_view(), name="assignment-heartbeat"),
    path("assignments/<assignment:assignment_id>/draft/", review.SaveDraft.as_view(), name="assignment-draft"),
    path("assignments/<assignment:assignment_id>/reveal/", review.Reveal.as_view(), name="assignment-reveal"),
    path("assignments/<assignment:assignment_id>/submit/", review.Submit.as_view(), name="assignment-submit"),
    path("assignments/<assignment:assignment_id>/release/", review.GiveBack.as_view(), name="assignment-release"),
    path("assignments/<assignment:assignment_id>/decline/", assign.Decline.as_view(), name="assignment-decline"),
    path("assignments/<assignment:assignment_id>/problem/", assign.Report.as_view(), name="assignment-problem"),
    path("reviews/mine/", review.Mine.as_view(), name="reviews-mine"),
    path("reviews/<int:review_id>/retract/", review.Retract.as_view(), name="review-retract"),
    path("review/agreement/", trust.AgreementView.as_view(), name="agreement"),
    path("reviewers/me/", trust.OwnFigures.as_view(), name="reviewer-me"),
    path("reviewers/<int:pk>/", trust.ReviewerView.as_view(), name="reviewer"),
    # measure
    path("releases/", generation.Releases.as_view(), name="releases"),
    path(_RELEASE, generation.ReleaseDetail.as_view(), name="release"),
    path(f"{_RELEASE}samples/", generation.ReleasedSamples.as_view(), name="release-samples"),
    path(f"{_RELEASE}export/", generation.Export.as_view(), name="release-export"),
    path(f"{_RELEASE}data-card/", generation.DataCard.as_view(), name="release-card"),
    path("runs/", evaluation.Runs.as_view(), name="runs"),
    path("runs/<int:pk>/", evaluation.RunDetail.as_view(), name="run"),
    path("runs/<int:pk>/failures/", evaluation.RunFailures.as_view(), name="run-failures"),
    path("runs/estimate/", evaluation.EstimateRun.as_view(), name="run-estimate"),
    path("runs/<int:pk>/pause/", evaluation.PauseRun.as_view(), name="run-pause"),
    path("runs/<int:pk>/resume/", evaluation.ResumeRun.as_view(), name="run-resume"),
    path("runs/<int:pk>/budget/", evaluation.RunBudget.as_view(), name="run-budget"),
    path("runs/<int:pk>/cancel/", evaluation.CancelRun.as_view(), name="run-cancel"),
    path("runs/<int:pk>/retry-failed/", evaluation.RetryRun.as_view(), name="run-retry"),
    path("runs/<int:pk>/report/", evaluation.Report.as_view(), name="run-report"),
    path("runs/<int:pk>/report.md", evaluation.MarkdownReport.as_view(), name="run-report-md"),
    path("runs/<int:pk>/responses/", evaluation.Responses.as_view(), name="run-responses"),
    path("runs/<int:pk>/judgments/", evaluation.Judgments.as_view(), name="run-judgments"),
]

urlpatterns = [
    path("v1/", include((_v1, "api"))),
    path("docs/", docs, name="api-docs"),
]
