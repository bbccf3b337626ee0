"""Leaves a model or a judge out of a run that goes on without it, and adds it again."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from evaluation import errors
from evaluation.models import PolicyAnswer, Response, Run, RunEndpoint
from evaluation.runs import queries
from evaluation.runs.rows import filling, tallies, votes
from generation.errors import JobOver
from generation.jobs import life_cycle, services
from generation.models import Endpoint
from generation.models.work import Work
from review.audit.trail import recording_events
from review.errors import TooLong
from review.rules import limits

Status = Work.Status
OF_ONE_MODEL = (
    "EndpointDown",
    "KeyMissing",
    "NotAllowed",
    "ModelCheck",
)  # why a run paused, which may have been this model
LEFT_OUT = "LeftOut"  # error of the responses that a model was to give when it was left out


@recording_events()
def leave_out(pk: int, endpoint: Endpoint, *, because: str = "", role: str = "") -> Run:
    """Leave a model or a judge out of a run: its open rows are dropped, the others go on.

    Answers that it gave are judged and reported, votes that it cast count; the report says that it
    was left out. `role`: 'target' or 'judge', for an endpoint that is both; else the one it has.
    May be repeated. Raises NotTested; JobOver if the run has ended; LastModel if no other model or
    judge would remain; TooLong for the reason.
    """
    if len(because) > limits.BECAUSE:
        raise TooLong
    run, tested = _locked(pk, endpoint, role)
    if run.status in life_cycle.OVER:
        raise JobOver
    if tested is None:
        return _leave_out_judge(run, endpoint, because)
    if tested.left_out_at is not None:
        return run
    if not run.tested.filter(left_out_at=None).exclude(pk=tested.pk).exists():
        raise errors.LastModel
    life_cycle.record(run, "left-out", model=endpoint.name)
    tested.left_out_at, tested.left_out_because = timezone.now(), because
    tested.save(update_fields=["left_out_at", "left_out_because"])
    open_rows = Response.objects.filter(run=run, endpoint=endpoint, status__in=(Status.QUEUED, Status.RUNNING))
    list(open_rows.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", flat=True))
    dropped: dict[str, Any] = {"status": Status.DROPPED, "token": None, "lease_until": None, "error": LEFT_OUT}
    open_rows.update(**dropped, detail=because)
    again = PolicyAnswer.objects.filter(run=run, response__endpoint=endpoint, policy=PolicyAnswer.Again.ANSWERS)
    again.filter(status__in=(Status.QUEUED, Status.RUNNING)).update(**dropped, detail=because)
    return _settled(run)


def _leave_out_judge(run: Run, endpoint: Endpoint, because: str) -> Run:
    if str(endpoint.pk) in run.judges_left_out:
        return run
    if [judge.pk for judge in queries.judges_asked(run)] == [endpoint.pk]:
        raise errors.LastModel
    life_cycle.record(run, "left-out", model=endpoint.name)
    run.judges_left_out[str(endpoint.pk)] = {"at": timezone.now().isoformat(), "because": because}
    run.save(update_fields=["judges_left_out"])
    drop_votes(run)
    return _settled(run)


@transaction.atomic
def drop_votes(run: Run) -> None:
    """Drop the open votes of the judges that are left out. May be repeated."""
    for key, entry in run.judges_left_out.items():
        votes.leave_out_judge(votes.panel_of(run), int(key), error=LEFT_OUT, because=entry["because"])


@recording_events()
def add_again(pk: int, endpoint: Endpoint, *, role: str = "") -> Run:
    """Ask a model or a judge that was left out of a run what it was not asked.

    Criteria that were decided without the judge are open again. `role` as in `leave_out`. May be
    repeated; a finished run continues. Raises NotTested; JobOver if the run was cancelled.
    """
    run, tested = _locked(pk, endpoint, role)
    if run.status == Run.Status.CANCELLED:
        raise JobOver
    if tested is None:
        if run.judges_left_out.pop(str(endpoint.pk), None) is not None:
            life_cycle.record(run, "added-again", model=endpoint.name)
            run.save(update_fields=["judges_left_out"])
            votes.add_judge_again(votes.panel_of(run), endpoint.pk)
            tallies.reset(pk)
            services.reset_endpoints([endpoint])
        return _settled(run)
    if tested.left_out_at is None:
        return run
    life_cycle.record(run, "added-again", model=endpoint.name)
    tested.left_out_at, tested.left_out_because = None, ""
    tested.save(update_fields=["left_out_at", "left_out_because"])
    queued: dict[str, Any] = {
        "status": Status.QUEUED,
        "error": "",
        "detail": "",
        "tries": 0,
        "via": None,
        "live": False,
    }
    Response.objects.filter(run=run, endpoint=endpoint, status=Status.DROPPED, error=LEFT_OUT).update(**queued)
    again = PolicyAnswer.objects.filter(run=run, response__endpoint=endpoint, status=Status.DROPPED, error=LEFT_OUT)
    again.update(status=Status.QUEUED, error="", detail="", tries=0)
    tallies.reset(pk)
    services.reset_endpoints([endpoint])
    return _settled(run)


def _locked(pk: int, endpoint: Endpoint, role: str) -> tuple[Run, RunEndpoint | None]:
    """The run, and the model under test; None for a judge."""
    life_cycle.lock_job(pk)
    run = Run.objects.select_related("release").get(pk=pk)
    if run.origin == Run.Origin.IMPORTED:
        raise errors.ImportedRun
    tested = run.tested.select_related("endpoint").filter(endpoint=endpoint).first()
    if role != queries.JUDGE and tested is not None:
        return run, tested
    if role == queries.TARGET or endpoint not in queries.judges_of(run):
        raise errors.NotTested(endpoint.name)
    return run, None


def _settled(run: Run) -> Run:
    filling.set_totals(run)
    services.settle(run.pk)
    run.refresh_from_db()
    if run.status == Run.Status.PAUSED and run.paused_because in OF_ONE_MODEL and not run.budget_spent:
        life_cycle.resume(run.pk)
        run.refresh_from_db()
    life_cycle.wake_workers()
    return run
