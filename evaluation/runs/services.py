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
from generation.engine import provider_batches, worker_lane
from generation.engine.task_queue import give_back_expired
from generation.jobs import life_cycle
from generation.models import Endpoint, ProviderBatch, Release, ReleasedSample
from generation.models.work import Work
from review.models import User

Status = Work.Status
CHUNK = 500
NO_RESPONSE = "NoResponse"  # the error of judgments whose response failed


def launch_run(
    release: Release,
    endpoints: Sequence[Endpoint],
    judge: Endpoint | None = None,
    *,
    judge_temperature: float | None = None,
    judging: str = Run.Judging.PER_RUBRIC,
    seed: int = 0,
    variants: Sequence[str] = (),
    transport: str = Run.Transport.LIVE,
    sampling: str = Run.Sampling.PROTOCOL,
    budget_money: Decimal | None = None,
    budget_calls: int | None = None,
    fresh: bool = False,
    actor: User | None = None,
    key: str = "",
) -> Run:
    """Queue one response per sample, endpoint and variant.

    `judge`: None where the benchmark's answers are read by code. `judging`: one call of the judge per rubric, or one per sample
    with all its rubrics. `seed` (0 to 2**31 - 1): of what the benchmark leaves to chance. `variants`: the names of the data
    sets to ask, none for all. `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no
    limit. `fresh`: ask anew what has been paid for already. `transport`: whether requests go into providers' batches where an
    endpoint offers them. `sampling`: whose temperature, top_p and limit of tokens models under test are asked with.
    `key`: what the same person launched under it before is returned, and nothing launched.

    `judge_temperature` defaults to the judge's own, and where it has none to the published setting; the run keeps it.
    Raises NoEndpoints; JudgeNeeded, NoJudgeNeeded; NotPerSample where the benchmark has no such judging; UnknownDataSet;
    NoBatches where no endpoint offers batches; KeyReused where something else was launched under `key`.
    """
    protocol, datasets = queries.what_to_ask(release, endpoints, judge, judging=judging, variants=variants)
    if transport == Run.Transport.BATCH and not any(each and each.batches for each in (*endpoints, judge)):
        raise errors.NoBatches
    temperatures = (judge_temperature, judge.temperature, protocol.judge_temperature) if judge else ()

    def make() -> Run:
        run = Run.objects.create(
            release=release,
            judge=judge,
            judge_temperature=next((setting for setting in temperatures if setting is not None), None),
            judging=judging,
            seed=seed,
            variants=[dataset.name for dataset in datasets],
            transport=transport,
            sampling=sampling,
            budget_money=budget_money,
            budget_calls=budget_calls,
            fresh=fresh,
            created_by=actor,
            created_at=timezone.now(),
        )
        RunEndpoint.objects.bulk_create(
            RunEndpoint(run=run, endpoint=endpoint) for endpoint in dict.fromkeys(endpoints)
        )
        rows = _responses(run, list(dict.fromkeys(endpoints)), protocol, datasets)
        while chunk := list(islice(rows, CHUNK)):
            Response.objects.bulk_create(chunk)
        run.rubrics_total = queries.count_rubrics(run)
        run.save(update_fields=["rubrics_total"])
        return run

    asked = {
        "release": release,
        "endpoints": list(endpoints),
        "judge": judge,
        "judge_temperature": judge_temperature,
        "judging": judging,
        "seed": seed,
        "variants": list(variants),
        "transport": transport,
        "sampling": sampling,
        "budget_money": budget_money,
        "budget_calls": budget_calls,
        "fresh": fresh,
    }
    return life_cycle.once(Run, key, make, actor=actor, asked=asked)


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
    run = Run.objects.select_for_update(no_key=True).get(pk=run_id)
    life_cycle.settle(run, is_open=queries.is_open(run))


def pause_run(run_id: int) -> Run:
    """Start no further call of a run; what is in flight is kept. Raises JobOver."""
    return life_cycle.pause(Run, run_id)


def resume_run(run_id: int) -> Run:
    """Go on with a paused run, its endpoints included. Raises JobOver, BudgetTooSmall."""
    run = life_cycle.resume(Run, run_id)
    worker_lane.open_again(queries.endpoints_of(run))
    return run


def set_run_budget(run_id: int, *, money: Decimal | None, calls: int | None) -> Run:
    """Give a run another budget; one that had paused for want of it goes on. Raises JobOver, BudgetTooSmall."""
    return life_cycle.set_budget(Run, run_id, money=money, calls=calls)


@transaction.atomic
def cancel_run(run_id: int) -> Run:
    """Take nothing further of this run; what was said and judged stays. Raises RunOver when it is finished."""
    run = Run.objects.select_for_update(no_key=True).get(pk=run_id)
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
    for batch in provider_batches.held_up(Run):
        own = int(batch.job.removeprefix("run:"))
        for model in (Response, Judgment):
            waiting = model._default_manager.filter(via=batch, status=Status.QUEUED, live=False)
            waiting.exclude(run=own).update(via=None)


def run_waits(run_id: int) -> bool:
    """Whether a running run has queued rows and may have another lane now."""
    return bool(worker_lane.due(queries.runs_with_work().filter(pk=run_id)))
