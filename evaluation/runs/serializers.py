"""The body of a request to estimate or launch a run."""

from typing import Any

from rest_framework import serializers

from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RELEASE_HELP, RunSettings
from generation.jobs.serializers import LikeSerializer
from generation.releases import queries as releases_queries


class RunSettingsSerializer(LikeSerializer):
    """The settings of a run.

    Release and endpoints are required without `like`; a judge, unless code reads the benchmark's
    answers. With `like`, other endpoints drop the planned comparisons, other judges the further
    judges and the judge's temperature, and another preset metric and outcomes.
    """

    kind = RUNS
    settings_class = RunSettings

    release = serializers.RegexField(r"^[-\w]+(@\d{1,9})?\Z", max_length=110, required=False, help_text=RELEASE_HELP)


class LaunchRunSerializer(RunSettingsSerializer):
    """A run to launch, with a budget or `confirmed`."""

    is_launch = True


def run_settings(body: dict[str, Any]) -> RunSettings:
    """The settings in a validated body. Raises UnknownRelease."""
    return RunSettings(**{**body, "release": releases_queries.release(body["release"])})
