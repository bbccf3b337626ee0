"""What a batch and a run have in common: a status, a budget, totals, and what a person may do to them at any time.

Each of the functions here may be called twice: the second time changes nothing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation import errors
from generation.llm.errors import BudgetSpent

BUDGET_SPENT = "BudgetSpent"
MOST_CALLS = 2**31 - 1  # that the column of a budget can hold


class Job(models.Model):
    """A batch or a run: many rows of work, whose calls are counted and paid for together.

    `paused_because`: the name of the error class that paused it, with its detail in `paused_detail`; empty where a
    person did. `rests_until`: no lane is started before (an endpoint asked to be left alone). The totals are those of
    the job's lines in the ledger, kept in the transaction that writes a line: `calls` are HTTP attempts, `failed` those
    of them that ended in an error, `hits` replies that had been paid for before.

    `launch_key`: by which a launch that is sent twice is known (`once`); null where none was given. `launch_digest`: of what
    was launched under it; empty in rows from before there were digests.

    `since_at` and `then_at` are two moments, a minute or more apart, with what the totals had been: calls and hits since the
    earlier one give the rate (`mark`).
    """

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        FINISHED = "finished", _("finished")
        CANCELLED = "cancelled", _("cancelled")

    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    paused_because = models.CharField(max_length=64, blank=True, default="")
    paused_detail = models.TextField(blank=True, default="")
    rests_until = models.DateTimeField(null=True, blank=True)
    budget_money = models.DecimalField(max_digits=14, decimal_places=4, null=True, blank=True)
    budget_calls = models.PositiveIntegerField(null=True, blank=True)
    fresh = models.BooleanField(default=False)  # ask anew what has been paid for already
    calls = models.PositiveIntegerField(default=0)
    hits = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_reasoning = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    since_at = models.DateTimeField(null=True, blank=True)
    since_calls = models.PositiveIntegerField(default=0)
    since_hits = models.PositiveIntegerField(default=0)
    then_at = models.DateTimeField(null=True, blank=True)
    then_calls = models.PositiveIntegerField(default=0)
    then_hits = models.PositiveIntegerField(default=0)
    finished_at = models.DateTimeField(null=True, blank=True)
    launch_key = models.CharField(max_length=64, null=True, blank=True, unique=True)
    launch_digest = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        abstract = True

    @property
    def job(self) -> str:
        """The job's name in the ledger: ``batch:7``, ``run:3``."""
        return f"{self._meta.model_name}:{self.pk}"

    @property
    def money_spent(self) -> bool:
        return self.budget_money is not None and self.cost >= self.budget_money

    @property
    def rests(self) -> bool:
        """Whether it waits for an endpoint that asked to be left alone, and no lane is started meanwhile."""
        return self.status == self.Status.RUNNING and self.rests_until is not None and self.rests_until > timezone.now()

    @property
    def budget_spent(self) -> bool:
        """Whether no further call may be started."""
        return self.money_spent or (self.budget_calls is not None and self.calls >= self.budget_calls)


def advice(job: Job) -> str:
    """What is to be done about a paused job, in a sentence; "" where it is not paused."""
    if job.status != Job.Status.PAUSED:
        return ""
    if job.budget_spent:
        return gettext("Raise the budget: then it can go on.")
    if job.paused_because == "KeyMissing":
        return gettext("Set the variable where the site and its workers are started, start them anew, and resume.")
    if job.paused_because == "NotAllowed":
        return gettext(
            "Change the endpoint, or ask the operator to allow its key or address (MHB_ENDPOINT_...); then resume."
        )
    if job.paused_because == "EndpointDown":
        return gettext(
            "See to the endpoint (its account, key, address and model's name); once it answers again, resume."
        )
    if job.paused_because in ("BatchLost", "GivenUp"):
        return gettext(
            "See at the endpoint whether it has answered this batch, and charged for it. Resume, and it is asked again."
        )
    return gettext("Resume it, and it goes on where it stopped.")


def job_constraints(prefix: str) -> list[models.BaseConstraint]:
    """The invariants of a job's table."""
    return [
        models.CheckConstraint(condition=Q(status__in=Job.Status.values), name=f"{prefix}_status_known"),
        models.CheckConstraint(
            condition=(Q(budget_money__isnull=True) | Q(budget_money__gte=0))
            & (Q(budget_calls__isnull=True) | Q(budget_calls__gte=0)),
            name=f"{prefix}_budget_not_negative",
        ),
        models.CheckConstraint(condition=Q(status="paused") | Q(paused_because=""), name=f"{prefix}_paused_because"),
        models.CheckConstraint(condition=Q(failed__lte=F("calls")), name=f"{prefix}_failed_are_calls"),
    ]


