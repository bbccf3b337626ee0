"""The API of generation: sources in, batches and samples, releases out. Thin edges over services and queries."""

from dataclasses import asdict
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from generation import (
    archive,
    benchmarks,
    estimates,
    exporters,
    importers,
    outcomes,
    queries,
    releases,
    services,
    tasks,
    uploads,
)
from generation.jobs import MOST_CALLS, Job, advice
from generation.live import endpoint_now
from generation.models import (
    VARIABLE,
    Batch,
    BatchRole,
    Call,
    Comparison,
    Draft,
    Endpoint,
    Finding,
    Import,
    ImportRefusal,
    Release,
    ReleasedRubric,
    ReleasedSample,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.work import Work
from review.access import person
from review.api import BlockSerializer
from review.models import User
from review.permissions import Can
from review.rest import MAX_ID, ByName, NewestFirst, OldestFirst, asked, sent
from review.spec import blocks_to_json

# ---------------------------------------------------------------------------------------------------------- sources


class SourceSerializer(serializers.ModelSerializer[Source]):
    """An imported data set, with its licence and citation."""

    records_count = serializers.IntegerField()

    class Meta:
        model = Source
        fields = ["name", "format", "label", "licence", "citation", "restrictions", "created_at", "records_count"]


class RecordSerializer(serializers.ModelSerializer[SourceRecord]):
    """One record as it may be shown; what is private is not even read."""

    content = serializers.DictField()

    class Meta:
        model = SourceRecord
        fields = ["id", "external_id", "title", "language", "content"]


class ImportSerializer(serializers.ModelSerializer[Import]):
    """The reading of one file into a source: how far it is, and what it came to."""

    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    facets = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))
    joined = serializers.DictField(child=serializers.IntegerField())

    class Meta:
        model = Import
        fields = [
            "id",
            "source",
            "file_name",
            "layout",
            "status",
            "rows",
            "added",
            "known",
            "refused",
            "facets",
            "joined",
            "error",
            "detail",
            "created_at",
            "finished_at",
        ]


class RefusalSerializer(serializers.ModelSerializer[ImportRefusal]):
    """One bad row: where it stands in the file and why it was refused."""

    class Meta:
        model = ImportRefusal
        fields = ["where", "reason"]


class UploadSerializer(serializers.Serializer[Any]):
    """A file to be read into a source. A name that exists adds the file to that source; nothing is added twice."""

    file = serializers.FileField(max_length=300)
    format = serializers.ChoiceField(choices=importers.available())
    name = serializers.SlugField(max_length=100)


class Sources(ListAPIView[Source]):
    """All sources, in the order they came."""

    can = Can.PRODUCE
    serializer_class = SourceSerializer
    pagination_class = OldestFirst
    queryset = queries.sources()


class SourceDetail(RetrieveAPIView[Source]):
    """One source."""

    can = Can.PRODUCE
    serializer_class = SourceSerializer
    queryset = queries.sources()
    lookup_field = "name"


class Records(ListAPIView[SourceRecord]):
    """The records of a source."""

    can = Can.PRODUCE
    serializer_class = RecordSerializer
    pagination_class = OldestFirst
    queryset = SourceRecord.objects.none()

    def get_queryset(self) -> QuerySet[SourceRecord]:
        return queries.records(queries.source(self.kwargs["name"]))


class Imports(ListAPIView[Import]):
    """Imports, newest first."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    pagination_class = NewestFirst
    parser_classes = [MultiPartParser]
    queryset = queries.imports()

    @extend_schema(request={"multipart/form-data": UploadSerializer}, responses={202: ImportSerializer})
    def post(self, request: Request) -> Response:
        """Send a file, as its authors publish it; a worker reads it."""
        body = sent(UploadSerializer, request)
        run = uploads.start_import(body["file"], format_name=body["format"], name=body["name"], actor=person(request))
        transaction.on_commit(partial(tasks.wake, tasks.run_import, run.pk))
        return Response(ImportSerializer(run).data, status=202)


class ImportDetail(RetrieveAPIView[Import]):
    """One import and how far it is."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    queryset = queries.imports()


