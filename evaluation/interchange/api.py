"""The API of imports, bundles, comparisons, added models and power."""

from dataclasses import asdict
from typing import Any

from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from evaluation.interchange import bundle, comparing, importing, power, services
from evaluation.interchange.comparing import RunComparison
from evaluation.interchange.power import CellPower
from evaluation.models import PolicyAnswer, ResultsImport, ResultsRefusal, Run
from evaluation.runs import adding
from evaluation.runs import estimate as runs_estimate
from evaluation.runs.api import WholeRunSerializer, run_with_values
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import MAX_POLICY_SAMPLES, POLICY_SAMPLES
from generation.jobs.estimate import Estimate
from generation.jobs.serializers import ConfirmSerializer, SettingsSerializer, launching
from generation.jobs.settings import Budget
from generation.models import Endpoint, Release
from generation.releases import archive
from generation.releases import queries as releases_queries
from review.common.actions import Body, acts, answers
from review.common.api import NamedRowField
from review.common.decorators import download, signed_in_account
from review.common.serializers import rows_of
from review.rules.permissions import Can


class ImportResultsSerializer(SettingsSerializer):
    """A file of verdicts made elsewhere: JSON Lines, a CSV table, or a log of another tool."""

    settings_class = importing.StudySettings

    file = serializers.FileField(max_length=300)


RefusedRowSerializer = rows_of("RefusedRow", ResultsRefusal, "where reason", "A row that was not imported, and why.")

ResultsImportSerializer = rows_of(
    "ResultsImport",
    ResultsImport,
    "id study file_name status rows added known refused without_verdict run error created_at finished_at",
    """An import of results with its progress and outcome.

    `run` is null until it has ended, and if nothing could be imported. `without_verdict`: rubrics
    of the imported answers for which the files have no verdict. `remarks`: what the file says about
    itself, such as that its run was cancelled, and what was decided about it as a whole. At most
    1,000 refusals are listed.
    """,
    release=serializers.CharField(source="release.__str__"),
    reason=serializers.CharField(),
    remarks=serializers.ListField(child=serializers.CharField()),
    refusals=RefusedRowSerializer(many=True),
)


class ResultsImports(APIView):
    """An import of verdicts made elsewhere."""

    can = Can.MEASURE

    @answers(ResultsImportSerializer)
    def get(self, request: Request, pk: int) -> Any:
        """The progress and result of an import, with the rows that were refused."""
        return get_object_or_404(ResultsImport.objects.select_related("release"), pk=pk)


class ModelToAddSerializer(ConfirmSerializer):
    """A model to add to a finished run, with a budget on top of the run's cost so far."""

    settings_class = Budget
    is_launch = False

    endpoint = NamedRowField(queryset=Endpoint.objects.all())


AddModelSerializer = launching(
    "AddModel", ModelToAddSerializer, "A model to add, with a budget on top of the run's cost so far, or `confirmed`."
)


class PoliciesToAddSerializer(ConfirmSerializer):
    """Fixed texts for the judge of a finished run to judge, and samples of each data set on which it does."""

    settings_class = Budget
    is_launch = False

    policies = serializers.ListField(child=serializers.CharField(max_length=20), min_length=1, max_length=20)
    policy_samples = serializers.IntegerField(min_value=1, max_value=MAX_POLICY_SAMPLES, default=POLICY_SAMPLES)


AddPoliciesSerializer = launching(
    "AddPolicies",
    PoliciesToAddSerializer,
    "Fixed texts to judge, with a budget on top of the run's cost so far, or `confirmed`.",
)


class AskingAgainSerializer(ConfirmSerializer):
    """What to do a second time in a finished run, and on how many samples of each data set."""

    settings_class = Budget
    is_launch = False

    again = serializers.ListField(
        child=serializers.ChoiceField(choices=PolicyAnswer.Again.choices), min_length=1, max_length=2
    )
    samples = serializers.IntegerField(min_value=1, max_value=MAX_POLICY_SAMPLES, default=POLICY_SAMPLES)


AskAgainSerializer = launching(
    "AskAgain",
    AskingAgainSerializer,
    "What to do a second time, with a budget on top of the run's cost so far, or `confirmed`.",
)


