"""Leaves a model out of a run that goes on without it, and adds it again."""

from typing import Any

from django.utils import timezone

from evaluation import errors
from evaluation.models import Response, Run, RunEndpoint
from evaluation.runs.rows import filling, tallies
from generation.errors import JobOver
from generation.jobs import life_cycle, services
from generation.models import Endpoint
from generation.models.work import Work
from review.audit.trail import recording_events

Status = Work.Status
OF_ONE_MODEL = (
    "EndpointDown",
    "KeyMissing",
    "NotAllowed",
    "ModelCheck",
)  # why a run paused, which may have been this model
LEFT_OUT = "LeftOut"  # error of the responses that a model was to give when it was left out


@recording_events()
def leave_out(pk: int, endpoint: Endpoint, *, because: str = "") -> Run:
    """Leave a model out of a run: its open responses are dropped, the others go on.

    Answers that it gave are judged and reported; the report says that it was left out. May be
    repeated. Raises NotTested; JobOver if the run has ended; LastModel if no other would remain.
    """
    run, tested = _locked(pk, endpoint)
    if run.status in life_cycle.OVER:
        raise JobOver
    if tested.left_out_at is not None:
        return run
    if not run.tested.filter(left_out_at=None).exclude(pk=tested.pk).exists():
        raise errors.LastModel
    life_cycle.record(run, "left-out", model=endpoint.name)
    tested.left_out_at, tested.left_out_because = timezone.now(), because
    tested.save(update_fields=["left_out_at", "left_out_because"])
    open_rows = Response.objects.filter(run=run, endpoint=endpoint, status__in=(Status.QUEUED, Status.RUNNING))
    list(open_rows.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", flat=True))
    open_rows.update(status=Status.DROPPED, token=None, lease_until=None, error=LEFT_OUT, detail=because)
    return _settled(run)


@recording_events()
def add_again(pk: int, endpoint: Endpoint) -> Run:
    """Ask a model that was left out of a run the questions that it was not asked.

    May be repeated; a finished run continues. Raises NotTested; JobOver if the run was cancelled.
    """
    run, tested = _locked(pk, endpoint)
    if run.status == Run.Status.CANCELLED:
        raise JobOver
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
    tallies.reset(pk)
    services.reset_endpoints([endpoint])
    return _settled(run)


def _locked(pk: int, endpoint: Endpoint) -> tuple[Run, RunEndpoint]:
    life_cycle.lock_job(pk)
    run = Run.objects.select_related("release").get(pk=pk)
    if run.origin == Run.Origin.IMPORTED:
        raise errors.ImportedRun
    tested = run.tested.select_related("endpoint").filter(endpoint=endpoint).first()
    if tested is None:
        raise errors.NotTested(endpoint.name)
    return run, tested


def _settled(run: Run) -> Run:
    filling.set_totals(run)
    services.settle(run.pk)
    run.refresh_from_db()
    if run.status == Run.Status.PAUSED and run.paused_because in OF_ONE_MODEL and not run.budget_spent:
        life_cycle.resume(run.pk)
        run.refresh_from_db()
    return run
