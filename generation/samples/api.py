"""The API of samples."""

from typing import Any

from django.db.models import Prefetch
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from generation.models import Draft, Erratum, Rubric, Sample, SampleVersion
from generation.outcomes import regeneration
from generation.samples import errata, queries
from generation.samples.forms import SAMPLE_STATUSES, VERSION_STATUSES
from review.audit.trail import record_read
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, RowSerializer, rows_of
from review.rules.limits import MAX_ID
from review.rules.permissions import Can
from review.rules.state_machine import NOT_SAMPLED, shown_status


class SampleSerializer(RowSerializer):
    """One test case, in all its versions.

    `key` is its name in releases. A sample outside the share that is reviewed has the status
    `not-sampled`, and is `unreviewed`: no physician has seen it.
    """

    record = serializers.CharField(source="record.external_id")
    title = serializers.CharField(source="record.title")
    key = serializers.CharField()
    versions_count = serializers.IntegerField()
    unreviewed = serializers.BooleanField()

    status = serializers.SerializerMethodField()

    class Meta:
        model = Sample
        fields = ["id", "benchmark", "task", "arm", "batch", "created_at"]

    @extend_schema_field(serializers.ChoiceField(choices=SAMPLE_STATUSES))
    def get_status(self, sample: Any) -> str:
        if sample.unreviewed:
            return NOT_SAMPLED
        return str(sample.status)


RubricSerializer = rows_of(
    "Rubric",
    Rubric,
    "key criterion polarity approved severity severities removed added",
    """One criterion as generated and as approved by physicians (empty until then), with the harm they expect.

    `polarity`: `must`, `must not`, or empty. `removed`: physicians removed it. `added`: physicians
    wrote it.
    """,
    traps=serializers.ListField(child=serializers.CharField()),
)


class VersionSerializer(RowSerializer):
    """One version of a sample. `reasons`: why it was rejected. `citations`: the evidence of the approving physicians.

    `provenance`: how it was made, by name, in the recipe's words.
    """

    provenance = serializers.DictField(child=serializers.CharField())
    content = serializers.DictField()
    citations = serializers.ListField(child=serializers.DictField())
    reasons = serializers.ListField(child=serializers.CharField())

    status = serializers.SerializerMethodField()
    rubrics = RubricSerializer(many=True)

    class Meta:
        model = SampleVersion
        fields = ["number", "case", "title", "prompt", "generator", "simulated", "created_at"]

    @extend_schema_field(serializers.ChoiceField(choices=VERSION_STATUSES))
    def get_status(self, version: SampleVersion) -> str:
        return shown_status(version.status, version.case.ground)


FailedVersionSerializer = rows_of(
    "FailedVersion",
    Draft,
    "id version error detail",
    "A next version that could not be generated. `POST retry/` tries again.",
)


class WholeSampleSerializer(SampleSerializer):
    """A sample with all its versions. `failed_version`: the next one, if it could not be generated."""

    versions = VersionSerializer(many=True)
    failed_version = serializers.SerializerMethodField()

    @extend_schema_field(FailedVersionSerializer(allow_null=True))
    def get_failed_version(self, sample: Sample) -> Any:
        row = regeneration.failed_version(sample)
        if row:
            return FailedVersionSerializer(row).data
        return None


DRAW_AGAIN_BODY: Fields = {
    "trap": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=16,
        help_text="The trap of the version to generate; empty: the rarest in its batch that no version had.",
    )
}

QueuedVersionSerializer = rows_of(
    "QueuedVersion",
    Draft,
    "id version status",
    "The draft of a next version. `preferred`: the traps that the generator is asked for.",
    preferred=serializers.ListField(child=serializers.CharField()),
)

ErratumSerializer = rows_of(
    "Erratum",
    Erratum,
    "kind reason at",
    "An erratum recorded after a sample's approval: it was reported, the report was dismissed, or it was withdrawn.",
    sample=serializers.CharField(source="sample.key"),
)

