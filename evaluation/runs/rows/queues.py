"""Which rows of a run wait, and which runs have work: for a lane, for a provider's batch, or for another run's answer."""

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import MD5

from evaluation import registry
from evaluation.models import Judgment, Response, Run, RunEndpoint, Vote
from evaluation.runs.rows.chains import ENDED, READY
from generation.engine import provider_batches
from generation.jobs.life_cycle import OVER
from generation.models.work import Work

Status = Work.Status


def judgments_to_take(run: Run) -> QuerySet[Judgment]:
    """The queue of judgments; none where they are decided from votes.

    Where the judge decides on a whole sample at once, the first one that is open of each response.
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
    """The queue of responses; none that waits for the answer of another."""
    queue = Response.objects.filter(run=run).order_by("pk")
    chained = registry.protocol(run.release.benchmark).ask_on is not None
    return queue.filter(READY) if chained else queue


def for_lanes(rows: QuerySet[Any], run: Run) -> QuerySet[Any]:
    """Of the rows of a run, those that a lane may take: not those whose request goes into a provider's batch first."""
    return rows if run.transport == Run.Transport.LIVE else rows.filter(_is_for_lanes(rows.model))


def _is_for_lanes(model: type[Response] | type[Judgment]) -> Q:
    return Q(live=True) | provider_batches.COLLECTED | (provider_batches.NOT_YET_SENT & Q(**{_offers(model): False}))


def _offers(model: type[Response] | type[Judgment]) -> str:
    """The field that says whether the endpoint that a row asks offers batches."""
    return "run__judge__batches" if model is Judgment else "endpoint__batches"


def concurrent_runs(run: Run) -> list[int]:
    """The other runs on its release that may have something in flight."""
    others = Run.objects.filter(release=run.release_id).exclude(pk=run.pk).exclude(status__in=OVER)
    return list(others.values_list("pk", flat=True))


def without_questions_in_flight(rows: QuerySet[Any], run: Run) -> QuerySet[Any]:
    """Of the rows of a run, without those whose very question a run beside it has in flight: its answer is going to be there.

    So runs that are at work together share the questions that they have in common. A run that asks anew waits for nobody.
    Looked up by what is in flight, which is little: joined to the queue, the database would sort the whole of that each time.
    """
    others = [] if run.fresh else concurrent_runs(run)
    if not others:
        return rows
    model = rows.model
    running = model._default_manager.filter(status=Status.RUNNING, run__in=others)
    what: tuple[Any, ...] = ("endpoint", "sample", "variant", "repeat")
    mine = "sample"
    if model is Judgment:
        mine, what = "rubric", ("rubric", "response__repeat", MD5("response__text"))
        running = running.filter(run__judge=run.judge_id, run__judging=run.judging)
    if model is Vote:
        mine = "judgment__rubric"
        what = (mine, "judge", "repeat", "judgment__response__repeat", MD5("judgment__response__text"))
        running = running.filter(run__judgments_each=run.judgments_each, run__judging=run.judging)
    asked = list(running.values_list(mine, *what))
    if not asked:
        return rows
    # By their numbers, not by a subquery: without fresh statistics PostgreSQL would run that anew for each row.
    near = {f"{mine}__in": {row[0] for row in asked}}
    same = model._default_manager.filter(run=run.pk, status=Status.QUEUED, **near).values_list("pk", *what)
    questions = {tuple(question) for _, *question in asked}
    return rows.exclude(pk__in=[pk for pk, *question in same if tuple(question) in questions])


def is_batch_due(run: Run) -> bool:
    """Whether it is time to fill provider batches: nothing else of the run is under way, or there is enough for one."""
    queues: list[QuerySet[Any]] = [responses_to_take(run), Judgment.objects.filter(run=run)]
    unsent = [
        rows.filter(provider_batches.NOT_YET_SENT, status=Status.QUEUED, **{_offers(rows.model): True})
        for rows in queues
    ]
    enough = provider_batches.MAX_LINES
    most = max(rows.order_by()[:enough].count() for rows in unsent)
    if most in (0, enough):
        return most > 0
    running = any(model.objects.filter(run=run, status=Status.RUNNING).exists() for model in (Response, Judgment))
    return not running and not any(for_lanes(rows.filter(status=Status.QUEUED), run).exists() for rows in queues)


def unfilled(run: Any) -> QuerySet[RunEndpoint]:
    """The models under test of a run (or an OuterRef) of which responses are still to be made."""
    return RunEndpoint.objects.filter(run=run, filled_to__isnull=False)


def unfilled_runs() -> list[int]:
    """The runs of which responses are still to be made."""
    return list(RunEndpoint.objects.filter(filled_to__isnull=False).values_list("run", flat=True).distinct())


def with_work(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Those of `runs` for which a worker could do something: a lane may take rows of it, or make some, or provider batches are
    to be filled.

    Not those of which all that is queued waits: for a provider's batch, for a place in one, or for another run's answer.
    """
    queued = {"run": OuterRef("pk"), "status": Status.QUEUED}
    responses = Response.objects.filter(**queued)
    judgments = Judgment.objects.filter(**queued, run__panel="")  # those of a panel are decided from its votes
    live = Q(run__transport=Run.Transport.LIVE)
    free = responses.filter(live | _is_for_lanes(Response))
    for_a_lane = (
        Exists(free.filter(after__isnull=True))
        | Exists(free.filter(after__status__in=ENDED))
        | Exists(judgments.filter(live | _is_for_lanes(Judgment)))
        | Exists(Vote.objects.filter(**queued))
    )
    found = [
        run.pk for run in runs.filter(for_a_lane) if run.status != Run.Status.RUNNING or not _waits_for_others(run)
    ]
    in_batches = runs.filter(status=Run.Status.RUNNING, transport=Run.Transport.BATCH).exclude(pk__in=found)
    found += [run.pk for run in in_batches if is_batch_due(run)]
    return runs.filter(Q(pk__in=found) | Q(Exists(unfilled(OuterRef("pk")))))


def _waits_for_others(run: Run) -> bool:
    """Whether all that a lane might take is in flight in runs beside it."""
    if run.fresh or not concurrent_runs(run):
        return False
    queued = {"run": run, "status": Status.QUEUED}
    judged: QuerySet[Any] = Vote.objects.filter(**queued) if run.panel else Judgment.objects.filter(**queued)
    rows: list[QuerySet[Any]] = [responses_to_take(run).filter(status=Status.QUEUED), judged]
    return not any(without_questions_in_flight(for_lanes(each, run), run).exists() for each in rows)


def runs_with_due_batches() -> list[int]:
    """Runs of which a provider batch is to be brought a step further now, whatever has become of the run."""
    return [
        run.pk
        for run in Run.objects.filter(pk__in=provider_batches.jobs_due())
        if provider_batches.due_batches(run).exists()
    ]
