"""Celery tasks, each one call of a service.

Rows hold the work to do, so a lost message only delays it until the next sweep.
"""

from contextlib import suppress

from celery import shared_task

from evaluation.interchange import services
from evaluation.models import ResultsImport
from evaluation.reports.tasks import count_report as count_report


@shared_task
def import_results(import_id: int) -> None:
    with suppress(ResultsImport.DoesNotExist):  # a message may outlive its row
        services.run_import(import_id)
