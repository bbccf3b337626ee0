"""Celery tasks. Each only calls a service; the rows say what there is to do."""

from celery import shared_task

from review.audit import verification
from review.common import figures


@shared_task
def check_trail(audit_id: int) -> None:
    verification.run(audit_id)


@shared_task
def count_figures() -> None:
    figures.count_figures()
