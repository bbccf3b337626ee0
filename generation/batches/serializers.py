"""The body of a request to estimate or launch a batch."""

from typing import Any

from rest_framework import serializers

from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.jobs.serializers import LikeSerializer, launching
from generation.recipes import registry
from generation.recipes.serializers import known_benchmark


class BatchSettingsSerializer(LikeSerializer):
    """The settings of a batch. Every role that its records need must have an endpoint, unless the role has a default or
    is optional. Benchmark, source and roles are required without `like`. With it, roles and settings are replaced one by
    one, and another preset drops the overrides.

    `plan`: a plan's name ("" for the default, "none" for none), or targets by trap code. `checks`:
    null for all.
    """

    kind = BATCHES
    settings_class = BatchSettings

    omitted = ("compare",)

    benchmark = serializers.CharField(max_length=64, validators=[known_benchmark], required=False)
    plan = serializers.JSONField(required=False, help_text='A name, or targets such as {"A1": 30, "C": 20}.')


LaunchBatchSerializer = launching(
    "LaunchBatch", BatchSettingsSerializer, "A batch to launch, with a budget or `confirmed`."
)


def batch_settings(body: dict[str, Any]) -> BatchSettings:
    """The settings in a validated body. Raises WrongPlan."""
    return BatchSettings(**{**body, "plan": registry.resolve_plan(body["benchmark"], body.get("plan", ""))})
