"""The life cycle of a job: pause, resume, budget, rest, settle, cancel.

Each may safely be called twice.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from pydantic import BaseModel

from generation import errors
from generation.llm.errors import BudgetSpent
from generation.models.jobs import Job
from review.audit import acts
from review.audit.trail import recording_events
from review.common import notifications
from review.common.site_pause import not_paused
from review.common.waking import wake_after_commit
from review.models import Occasion, User

BUDGET_SPENT = "BudgetSpent"
FIRST_RECORD = "FirstRecord"  # the first record has ended, and the others wait for a person
FIRST_WAIT = timedelta(seconds=2)  # before another lane looks whether the first record has ended
NEARLY = Decimal("0.9")  # share of a budget at which its launcher is notified
MAX_CALLS = 2**31 - 1  # the maximum of the column `budget_calls`


_CHECK_BATCH = gettext_lazy(
    "Check with the provider whether this provider batch was answered and charged. If you "
    "resume, its requests are sent again."
)
_ADVICE = {
    "KeyMissing": gettext_lazy("Set this environment variable for the workers, restart them, then resume."),
    "NotAllowed": gettext_lazy(
        "Change the endpoint, or ask the operator to allow its key or address (MHB_ENDPOINT_...); then resume."
    ),
    FIRST_RECORD: gettext_lazy(
        "Look at the result of the first record. Then resume for the rest, change the budget, or cancel."
    ),
    "ToldWithoutReading": gettext_lazy(
        "Look at the words that tell, and change prompts or settings in a new batch; or resume this one."
    ),
    "ModelCheck": gettext_lazy(
        "Nothing was asked yet. Change the endpoint's settings, or leave the model out; then resume, and it is tried "
        "again."
    ),
    "EndpointDown": gettext_lazy(
        "Check the endpoint: its account, key, address and model name. Resume once it responds again."
    ),
    "BatchLost": _CHECK_BATCH,
    "GivenUp": _CHECK_BATCH,
}


def advice(job: Job) -> str:
    """Advice on what to do about a paused job, in one sentence; "" if it is not paused."""
    if job.status != Job.Status.PAUSED:
        return ""
    if job.budget_spent:
        return gettext("Raise the budget to continue.")
    return str(_ADVICE.get(job.paused_because) or gettext("Resume to continue where it stopped."))


J = TypeVar("J", bound=Job)
NO_PAUSE: dict[str, Any] = {"paused_because": "", "paused_detail": "", "rests_until": None}
OVER = (Job.Status.FINISHED, Job.Status.CANCELLED)


def lock_job(pk: int) -> Job:
    """Lock a job until the end of the caller's transaction and return it."""
    return Job.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def is_running(pk: int) -> bool:
    """Whether a job is running now, as the database has it, on a site that is not paused."""
    return Job.objects.filter(not_paused(), pk=pk, status=Job.Status.RUNNING).exists()


def wake_workers(*new: int) -> None:
    """Tell the workers that a lane is wanted, once the transaction has committed.

    `new`: jobs whose models are tried meanwhile, so that a lane need not end for them once more.
    """
    for pk in new:
        wake_after_commit("generation.tasks.check_models", pk)
    wake_after_commit("generation.tasks.run_lane")


def record(job: Job, what: str, **data: Any) -> None:
    """Record that somebody did `what` to a job. Raises RuntimeError outside `recording_events`."""
    acts.record_act(acts.Kind.JOB, what, f"{job.kind} {job.pk}", **data)


def _update(job: J, **fields: Any) -> J:
    for name, value in fields.items():
        setattr(job, name, value)
    job.save(update_fields=list(fields))
    return job


@recording_events()
def pause(pk: int, *, because: str = "", detail: str = "") -> Job:
    """Pause a job: no further calls start, calls in flight finish and are kept. Raises JobOver.

    `because`: the name of the error class, unless a person pauses the job. Pausing a paused job
    changes nothing. A job that rests because calls in flight may yet leave room in its budget is
    not paused for its budget (`ledger.reserve`).
    """
    job = lock_job(pk)
    if job.status == Job.Status.PAUSED or (because == BUDGET_SPENT and job.is_resting and not job.budget_spent):
        return job
    if job.status in OVER:
        raise errors.JobOver
    if not because:
        record(job, "paused")
    tell(job, Occasion.PAUSED, because=because)
    return _update(job, status=Job.Status.PAUSED, paused_because=because[:64], paused_detail=detail)


