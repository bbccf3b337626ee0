"""The common part of batches and runs in the API: status, budget, estimate, calls."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django.db.models import Model
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from generation.endpoints.queries import UsageTotals
from generation.jobs.kinds import JobKind
from generation.jobs.life_cycle import advice
from generation.jobs.live_status import LiveStatus, Progress
from generation.jobs.settings import Budget, JobLimits, Setting, Settings, settings_of
from generation.models import Call
from generation.models.jobs import Job
from review.common.api import NamedRowField, ShortDictField, ShortListField, validated_body
from review.common.serializers import Field, Fields, WithValues, extended, rows_of, serializer_of
from review.rules import limits
from review.rules.limits import MAX_ID

# The budget of a batch or run and, if it is paused, why and what to do.
JOB: Fields = {
    "budget_calls": serializers.IntegerField(allow_null=True),
    "most_lanes": serializers.IntegerField(allow_null=True),
    "fresh": serializers.BooleanField(),
    "budget_money": serializers.DecimalField(max_digits=14, decimal_places=4, allow_null=True),
    "priority": serializers.ChoiceField(choices=Job.Priority.choices),
    "first_only": serializers.BooleanField(help_text="Whether it pauses when its first record has ended."),
    "model_checks": serializers.DictField(
        help_text="What a try of each endpoint showed before the first row: by its number, its name and what was `tried`."
    ),
    "paused_because": serializers.CharField(allow_blank=True, help_text="Empty if a person paused it."),
    "paused_detail": serializers.CharField(allow_blank=True, help_text="For those who control the job."),
    "advice": serializers.CharField(allow_blank=True),
}


def job_for(kind: JobKind[Any], pk: int, reader: object) -> WithValues:
    """A job as `reader` may see it, with its progress, totals and advice."""
    return job_with_values(kind, kind.get_with_status(pk, reader))


def job_with_values(kind: JobKind[Any], job: Job, **values: Any) -> WithValues:
    """A job with its progress, totals and advice, and further values."""
    return WithValues(job, advice=advice(job), progress=kind.progress(job), totals=job, live=kind.live(job), **values)


AnyJobSerializer = extended(
    "AnyJob",
    serializers.Serializer,
    "A job of any kind: status, budget, progress and totals.",
    **JOB,
    id=serializers.IntegerField(),
    status=serializers.CharField(),
    created_at=serializers.DateTimeField(),
    finished_at=serializers.DateTimeField(allow_null=True),
    progress=serializer_of(Progress)(),
    totals=serializer_of(UsageTotals)(),
    live=serializer_of(LiveStatus)(),
)


def api_field(each: Setting) -> Field:
    """The API's field of a setting."""
    common: dict[str, Any] = {"help_text": each.description, "required": each.required}
    if each.api_name != each.name:
        common["source"] = each.name
    if not each.required:
        if each.default is None:
            common["allow_null"] = True
        elif each.named:
            common["default"] = dict
        elif each.many:
            common["default"] = list
        else:
            common["default"] = each.default
    if each.named:
        value = _plain_field(each)
        if each.many:
            value = serializers.ListField(child=value, min_length=1, max_length=each.entries)
        return ShortDictField(child=value, **common)
    if each.many:
        return ShortListField(
            child=_plain_field(each), max_length=each.entries, allow_empty=not each.required, **common
        )
    return _plain_field(each, **common)


def _plain_field(each: Setting, **common: Any) -> Field:
    if each.kind is Any:
        return serializers.JSONField(**common)
    if issubclass(each.kind, Model):
        return NamedRowField(queryset=each.kind._default_manager.all(), **common)
    if each.choices and not each.many:
        return serializers.ChoiceField(choices=each.choices, **common)
    if each.kind is str:
        common["max_length"] = each.bounds.get("max_length", limits.NAME)
        common["allow_blank"] = not (each.many or each.named or each.required)
        if "pattern" in each.bounds:
            return serializers.RegexField(each.bounds["pattern"], **common)
        return serializers.CharField(**common)
    if each.kind is bool:
        return serializers.BooleanField(**common)
    common |= {"min_value": each.bounds.get("ge"), "max_value": each.bounds.get("le")}
    if each.kind is Decimal:
        return serializers.DecimalField(max_digits=14, decimal_places=4, **common)
    if each.kind is int:
        return serializers.IntegerField(**common)
    return serializers.FloatField(**common)


