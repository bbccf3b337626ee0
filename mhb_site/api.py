"""The API's URLs, its sign-in, its schema and the page that shows the schema."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from allauth.core.internal import ratelimit
from django.contrib.auth import authenticate
from django.contrib.auth.models import update_last_login
from django.http.response import HttpResponseBase
from django.urls import include, path
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from knox.models import AuthToken
from knox.settings import knox_settings
from rest_framework import serializers
from rest_framework.exceptions import AuthenticationFailed, Throttled, ValidationError
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evaluation.claims import api as claims_api
from evaluation.human_baseline import api as human_baseline_api
from evaluation.interchange import api as interchange_api
from evaluation.judges import api as judges_api
from evaluation.playground import api as playground_api
from evaluation.releases import api as results_api
from evaluation.reports import api as reports_api
from evaluation.runs import api as runs_api
from generation.batches import api as batches_api
from generation.comparisons import api as comparisons_api
from generation.drafts import api as drafts_api
from generation.endpoints import api as endpoints_api
from generation.images import api as images_api
from generation.jobs import api as jobs_api
from generation.notifications import api as notifications_api
from generation.outcomes import api as outcomes_api
from generation.probes import api as probes_api
from generation.prompts import api as prompts_api
from generation.releases import api as releases_api
from generation.removal import api as removal_api
from generation.samples import api as samples_api
from generation.sources import api as sources_api
from mhb_site.models import TokenName
from mhb_site.server.bodies import UPLOADS, may_upload
from mhb_site.web.router import Router
from review.answers import signatures
from review.assignments import api as assignments_api
from review.audit import api as audit_api
from review.audit.trail import record_own_act, record_person, recording_events
from review.calibration import api as calibration_api
from review.cases import api as cases_api
from review.common.actions import Body, answers
from review.common.api import BearerTokenAuthentication, HasRight
from review.common.decorators import requires, signed_in_account
from review.common.provider_accounts import signs_in_elsewhere
from review.common.second_factor import has_factor
from review.common.serializers import Fields
from review.discussion import api as discussion_api
from review.errors import NotAllowed, SignsInElsewhere
from review.forms import api as forms_api
from review.models import PersonEvent, User
from review.people import accounts
from review.people import api as people_api
from review.quality import api as quality_api
from review.rewordings import api as rewordings_api
from review.rules.permissions import Can
from review.rules.text import plain_name

TTL: timedelta = knox_settings.TOKEN_TTL
LIMIT: int = knox_settings.TOKEN_LIMIT_PER_USER

# ------------------------------------------------------------------------------------------ sign-in


SIGN_IN_BODY: Fields = {
    "username": serializers.CharField(max_length=150),
    "password": serializers.CharField(max_length=4096, trim_whitespace=False, style={"input_type": "password"}),
    "code": serializers.CharField(
        allow_blank=True,
        default="",
        max_length=20,
        help_text="A code from your authenticator app, or a recovery code, if you have set up a second factor.",
    ),
    "days": serializers.IntegerField(min_value=1, max_value=TTL.days, default=TTL.days),
    "name": serializers.CharField(
        allow_blank=True,
        default="",
        max_length=80,
        help_text="The program that will use it, shown in your list of tokens.",
    ),
}


# It is shown only once; only its hash is stored.
ISSUED: Fields = {"token": serializers.CharField(), "expires_at": serializers.DateTimeField()}


class Token(APIView):
    """Get a token for a username, a password and, if set up, a second-factor code.

    Send the token as `Authorization: Bearer TOKEN`. An account has at most 20; a new one then
    replaces the oldest. Too many attempts: 429.
    """

    authentication_classes = [BearerTokenAuthentication]
    permission_classes = [AllowAny]

    @answers(ISSUED, body=SIGN_IN_BODY, status=201)
    def post(self, request: Request, body: Body) -> Any:
        # Django's own request: axes needs it, and marks it if the account is locked.
        user = authenticate(request._request, username=body["username"], password=body["password"])
        if not isinstance(user, User):
            raise AuthenticationFailed(_("The username or password is incorrect."))
        if has_factor(user):  # with a passkey alone, a recovery code
            with signatures.count_refusals(request._request, user, AuthenticationFailed()):
                if not signatures.use_code(user, body["code"], recovery=True):
                    raise AuthenticationFailed(_("The code of your second factor is missing or incorrect."))
        if signs_in_elsewhere(user):
            raise SignsInElsewhere
        # Each leaves an event for good: as often as signing in on the page. Failures have limits of their own.
        if not ratelimit.consume(request._request, app="allauth.account", action="login"):
            raise Throttled
        issued, token = issue_token(user, timedelta(days=body["days"]), body["name"])
        update_last_login(User, user)  # sending the signal would make axes start a session
        return {"token": token, "expires_at": issued.expiry}


@recording_events()
def issue_token(user: User, ttl: timedelta, name: str = "") -> tuple[AuthToken, str]:
    """Create a token, which its owner may name; the oldest beyond the limit are deleted.

    A lost one cannot sign out.
    """
    record_own_act(user, PersonEvent.Kind.TOKEN, what="created", days=ttl.days)
    remaining = AuthToken.objects.filter(user=user, expiry__gt=timezone.now()).order_by("-created", "-pk")[: LIMIT - 1]
    AuthToken.objects.filter(user=user).exclude(pk__in=list(remaining.values_list("pk", flat=True))).delete()
    issued: tuple[AuthToken, str] = AuthToken.objects.create(user, expiry=ttl)
    if name := plain_name(name):
        TokenName.objects.create(token=issued[0], name=name)
    return issued


@recording_events()
def revoke_tokens(user: User, **which: str) -> None:
    """Delete the user's own tokens: all, or those that these fields name."""
    if count := accounts.delete_tokens(user, **which):
        record_person(user, PersonEvent.Kind.TOKEN, user, what="revoked", tokens=count)


