"""What batch and run share in the API: status, budget, estimate, calls."""

from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from generation.jobs.life_cycle import MOST_CALLS, advice
from generation.models import Call
from generation.models.jobs import Job
from review.common.api import sent


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
