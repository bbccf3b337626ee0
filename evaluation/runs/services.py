"""Launches and changes runs."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from evaluation import errors
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import DataSet, Protocol
from evaluation.runs import queries
from evaluation.runs.settings import RunSettings
from generation.engine import provider_batches, worker_lane
from generation.engine.task_queue import give_back_expired
from generation.jobs import life_cycle
from generation.models import Endpoint, Job, ProviderBatch, ReleasedSample
from generation.models.work import Work
from review.models import User

Status = Work.Status
CHUNK = 500
NO_RESPONSE = "NoResponse"  # the error of judgments whose response failed


def launch_run(settings: RunSettings, *, actor: User | None = None, key: str = "") -> Run:
    """Queue one response per sample, endpoint and variant.

    `key`: what the same person launched under it before is returned, and nothing launched.

    The run keeps the judge's temperature and each endpoint's own sampling settings as they are now.
    Raises NoEndpoints; JudgeNeeded, NoJudgeNeeded; NotPerSample where the benchmark has no such judging; UnknownDataSet;
    NoBatches where no endpoint offers batches; KeyReused where something else was launched under `key`.
    """
    protocol, datasets = queries.what_to_ask(settings)
    judge = settings.judge
    temperatures = (settings.judge_temperature, judge.temperature, protocol.judge_temperature) if judge else ()

    def make() -> Run:
        run = Run.objects.create(
            release=settings.release,
            judge=judge,
            judge_temperature=next((each for each in temperatures if each is not None), None),
            endpoint_settings={
                str(each.pk): {name: getattr(each, name) for name in queries.FROZEN} for each in settings.asked
            },
            judging=settings.judging,
            seed=settings.seed,
            variants=[dataset.name for dataset in datasets],
            transport=settings.transport,
            sampling=settings.sampling,
            budget_money=settings.budget_money,
            budget_calls=settings.budget_calls,
            fresh=settings.fresh,
            created_by=actor,
            created_at=timezone.now(),
        )
        RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=endpoint) for endpoint in settings.tested)
        rows = _responses(run, settings.tested, protocol, datasets)
        while chunk := list(islice(rows, CHUNK)):
            Response.objects.bulk_create(chunk)
        run.rubrics_total = queries.count_rubrics(run)
        run.save(update_fields=["rubrics_total"])
        return run

    return life_cycle.once(Run, key, make, actor=actor, asked=settings)


def _responses(
    run: Run, endpoints: list[Endpoint], protocol: Protocol, datasets: Sequence[DataSet]
) -> Iterator[Response]:
    samples = ReleasedSample.objects.filter(release=run.release).order_by("position")
    for sample in samples.iterator(chunk_size=CHUNK):
        for ask in queries.questions(protocol, sample, run.seed, datasets):
            about = dict(ask.about)
            for endpoint in endpoints:
                yield Response(run=run, endpoint=endpoint, sample=sample, variant=ask.variant, about=about)


@transaction.atomic
def settle_run(run_id: int) -> None:
    """Mark a run finished when nothing of it is open any more, and running again when something is; a pause stays a pause."""
    run = life_cycle.locked(run_id)
    life_cycle.settle(run, is_open=queries.is_open(run_id))


def pause_run(run_id: int) -> Job:
    """Start no further call of a run; what is in flight is kept. Raises JobOver."""
    return life_cycle.pause(run_id)


def resume_run(run_id: int) -> Job:
    """Go on with a paused run, its endpoints included. Raises JobOver, BudgetTooSmall."""
    run = life_cycle.resume(run_id)
    worker_lane.open_again(queries.endpoints_of(Run.objects.get(pk=run_id)))
    return run


def set_run_budget(run_id: int, *, money: Decimal | None, calls: int | None) -> Job:
    """Give a run another budget; one that had paused for want of it goes on. Raises JobOver, BudgetTooSmall."""
    return life_cycle.set_budget(run_id, money=money, calls=calls)


@transaction.atomic
def cancel_run(run_id: int) -> Job:
    """Take nothing further of this run; what was said and judged stays. Raises RunOver when it is finished."""
    run = life_cycle.locked(run_id)
    if run.status == Run.Status.FINISHED:
        raise errors.RunOver
    life_cycle.cancel(run)
    return run


@transaction.atomic
def retry_failed(run_id: int) -> int:
    """Queue again what failed: responses that said nothing, and judgments that stayed unjudged; returns how many rows.

    Raises RunOver for a cancelled run.
    """
    if Run.objects.filter(pk=run_id, status=Run.Status.CANCELLED).exists():
        raise errors.RunOver
    failed = {"run_id": run_id, "status": Status.FAILED}
    again = {"status": Status.QUEUED, "error": "", "detail": "", "tries": 0, "via": None, "live": False}
    # One list, looked at once: what a lane fails meanwhile keeps its judgments, and waits for the next retry.
    locked = Response.objects.filter(**failed).select_for_update(of=("self",), no_key=True).order_by("pk")
    pks = iter(list(locked.values_list("pk", flat=True)))
    count = 0
    while chunk := list(islice(pks, CHUNK)):
        # Made anew with the response.
        Judgment.objects.filter(response__in=chunk, error=NO_RESPONSE, status=Status.FAILED).delete()
        count += Response.objects.filter(pk__in=chunk).update(**again)
    unjudged = Judgment.objects.filter(~Q(error=NO_RESPONSE) | Q(response__status=Status.DONE), **failed)
    count += unjudged.update(**again)
    settle_run(run_id)
    return count


def sweep() -> list[int]:
    """Give back what died with its holder, and say which runs have work that no worker is on, each as often as it may
    have a lane; and those of which a provider batch is to be looked at."""
    give_back_expired(Response)
    give_back_expired(Judgment)
    give_back_expired(ProviderBatch)
    _let_go_of_others()
    for run_id in queries.runs_to_settle():
        settle_run(run_id)
    due = worker_lane.due(queries.runs_with_work())
    return due + [pk for pk in queries.runs_to_follow() if pk not in due]


def _let_go_of_others() -> None:
    """Let no run wait for a provider batch of another one that was stopped before it was submitted."""
    for batch in provider_batches.held_up():
        for model in (Response, Judgment):
            waiting = model._default_manager.filter(via=batch, status=Status.QUEUED, live=False)
            waiting.exclude(run=batch.job_id).update(via=None)


def run_waits(run_id: int) -> bool:
    """Whether a running run has queued rows and may have another lane now."""
    return bool(worker_lane.due(queries.runs_with_work().filter(pk=run_id)))
