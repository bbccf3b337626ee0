"""The body of a request to estimate or launch a run."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RELEASE_HELP, RunSettings
from generation.jobs.serializers import LikeSerializer, launching
from generation.releases import queries as releases_queries


@extend_schema_field(
    {
        "oneOf": [
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 20}, "maxProperties": 20},
            {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 20},
        ]
    }
)
class RulesField(serializers.ListField):
    """Rules as OUTCOME=RULE; an object of outcomes and rules is taken too."""

    child = serializers.CharField(max_length=40)
    max_length = 20

    def to_internal_value(self, data: Any) -> list[str]:
        if isinstance(data, dict):
            data = [f"{outcome}={rule}" for outcome, rule in data.items()]
        rules: list[str] = super().to_internal_value(data)
        return rules


class RunSettingsSerializer(LikeSerializer):
    """The settings of a run.

    Release and endpoints are required without `like`; a judge, unless code reads the benchmark's
    answers. With `like`, other endpoints drop the planned comparisons, other judges the further
    judges and the judge's temperature, and another preset metric and outcomes.
    """

    kind = RUNS
    settings_class = RunSettings

    outcomes = RulesField(
        default=list,
        help_text="How outcomes count that the preset counts otherwise: an object of outcomes and rules, or a list of"
        " OUTCOME=RULE. A rule is `judged`, `excluded` or a verdict.",
    )
    release = serializers.RegexField(r"^[-\w]+(@\d{1,9})?\Z", max_length=110, required=False, help_text=RELEASE_HELP)


LaunchRunSerializer = launching("LaunchRun", RunSettingsSerializer, "A run to launch, with a budget or `confirmed`.")


def run_settings(body: dict[str, Any]) -> RunSettings:
    """The settings in a validated body. Raises UnknownRelease."""
    return RunSettings(**{**body, "release": releases_queries.release(body["release"])})
