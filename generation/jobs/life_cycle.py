"""The life of a job: pause, resume, budget, rest, settle, cancel. Each may be called twice."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext

from generation import errors
from generation.llm.errors import BudgetSpent
from generation.models.jobs import Job

BUDGET_SPENT = "BudgetSpent"
MOST_CALLS = 2**31 - 1  # that the column of a budget can hold


def advice(job: Job) -> str:
    """What is to be done about a paused job, in a sentence; "" where it is not paused."""
    if job.status != Job.Status.PAUSED:
        return ""
    if job.budget_spent:
        return gettext("Raise the budget to continue.")
    if job.paused_because == "KeyMissing":
        return gettext("Set this environment variable for the site and its workers, restart them, then resume.")
    if job.paused_because == "NotAllowed":
        return gettext(
            "Change the endpoint, or ask the operator to allow its key or address (MHB_ENDPOINT_...); then resume."
        )
    if job.paused_because == "EndpointDown":
        return gettext("Check the endpoint: its account, key, address and model name. Resume once it responds again.")
    if job.paused_because in ("BatchLost", "GivenUp"):
        return gettext(
            "Check with the provider whether this provider batch was answered and charged. If you "
            "resume, its requests are sent again."
        )
    return gettext("Resume to continue where it stopped.")


J = TypeVar("J", bound=Job)
OVER = (Job.Status.FINISHED, Job.Status.CANCELLED)


def locked(pk: int) -> Job:
    """A job under its lock, for the transaction that the caller is in."""
    return Job.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def is_running(pk: int) -> bool:
    """Whether a job runs at this moment."""
    return Job.objects.filter(pk=pk, status=Job.Status.RUNNING).exists()


def _keep(job: J, **fields: Any) -> J:
    for name, value in fields.items():
        setattr(job, name, value)
    job.save(update_fields=list(fields))
    return job


@transaction.atomic
def pause(pk: int, *, because: str = "", detail: str = "") -> Job:
    """Start no further call of a job; what is in flight comes to its end and is kept. Raises JobOver.

    `because`: the name of the error class where no person did it. Who pauses what is paused already changes nothing, nor is a
    job paused for its budget that rests because what is in flight may yet leave room (`ledger.reserve`).
    """
    job = locked(pk)
    if job.status == Job.Status.PAUSED or (because == BUDGET_SPENT and job.rests and not job.budget_spent):
        return job
    if job.status in OVER:
        raise errors.JobOver
    return _keep(job, status=Job.Status.PAUSED, paused_because=because[:64], paused_detail=detail)


def launch_once(
    kind: type[J],
    key: str,
    make: Callable[[], J],
    *,
    actor: models.Model | None,
    asked: Any,
    what: str = "",
) -> J:
    """Make a job in one transaction; or return the one that this person launched under this key before.

    `asked`: what is to be launched. `what` tells launches of several sorts apart that make one kind of job. An empty key is
    none. Raises KeyReused where something else was launched under this key.
    """
    if not key:
        with transaction.atomic():
            return make()
    name = _digest([kind._meta.model_name, what, actor and actor.pk, key])
    digest = _digest(asked)
    known = kind._default_manager.filter(launch_key=name)
    found: Any
    try:
        with transaction.atomic():
            found = known.first() or _keep(make(), launch_key=name, launch_digest=digest)
    except (IntegrityError, errors.NothingToDo):  # at the same moment: the other one took the records
        if (found := known.first()) is None:
            raise
    if found.launch_digest not in ("", digest):
        raise errors.KeyReused
    return cast(J, found)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON does not have: a row by its number, an amount however it is written (5, 5.00), a value by its fields."""
    if isinstance(value, models.Model):
        return value.pk
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return {each.name: getattr(value, each.name) for each in fields(value)}


@transaction.atomic
def pause_if_spent(pk: int) -> None:
    """Pause a job that rested for room in its budget and has none: what was in flight is in the ledger by now."""
    job = locked(pk)
    if job.status == Job.Status.RUNNING and job.rests_until is not None and job.budget_spent:
        spent = BudgetSpent()
        _keep(job, status=Job.Status.PAUSED, paused_because=spent.kind, paused_detail=str(spent))


@transaction.atomic
def resume(pk: int) -> Job:
    """Go on with a paused job. Raises JobOver; BudgetTooSmall where the budget allows no further call."""
    job = locked(pk)
    if job.status == Job.Status.RUNNING:
        return _keep(job, rests_until=None)
    if job.status in OVER:
        raise errors.JobOver
    if job.budget_spent:
        raise errors.BudgetTooSmall
    return _keep(job, status=Job.Status.RUNNING, paused_because="", paused_detail="", rests_until=None)


@transaction.atomic
def set_budget(pk: int, *, money: Decimal | None, calls: int | None) -> Job:
    """Give a job another budget (None: no limit), from the next call on. Raises JobOver for a cancelled job.

    A job that had paused for want of it goes on where the new one allows.
    """
    job = locked(pk)
    if job.status == Job.Status.CANCELLED:
        raise errors.JobOver
    if (money is not None and money < 0) or (calls is not None and calls < 0):
        raise errors.BudgetTooSmall
    _keep(job, budget_money=money, budget_calls=calls, rests_until=None)
    if job.status == Job.Status.PAUSED and job.paused_because == BUDGET_SPENT and not job.budget_spent:
        _keep(job, status=Job.Status.RUNNING, paused_because="", paused_detail="")
    return job


def rest(pk: int, until: Any) -> None:
    """Start no lane of a job before `until`: an endpoint asked to be left alone for long."""
    Job.objects.filter(pk=pk).update(rests_until=until)


MARK = timedelta(minutes=1)  # between the moments by which the rate is told
IDLE = timedelta(minutes=3)  # without a mark: nobody worked, and the rate of what comes is no rate over the gap


def mark(pk: int, now: datetime) -> None:
    """Remember what the totals are now, where that was last done a `MARK` ago; after `IDLE` the rate begins anew."""
    jobs = Job.objects.filter(pk=pk)
    then: dict[str, Any] = {"then_at": now, "then_calls": F("calls"), "then_hits": F("hits")}
    begun = Q(then_at__gt=now - IDLE)
    earlier = {"since_at": F("then_at"), "since_calls": F("then_calls"), "since_hits": F("then_hits")}
    if not jobs.filter(begun).exists():
        jobs.update(**then, since_at=now, since_calls=F("calls"), since_hits=F("hits"))
    else:
        jobs.filter(begun, then_at__lte=now - MARK).update(**then, **earlier)


def settle(job: Job, *, is_open: bool) -> None:
    """Mark a job, locked by the caller, finished when nothing of it is open any more, and running again when something is.

    A paused job with open rows stays paused.
    """
    if job.status == Job.Status.CANCELLED or (is_open and job.status == Job.Status.PAUSED):
        return
    if is_open:
        _keep(job, status=Job.Status.RUNNING, finished_at=None)
    else:
        over: dict[str, Any] = {"paused_because": "", "paused_detail": "", "rests_until": None}
        _keep(job, status=Job.Status.FINISHED, finished_at=job.finished_at or timezone.now(), **over)


def cancel(job: Job) -> bool:
    """Cancel a job, locked by the caller; False where it was cancelled already."""
    if job.status == Job.Status.CANCELLED:
        return False
    over: dict[str, Any] = {"paused_because": "", "paused_detail": "", "rests_until": None}
    _keep(job, status=Job.Status.CANCELLED, finished_at=timezone.now(), **over)
    return True