class CancelImport(GenericAPIView[Import]):
    """Read no further; the records that were added stay. One that is over: 409."""

    can = Can.PRODUCE
    queryset = queries.imports()

    @extend_schema(request=None, responses=ImportSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return Response(ImportSerializer(services.cancel_import(self.get_object().pk)).data)


class Refusals(ListAPIView[ImportRefusal]):
    """The bad rows of an import, in file order (the first thousand; `refused` counts all)."""

    can = Can.PRODUCE
    serializer_class = RefusalSerializer
    pagination_class = OldestFirst
    queryset = ImportRefusal.objects.all()

    def get_queryset(self) -> QuerySet[ImportRefusal]:
        run = get_object_or_404(queries.imports(), pk=self.kwargs["pk"])
        return super().get_queryset().filter(run=run)


# -------------------------------------------------------------------------------------------------------- endpoints


class EndpointSerializer(serializers.ModelSerializer[Endpoint]):
    """A model at an OpenAI-compatible address. `key_env` is the NAME of a variable of the server; the key is never seen."""

    key_env = serializers.RegexField(VARIABLE, max_length=100, allow_blank=True, default="")

    class Meta:
        model = Endpoint
        fields = [
            "name",
            "url",
            "model",
            "key_env",
            "temperature",
            "max_tokens",
            "price_in",
            "price_out",
            "concurrency",
            "rpm",
            "tpm",
            "timeout",
            "batches",
            "batch_discount",
            "simulated",
            "created_at",
        ]
        read_only_fields = ["simulated", "created_at"]


class EndpointChangeSerializer(EndpointSerializer):
    """What may be changed of an endpoint: all but its name, and once it has answered not its address and model either."""

    class Meta(EndpointSerializer.Meta):
        read_only_fields = ["name", "simulated", "created_at"]


class Endpoints(ListAPIView[Endpoint]):
    """All endpoints, in the order they were made."""

    can = Can.CONNECT
    serializer_class = EndpointSerializer
    pagination_class = OldestFirst
    queryset = Endpoint.objects.all()

    @extend_schema(request=EndpointSerializer, responses={201: EndpointSerializer})
    def post(self, request: Request) -> Response:
        """Make an endpoint."""
        endpoint = services.add_endpoint(actor=person(request), **sent(EndpointSerializer, request))
        return Response(EndpointSerializer(endpoint).data, status=201)


class EndpointDetail(RetrieveAPIView[Endpoint]):
    """One endpoint."""

    can = Can.CONNECT
    serializer_class = EndpointSerializer
    queryset = Endpoint.objects.all()
    lookup_field = "name"

    @extend_schema(request=EndpointChangeSerializer(partial=True), responses=EndpointSerializer)
    def patch(self, request: Request, name: str) -> Response:
        """Change an endpoint: all but its name, and once it has answered not its address and model either."""
        endpoint = self.get_object()
        change = EndpointChangeSerializer(endpoint, data=request.data, partial=True)
        change.is_valid(raise_exception=True)
        with transaction.atomic():  # all of it or nothing: the service leaves out what it must not change
            changed = services.change_endpoint(endpoint, **change.validated_data)
            for field in ("url", "model"):
                if change.validated_data.get(field, getattr(changed, field)) != getattr(changed, field):
                    raise serializers.ValidationError(
                        {field: _("An endpoint that was called keeps it: results name it.")}
                    )
        return Response(EndpointSerializer(changed).data)


# ---------------------------------------------------------------------------------------------------------- batches


class ProgressSerializer(serializers.Serializer[Any]):
    """How far a piece of work is: its rows by status, and what its calls came to."""

    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    done = serializers.IntegerField()
    dropped = serializers.IntegerField()
    failed = serializers.IntegerField()
    total = serializers.IntegerField()
    percent = serializers.IntegerField()
    calls = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8, help_text="In the currency of the prices.")


class LaneSerializer(serializers.Serializer[Any]):
    """A worker at an endpoint: what it may have at once, and what it has in flight."""

    worker = serializers.CharField()
    job = serializers.CharField(help_text="`batch:7`, `run:3`.")
    share = serializers.IntegerField()
    flying = serializers.IntegerField()
    started_at = serializers.DateTimeField()


class EndpointNowSerializer(serializers.Serializer[Any]):
    """An endpoint at this moment. `open`: the circuit breaker's pause; `waiting`: it asked to be left alone; `down`: given up.

    `limit`: as many calls at once as it was found to bear; `others`: the share that other work has.
    """

    name = serializers.CharField()
    state = serializers.CharField(help_text="working, idle, waiting, open or down.")
    concurrency = serializers.IntegerField()
    limit = serializers.IntegerField()
    share = serializers.IntegerField()
    others = serializers.IntegerField()
    flying = serializers.IntegerField()
    blocked_until = serializers.DateTimeField(allow_null=True)
    down_since = serializers.DateTimeField(allow_null=True)
    because = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    lanes = LaneSerializer(many=True)


class TotalsSerializer(serializers.Serializer[Any]):
    """What calls came to. `calls` are HTTP attempts, `failed` those that ended in an error, `hits` what was paid for before."""

    calls = serializers.IntegerField()
    hits = serializers.IntegerField()
    failed = serializers.IntegerField()
    tokens_in = serializers.IntegerField()
    tokens_out = serializers.IntegerField()
    tokens_cached = serializers.IntegerField()
    tokens_reasoning = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8, help_text="In the currency of the prices.")


class LiveSerializer(serializers.Serializer[Any]):
    """A batch or a run at this moment. Null is unknown: nothing was measured yet, or nothing more will come."""

    rate = serializers.FloatField(allow_null=True, help_text="Calls a minute over the last minutes.")
    seconds_left = serializers.FloatField(allow_null=True)
    projected = serializers.DecimalField(
        max_digits=24, decimal_places=4, allow_null=True, help_text="The cost in the end, as it looks now."
    )
    error_counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Error class: how many calls ended in it."
    )
    endpoints = EndpointNowSerializer(many=True)
    worker_lives = serializers.BooleanField()


class DaySerializer(TotalsSerializer):
    """What the calls of an endpoint that began on a day (UTC) came to."""

    day = serializers.DateField()


class UsageSerializer(serializers.Serializer[Any]):
    """An endpoint at this moment, what was asked of it in all, and by day."""

    now = EndpointNowSerializer()
    total = TotalsSerializer()
    days = DaySerializer(many=True)


class UsageQuery(serializers.Serializer[Any]):
    """How far back."""

    days = serializers.IntegerField(default=30, min_value=1, max_value=366, help_text="So many, up to today (UTC).")


class EndpointUsage(GenericAPIView[Endpoint]):
    """An endpoint at this moment, what was asked of it in all, and by day."""

    can = Can.CONNECT
    queryset = Endpoint.objects.all()
    lookup_field = "name"

    @extend_schema(parameters=[UsageQuery], responses=UsageSerializer)
    def get(self, request: Request, name: str) -> Response:
        endpoint = self.get_object()
        whole, days = queries.usage(endpoint, days=asked(UsageQuery, request)["days"])
        found: Any = {"now": endpoint_now(endpoint), "total": whole, "days": days}
        return Response(UsageSerializer(found).data)


