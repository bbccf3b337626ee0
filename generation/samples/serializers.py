"""Funnels as JSON, for the API of batches and releases."""

from rest_framework import serializers

from generation.samples import funnel
from review.common.serializers import DataclassSerializer


class LossSerializer(DataclassSerializer):
    """Why items did not get to the next stage. `why`: what is known beyond the `kind`."""

    mirrors = funnel.Loss
    shows = "kind why label count"


class StageSerializer(DataclassSerializer):
    """How many items arrived at a stage, how many were added there, and which went no further.

    `count` minus `lost`, plus what the next stage `gained`, is that stage's `count`.
    """

    mirrors = funnel.Stage
    shows = "name label count lost gained remaining"

    name = serializers.CharField()


class VersionCountsSerializer(DataclassSerializer):
    """What became of the versions with one number. `reasons`: why they were rejected."""

    mirrors = funnel.VersionCounts


class FunnelSerializer(DataclassSerializer):
    """The stages of a group: everything (empty), a data set's name, or a trap's code."""

    mirrors = funnel.SampleFunnel
    shows = "group label stages versions"


class FunnelReportSerializer(DataclassSerializer):
    """From drawn records to approved samples, and in a release to those in it."""

    mirrors = funnel.FunnelReport
