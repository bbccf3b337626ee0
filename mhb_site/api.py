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

from evaluation.reports import api as reports_api
from evaluation.runs import api as runs_api
from generation.batches import api as batches_api
from generation.drafts import api as drafts_api
from generation.endpoints import api as endpoints_api
from generation.outcomes import api as outcomes_api
from generation.releases import api as releases_api
from generation.samples import api as samples_api
from generation.sources import api as sources_api
from review.answers import signatures
from review.assignments import api as assignments_api
from review.audit import api as audit_api
from review.calibration import api as calibration_api
from review.cases import api as cases_api
from review.common.api import BearerToken, Needs, sent
from review.common.decorators import requires
from review.discussion import api as discussion_api
from review.models import User
from review.people import api as people_api
from review.quality import api as trust
from review.rules.permissions import Can

TTL: timedelta = knox_settings.TOKEN_TTL
LIMIT: int = knox_settings.TOKEN_LIMIT_PER_USER

# ---------------------------------------------------------------------------------------------------------- sign-in


class SignInSerializer(serializers.Serializer[Any]):
    """The account that requests a token, and how long the token should last."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, style={"input_type": "password"})
    code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=20,
        help_text="A code from your authenticator app, or a recovery code, if you have set up a second factor.",
    )
    days = serializers.IntegerField(min_value=1, max_value=TTL.days, default=TTL.days)


class IssuedSerializer(serializers.Serializer[Any]):
    """A token. It is shown only once; only its hash is stored."""

    token = serializers.CharField()
    expires_at = serializers.DateTimeField()


class Token(APIView):
    """Get a token for a username, a password and, if set up, a second-factor code. Send the token as
    `Authorization: Bearer TOKEN`. An account has at most 20; a new one then replaces the oldest. Too many failures: 429."""

    authentication_classes = [BearerToken]
    permission_classes = [AllowAny]

    @extend_schema(request=SignInSerializer, responses={201: IssuedSerializer})
    def post(self, request: Request) -> Response:
        body = sent(SignInSerializer, request)
        # The plain request: axes counts on it, and marks it where the account is locked.
        user = authenticate(request._request, username=body["username"], password=body["password"])
        if not isinstance(user, User):
            raise AuthenticationFailed(_("The username or password is incorrect."))
        if signatures.has_second_factor(user):
            with signatures.counting(request._request, user, AuthenticationFailed()):
                if not signatures.takes_code(user, body["code"], recovery=True):
                    raise AuthenticationFailed(_("The code of your second factor is missing or incorrect."))
        issued, token = issue_token(user, timedelta(days=body["days"]))
        update_last_login(User, user)  # the signal would have axes start a session
        answer = IssuedSerializer({"token": token, "expires_at": issued.expiry}).data
        return Response(answer, status=201)


@transaction.atomic
def issue_token(user: User, ttl: timedelta) -> tuple[AuthToken, str]:
    """A new token. Where there are as many as there may be, the oldest give way: a lost one could not be signed out."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # two at once must not both be the last one allowed
    kept = AuthToken.objects.filter(user=user, expiry__gt=timezone.now()).order_by("-created", "-pk")[: LIMIT - 1]
    AuthToken.objects.filter(user=user).exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()
    issued: tuple[AuthToken, str] = AuthToken.objects.create(user, expiry=ttl)
    return issued


class Logout(APIView):
    """Delete the token of this request."""

    authentication_classes = [BearerToken]
    permission_classes = [IsAuthenticated]

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request) -> Response:
        AuthToken.objects.filter(pk=request.auth.pk).delete()
        return Response(status=204)