class BatchSerializer(serializers.ModelSerializer[Any]):
    """One launch of a recipe over the records of a source."""

    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)

    class Meta:
        model = Batch
        fields = [
            "id",
            "benchmark",
            "source",
            "status",
            "prompts",
            "preset",
            "comparison",
            "created_by",
            "created_at",
            "finished_at",
        ]


class CountedBatchSerializer(BatchSerializer):
    """A batch in the list, with counts of its drafts."""

    drafts_count = serializers.IntegerField()
    ended_count = serializers.IntegerField()
    failed_count = serializers.IntegerField()

    class Meta(BatchSerializer.Meta):
        fields = [*BatchSerializer.Meta.fields, "drafts_count", "ended_count", "failed_count"]


class JobSerializer(serializers.Serializer[Any]):
    """What may be spent on a batch or run, and, where it is paused, why and what to do about it.

    `paused_because` is empty where a person did it.
    """

    budget_money = serializers.DecimalField(max_digits=14, decimal_places=4, allow_null=True)
    budget_calls = serializers.IntegerField(allow_null=True)
    fresh = serializers.BooleanField()
    paused_because = serializers.CharField(allow_blank=True)
    paused_detail = serializers.CharField(allow_blank=True)
    advice = serializers.CharField(allow_blank=True)


JOB_FIELDS = ("budget_money", "budget_calls", "fresh", "paused_because", "paused_detail", "advice")


def job_values(job: Job) -> dict[str, Any]:
    """The values of `JobSerializer`."""
    return {**{name: getattr(job, name) for name in JOB_FIELDS if name != "advice"}, "advice": advice(job)}


class BudgetSerializer(serializers.Serializer[Any]):
    """A budget; what is left out stays as it is, null is no limit."""

    budget_money = serializers.DecimalField(
        max_digits=14, decimal_places=4, min_value=Decimal(0), allow_null=True, required=False
    )
    budget_calls = serializers.IntegerField(min_value=0, max_value=MOST_CALLS, allow_null=True, required=False)


def budget_sent(request: Request, job: Job) -> dict[str, Any]:
    """The budget that a job is to have, as the services take it. Raises DRF's ValidationError."""
    body = sent(BudgetSerializer, request)
    if not body:
        raise serializers.ValidationError(_("Give budget_money, budget_calls, or both."))
    return {
        "money": body.get("budget_money", job.budget_money),
        "calls": body.get("budget_calls", job.budget_calls),
    }


LAUNCH_KEY = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description="Any text of yours, another for each launch: sent again with the same body, it answers with what "
    "was launched the first time; with another body: 409.",
)


def launch_key(request: Request) -> str:
    """The key of a launch, "" where none was sent."""
    return str(request.headers.get("Idempotency-Key", ""))


class ConfirmSerializer(BudgetSerializer):
    """What makes a request a launch: a budget, or `confirmed`, which says that there shall be none."""

    fresh = serializers.BooleanField(default=False, help_text="Ask anew what has been paid for already.")
    confirmed = serializers.BooleanField(default=False, help_text="Without any budget: there is no limit.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        confirmed = attrs.pop("confirmed")
        attrs = {"budget_money": None, "budget_calls": None, **attrs}
        if attrs["budget_money"] is None and attrs["budget_calls"] is None and not confirmed:
            raise serializers.ValidationError(
                {"confirmed": _("Give budget_money or budget_calls, or confirm that there is no limit.")}
            )
        return attrs


class LineSerializer(serializers.Serializer[Any]):
    """What one endpoint would be asked under one prompt.

    `cached`: the share that was found paid for already, null where that was not looked up. `measured`: the earlier calls that
    the means are of; 0: the tokens are assumed. `batched`: questions are asked at the price of the provider's batches, retries
    and repairs at the full one.
    """

    role = serializers.CharField()
    endpoint = serializers.CharField()
    prompt = serializers.CharField()
    requests = serializers.IntegerField()
    cached = serializers.FloatField(allow_null=True)
    calls = serializers.IntegerField()
    tokens_in = serializers.IntegerField()
    tokens_out = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8, help_text="In the currency of the prices.")
    measured = serializers.IntegerField()
    batched = serializers.BooleanField()


class LaunchEstimateSerializer(serializers.Serializer[Any]):
    """What a launch would come to, line by line, and the budget that is proposed for each batch or run of it."""

    calls = serializers.IntegerField()
    tokens_in = serializers.IntegerField()
    tokens_out = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8)
    budget_money = serializers.DecimalField(max_digits=24, decimal_places=2, allow_null=True)
    budget_calls = serializers.IntegerField()
    lines = LineSerializer(many=True)


class WholeBatchSerializer(JobSerializer, BatchSerializer):
    """A batch with its models, its settings (those of its preset, as they were), its plan (scaled to it), its checks, its
    budget and its progress."""

    plan = serializers.DictField(help_text="name, targets by task and subtype, clusters by task and cluster.")
    settings = serializers.DictField(help_text="By name, as they were at the launch.")
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="The settings that the launch changed in the preset."
    )
    checks = serializers.ListField(child=serializers.CharField())
    roles = serializers.DictField(child=serializers.CharField(), help_text="Role of the recipe: endpoint.")
    progress = ProgressSerializer()
    totals = TotalsSerializer()
    live = LiveSerializer()

    class Meta(BatchSerializer.Meta):
        fields = [
            *BatchSerializer.Meta.fields,
            "plan",
            "settings",
            "changed",
            "checks",
            "roles",
            *JOB_FIELDS,
            "progress",
            "totals",
            "live",
        ]