class Logout(APIView):
    """Delete the token of this request."""

    authentication_classes = [BearerTokenAuthentication]
    permission_classes = [IsAuthenticated]

    @answers()
    def post(self, request: Request) -> None:
        revoke_tokens(signed_in_account(request), pk=request.auth.pk)


class LogoutAll(APIView):
    """Delete all tokens of this account."""

    authentication_classes = [BearerTokenAuthentication]
    permission_classes = [IsAuthenticated]

    @answers()
    def post(self, request: Request) -> None:
        revoke_tokens(signed_in_account(request))


# ------------------------------------------------------------------------------------------- schema


class UploadRight(APIView):
    """Whether you may send a long body to the address in the header `X-Upload-To`: 204, else 403.

    nginx asks before it takes the body (nginx.conf).
    """

    schema = None  # not for clients
    permission_classes = [IsAuthenticated]

    def get(self, request: Request) -> Response:
        """The header `X-Upload-By` has the number of the account, by which open uploads are counted."""
        if "X-Upload-To" not in request.headers:
            raise ValidationError({"X-Upload-To": _("This field is required.")})
        path = request.headers["X-Upload-To"]
        if path in UPLOADS and not may_upload(request.user, path):
            raise NotAllowed
        return Response(status=204, headers={"X-Upload-By": str(request.user.pk)})


