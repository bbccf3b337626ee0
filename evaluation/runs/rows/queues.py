"""The queues of a run's rows, and the runs that have work for lanes or provider batches."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import MD5

from evaluation import registry
from evaluation.models import Judgment, PolicyAnswer, Response, Run, RunEndpoint, Vote
from evaluation.runs.rows.chains import ENDED, READY
from generation.engine import provider_batches
from generation.jobs.life_cycle import OVER
from generation.models.work import Work

Status = Work.Status


def judgments_to_take(run: Run) -> QuerySet[Judgment]:
    """The queue of judgments; empty if they are decided from votes.

    If one call decides on a whole sample, only the first open judgment of each response.
    """
    queue = Judgment.objects.filter(run=run).order_by("pk")
    if run.panel:
        return queue.none()
    if run.judging == Run.Judging.PER_RUBRIC:
        return queue
    waiting = [Status.QUEUED, Status.RUNNING]
    earlier = Judgment.objects.filter(response=OuterRef("response"), pk__lt=OuterRef("pk"), status__in=waiting)
    return queue.filter(~Exists(earlier))


def responses_to_take(run: Run) -> QuerySet[Response]:
    """The queue of responses, without those that wait for an earlier answer."""
    queue = Response.objects.filter(run=run).order_by("pk")
    chained = registry.protocol(run.release.benchmark).ask_on is not None
    if chained:
        return queue.filter(READY)
    return queue


def for_lanes(rows: QuerySet[Any], run: Run) -> QuerySet[Any]:
    """The rows that a lane may take: those whose request need not go into a provider batch."""
    if run.transport == Run.Transport.LIVE:
        return rows
    return rows.filter(_is_for_lanes(rows.model))


def _is_for_lanes(model: type[Response] | type[Judgment]) -> Q:
    return Q(live=True) | provider_batches.COLLECTED | (provider_batches.NOT_YET_SENT & Q(**{_offers(model): False}))


def _offers(model: type[Response] | type[Judgment]) -> str:
    """The lookup of whether the endpoint that a row asks offers batches."""
    if model is Judgment:
        return "run__judge__batches"
    return "endpoint__batches"


def concurrent_runs(run: Run) -> list[int]:
    """The ids of other runs on the same release whose answers a run may share.

    None for a run that ignores cached replies: it waits for no other.
    """
    if run.fresh:
        return []
    others = Run.objects.filter(release=run.release_id).exclude(pk=run.pk).exclude(status__in=OVER)
    return list(others.values_list("pk", flat=True))


def without_questions_in_flight(rows: QuerySet[Any], run: Run, others: Sequence[int]) -> QuerySet[Any]:
    """The rows of a run, without those whose question a concurrent run (`others`) has in flight.

    Concurrent runs thus share the answers to the questions that they have in common. The rows in
    flight are few, so they are read first: a join with the queue would make the database sort the
    whole queue each time.
    """
    if not others:
        return rows
    model = rows.model
    running = model._default_manager.filter(status=Status.RUNNING, run__in=others)
    columns: tuple[Any, ...] = ("endpoint", "sample", "variant", "repeat")
    lookup = "sample"
    if model is Judgment:
        lookup, columns = "rubric", ("rubric", "response__repeat", MD5("response__text"))
        running = running.filter(run__judge=run.judge_id, run__judging=run.judging)
    if model is Vote:
        lookup = "judgment__rubric"
        columns = (lookup, "judge", "repeat", "judgment__response__repeat", MD5("judgment__response__text"))
        running = running.filter(run__judgments_each=run.judgments_each, run__judging=run.judging)
    in_flight = list(running.values_list(lookup, *columns))
    if not in_flight:
        return rows
    # Ids, not a subquery: without fresh statistics PostgreSQL would run a subquery for each row.
    about, questions = set(), set()
    for of, *question in in_flight:
        about.add(of)
        questions.add(tuple(question))
    candidates = {f"{lookup}__in": about}
    queued = model._default_manager.filter(run=run.pk, status=Status.QUEUED, **candidates).values_list("pk", *columns)
    waiting = []
    for pk, *question in queued:
        if tuple(question) in questions:
            waiting.append(pk)
    return rows.exclude(pk__in=waiting)


def is_batch_due(run: Run) -> bool:
    """Whether to fill provider batches now: enough rows for one, or nothing else in progress."""
    queues: list[QuerySet[Any]] = [responses_to_take(run), Judgment.objects.filter(run=run)]
    batch_size = provider_batches.MAX_LINES
    largest = 0
    for rows in queues:
        unsent = rows.filter(provider_batches.NOT_YET_SENT, status=Status.QUEUED, **{_offers(rows.model): True})
        largest = max(largest, unsent.order_by()[:batch_size].count())
    if largest in (0, batch_size):
        return largest > 0
    if run.responses.filter(status=Status.RUNNING).exists() or run.judgments.filter(status=Status.RUNNING).exists():
        return False
    return not any(for_lanes(rows.filter(status=Status.QUEUED), run).exists() for rows in queues)


def unfilled_endpoints(run: Any) -> QuerySet[RunEndpoint]:
    """The models of a run (or an OuterRef to one) that still lack response rows."""
    return RunEndpoint.objects.filter(run=run, filled_to__isnull=False, left_out_at=None).order_by("pk")


def with_work(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The runs that have work: rows for a lane to take or create, or provider batches to fill.

    Excludes runs whose queued rows all wait for a provider batch, a place in one, or the answer of
    another run.
    """
    queued = {"run": OuterRef("pk"), "status": Status.QUEUED}
    responses = Response.objects.filter(**queued)
    judgments = Judgment.objects.filter(**queued, run__panel="")  # a panel's follow from votes
    live = Q(run__transport=Run.Transport.LIVE)
    available = responses.filter(live | _is_for_lanes(Response))
    for_a_lane = (
        Exists(available.filter(after__isnull=True))
        | Exists(available.filter(after__status__in=ENDED))
        | Exists(judgments.filter(live | _is_for_lanes(Judgment)))
        | Exists(Vote.objects.filter(**queued))
        | Exists(PolicyAnswer.objects.filter(**queued))
    )
    ids = []
    for run in runs.filter(for_a_lane):
        if run.status != Run.Status.RUNNING or not _waits_for_others(run):
            ids.append(run.pk)
    in_batches = runs.filter(status=Run.Status.RUNNING, transport=Run.Transport.BATCH).exclude(pk__in=ids)
    ids += [run.pk for run in in_batches if is_batch_due(run)]
    return runs.filter(Q(pk__in=ids) | Q(Exists(unfilled_endpoints(OuterRef("pk")))))


def _waits_for_others(run: Run) -> bool:
    """Whether concurrent runs have in flight everything that a lane might take."""
    others = concurrent_runs(run)
    if not others:
        return False
    queued = {"run": run, "status": Status.QUEUED}
    if PolicyAnswer.objects.filter(**queued).exists():
        return False
    judging_rows: QuerySet[Any] = Judgment.objects.filter(**queued)
    if run.panel:
        judging_rows = Vote.objects.filter(**queued)
    for queue in (responses_to_take(run).filter(status=Status.QUEUED), judging_rows):
        if without_questions_in_flight(for_lanes(queue, run), run, others).exists():
            return False
    return True


def runs_with_due_batches() -> list[int]:
    """The ids of runs with a due provider batch, in whatever status the run is."""
    runs = Run.objects.filter(pk__in=provider_batches.jobs_due())
    return [run.pk for run in runs if provider_batches.due_batches(run).exists()]