def _known_benchmark(name: str) -> None:
    if name not in benchmarks.names():
        raise serializers.ValidationError(
            _("There is no benchmark of this name; known: %(names)s") % {"names": ", ".join(benchmarks.names())}
        )


class BatchAskSerializer(serializers.Serializer[Any]):
    """What a batch is to be. Every role that its records need wants an endpoint, unless it has another's by default or is
    optional.

    `plan`: a plan's name ("" the usual one, "none" for none), or targets by trap code. `checks`: null for all there are.
    """

    benchmark = serializers.CharField(max_length=64, validators=[_known_benchmark])
    source = ByName(queryset=Source.objects.all())  # type: ignore[assignment]
    roles = serializers.DictField(child=ByName(queryset=Endpoint.objects.all()))
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_ID, allow_null=True, default=None, help_text="At most so many records."
    )
    plan = serializers.JSONField(required=False, help_text='A name, or targets such as {"A1": 30, "C": 20}.')
    prompts = serializers.CharField(max_length=64, default="", allow_blank=True, help_text="The set of prompts.")
    preset = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="The recipe's preset; empty: the usual one."
    )
    settings = serializers.DictField(
        source="changes", default=dict, help_text='Values of the preset that are to be others: {"reviewers": "two"}.'
    )
    checks = serializers.ListField(child=serializers.CharField(max_length=40), allow_null=True, default=None)


class LaunchSerializer(ConfirmSerializer, BatchAskSerializer):
    """A batch to be launched, with a budget or `confirmed`."""


class CompareAskSerializer(BatchAskSerializer):
    """What a comparison is to be: the same records with the sets of prompts `prompts` and `compare`."""

    compare = serializers.CharField(max_length=64, allow_blank=True)


class CompareSerializer(ConfirmSerializer, CompareAskSerializer):
    """A comparison to be launched, with a budget that each of its batches has, or `confirmed`."""


def _estimated(body: dict[str, Any]) -> Response:
    """What a launch would come to."""
    prompts = [body["prompts"], *([body["compare"]] if "compare" in body else [])]
    names = ("benchmark", "source", "roles", "limit", "checks", "preset", "changes")
    plan = benchmarks.plan_of(body["benchmark"], body.get("plan", ""))
    found = estimates.of_batch(prompts=prompts, plan=plan, **{name: body[name] for name in names})
    return Response(LaunchEstimateSerializer(found).data)


def _asked_for(body: dict[str, Any], actor: User) -> dict[str, Any]:
    """The arguments of a launch. Raises WrongPlan."""
    setting = services.Setting(
        plan=benchmarks.plan_of(body["benchmark"], body.pop("plan", "")),
        prompts=body.pop("prompts"),
        preset=body.pop("preset"),
        changes=body.pop("changes"),
        checks=body.pop("checks"),
        **{name: body.pop(name) for name in ("budget_money", "budget_calls", "fresh")},
    )
    return {**body, "setting": setting, "actor": actor}


class DraftSerializer(serializers.ModelSerializer[Draft]):
    """A sample in the making. `step` is the step of the recipe that it waits at, `gate` what a check made of it."""

    record = serializers.CharField(source="record.external_id")
    preferred = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = Draft
        fields = [
            "id",
            "record",
            "parent",
            "sample",
            "version",
            "preferred",
            "step",
            "status",
            "gate",
            "tries",
            "error",
            "detail",
        ]


class DraftQuery(serializers.Serializer[Any]):
    """Which drafts."""

    status = serializers.ChoiceField(choices=Work.Status.choices, required=False)
    gate = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class FindingSerializer(serializers.ModelSerializer[Finding]):
    """What a check found in a draft. `other`: the sample that it is like, `likeness` from 0 to 1."""

    check_name = serializers.CharField()
    gate = serializers.CharField(source="draft.gate")
    other = serializers.CharField(source="other.key", allow_null=True, default=None)

    class Meta:
        model = Finding
        fields = ["id", "draft", "check_name", "stops", "detail", "other", "likeness", "gate", "created_at"]


class FindingQuery(serializers.Serializer[Any]):
    """Which findings."""

    check = serializers.CharField(required=False, max_length=40)
    state = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """Why; it is kept."""

    reason = serializers.CharField(max_length=2_000)


class AttemptsSerializer(serializers.Serializer[Any]):
    """Versions of one kind that physicians have decided on; null where it is not counted by this."""

    trap = serializers.CharField(allow_null=True)
    prompt = serializers.CharField(allow_null=True)
    generator = serializers.CharField(allow_null=True)
    decided = serializers.IntegerField()
    approved = serializers.IntegerField()
    first = serializers.IntegerField(help_text="First versions among them.")
    first_approved = serializers.IntegerField()
    mean = serializers.FloatField(allow_null=True, help_text="Attempts to approval, over approved samples.")


class AttemptsQuery(serializers.Serializer[Any]):
    """Whose attempts, and by what they are counted."""

    benchmark = serializers.CharField(max_length=64, validators=[_known_benchmark])
    by = serializers.MultipleChoiceField(choices=outcomes.BY, required=False)


class ComparisonSerializer(serializers.ModelSerializer[Comparison]):
    """Two batches over the same records, which differ in their set of prompts."""

    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    records_count = serializers.IntegerField()

    class Meta:
        model = Comparison
        fields = ["id", "benchmark", "source", "records_count", "created_at"]


