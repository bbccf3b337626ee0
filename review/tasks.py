"""Celery tasks. Each only calls a service; the rows say what there is to do."""

from celery import shared_task

from review.audit import verification


@shared_task
def check_trail(audit_id: int) -> None:
    verification.run(audit_id)
