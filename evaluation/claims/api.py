"""The API of claims."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework.request import Request
from rest_framework.views import APIView

from evaluation.claims import queries
from evaluation.errors import RunNotFinished
from evaluation.runs.kind import RUNS
from evaluation.runs.rows.result_cache import is_over
from review.common.actions import answers
from review.common.serializers import TypedSerializer
from review.rules.permissions import Can


class ClaimSerializer(TypedSerializer):
    """A claim with its measurement. `holds`: null where it is not measured, and `why` says what is missing. `low`,
    `high`: the 95 % interval; null for what is counted. `confirmed`: whether it holds on held-out samples alone; null
    without them.
    """

    typed = {
        str: "name contradicted_by why detail",
        float | None: "value low high",
        bool | None: "holds confirmed",
    }


class PolicySerializer(TypedSerializer):
    """What a fixed text scores by the primary metric on one data set, or on all pooled. `beats`: the models that score
    worse on the same samples, by Holm over all pairs. It has no rank and is no model.
    """

    typed = {str: "name dataset rate", float | None: "value low high", int: "n excluded clusters", list[str]: "beats"}


@extend_schema_serializer(component_name="VerdictTurns")
class TurnsSerializer(TypedSerializer):
    """How often verdicts turn where only the asking changes. `moved`: by how much the difference of two models does."""

    typed = {str: "kind who", float | None: "turned low high moved", int: "criteria"}


class ClaimsSerializer(TypedSerializer):
    """Whether a benchmark measures what it says, as a run tells it.

    `failed`: how many measured claims fail. `below_the_floor`: pairs of models whose difference is no larger than what
    asking again changes.
    """

    typed = {int: "failed", list[list[str]]: "below_the_floor"}
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