class ArmSerializer(serializers.Serializer[Any]):
    """What one batch of a comparison came to."""

    arm = serializers.CharField(source="batch.arm")
    batch = serializers.IntegerField(source="batch.pk")
    prompts = serializers.CharField(source="batch.prompts", allow_blank=True)
    samples = serializers.IntegerField()
    approved = serializers.IntegerField()
    at_once = serializers.IntegerField()
    stopped = serializers.IntegerField()
    failed = serializers.IntegerField()
    calls = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8)


class ComparedSerializer(ComparisonSerializer):
    """A comparison with what both batches came to; `only_a`: records approved with A and, decided, not with B."""

    arms = ArmSerializer(many=True)
    only_a = serializers.IntegerField()
    only_b = serializers.IntegerField()
    chance = serializers.FloatField(allow_null=True, help_text="Of a split as uneven, if both were equally good.")

    class Meta(ComparisonSerializer.Meta):
        fields = [*ComparisonSerializer.Meta.fields, "arms", "only_a", "only_b", "chance"]


class SideSerializer(serializers.Serializer[Any]):
    """What became of a record in one batch: the sample's status, or where there is none the draft's."""

    status = serializers.CharField(allow_blank=True)
    sample = serializers.IntegerField(source="version.sample_id", allow_null=True, default=None)
    version = serializers.IntegerField(source="version.number", allow_null=True, default=None)
    traps = serializers.ListField(child=serializers.CharField(), source="version.traps", default=list)


class PairSerializer(serializers.Serializer[Any]):
    """A record with both outcomes."""

    record = serializers.CharField(source="record.external_id")
    a = SideSerializer()
    b = SideSerializer()
    differs = serializers.BooleanField()


class CallSerializer(serializers.ModelSerializer[Call]):
    """One HTTP attempt at a model, exactly as it was sent and answered. Keys are not part of it."""

    endpoint = serializers.CharField(source="endpoint.name")
    sent = serializers.DictField()

    class Meta:
        model = Call
        fields = [
            "id",
            "endpoint",
            "model",
            "prompt",
            "sent",
            "text",
            "reasoning",
            "finish_reason",
            "tokens_in",
            "tokens_out",
            "tokens_cached",
            "tokens_reasoning",
            "cost",
            "seconds",
            "attempt",
            "error",
            "detail",
            "http_status",
            "simulated",
            "started_at",
        ]


class FailedCallSerializer(serializers.ModelSerializer[Call]):
    """A call that ended in an error, with what came back. `subject` is the row it was made for (``draft:12``)."""

    endpoint = serializers.CharField(source="endpoint.name")

    class Meta:
        model = Call
        fields = [
            "id",
            "subject",
            "endpoint",
            "model",
            "prompt",
            "text",
            "reasoning",
            "attempt",
            "error",
            "detail",
            "http_status",
            "started_at",
        ]


class FailureQuery(serializers.Serializer[Any]):
    """Which failures."""

    error = serializers.CharField(required=False, max_length=64, help_text="An error class.")


@extend_schema_view(get=extend_schema(parameters=[FailureQuery]))
class BatchFailures(ListAPIView[Call]):
    """The calls of a batch that ended in an error, newest first; what healed by trying again is among them."""

    can = Can.PRODUCE
    serializer_class = FailedCallSerializer
    pagination_class = NewestFirst
    queryset = Call.objects.none()

    def get_queryset(self) -> QuerySet[Call]:
        batch = get_object_or_404(Batch, pk=self.kwargs["pk"])
        return queries.failed_calls(batch.job, **asked(FailureQuery, self.request))


def _whole_batch(batch: Batch) -> dict[str, Any]:
    bound = BatchRole.objects.filter(batch=batch).order_by("pk").values_list("role", "endpoint__name")
    return {
        **{name: getattr(batch, name) for name in BatchSerializer.Meta.fields},
        **job_values(batch),
        "plan": batch.plan,
        "settings": batch.settings,
        "changed": batch.changed,
        "checks": batch.checks,
        "roles": dict(bound),
        "progress": queries.batch_progress(batch),
        "totals": batch,
        "live": queries.batch_live(batch),
    }


def _batch_answer(pk: int, status: int = 200) -> Response:
    batch = queries.watched_batches().get(pk=pk)
    return Response(WholeBatchSerializer(_whole_batch(batch)).data, status=status)


class Batches(ListAPIView[Batch]):
    """Batches, newest first."""

    can = Can.PRODUCE
    serializer_class = CountedBatchSerializer
    pagination_class = NewestFirst
    queryset = queries.batches()

    @extend_schema(parameters=[LAUNCH_KEY], request=LaunchSerializer, responses={202: WholeBatchSerializer})
    def post(self, request: Request) -> Response:
        """Launch a recipe over records that have no draft of this benchmark yet; workers take it."""
        asked = _asked_for(sent(LaunchSerializer, request), person(request))
        batch = services.launch_batch(**asked, key=launch_key(request))
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, batch.pk))
        return _batch_answer(batch.pk, 202)


class EstimateBatch(APIView):
    """What a batch would come to, before anything is asked: calls, tokens and money, with the basis of each line."""

    can = Can.PRODUCE

    @extend_schema(request=BatchAskSerializer, responses=LaunchEstimateSerializer)
    def post(self, request: Request) -> Response:
        return _estimated(sent(BatchAskSerializer, request))