def _checks(pk: int, body: Body) -> adding.Checks:
    """The checks of a finished run that a request asks for."""
    given = dict(body)
    if "policy_samples" in given:
        given["samples"] = given.pop("policy_samples")
    return adding.Checks(run=RUNS.get(pk), **given)


class InterchangeViewSet(GenericViewSet[Run]):
    """Runs from files and as files, beside other runs, and with further models."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.MEASURE}
    queryset = Run.objects.all()

    @answers(ResultsImportSerializer, body=ImportResultsSerializer, status=202)
    @action(detail=False, methods=["post"], url_path="import", url_name="import", parser_classes=[MultiPartParser])
    def import_results(self, request: Request, body: Body) -> Any:
        """Import verdicts made elsewhere as a run.

        A worker reads the file, keeps good rows and lists bad ones.
        """
        study = {**body, "release": releases_queries.release(body["release"])}
        return services.start_import(study.pop("file"), **study, actor=signed_in_account(request))

    @acts(WholeRunSerializer, AddModelSerializer, status=202)
    def models(self, request: Request, body: Body, pk: int) -> Any:
        """Ask one more model with the run's release, settings and judge. No other model is asked again.

        409 while the run is in progress, if it was imported, or if it already has the model.
        """
        adding.add_model(RUNS.get(pk).pk, **body)
        return run_with_values(pk, request.user)

    @acts(Estimate, ModelToAddSerializer, url_path="models/estimate", url_name="models-estimate")
    def estimate_model(self, request: Request, body: Body, pk: int) -> Any:
        """Estimate what adding a model would cost."""
        return runs_estimate.estimate_run(adding.check_model(RUNS.get(pk), body["endpoint"]))

    @acts(WholeRunSerializer, AddPoliciesSerializer, status=202)
    def policies(self, request: Request, body: Body, pk: int) -> Any:
        """Have the run's judge judge fixed texts as if models had given them. No model is asked.

        Those that it has already stay. 409 while the run is in progress, or if it was imported.
        """
        adding.add_checks(_checks(pk, body))
        return run_with_values(pk, request.user)

    @acts(Estimate, PoliciesToAddSerializer, url_path="policies/estimate", url_name="policies-estimate")
    def estimate_policies(self, request: Request, body: Body, pk: int) -> Any:
        """Estimate what judging fixed texts would cost."""
        return runs_estimate.estimate_checks(_checks(pk, body))

    @acts(WholeRunSerializer, AskAgainSerializer, status=202)
    def again(self, request: Request, body: Body, pk: int) -> Any:
        """Ask the models again, or have their answers judged again, on a sample of the run.

        No number of the run changes but how often verdicts turn (`claims`). 409 while the run is in
        progress, or if it was imported.
        """
        adding.add_checks(_checks(pk, body))
        return run_with_values(pk, request.user)

    @acts(Estimate, AskingAgainSerializer, url_path="again/estimate", url_name="again-estimate")
    def estimate_again(self, request: Request, body: Body, pk: int) -> Any:
        """Estimate what asking or judging again would cost."""
        return runs_estimate.estimate_checks(_checks(pk, body))

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True)
    def bundle(self, request: Request, pk: int) -> HttpResponseBase:
        """A run as a zip file with answers, verdicts, settings, numbers and checksums; `mhb-check` checks it offline.

        The questions of held-out samples and all texts about them are left out. 409 while the run
        is in progress.
        """
        return download(bundle.stream(RUNS.get(pk)), f"run-{pk}.zip", archive.ZIP)

    @answers(RunComparison)
    @action(detail=True, url_path="compare/<int:other>", url_name="compare")
    def compare(self, request: Request, pk: int, other: int) -> Any:
        """The changes between two runs by model, with paired intervals, and the samples that flipped."""
        return comparing.compare_runs(RUNS.get(pk), RUNS.get(other), request.user)


class PowerQuery(SettingsSerializer):
    """How many models are compared, and what to expect of them."""

    settings_class = power.Expectations


class ReleasePower(APIView):
    """The statistical power of a release."""

    can = Can.READ_RESULTS

    @answers(CellPower, query=PowerQuery, many=True)
    def get(self, request: Request, query: Body, name: str, version: int) -> Any:
        """Expected interval half-widths and detectable differences by data set and facet, before any model is asked."""
        release = get_object_or_404(Release.objects.all(), name=name, version=version)
        return [asdict(cell) for cell in power.release_power(release, power.Expectations(**query))]