def fields_of(model: type[Settings]) -> dict[str, Field]:
    """The API's fields of all settings of a model."""
    return {each.api_name: api_field(each) for each in settings_of(model)}


class SettingsSerializer(serializers.Serializer[Any]):
    """Has a field for each setting of `settings_class`; fields that differ are declared."""

    settings_class: ClassVar[type[Settings]]
    omitted: ClassVar[tuple[str, ...]] = ()  # settings that a request does not have

    def get_fields(self) -> dict[str, Field]:
        asked = [each for each in settings_of(self.settings_class) if each.name not in self.omitted]
        return {each.api_name: api_field(each) for each in asked} | super().get_fields()


class LimitsSerializer(SettingsSerializer):
    """A job's limits. A field left out keeps its value; null means no limit."""

    settings_class = JobLimits


def requested_limits(request: Request) -> dict[str, Any]:
    """The limits of a job that shall change, by setting. Raises DRF's ValidationError."""
    body = validated_body(LimitsSerializer, request)
    body = {name: value for name, value in body.items() if name in request.data}  # without defaults
    if not body:
        raise serializers.ValidationError(_("Give budget_money, budget_calls, priority or most_lanes."))
    return body


LAUNCH_KEY = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description="A text that you choose, different for each launch. Sending the same body again returns the first "
    "launch; another body gets 409.",
)


def launch_key(request: Request) -> str:
    """The idempotency key of a launch; "" if none was sent."""
    return str(request.headers.get("Idempotency-Key", ""))


class ConfirmSerializer(SettingsSerializer):
    """Confirms a launch by a budget, or by `confirmed` for none; an estimate needs neither."""

    is_launch: ClassVar[bool] = True

    confirmed = serializers.BooleanField(default=False, help_text="Launch without a budget: there is no limit.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        confirmed = attrs.pop("confirmed") or any(attrs.get(name) is not None for name in Budget.model_fields)
        if self.is_launch and not confirmed:
            raise serializers.ValidationError(
                {"confirmed": _("Give budget_money or budget_calls, or confirm that there is no limit.")}
            )
        return attrs


class LikeSerializer(ConfirmSerializer):
    """What to estimate or launch; `like` provides the values that are left out."""

    is_launch = False
    kind: ClassVar[JobKind[Any]]  # of the launched jobs

    like = serializers.IntegerField(
        min_value=1,
        max_value=MAX_ID,
        required=False,
        allow_null=True,
        help_text="The number of an earlier job: its settings are used for every field left out here, except the limit, the "
        "budget and `fresh`.",
    )

    def get_fields(self) -> dict[str, Field]:
        fields = super().get_fields()
        for name in fields.keys() - self._declared_fields.keys():
            fields[name].required = False
        return fields

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            data = dict(data)
            if (like := data.pop("like", None)) is not None:
                data = self.kind.repeat_settings(self._job(like), data)
            asked = settings_of(self.settings_class)
            if missing := [each.api_name for each in asked if each.required and each.api_name not in data]:
                raise serializers.ValidationError({name: [_("This field is required.")] for name in missing})
        return super().to_internal_value(data)

    def _job(self, like: Any) -> Job:
        field = self.fields["like"]
        try:
            number = field.run_validation(like)
        except serializers.ValidationError as wrong:
            raise serializers.ValidationError({"like": wrong.detail}) from wrong
        job: Job | None = self.kind.jobs().filter(id=number).first()
        if job is None:
            raise serializers.ValidationError({"like": [str(self.kind.unknown())]})
        return job


def launching(name: str, estimating: type[ConfirmSerializer], doc: str, /) -> type[ConfirmSerializer]:
    """The serializer of a launch, from that of its estimate. `name` and `doc` are for the schema."""
    return type(f"{name}Serializer", (estimating,), {"__doc__": doc, "is_launch": True})


CallSerializer = rows_of(
    "Call",
    Call,
    """id model prompt text reasoning finish_reason tokens_in tokens_out tokens_cached tokens_written
    tokens_reasoning estimated cost seconds attempt error detail http_status simulated started_at""",
    "One HTTP attempt at a model, exactly as sent and answered, without keys.",
    endpoint=serializers.CharField(source="endpoint.name"),
    sent=serializers.DictField(),
)

FailedCallSerializer = rows_of(
    "FailedCall",
    Call,
    "id subject model prompt text reasoning attempt error detail http_status started_at",
    "A failed call with what came back. `subject` is the row it was made for (``draft:12``).",
    endpoint=serializers.CharField(source="endpoint.name"),
)