class BatchDetail(GenericAPIView[Batch]):
    """One batch with its progress."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(responses=WholeBatchSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return _batch_answer(self.get_object().pk)


class AnalysisSerializer(serializers.Serializer[Any]):
    """What the drafts of a batch show together, block by block."""

    blocks = BlockSerializer(many=True)


class BatchAnalysis(GenericAPIView[Batch]):
    """What the data of all drafts of a batch show together. A benchmark whose recipe has no analysis: 404."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(responses=AnalysisSerializer)
    def get(self, request: Request, pk: int) -> Response:
        found: Any = {"blocks": blocks_to_json(queries.analysis(self.get_object()))}
        return Response(AnalysisSerializer(found).data)


class CancelBatch(GenericAPIView[Batch]):
    """Take no further draft of it; what it made stays. One that is over: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses=WholeBatchSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return _batch_answer(services.cancel_batch(self.get_object().pk).pk)


class PauseBatch(GenericAPIView[Batch]):
    """Start no further call of it; what is in flight is kept. One that is over: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses=WholeBatchSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return _batch_answer(services.pause_batch(self.get_object().pk).pk)


class ResumeBatch(GenericAPIView[Batch]):
    """Go on with it, its endpoints included. One that is over, or whose budget is spent: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.resume_batch(self.get_object().pk)
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)


class BatchBudget(GenericAPIView[Batch]):
    """Give it another budget; one that had paused for want of it goes on. A cancelled one: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=BudgetSerializer, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.set_batch_budget(pk, **budget_sent(request, self.get_object()))
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)


class RetryBatch(GenericAPIView[Batch]):
    """Queue again what failed. A cancelled batch: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.retry_failed(self.get_object().pk)
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)


@extend_schema_view(get=extend_schema(parameters=[DraftQuery]))
class Drafts(ListAPIView[Draft]):
    """The drafts of a batch."""

    can = Can.PRODUCE
    serializer_class = DraftSerializer
    pagination_class = OldestFirst
    queryset = Draft.objects.select_related("record").defer("data", "record__content", "record__private")

    def get_queryset(self) -> QuerySet[Draft]:
        batch = get_object_or_404(Batch, pk=self.kwargs["pk"])
        return super().get_queryset().filter(batch=batch, **asked(DraftQuery, self.request))


@extend_schema_view(get=extend_schema(parameters=[FindingQuery]))
class Findings(ListAPIView[Finding]):
    """What the checks found in the drafts of a batch."""

    can = Can.PRODUCE
    serializer_class = FindingSerializer
    pagination_class = OldestFirst
    queryset = Finding.objects.none()

    def get_queryset(self) -> QuerySet[Finding]:
        batch = get_object_or_404(Batch, pk=self.kwargs["pk"])
        return queries.findings(batch, **asked(FindingQuery, self.request))


class LetThrough(GenericAPIView[Draft]):
    """Put before physicians what a check had stopped. A draft that is not stopped: 409."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record")

    @extend_schema(request=ReasonSerializer, responses=DraftSerializer)
    def post(self, request: Request, pk: int) -> Response:
        reason = sent(ReasonSerializer, request)["reason"]
        services.let_through(self.get_object().pk, actor=person(request), reason=reason)
        return Response(DraftSerializer(self.get_object()).data)