J = TypeVar("J", bound=Job)
OVER = (Job.Status.FINISHED, Job.Status.CANCELLED)


def _locked(kind: type[J], pk: int) -> J:
    return kind._default_manager.select_for_update(of=("self",), no_key=True).get(pk=pk)


def _keep(job: J, **fields: Any) -> J:
    for name, value in fields.items():
        setattr(job, name, value)
    job.save(update_fields=list(fields))
    return job


@transaction.atomic
def pause(kind: type[J], pk: int, *, because: str = "", detail: str = "") -> J:
    """Start no further call of a job; what is in flight comes to its end and is kept. Raises JobOver.

    `because`: the name of the error class where no person did it. Who pauses what is paused already changes nothing, nor is a
    job paused for its budget that rests because what is in flight may yet leave room (`ledger.reserve`).
    """
    job = _locked(kind, pk)
    if job.status == Job.Status.PAUSED or (because == BUDGET_SPENT and _rests(job) and not job.budget_spent):
        return job
    if job.status in OVER:
        raise errors.JobOver
    return _keep(job, status=Job.Status.PAUSED, paused_because=because[:64], paused_detail=detail)


def once(
    kind: type[J],
    key: str,
    make: Callable[[], J],
    *,
    actor: models.Model | None,
    asked: Mapping[str, Any],
    what: str = "",
) -> J:
    """Make a job in one transaction; or return the one that this person launched under this key before.

    `asked`: what is to be launched. `what` tells launches of several sorts apart that make one kind of job. An empty key is
    none. Raises KeyReused where something else was launched under this key.
    """
    if not key:
        with transaction.atomic():
            return make()
    name = _digest([what, actor and actor.pk, key])
    digest = _digest(asked)
    known = kind._default_manager.filter(launch_key=name)
    found: J | None
    try:
        with transaction.atomic():
            found = known.first() or _keep(make(), launch_key=name, launch_digest=digest)
    except (IntegrityError, errors.NothingToDo):  # at the same moment: the other one took the records
        if (found := known.first()) is None:
            raise
    if found.launch_digest not in ("", digest):
        raise errors.KeyReused
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON does not have: a row by its number, an amount however it is written (5, 5.00), a value by its fields."""
    if isinstance(value, models.Model):
        return value.pk
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return asdict(value)


def _rests(job: Job) -> bool:
    return job.rests_until is not None and job.rests_until > timezone.now()


@transaction.atomic
def pause_if_spent(kind: type[J], pk: int) -> None:
    """Pause a job that rested for room in its budget and has none: what was in flight is in the ledger by now."""
    job = _locked(kind, pk)
    if job.status == Job.Status.RUNNING and job.rests_until is not None and job.budget_spent:
        spent = BudgetSpent()
        _keep(job, status=Job.Status.PAUSED, paused_because=spent.kind, paused_detail=str(spent))


@transaction.atomic
def resume(kind: type[J], pk: int) -> J:
    """Go on with a paused job. Raises JobOver; BudgetTooSmall where the budget allows no further call."""
    job = _locked(kind, pk)
    if job.status == Job.Status.RUNNING:
        return _keep(job, rests_until=None)
    if job.status in OVER:
        raise errors.JobOver
    if job.budget_spent:
        raise errors.BudgetTooSmall
    return _keep(job, status=Job.Status.RUNNING, paused_because="", paused_detail="", rests_until=None)


@transaction.atomic
def set_budget(kind: type[J], pk: int, *, money: Decimal | None, calls: int | None) -> J:
    """Give a job another budget (None: no limit), from the next call on. Raises JobOver for a cancelled job.

    A job that had paused for want of it goes on where the new one allows.
    """
    job = _locked(kind, pk)
    if job.status == Job.Status.CANCELLED:
        raise errors.JobOver
    if (money is not None and money < 0) or (calls is not None and calls < 0):
        raise errors.BudgetTooSmall
    _keep(job, budget_money=money, budget_calls=calls, rests_until=None)
    if job.status == Job.Status.PAUSED and job.paused_because == BUDGET_SPENT and not job.budget_spent:
        _keep(job, status=Job.Status.RUNNING, paused_because="", paused_detail="")
    return job


def rest(kind: type[J], pk: int, until: Any) -> None:
    """Start no lane of a job before `until`: an endpoint asked to be left alone for long."""
    kind._default_manager.filter(pk=pk).update(rests_until=until)


MARK = timedelta(minutes=1)  # between the moments by which the rate is told
IDLE = timedelta(minutes=3)  # without a mark: nobody worked, and the rate of what comes is no rate over the gap


def mark(kind: type[J], pk: int, now: datetime) -> None:
    """Remember what the totals are now, where that was last done a `MARK` ago; after `IDLE` the rate begins anew."""
    jobs = kind._default_manager.filter(pk=pk)
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