def pause_unless_over(pk: int, because: str, detail: str) -> None:
    """Pause a job for an error, unless it has ended meanwhile."""
    with suppress(errors.JobOver):
        pause(pk, because=because, detail=detail)


def tell(job: Job, occasion: Occasion, *, once: str = "", **facts: Any) -> None:
    """Tell who launched a job, and the webhooks, what became of it."""
    launcher: User | None = job.created_by
    notifications.tell(
        occasion, [launcher] if launcher != acts.acting_account() else [], once=once, job=job.pk, **facts
    )


def launch_once(
    kind: type[J],
    key: str,
    create: Callable[[], J],
    *,
    actor: models.Model | None,
    content: Any,
    variant: str = "",
) -> J:
    """Create a job in one transaction, once per person and key.

    Returns the job that this person launched under this key before, if there is one. `content`:
    what is launched. `variant` distinguishes launches that create the same kind of job. An empty
    key counts as none. Raises KeyReused if something else was launched under this key.
    """
    if not key:
        with recording_events():
            return _recorded(create(), actor)
    name = _digest([kind._meta.model_name, variant, actor and actor.pk, key])
    digest = _digest(content)
    known = kind._default_manager.filter(launch_key=name)
    job: Any
    try:
        with recording_events():
            job = known.first() or _update(_recorded(create(), actor), launch_key=name, launch_digest=digest)
    except (IntegrityError, errors.NothingToDo):  # a simultaneous launch was first and took the records
        if (job := known.first()) is None:
            raise
    if job.launch_digest not in ("", digest):
        raise errors.KeyReused
    return cast(J, job)


