"""The common part of a batch and a run: status, budget and totals."""

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from generation.models.endpoints import CallTotals
from generation.models.prompts import PromptSet
from generation.models.request_ids import current_request_id
from review.models import User


class KindField(models.CharField[str, str]):
    """The name of the model that a job was created as; set on insert, never changed."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if add:
            setattr(model_instance, self.attname, model_instance._meta.model_name)
        return super().pre_save(model_instance, add)


class Job(CallTotals):
    """A batch or a run: many rows of work whose calls are counted and paid for together.

    Each kind of job is a model of its own that inherits from this one.

    `paused_because`: the name of the error class that paused the job, with its detail in
    `paused_detail`; empty if a person paused it. `rests_until`: no lane is started before this
    moment (an endpoint asked us to wait). `idle_since`: when its last lane ended or it was resumed.

    `model_checks`: what a try of each endpoint showed before the first row was taken, by endpoint;
    a worker tries those that are missing, until `checking_until` (`generation.trials.checking`).

    `prompt_set`: the exact version of a team's own prompts; null: those of the benchmark's folder.

    `priority`: of jobs that ask the same endpoint, those of higher priority get its slots first.
    `most_lanes`: how many worker processes may work on it at the same time.

    `launch_key`: identifies a launch that is sent twice (`life_cycle.launch_once`); null if the
    client sent none. `launch_digest`: digest of what was launched under that key; empty in rows
    that are older than this field.

    `since_at` and `then_at` are two moments at least a minute apart, stored with the totals at
    those moments: the calls and hits since the earlier one give the rate (`life_cycle.mark`).
    """

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        FINISHED = "finished", _("finished")
        CANCELLED = "cancelled", _("cancelled")

    class Priority(models.TextChoices):
        HIGH = "high", _("high: before the others")
        NORMAL = "normal", _("normal")
        LOW = "low", _("low: after the others")

    seconds_allowed = 60  # of computing for many rows at once (`generation.engine.watchdog`)
    kind = KindField(max_length=40, editable=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    paused_because = models.CharField(max_length=64, blank=True, default="")
    paused_detail = models.TextField(blank=True, default="")
    rests_until = models.DateTimeField(null=True, blank=True)
    idle_since = models.DateTimeField(null=True, blank=True)
    budget_money = models.DecimalField(max_digits=14, decimal_places=4, null=True, blank=True)
    budget_calls = models.PositiveIntegerField(null=True, blank=True)
    priority = models.CharField(max_length=8, choices=Priority, default=Priority.NORMAL, db_default=Priority.NORMAL)
    most_lanes = models.PositiveSmallIntegerField(null=True, blank=True)  # null: MHB_LANES
    fresh = models.BooleanField(default=False)  # do not reuse replies that were paid for earlier
    since_at = models.DateTimeField(null=True, blank=True)
    since_calls = models.PositiveIntegerField(default=0)
    since_hits = models.PositiveIntegerField(default=0)
    then_at = models.DateTimeField(null=True, blank=True)
    then_calls = models.PositiveIntegerField(default=0)
    then_hits = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    launch_key = models.CharField(max_length=64, null=True, blank=True, unique=True)
    launch_digest = models.CharField(max_length=64, blank=True, default="")
    first_only = models.BooleanField(default=False)  # pause when the first record has ended, for a person to look
    prompt_set = models.ForeignKey(PromptSet, on_delete=models.PROTECT, null=True, blank=True, related_name="jobs")
    model_checks = models.JSONField(default=dict, blank=True)
    checking_until = models.DateTimeField(null=True, blank=True)
    request_id = models.CharField(
        max_length=100, blank=True, default=current_request_id, db_default=""
    )  # of its launch

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["running", "paused", "finished", "cancelled"]), name="job_status_known"
            ),
            models.CheckConstraint(condition=Q(priority__in=["high", "normal", "low"]), name="job_priority_known"),
            models.CheckConstraint(
                condition=(Q(budget_money__isnull=True) | Q(budget_money__gte=0))
                & (Q(budget_calls__isnull=True) | Q(budget_calls__gte=0)),
                name="job_budget_not_negative",
            ),
            models.CheckConstraint(condition=Q(status="paused") | Q(paused_because=""), name="job_paused_because"),
            models.CheckConstraint(condition=Q(failed__lte=F("calls")), name="job_failed_are_calls"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def rank(self) -> int:
        """The place of its priority, from 0 for the highest."""
        return list(self.Priority.values).index(self.priority)

    @property
    def name(self) -> str:
        """The job's name on pages and in commands: ``batch:7``, ``run:3``."""
        return f"{self.kind}:{self.pk}"

    @property
    def prompts_sha256(self) -> str:
        """The digest of a team's own prompts; "" if those of the benchmark's folder are sent."""
        if self.prompt_set:
            return self.prompt_set.digest
        return ""

    @property
    def is_checking(self) -> bool:
        """Whether a worker tries the job's models now."""
        return self.checking_until is not None and self.checking_until > timezone.now()

    @property
    def money_budget_spent(self) -> bool:
        return self.budget_money is not None and self.cost >= self.budget_money

    @property
    def waits_since(self) -> datetime:
        """Since when it could have had a lane: meaningful for a running job that has none."""
        moments = (self.created_at, self.idle_since, self.rests_until)
        return max(moment for moment in moments if moment is not None)

    @property
    def is_resting(self) -> bool:
        """Whether the job waits for an endpoint that asked us to; no lane is started meanwhile."""
        return self.status == self.Status.RUNNING and self.rests_until is not None and self.rests_until > timezone.now()

    @property
    def budget_spent(self) -> bool:
        """Whether no further call may be started."""
        return self.money_budget_spent or (self.budget_calls is not None and self.calls >= self.budget_calls)
