"""Celery tasks: each is one call of a service."""

from celery import shared_task

from evaluation.runs import services, work
from generation.tasks import wake


@shared_task
def work_on_run(run_id: int) -> None:
    work.work_on_run(run_id)
    if services.run_waits(run_id):  # its time was up
        wake(work_on_run, run_id)
