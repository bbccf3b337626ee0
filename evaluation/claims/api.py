"""The API of claims."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from evaluation.claims import queries
from evaluation.errors import RunNotFinished
from evaluation.runs.kind import RUNS
from evaluation.runs.rows.result_cache import is_over
from review.common.actions import answers
from review.rules.permissions import Can


class ClaimSerializer(serializers.Serializer[Any]):
    """A claim with its measurement. `holds`: null where it is not measured, and `why` says what is missing. `measures`:
    what `value` is; `detail`: what it compares or counts. `low`, `high`: the 95 % interval, of rewordings
    that at 90 %; null for what is counted. `confirmed`: whether it holds on held-out samples alone; null without them.
    """

    name = serializers.CharField()
    measures = serializers.CharField()
    contradicted_by = serializers.CharField()
    why = serializers.CharField()
    detail = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    holds = serializers.BooleanField(allow_null=True)
    confirmed = serializers.BooleanField(allow_null=True)


class PolicySerializer(serializers.Serializer[Any]):
    """What a fixed text scores by the primary metric on one data set, or on all pooled. `beats`: the models that score
    worse on the same samples, by Holm over all pairs. It has no rank and is no model.
    """

    name = serializers.CharField()
    dataset = serializers.CharField()
    rate = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()
    excluded = serializers.IntegerField()
    clusters = serializers.IntegerField()
    beats = serializers.ListField(child=serializers.CharField())


@extend_schema_serializer(component_name="VerdictTurns")
class TurnsSerializer(serializers.Serializer[Any]):
    """How often verdicts turn where only the asking changes. `moved`: by how much the difference of two models does."""

    kind = serializers.CharField()
    who = serializers.CharField()
    turned = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    moved = serializers.FloatField(allow_null=True)
    criteria = serializers.IntegerField()


class ClaimsSerializer(serializers.Serializer[Any]):
    """Whether a benchmark measures what it says, as a run tells it.

    `failed`: how many measured claims fail. `below_the_floor`: pairs of models whose difference is no larger than what
    asking again changes.
    """

    failed = serializers.IntegerField()
    below_the_floor = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))

    policies = PolicySerializer(many=True)
    claims = ClaimSerializer(many=True)
    floor = TurnsSerializer(many=True)


class RunClaims(APIView):
    """The claims of a run."""

    can: Any = Can.READ_RESULTS

    @answers(ClaimsSerializer)
    def get(self, request: Request, pk: int) -> Any:
        """The claims of a finished run. Asks no model. 409 while it is in progress."""
        run = RUNS.get(pk)
        if not is_over(run):
            raise RunNotFinished
        found = queries.claims_of_run(run)
        return {**found.as_json(), "failed": found.failed}
