"""Counts reports on a worker."""

from contextlib import suppress
from typing import Any

from celery import shared_task

from evaluation.models import Run
from evaluation.numbers.report_numbers import Options
from evaluation.reports import queries


@shared_task
def count_report(run_id: int, options: dict[str, Any]) -> None:
    with suppress(Run.DoesNotExist):  # a message may outlive its row
        run = Run.objects.select_related("release", "judge").get(pk=run_id)
        _counted = queries.report(run, Options(**options)).numbers
