"""Celery tasks: each is one call of a service."""

from celery import shared_task

from evaluation import services


@shared_task
def work_on_run(run_id: int) -> None:
    services.work_on_run(run_id)