ERRATUM_REASON_BODY: Fields = {"reason": serializers.CharField(max_length=2000, help_text="Why.")}


SAMPLE_QUERY: Fields = {
    "benchmark": serializers.CharField(required=False, max_length=64),
    "task": serializers.CharField(required=False, max_length=40),
    "status": serializers.ChoiceField(choices=SAMPLE_STATUSES, required=False),
    "text": serializers.CharField(
        required=False, max_length=200, help_text="Search text: in the title, the record's id or the key."
    ),
    "batch": serializers.IntegerField(required=False, min_value=1, max_value=MAX_ID),
}


class SampleViewSet(GenericViewSet[Sample]):
    """Samples, newest first."""

    can = Can.PRODUCE
    pagination_class = NewestFirst
    queryset = Sample.objects.all()

    @answers(SampleSerializer, query=SAMPLE_QUERY, paged=True)
    def list(self, request: Request, query: Body) -> Any:
        return queries.samples(**query)

    @answers(WholeSampleSerializer)
    def retrieve(self, request: Request, pk: int) -> Any:
        """One sample with its versions and their rubrics."""
        rubrics = Prefetch("rubrics", Rubric.objects.order_by("pk"))
        cases = SampleVersion.objects.select_related("case").defer("case__spec")
        versions = Prefetch("versions", cases.order_by("number").prefetch_related(rubrics))
        sample = get_object_or_404(queries.samples().prefetch_related(versions), pk=pk)
        for version in sample.versions.all():
            record_read(signed_in_account(request), version.case)
        return sample

    @answers(ErratumSerializer, many=True)
    @action(detail=True, pagination_class=None)
    def errata(self, request: Request, pk: int) -> Any:
        """Errata of a sample, recorded after its approval, oldest first."""
        sample = get_object_or_404(Sample, pk=pk)
        return errata.history(sample)

    @acts(ErratumSerializer, ERRATUM_REASON_BODY, status=201, can=Can.READ_RESULTS)
    def report(self, request: Request, body: Body, pk: int) -> Any:
        """Report an approved sample: it is left out of new releases until an admin decides.

        404 if you cannot read it.
        """
        return errata.report(pk, actor=signed_in_account(request), **body)

    @acts(ErratumSerializer, ERRATUM_REASON_BODY, status=201)
    def dismiss(self, request: Request, body: Body, pk: int) -> Any:
        """Dismiss the report of a sample. 409 if there is none."""
        return errata.dismiss(pk, actor=signed_in_account(request), **body)

    @acts(ErratumSerializer, ERRATUM_REASON_BODY, status=201)
    def withdraw(self, request: Request, body: Body, pk: int) -> Any:
        """Withdraw an approved sample: it is left out of later releases, and releases that contain it show an erratum."""
        return errata.withdraw(pk, actor=signed_in_account(request), **body)

    @acts(QueuedVersionSerializer, status=202)
    def retry(self, request: Request, pk: int) -> Any:
        """Generate the next version of a sample again. 409 if none has failed, or its batch is cancelled."""
        return regeneration.retry_version(pk)

    @acts(QueuedVersionSerializer, DRAW_AGAIN_BODY, status=202, url_path="draw-again", url_name="draw-again")
    def draw_again(self, request: Request, body: Body, pk: int) -> Any:
        """Generate another version of a discarded sample, with another trap. 409 if it is not discarded."""
        return regeneration.draw_again(pk, **body)


class ReviewedSampleViewSet(GenericViewSet[Erratum]):
    """What a physician may say of the sample behind an own review."""

    can = Can.REVIEW
    serializer_class = ErratumSerializer
    row = "<int:review_id>"

    @acts(ErratumSerializer, ERRATUM_REASON_BODY, status=201)
    def report(self, request: Request, body: Body, review_id: int) -> Any:
        """Report the approved sample of a closed case that you reviewed. 404 for any other."""
        me = signed_in_account(request)
        sample = errata.reviewed_sample_id(me, review_id)
        return errata.report(sample, actor=me, **body)