class LogoutAll(APIView):
    """Delete all tokens of this account."""

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
    path("me/", people_api.Me.as_view(), name="me"),
    path("schema/", SchemaView.as_view(), name="schema"),
    # make
    path("sources/", sources_api.Sources.as_view(), name="sources"),
    path("sources/<slug:name>/", sources_api.SourceDetail.as_view(), name="source"),
    path("sources/<slug:name>/records/", sources_api.Records.as_view(), name="records"),
    path("imports/", sources_api.Imports.as_view(), name="imports"),
    path("imports/<int:pk>/", sources_api.ImportDetail.as_view(), name="import"),
    path("imports/<int:pk>/cancel/", batches_api.CancelImport.as_view(), name="import-cancel"),
    path("imports/<int:pk>/refusals/", sources_api.Refusals.as_view(), name="refusals"),
    path("endpoints/", endpoints_api.Endpoints.as_view(), name="endpoints"),
    path("endpoints/<slug:name>/", endpoints_api.EndpointDetail.as_view(), name="endpoint"),
    path("endpoints/<slug:name>/usage/", endpoints_api.EndpointUsage.as_view(), name="endpoint-usage"),
    path("batches/", batches_api.Batches.as_view(), name="batches"),
    path("batches/<int:pk>/", batches_api.BatchDetail.as_view(), name="batch"),
    path("batches/<int:pk>/analysis/", batches_api.BatchAnalysis.as_view(), name="batch-analysis"),
    path("batches/<int:pk>/failures/", batches_api.BatchFailures.as_view(), name="batch-failures"),
    path("batches/estimate/", batches_api.EstimateBatch.as_view(), name="batch-estimate"),
    path("batches/<int:pk>/pause/", batches_api.PauseBatch.as_view(), name="batch-pause"),
    path("batches/<int:pk>/resume/", batches_api.ResumeBatch.as_view(), name="batch-resume"),
    path("batches/<int:pk>/budget/", batches_api.BatchBudget.as_view(), name="batch-budget"),
    path("batches/<int:pk>/cancel/", batches_api.CancelBatch.as_view(), name="batch-cancel"),
    path("batches/<int:pk>/retry-failed/", batches_api.RetryBatch.as_view(), name="batch-retry"),
    path("batches/<int:pk>/drafts/", drafts_api.Drafts.as_view(), name="drafts"),
    path("batches/<int:pk>/findings/", drafts_api.Findings.as_view(), name="findings"),
    path("drafts/<int:pk>/let-through/", drafts_api.LetThrough.as_view(), name="draft-let-through"),
    path("drafts/<int:pk>/discard/", drafts_api.DiscardStopped.as_view(), name="draft-discard"),
    path("attempts/", outcomes_api.AttemptsView.as_view(), name="attempts"),
    path("comparisons/", outcomes_api.Comparisons.as_view(), name="comparisons"),
    path("comparisons/estimate/", outcomes_api.EstimateComparison.as_view(), name="comparison-estimate"),
    path("comparisons/<int:pk>/", outcomes_api.ComparisonDetail.as_view(), name="comparison"),
    path("comparisons/<int:pk>/pairs/", outcomes_api.Pairs.as_view(), name="comparison-pairs"),
    path("drafts/<int:pk>/calls/", samples_api.Calls.as_view(), name="calls"),
    path("samples/", samples_api.Samples.as_view(), name="samples"),
    path("samples/<int:pk>/", samples_api.SampleDetail.as_view(), name="sample"),
    # review
    path("cases/", cases_api.Cases.as_view(), name="cases"),
    path("cases/<int:pk>/", cases_api.CaseDetail.as_view(), name="case"),
    path("cases/<int:pk>/withdraw/", cases_api.Withdraw.as_view(), name="case-withdraw"),
    path("cases/<int:pk>/priority/", cases_api.Prioritise.as_view(), name="case-priority"),
    path("cases/<int:pk>/reassign/", cases_api.Reassign.as_view(), name="case-reassign"),
    path("cases/<int:pk>/specialty/", cases_api.SetSpecialty.as_view(), name="case-specialty"),
    path("cases/<int:pk>/set-back/", cases_api.SetBack.as_view(), name="case-set-back"),
    path("cases/<int:pk>/calibration/", calibration_api.MakeCalibration.as_view(), name="case-calibration"),
    path("cases/<int:pk>/remarks/", discussion_api.CaseRemarks.as_view(), name="case-remarks"),
    path("calibration/", calibration_api.Calibration.as_view(), name="calibration"),
    path("calibration/<int:pk>/", calibration_api.CalibrationDetail.as_view(), name="calibration-item"),
    path("people/", people_api.AccountList.as_view(), name="people"),
    path("people/<int:pk>/", people_api.PersonDetail.as_view(), name="person"),
    path("people/<int:pk>/pause/", people_api.Pause.as_view(), name="person-pause"),
    path("people/<int:pk>/active/", people_api.SetActive.as_view(), name="person-active"),
    path("people/<int:pk>/password/", people_api.SetPassword.as_view(), name="person-password"),
    path("people/<int:pk>/second-factor/", people_api.TakeSecondFactor.as_view(), name="person-second-factor"),
    path("people/<int:pk>/calibration/", calibration_api.GiveAgain.as_view(), name="person-calibration"),
    path("assignments/next/", assignments_api.Next.as_view(), name="assignment-next"),
    path("assignments/<assignment:assignment_id>/", assignments_api.Work.as_view(), name="assignment"),
    path(
        "assignments/<assignment:assignment_id>/heartbeat/",
        assignments_api.Heartbeat.as_view(),
        name="assignment-heartbeat",
    ),
    path("assignments/<assignment:assignment_id>/draft/", assignments_api.SaveDraft.as_view(), name="assignment-draft"),
    path("assignments/<assignment:assignment_id>/reveal/", assignments_api.Reveal.as_view(), name="assignment-reveal"),
    path("assignments/<assignment:assignment_id>/submit/", assignments_api.Submit.as_view(), name="assignment-submit"),
    path(
        "assignments/<assignment:assignment_id>/release/", assignments_api.GiveBack.as_view(), name="assignment-release"
    ),
    path(
        "assignments/<assignment:assignment_id>/decline/", assignments_api.Decline.as_view(), name="assignment-decline"
    ),
    path(
        "assignments/<assignment:assignment_id>/problem/", assignments_api.Report.as_view(), name="assignment-problem"
    ),
    path("assignments/<assignment:assignment_id>/activity/", trust.RecordActivity.as_view(), name="activity"),
    path("assignments/<assignment:assignment_id>/remarks/", discussion_api.OwnRemarks.as_view(), name="own-remarks"),
    path("guidelines/", discussion_api.GuidelinesInForce.as_view(), name="guidelines"),
    path("guidelines/<slug:benchmark>/<slug:stage>/", discussion_api.GuidelineVersions.as_view(), name="guideline"),
    path("audit/", audit_api.AuditStatus.as_view(), name="audit"),
    path("audit/check/", audit_api.RequestCheck.as_view(), name="audit-check"),
    path("audit/events/", audit_api.AuditEvents.as_view(), name="audit-events"),
    path("reviews/mine/", assignments_api.Mine.as_view(), name="reviews-mine"),
    path("reviews/<int:review_id>/retract/", assignments_api.Retract.as_view(), name="review-retract"),
    path("review/agreement/", trust.AgreementView.as_view(), name="agreement"),
    path("review/progress/", trust.ProgressView.as_view(), name="progress"),
    path("reviewers/me/", trust.OwnFigures.as_view(), name="reviewer-me"),
    path("reviewers/<int:pk>/", trust.ReviewerView.as_view(), name="reviewer"),
    # measure
    path("releases/", releases_api.Releases.as_view(), name="releases"),
    path(_RELEASE, releases_api.ReleaseDetail.as_view(), name="release"),
    path(f"{_RELEASE}samples/", releases_api.ReleasedSamples.as_view(), name="release-samples"),
    path(f"{_RELEASE}export/", releases_api.Export.as_view(), name="release-export"),
    path(f"{_RELEASE}data-card/", releases_api.DataCard.as_view(), name="release-card"),
    path("runs/", runs_api.Runs.as_view(), name="runs"),
    path("runs/<int:pk>/", runs_api.RunDetail.as_view(), name="run"),
    path("runs/<int:pk>/failures/", runs_api.RunFailures.as_view(), name="run-failures"),
    path("runs/estimate/", runs_api.EstimateRun.as_view(), name="run-estimate"),
    path("runs/<int:pk>/pause/", runs_api.PauseRun.as_view(), name="run-pause"),
    path("runs/<int:pk>/resume/", runs_api.ResumeRun.as_view(), name="run-resume"),
    path("runs/<int:pk>/budget/", runs_api.RunBudget.as_view(), name="run-budget"),
    path("runs/<int:pk>/cancel/", runs_api.CancelRun.as_view(), name="run-cancel"),
    path("runs/<int:pk>/retry-failed/", runs_api.RetryRun.as_view(), name="run-retry"),
    path("runs/<int:pk>/report/", reports_api.ReportView.as_view(), name="run-report"),
    path("runs/<int:pk>/report.md", reports_api.MarkdownReport.as_view(), name="run-report-md"),
    path("runs/<int:pk>/responses/", reports_api.Responses.as_view(), name="run-responses"),
    path("runs/<int:pk>/judgments/", reports_api.Judgments.as_view(), name="run-judgments"),
]

urlpatterns = [
    path("v1/", include((_v1, "api"))),
    path("docs/", docs, name="api-docs"),
]
