"""The API of traps that physicians noticed and models fell for."""

from typing import Any

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from evaluation.human_baseline import queries
from evaluation.human_baseline.queries import (
    NoticedReport,
)
from evaluation.models import Run
from evaluation.runs.kind import RUNS
from review.common.actions import answers
from review.rules.permissions import Can


class HumanBaselineViewSet(GenericViewSet[Run]):
    """Physicians and models on the same samples."""

    can = Can.READ_RESULTS
    queryset = Run.objects.all()

    @answers(NoticedReport)
    @action(detail=True, url_path="human-baseline")
    def human_baseline(self, request: Request, pk: int) -> Any:
        """What physicians noticed before a trap was revealed, and how often models fell for it."""
        return queries.noticed_report(RUNS.get(pk), request.user)
