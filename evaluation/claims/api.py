"""The API of claims."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from evaluation.claims import queries
from evaluation.claims.claims import StatedClaims
from evaluation.errors import RunNotFinished
from evaluation.runs.kind import RUNS
from evaluation.runs.rows.result_cache import is_over
from review.common.actions import answers
from review.common.serializers import extended, serializer_of
from review.rules.permissions import Can

ClaimsSerializer = extended(
    "Claims",
    serializer_of(StatedClaims),
    failed=serializers.IntegerField(help_text="How many measured claims fail."),
)


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