class SchemaView(SpectacularJSONAPIView):
    """The schema as OpenAPI JSON."""

    can = Can.READ_RESULTS
    permission_classes = [HasRight]


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI from our own static files.

    Its start script has its own URL, so that CSP needs no exception.
    """

    can = Can.READ_RESULTS
    permission_classes = [HasRight]
    url_name = "api:schema"
    template_name = "site/api_docs.html"


docs: Callable[..., HttpResponseBase] = requires(Can.READ_RESULTS)(DocsView.as_view())

# ---------------------------------------------------------------------------------------- addresses

_router = Router()
_router.register("sources", sources_api.SourceViewSet, "source")
_router.register("imports", sources_api.ImportViewSet, "import")
_router.register("images", images_api.ImageViewSet, "image")
_router.register("webhooks", notifications_api.WebhookViewSet, "webhook")
_router.register("deliveries", notifications_api.DeliveryViewSet, "delivery")
_router.register("endpoints", endpoints_api.EndpointViewSet, "endpoint")
_router.register("batches", batches_api.BatchViewSet, "batch")
_router.register("batches", drafts_api.BatchDraftsViewSet, "batch")
_router.register("drafts", drafts_api.DraftViewSet, "draft")
_router.register("attempts", outcomes_api.AttemptsViewSet, "attempts")
_router.register("comparisons", comparisons_api.ComparisonViewSet, "comparison")
_router.register("samples", samples_api.SampleViewSet, "sample")
_router.register("releases", releases_api.ReleaseViewSet, "release")
_router.register("releases", results_api.ResultsViewSet, "release")
_router.register("freezes", releases_api.FreezeViewSet, "freeze")
_router.register("cases", cases_api.CaseViewSet, "case")
_router.register("cases", calibration_api.CaseCalibrationViewSet, "case")
_router.register("cases", discussion_api.CaseRemarksViewSet, "case")
_router.register("calibration", calibration_api.CalibrationViewSet, "calibration-item")
_router.register("people", people_api.PersonViewSet, "person")
_router.register("people", calibration_api.PersonCalibrationViewSet, "person")
_router.register("assignments", assignments_api.AssignmentViewSet, "assignment")
_router.register("assignments", discussion_api.OwnRemarksViewSet, "assignment")
_router.register("assignments", quality_api.ActivityViewSet, "assignment")
_router.register("reviews", assignments_api.OwnReviewViewSet, "review")
_router.register("reviews", samples_api.ReviewedSampleViewSet, "review")
_router.register("rewordings", rewordings_api.RewordingViewSet, "rewording")
_router.register("review", quality_api.OversightViewSet, "review")
_router.register("reviewers", quality_api.ReviewerViewSet, "reviewer")
_router.register("reviewers", outcomes_api.ReopeningViewSet, "reviewer")
_router.register("forms", forms_api.ReviewFormViewSet, "review-form")
_router.register("guidelines", discussion_api.GuidelineViewSet, "guideline")
_router.register("audit", audit_api.AuditViewSet, "audit")
_router.register("runs", runs_api.RunViewSet, "run")
_router.register("runs", interchange_api.InterchangeViewSet, "run")
_router.register("runs", reports_api.ReportViewSet, "run")
_router.register("runs", human_baseline_api.HumanBaselineViewSet, "run")

_v1 = [
    path("auth/token/", Token.as_view(), name="token"),
    path("auth/logout/", Logout.as_view(), name="logout"),
    path("auth/logoutall/", LogoutAll.as_view(), name="logoutall"),
    path("me/", people_api.Me.as_view(), name="me"),
    path("me/upload-right/", UploadRight.as_view(), name="upload-right"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("imports/preview/", sources_api.PreviewTable.as_view(), name="imports-preview"),
    path("imports/mappings/", sources_api.SavedMappings.as_view(), name="imports-mappings"),
    *jobs_api.routes(),
    path("prompts/<slug:benchmark>/", prompts_api.BenchmarkPrompts.as_view(), name="prompts"),
    path("prompts/<slug:benchmark>/<str:name>/", prompts_api.OnePromptSet.as_view(), name="prompt-set"),
    path("removal/", removal_api.Removal.as_view(), name="removal"),
    path("playground/", playground_api.Playground.as_view(), name="playground"),
    path("result-imports/<int:pk>/", interchange_api.ResultsImports.as_view(), name="results-import"),
    path("releases/<slug:name>/<int:version>/power/", interchange_api.ReleasePower.as_view(), name="release-power"),
    path("releases/<slug:name>/<int:version>/probes/", probes_api.ReleaseProbes.as_view(), name="release-probes"),
    path("sources/<slug:name>/probes/", probes_api.SourceProbes.as_view(), name="source-probes"),
    path("runs/<int:pk>/claims/", claims_api.RunClaims.as_view(), name="run-claims"),
    path("batches/<int:pk>/probes/", probes_api.BatchProbes.as_view(), name="batch-probes"),
    path("runs/<int:pk>/validation/", judges_api.RunValidation.as_view(), name="run-validation"),
    path("runs/<int:pk>/report.md", reports_api.ReportViewSet.as_view({"get": "markdown"}), name="run-report-md"),
    *_router.urls,
]

urlpatterns = [
    path("v1/", include((_v1, "api"))),
    path("docs/", docs, name="api-docs"),
]
