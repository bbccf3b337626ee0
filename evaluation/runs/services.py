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
from generation.engine import provider_batches
from generation.jobs import life_cycle
from generation.models import Endpoint, Release, ReleasedSample
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
def retry_failed(run_id: int) -> int:
    """Queue again what failed: responses that said nothing, and judgments that stayed unjudged; returns how many rows."""
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
    return count


def let_go_of_others() -> None:
    """Let no run wait for a provider batch of another one that was stopped before it was submitted."""
    for batch in provider_batches.held_up():
        for model in (Response, Judgment):
            waiting = model._default_manager.filter(via=batch, status=Status.QUEUED, live=False)
            waiting.exclude(run=batch.job_id).update(via=None)
