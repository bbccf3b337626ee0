"""The ledger of calls, lanes, errors and provider batches."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from generation.models.endpoints import Endpoint
from generation.models.jobs import Job
from generation.models.work import Work, work_constraints


class Lane(models.Model):
    """A worker's hold on a job, good until `until` and renewed every moment.

    `flying`: calls that it may have started and that are not in the ledger yet. `holds`: endpoint -> [what it wishes
    for, what it may have at once, what it has in flight]; the sum of what all living lanes hold of an endpoint never
    exceeds the endpoint's concurrency. `worker`: the process that works, ``host:pid``.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    worker = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField()
    flying = models.PositiveIntegerField(default=0)
    holds = models.JSONField(default=dict)
    started_at = models.DateTimeField()


class Call(models.Model):
    """One HTTP attempt at a model: the ledger. `job` and `subject` (``draft:12``) say what for.

    `identity` is the content hash of what was asked. A line with `hit_of` is no attempt: its reply had been paid for under that
    line. `repeated`: the row had been taken before by a worker that was lost, or that ended while it was trying again, so this
    may have been asked for already.
    `attempt_id`: by which it is known that it was written, where the database went away before it said so; null in old lines.
    """

    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="+", db_index=False
    )  # its indexes begin with it
    subject = models.CharField(max_length=40)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="calls")
    model = models.CharField(max_length=200)
    prompt = models.CharField(max_length=100, blank=True)
    sent = models.JSONField()
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    finish_reason = models.CharField(max_length=40, blank=True)
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    tokens_cached = models.PositiveIntegerField(default=0)
    tokens_reasoning = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    seconds = models.FloatField()
    attempt = models.PositiveSmallIntegerField()
    error = models.CharField(max_length=64, blank=True)
    detail = models.TextField(blank=True)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    simulated = models.BooleanField(default=False)
    identity = models.CharField(max_length=64, blank=True)
    hit_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="hits")
    repeated = models.BooleanField(default=False)
    attempt_id = models.UUIDField(null=True, blank=True, unique=True)
    started_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["job", "id"]),
            models.Index(fields=["subject", "id"]),
            models.Index(fields=["identity", "id"], name="call_identity", condition=Q(hit_of__isnull=True, error="")),
            models.Index(fields=["job", "id"], name="call_failed", condition=~Q(error="")),
            models.Index(
                fields=["endpoint", "prompt", "started_at"], name="call_prompt", condition=Q(hit_of__isnull=True)
            ),
        ]


class JobError(models.Model):
    """How often the calls of a job ended in an error of one class; kept in the transaction that writes the ledger."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    error = models.CharField(max_length=64)
    calls = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "error"], name="job_error_once")]


class SentImage(models.Model):
    """An image that was sent to a model. The ledger's `sent` names it by its digest in place of its megabytes."""

    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of `data`
    media_type = models.CharField(max_length=40)
    data = models.BinaryField()


class ProviderBatch(Work):
    """Requests of one job that an endpoint answers together, within a day: a batch of the OpenAI batch protocol.

    A row of work: its holder brings it a step further, and nobody looks at it before `next_at`.

        prepared -> submitted -> collected          prepared | submitted -> dropped

    Prepared before anything is uploaded. `asked_at`: it may have been submitted since, whether or not we heard the
    answer; `mark` is the name under which it is then looked up there. Dropped: the endpoint refused it as a whole, or its job
    was over before it was submitted, so that no line of it was put to a model; or the endpoint knows it no more (BatchLost).
    `error`, `detail`: what the last step met.
    """

    class State(models.TextChoices):
        PREPARED = "prepared", _("prepared")
        SUBMITTED = "submitted", _("submitted")
        COLLECTED = "collected", _("collected")
        DROPPED = "dropped", _("dropped")

    OPEN = (State.PREPARED, State.SUBMITTED)

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="+")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=9, choices=State, default=State.PREPARED)
    mark = models.UUIDField(default=uuid.uuid4, unique=True)
    file = models.CharField(max_length=200, blank=True)  # its id at the endpoint
    batch = models.CharField(max_length=200, blank=True)  # likewise
    said = models.CharField(max_length=40, blank=True)  # the endpoint's word for its status
    asked_at = models.DateTimeField(null=True, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    next_at = models.DateTimeField()
    lines_count = models.PositiveIntegerField()
    answered = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)  # lines that ended in an error
    missing = models.PositiveIntegerField(default=0)  # lines that were never put to the model
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            *work_constraints("provider_batch"),
            models.CheckConstraint(
                condition=Q(state__in=["prepared", "submitted", "collected", "dropped"]),
                name="provider_batch_state_known",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["submitted", "collected"]) | ~Q(batch="") & Q(asked_at__isnull=False),
                name="provider_batch_submitted_has_id",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["prepared", "submitted"], status__in=["queued", "running"])
                | Q(state__in=["collected", "dropped"], status="done"),
                name="provider_batch_open_iff_work",
            ),
        ]
        indexes = [models.Index(fields=["status", "next_at"])]


class ProviderLine(models.Model):
    """One request in a provider's batch, under a name that says nothing. `call`: its line in the ledger, once it is there.

    `sent`: the body, kept until then; `estimate`: what it may cost.
    """

    batch = models.ForeignKey(ProviderBatch, on_delete=models.PROTECT, related_name="lines")
    custom_id = models.UUIDField(default=uuid.uuid4, unique=True)
    subject = models.CharField(max_length=40)
    identity = models.CharField(max_length=64, db_index=True)
    prompt = models.CharField(max_length=100, blank=True)
    sent = models.JSONField()
    estimate = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    call = models.OneToOneField(Call, on_delete=models.PROTECT, null=True, blank=True, related_name="provider_line")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "subject"], name="provider_line_once_per_row")]


class WorkerBeat(models.Model):
    """A worker process that lives, as it says itself every few seconds."""

    name = models.CharField(max_length=200, unique=True)
    seen_at = models.DateTimeField()
