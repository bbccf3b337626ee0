"""The body of a request to estimate or launch a batch."""

from typing import Any

from rest_framework import serializers

from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.jobs.serializers import LikeSerializer
from generation.models import Endpoint
from generation.recipes import registry
from generation.recipes.serializers import known_benchmark
from review.common.api import NamedRowField, ShortDictField, ShortListField


class BatchSettingsSerializer(LikeSerializer):
    """The settings of a batch. Every role that its records need must have an endpoint, unless the role has a default or
    is optional. Benchmark, source and roles are required without `like`. With it, roles and settings are replaced one by
    one, and another preset drops the overrides.

    `plan`: a plan's name ("" for the default, "none" for none), or targets by trap code. `checks`:
    null for all.
    """

    kind = BATCHES
    settings_class = BatchSettings

    benchmark = serializers.CharField(max_length=64, validators=[known_benchmark], required=False)
    roles = ShortDictField(child=NamedRowField(queryset=Endpoint.objects.exclude(url="")), required=False)
    beside = ShortListField(
        child=NamedRowField(queryset=Endpoint.objects.exclude(url="")),
        default=list,
        help_text="Further endpoints for the role that several may play; each record gets one draft per endpoint.",
    )
    where = ShortDictField(
        child=serializers.ListField(child=serializers.CharField(max_length=300), min_length=1, max_length=100),
        default=dict,
        help_text='Draw only records with one of these values of each field: {"language": ["en"]}.',
    )
    plan = serializers.JSONField(required=False, help_text='A name, or targets such as {"A1": 30, "C": 20}.')
    settings = ShortDictField(
        source="changes", default=dict, help_text='Preset values to override: {"reviewers": "two"}.'
    )
    checks = ShortListField(child=serializers.CharField(max_length=40), allow_null=True, default=None)


class LaunchBatchSerializer(BatchSettingsSerializer):
    """A batch to launch, with a budget or `confirmed`."""

    is_launch = True


def batch_settings(body: dict[str, Any]) -> BatchSettings:
    """The settings in a validated body. Raises WrongPlan."""
    return BatchSettings(**{**body, "plan": registry.resolve_plan(body["benchmark"], body.get("plan", ""))})