def _recorded(job: J, actor: Any) -> J:
    changes = acts.changes({}, _budget(job))
    acts.record_act(acts.Kind.LAUNCHED, "launched", f"{job.kind} {job.pk}", actor, changes=changes)
    return job


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Convert what JSON lacks: a row to its key, an amount to a normal form, a value to fields."""
    if isinstance(value, models.Model):
        return value.pk
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, BaseModel):
        return dict(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def pause_after_first(job: Job, *, is_open: bool, others: bool) -> None:
    """Pause a job that was launched with one record first, when that has ended and others wait.

    `is_open`: whether the first record is still worked on, in this lane or another.
    """
    if not job.first_only or not is_running(job.pk):
        return
    if is_open:
        rest(job.pk, timezone.now() + FIRST_WAIT)
    elif others:
        pause_unless_over(job.pk, FIRST_RECORD, "The first record has ended. The others wait.")


@transaction.atomic
def pause_if_spent(pk: int) -> None:
    """Pause a job that rested in the hope of room in its budget, if the budget is spent now."""
    job = lock_job(pk)
    if job.status == Job.Status.RUNNING and job.rests_until is not None and job.budget_spent:
        spent = BudgetSpent()
        tell(job, Occasion.PAUSED, because=spent.kind)
        _update(job, status=Job.Status.PAUSED, paused_because=spent.kind, paused_detail=str(spent))


@recording_events()
def resume(pk: int) -> Job:
    """Resume a paused job; models that were found unfit are tried again.

    Raises JobOver; BudgetTooSmall if the budget allows no further call.
    """
    job = lock_job(pk)
    if job.status == Job.Status.RUNNING:
        return _update(job, rests_until=None)
    if job.status in OVER:
        raise errors.JobOver
    if job.budget_spent:
        raise errors.BudgetTooSmall
    if job.paused_because == FIRST_RECORD:  # a person has seen it
        _update(job, first_only=False)
    passed = {}
    for pk, entry in job.model_checks.items():
        if not any(each["blocks"] for each in entry["tried"]):
            passed[pk] = entry
    record(job, "resumed")
    running = {"status": Job.Status.RUNNING, "idle_since": timezone.now()}
    return _update(job, model_checks=passed, **running, **NO_PAUSE)


@recording_events()
def change_limits(pk: int, **limits: Any) -> Job:
    """Change some of a job's limits, by the names in `JobLimits`, from the next call or pulse on.

    A job that was paused for its budget resumes if the new one has room. Raises JobOver for a
    cancelled job, and for another pace of one that has ended; BudgetTooSmall for a negative budget.
    """
    job = lock_job(pk)
    budget, pace = _budget(job), _pace(job)
    for name, value in limits.items():
        setattr(job, name, value)
    if _pace(job) != pace:
        if job.status in OVER:
            raise errors.JobOver
        record(job, "pace", changes=acts.changes(pace, _pace(job)))
    if limits.keys() & {"budget_money", "budget_calls"}:
        if job.status == Job.Status.CANCELLED:
            raise errors.JobOver
        if any(most is not None and most < 0 for most in (job.budget_money, job.budget_calls)):
            raise errors.BudgetTooSmall
        record(job, "budget", changes=acts.changes(budget, _budget(job)))
        limits["rests_until"] = None
        if job.status == Job.Status.PAUSED and job.paused_because == BUDGET_SPENT and not job.budget_spent:
            limits |= {"status": Job.Status.RUNNING, "paused_because": "", "paused_detail": ""}
            limits["idle_since"] = timezone.now()
    wake_workers()
    return _update(job, **limits)


def _budget(job: Job) -> dict[str, Any]:
    return {"money": job.budget_money, "calls": job.budget_calls}


def _pace(job: Job) -> dict[str, Any]:
    return {"priority": job.priority, "most_lanes": job.most_lanes}


def rest(pk: int, until: Any) -> None:
    """Start no lane of a job before `until`, as there is nothing to do until then."""
    Job.objects.filter(pk=pk).update(rests_until=until)


MARK_INTERVAL = timedelta(minutes=1)  # between the two moments from which the rate is computed
IDLE_AFTER = timedelta(minutes=3)  # without a mark, nobody worked: the rate must not average over the gap


def mark(pk: int, now: datetime) -> None:
    """Store the current totals if the last mark is `MARK_INTERVAL` old.

    After `IDLE_AFTER` without a mark, the rate starts from scratch.
    """
    jobs = Job.objects.filter(pk=pk)
    latest: dict[str, Any] = {"then_at": now, "then_calls": F("calls"), "then_hits": F("hits")}
    is_active = Q(then_at__gt=now - IDLE_AFTER)
    earlier = {"since_at": F("then_at"), "since_calls": F("then_calls"), "since_hits": F("then_hits")}
    if not jobs.filter(is_active).exists():
        jobs.update(**latest, since_at=now, since_calls=F("calls"), since_hits=F("hits"))
    elif jobs.filter(is_active, then_at__lte=now - MARK_INTERVAL).update(**latest, **earlier):
        job = jobs.get()
        budgets = ((job.cost, job.budget_money), (Decimal(job.calls), job.budget_calls))
        if any(budget and spent >= NEARLY * budget for spent, budget in budgets):  # told once for each budget
            tell(job, Occasion.BUDGET, once=f"budget {job.pk} {job.budget_money} {job.budget_calls}")


def settle(job: Job, *, is_open: bool) -> None:
    """Mark a job finished if no row is open, and running again if one is.

    The caller holds the lock. A paused job with open rows stays paused.
    """
    if job.status == Job.Status.CANCELLED or (is_open and job.status == Job.Status.PAUSED):
        return
    if not is_open:
        _update(job, status=Job.Status.FINISHED, finished_at=job.finished_at or timezone.now(), **NO_PAUSE)
    elif job.status != Job.Status.RUNNING:
        _update(job, status=Job.Status.RUNNING, finished_at=None, idle_since=timezone.now())


def cancel(job: Job) -> None:
    """Cancel a job locked by the caller."""
    _update(job, status=Job.Status.CANCELLED, finished_at=timezone.now(), **NO_PAUSE)