class DiscardStopped(GenericAPIView[Draft]):
    """Give up what a check had stopped. A draft that is not stopped: 409."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record")

    @extend_schema(request=ReasonSerializer, responses=DraftSerializer)
    def post(self, request: Request, pk: int) -> Response:
        reason = sent(ReasonSerializer, request)["reason"]
        services.discard_stopped(self.get_object().pk, actor=person(request), reason=reason)
        return Response(DraftSerializer(self.get_object()).data)


class AttemptsView(APIView):
    """Attempts to approval by trap, prompt and generator, or by some of them."""

    can = Can.PRODUCE

    @extend_schema(parameters=[AttemptsQuery], responses=AttemptsSerializer(many=True))
    def get(self, request: Request) -> Response:
        query = asked(AttemptsQuery, request)
        by = [name for name in outcomes.BY if name in (query.get("by") or outcomes.BY)]
        nothing = dict.fromkeys(outcomes.BY)
        rows = [
            {**nothing, **asdict(row), "mean": row.mean, **dict(zip(by, row.key, strict=True))}
            for row in outcomes.attempts(query["benchmark"], by)
        ]
        return Response(AttemptsSerializer(rows, many=True).data)


class Comparisons(ListAPIView[Comparison]):
    """Comparisons of two sets of prompts, newest first."""

    can = Can.PRODUCE
    serializer_class = ComparisonSerializer
    pagination_class = NewestFirst
    queryset = outcomes.comparisons()

    @extend_schema(parameters=[LAUNCH_KEY], request=CompareSerializer, responses={202: ComparedSerializer})
    def post(self, request: Request) -> Response:
        """Launch two batches over the same records; workers take them."""
        body = sent(CompareSerializer, request)
        prompts = (body["prompts"], body.pop("compare"))
        asked = _asked_for(body, person(request))
        made = services.launch_comparison(prompts=prompts, **asked, key=launch_key(request))
        for pk in made.batches.order_by("arm").values_list("pk", flat=True):
            transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return Response(_compared(made.pk), status=202)


class EstimateComparison(APIView):
    """What a comparison would come to, both batches together, before anything is asked."""

    can = Can.PRODUCE

    @extend_schema(request=CompareAskSerializer, responses=LaunchEstimateSerializer)
    def post(self, request: Request) -> Response:
        return _estimated(sent(CompareAskSerializer, request))


class ComparisonDetail(GenericAPIView[Comparison]):
    """One comparison with what both batches came to."""

    can = Can.PRODUCE
    queryset = Comparison.objects.all()

    @extend_schema(responses=ComparedSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(_compared(self.get_object().pk))


def _compared(pk: int) -> Any:
    found = outcomes.comparisons().get(pk=pk)
    both = outcomes.compared(found)
    about = {name: getattr(found, name) for name in ComparisonSerializer.Meta.fields}
    figures = {name: getattr(both, name) for name in ("arms", "only_a", "only_b", "chance")}
    whole: Any = {**about, **figures}
    return ComparedSerializer(whole).data


class Pairs(GenericAPIView[SourceRecord]):
    """The records of a comparison, each with both outcomes."""

    can = Can.PRODUCE
    serializer_class = PairSerializer
    pagination_class = OldestFirst
    queryset = SourceRecord.objects.none()

    @extend_schema(responses=PairSerializer(many=True))
    def get(self, request: Request, pk: int) -> Response:
        found = get_object_or_404(Comparison, pk=pk)
        records = self.paginate_queryset(outcomes.records_of(found)) or []
        return self.get_paginated_response(PairSerializer(outcomes.pairs(found, records), many=True).data)


class Calls(ListAPIView[Call]):
    """What models were asked for a draft and what they said, call by call."""

    can = Can.PRODUCE
    serializer_class = CallSerializer
    pagination_class = OldestFirst
    queryset = Call.objects.none()

    def get_queryset(self) -> QuerySet[Call]:
        draft = get_object_or_404(Draft, pk=self.kwargs["pk"])
        return queries.calls_of(f"draft:{draft.pk}")


# ---------------------------------------------------------------------------------------------------------- samples


class SampleSerializer(serializers.ModelSerializer[Sample]):
    """One test case, whatever its version. `key` is its name in releases; `unreviewed`: approved without any physician's word,
    because it is outside the share that is reviewed."""

    key = serializers.CharField()
    record = serializers.CharField(source="record.external_id")
    title = serializers.CharField(source="record.title")
    versions_count = serializers.IntegerField()
    unreviewed = serializers.BooleanField()

    class Meta:
        model = Sample
        fields = [
            "id",
            "key",
            "benchmark",
            "task",
            "status",
            "unreviewed",
            "batch",
            "record",
            "title",
            "created_at",
            "versions_count",
        ]


class RubricSerializer(serializers.ModelSerializer[Rubric]):
    """One criterion, as generated, and as physicians approved it (empty until then), with the harm they expect.

    `removed`: they took it away. `added`: it is theirs.
    """

    traps = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = Rubric
        fields = ["key", "criterion", "approved", "traps", "severity", "removed", "added"]


class VersionSerializer(serializers.ModelSerializer[SampleVersion]):
    """One version of a sample. `reasons`: why it was rejected. `citations`: the evidence of those who approved it.

    `made`: how it was made, as the recipe says, by name.
    """

    made = serializers.DictField(child=serializers.CharField())
    content = serializers.DictField()
    citations = serializers.ListField(child=serializers.DictField())
    reasons = serializers.ListField(child=serializers.CharField())
    rubrics = RubricSerializer(many=True)

    class Meta:
        model = SampleVersion
        fields = [
            "number",
            "status",
            "case",
            "title",
            "content",
            "rubrics",
            "reasons",
            "citations",
            "prompt",
            "generator",
            "made",
            "simulated",
            "created_at",
        ]


class WholeSampleSerializer(SampleSerializer):
    """A sample with all its versions."""

    versions = VersionSerializer(many=True)

    class Meta(SampleSerializer.Meta):
        fields = [*SampleSerializer.Meta.fields, "versions"]


class SampleQuery(serializers.Serializer[Any]):
    """Which samples."""

    benchmark = serializers.CharField(required=False, max_length=64)
    task = serializers.CharField(required=False, max_length=40)
    status = serializers.ChoiceField(choices=Sample.Status.choices, required=False)
    text = serializers.CharField(required=False, max_length=200, help_text="In the title, the record's id or the key.")
    batch = serializers.IntegerField(required=False, min_value=1, max_value=MAX_ID)


@extend_schema_view(get=extend_schema(parameters=[SampleQuery]))
class Samples(ListAPIView[Sample]):
    """Samples, newest first."""

    can = Can.PRODUCE
    serializer_class = SampleSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[Sample]:
        wanted = asked(SampleQuery, self.request)
        batch = wanted.pop("batch", None)
        found = queries.samples(**wanted).defer("record__content", "record__private")
        return found.filter(batch=batch) if batch else found


class SampleDetail(RetrieveAPIView[Sample]):
    """One sample with its versions and their rubrics."""

    can = Can.PRODUCE
    serializer_class = WholeSampleSerializer

    def get_queryset(self) -> QuerySet[Sample]:
        rubrics = Prefetch("rubrics", Rubric.objects.order_by("pk"))
        versions = Prefetch("versions", SampleVersion.objects.order_by("number").prefetch_related(rubrics))
        return queries.samples().defer("record__content", "record__private").prefetch_related(versions)


# --------------------------------------------------------------------------------------------------------- releases


class CountSerializer(serializers.Serializer[Any]):
    """How much of a release falls under one value of a facet."""

    samples = serializers.IntegerField()
    rubrics = serializers.IntegerField()


class ReleasedSourceSerializer(serializers.Serializer[Any]):
    """A source that a release drew on."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    licence = serializers.CharField()
    citation = serializers.CharField()
    restrictions = serializers.CharField()
    samples = serializers.IntegerField()
    joined = serializers.BooleanField(
        default=False, help_text="Its records are no samples: they were joined with those that became some."
    )


