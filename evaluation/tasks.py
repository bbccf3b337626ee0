"""Celery tasks, each one call of a service.

Rows hold the work to do, so a lost message only delays it until the next sweep.
"""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.conf import settings

from evaluation.interchange import services
from evaluation.models import ResultsImport
from evaluation.playground import services as playground_services
from evaluation.playground.services import WAIT, PlaygroundSettings, Prepared, TriedReply
from evaluation.reports.tasks import count_report as count_report
from generation.jobs.live_status import live_workers
from generation.models import Endpoint
from review.common import waking
from review.models import User


@shared_task
def import_results(import_id: int) -> None:
    with suppress(ResultsImport.DoesNotExist):  # a message may outlive its row
        services.run_import(import_id)


@shared_task
def try_prompt(key: str, language: str, asked: dict[str, Any], endpoint_id: int, actor_id: int | None) -> None:
    def work() -> dict[str, Any]:
        endpoint = Endpoint.objects.get(pk=endpoint_id)
        prepared = playground_services.prepare(PlaygroundSettings(**asked), endpoint.model)
        if actor_id is None:
            actor = None
        else:
            actor = User.objects.get(pk=actor_id)
        return asdict(playground_services.try_out(prepared, endpoint, actor=actor))

    waking.answer(key, language, work)


def try_out(
    asked: PlaygroundSettings, prepared: Prepared, endpoint: Endpoint, *, actor: User | None = None
) -> TriedReply:
    """Send a prepared request once from a worker, which has the endpoint's key.

    Raises NotCallable.
    """
    question, actor_id = {**dict(asked), "on": prepared.on}, None
    if actor is not None:
        actor_id = actor.pk
    return TriedReply(**waking.ask_worker(try_prompt, question, endpoint.pk, actor_id, seconds=WAIT))


def start_trial(asked: PlaygroundSettings, prepared: Prepared, endpoint: Endpoint, actor: User) -> str:
    """As `try_out`, but without waiting. Returns the key of the answer (`waking.read_answer`).

    Without a worker, this process sends it, and waits.
    """
    question = {**dict(asked), "on": prepared.on}
    here = not (settings.ENV.redis_url or live_workers(runs_tasks=True).exists())
    return waking.send(try_prompt, question, endpoint.pk, actor.pk, seconds=WAIT, here=here)