class ReleaseSerializer(serializers.ModelSerializer[Release]):
    """A frozen, versioned, checksummed set of approved samples. `sha256` is that of its JSON Lines export."""

    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)

    class Meta:
        model = Release
        fields = [
            "name",
            "version",
            "benchmark",
            "samples_count",
            "rubrics_count",
            "simulated",
            "sha256",
            "created_by",
            "created_at",
        ]


class WholeReleaseSerializer(ReleaseSerializer):
    """A release with what it is made of. `counts`: facet, value, samples and rubrics.

    `made`: how samples were made, by name and value. `grounds`: why they were approved; `unreviewed` of them no physician saw.
    """

    counts = serializers.DictField(child=serializers.DictField(child=CountSerializer()))
    sources = ReleasedSourceSerializer(many=True)
    generators = serializers.ListField(child=serializers.CharField())
    made = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))
    grounds = serializers.DictField(child=serializers.IntegerField())
    reviewers = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="`physicians`: accounts that reviewed; `simulated` of them are scripted stand-ins, who had a part in"
        " `simulated_samples`. Empty: frozen before it was counted.",
    )
    unreviewed = serializers.IntegerField()

    class Meta(ReleaseSerializer.Meta):
        fields = [
            *ReleaseSerializer.Meta.fields,
            *("counts", "sources", "generators", "made", "grounds", "unreviewed", "reviewers"),
        ]


class FreezeSerializer(serializers.Serializer[Any]):
    """A release to be frozen; a name that exists gets its next version."""

    name = serializers.SlugField(max_length=100)
    benchmark = serializers.CharField(max_length=64, validators=[_known_benchmark])


class ReleasedRubricSerializer(serializers.ModelSerializer[ReleasedRubric]):
    """A rubric in the wording that physicians approved, with the harm they expect; as generated where nobody reviewed it."""

    traps = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = ReleasedRubric
        fields = ["key", "criterion", "traps", "severity"]


class ReleasedSampleSerializer(serializers.ModelSerializer[ReleasedSample]):
    """A sample as released: `exported` is its object in the export, `rubrics` stand beside it."""

    exported = serializers.DictField()
    rubrics = ReleasedRubricSerializer(many=True)

    class Meta:
        model = ReleasedSample
        fields = ["position", "key", "task", "exported", "rubrics"]


class ExportQuery(serializers.Serializer[Any]):
    """In which format. JSON Lines is the file itself; the others are a zip with data card and checksums."""

    format = serializers.ChoiceField(choices=exporters.available(), default="jsonl")


def _release(name: str, version: int) -> Release:
    return get_object_or_404(queries.releases(), name=name, version=version)


class Releases(ListAPIView[Release]):
    """Releases, newest first."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}
    serializer_class = ReleaseSerializer
    pagination_class = NewestFirst
    queryset = queries.releases()

    @extend_schema(request=FreezeSerializer, responses={201: WholeReleaseSerializer})
    def post(self, request: Request) -> Response:
        """Freeze what is approved as the next version of a name. Nothing approved, or nothing new: 409."""
        body = sent(FreezeSerializer, request)
        services.handle_outcomes()  # what physicians decided a moment ago belongs to it
        release = releases.freeze_release(body["name"], benchmark=body["benchmark"], actor=person(request))
        return Response(WholeReleaseSerializer(release).data, status=201)


class ReleaseDetail(APIView):
    """One release with what it is made of."""

    can = Can.READ_RESULTS

    @extend_schema(responses=WholeReleaseSerializer)
    def get(self, request: Request, name: str, version: int) -> Response:
        return Response(WholeReleaseSerializer(_release(name, version)).data)


class ReleasedSamples(ListAPIView[ReleasedSample]):
    """The samples of a release, in its order."""

    can = Can.READ_RESULTS
    serializer_class = ReleasedSampleSerializer
    pagination_class = OldestFirst
    queryset = ReleasedSample.objects.none()

    def get_queryset(self) -> QuerySet[ReleasedSample]:
        release = _release(self.kwargs["name"], self.kwargs["version"])
        rubrics = Prefetch("rubrics", ReleasedRubric.objects.order_by("pk"))
        return queries.released_samples(release).prefetch_related(rubrics)


class Export(APIView):
    """The whole release as a file: the same release and format give the same bytes."""

    can = Can.READ_RESULTS

    @extend_schema(
        parameters=[ExportQuery],
        responses={(200, "application/jsonl"): OpenApiTypes.STR, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str, version: int) -> HttpResponseBase:
        format_name = asked(ExportQuery, request)["format"]
        release = _release(name, version)
        if format_name == "jsonl":
            return FileResponse(
                releases.open_samples(release),
                as_attachment=True,
                filename=f"{name}-v{version}.jsonl",
                content_type="application/jsonl",
            )
        return FileResponse(
            archive.zipped_release(release, format_name),
            as_attachment=True,
            filename=f"{name}-v{version}-{format_name}.zip",
            content_type="application/zip",
        )


class DataCard(APIView):
    """The release in words, as Markdown."""

    can = Can.READ_RESULTS

    @extend_schema(responses={(200, "text/markdown"): OpenApiTypes.STR})
    def get(self, request: Request, name: str, version: int) -> HttpResponse:
        card = releases.data_card(_release(name, version))
        return HttpResponse(card, content_type="text/markdown; charset=utf-8")
