"""The ledger of calls, lanes, errors and provider batches."""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement
from django.db.models import Q
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from generation.models.endpoints import Endpoint
from generation.models.jobs import Job
from generation.models.request_ids import current_request_id
from generation.models.sent_texts import read_requests
from generation.models.work import Work, work_constraints


class EqualityIndex(models.Index):
    """An index of one column for equality: on PostgreSQL a hash index, a third of the size."""

    def create_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, using: str = "", **kwargs: Any
    ) -> Statement:
        if schema_editor.connection.vendor == "postgresql":
            using = " USING hash"
        return super().create_sql(model, schema_editor, using=using, **kwargs)


class Lane(models.Model):
    """A worker's hold on a job, valid until `until` and renewed with every pulse.

    `in_flight`: calls that the lane may have started and that are not in the ledger yet. `holds`:
    endpoint -> [slots wished for, slots held, calls in flight]; the slots that all live lanes hold
    of an endpoint never exceed its concurrency. `worker`: the worker process, ``host:pid:random``,
    which has at most one lane of a job. `started_at`: null while the thread that reserved it
    prepares its work.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    worker = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField()
    in_flight = models.PositiveIntegerField(default=0)
    holds = models.JSONField(default=dict)
    started_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint("job", "worker", name="lane_once_per_process")]


class Call(models.Model):
    """A line of the ledger: one HTTP attempt, or a hit on a reply paid for earlier.

    `job` and `subject` (``draft:12``) say what the call was made for; without a job it was a try
    (``check:7``, ``playground:3``), whose reply is never used for a result. `identity` is the
    content hash of the request, and `request` its body as `sent_texts` stores it, empty if it was
    forgotten. A line with `hit_of` is not an attempt: its reply had been paid for
    under that line. `repeated`: the row had been taken before, by a worker that was lost or that
    ended while retrying, so the same request may already have been sent.

    `attempt_id` tells whether a line was committed if the database connection was lost before the
    commit was confirmed; null in old lines. `estimated`: the endpoint reported no usage, so tokens
    and cost are upper estimates. `fingerprint`: the provider's `system_fingerprint`. `request_id`:
    of the request that launched the job, or made the try.
    """

    # No index of its own: the composite indexes below begin with the job.
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="+", db_index=False, null=True, blank=True)
    subject = models.CharField(max_length=40)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="calls")
    model = models.CharField(max_length=200)
    prompt = models.CharField(max_length=100, blank=True)
    request = models.BinaryField(default=b"", db_default=b"")
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    finish_reason = models.CharField(max_length=40, blank=True)
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    tokens_cached = models.PositiveIntegerField(default=0)
    tokens_reasoning = models.PositiveIntegerField(default=0)
    tokens_written = models.PositiveIntegerField(default=0, db_default=0)  # of tokens_in: into the endpoint's cache
    estimated = models.BooleanField(default=False, db_default=False)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    seconds = models.FloatField()
    attempt = models.PositiveSmallIntegerField()
    error = models.CharField(max_length=64, blank=True)
    detail = models.TextField(blank=True)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    simulated = models.BooleanField(default=False)
    fingerprint = models.CharField(max_length=200, blank=True, default="", db_default="")
    identity = models.CharField(max_length=64, blank=True)
    hit_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="hits")
    repeated = models.BooleanField(default=False)
    attempt_id = models.UUIDField(null=True, blank=True, unique=True)
    request_id = models.CharField(max_length=100, blank=True, default=current_request_id, db_default="")
    started_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["job", "id"]),
            EqualityIndex(fields=["subject"], name="call_subject"),
            EqualityIndex(fields=["identity"], name="call_reply", condition=Q(hit_of__isnull=True, error="")),
            models.Index(fields=["job", "id"], name="call_failed", condition=~Q(error="")),
            models.Index(
                fields=["endpoint", "prompt", "started_at"], name="call_prompt", condition=Q(hit_of__isnull=True)
            ),
        ]

    @cached_property
    def sent(self) -> dict[str, Any]:
        """The request body, with stored images as digests. For several calls: `load_requests`."""
        [body] = read_requests([bytes(self.request)])
        return body


def load_requests(calls: Collection[Call]) -> None:
    """Read the request bodies of calls: one query."""
    bodies = read_requests([bytes(call.request) for call in calls])
    for call, body in zip(calls, bodies, strict=True):
        call.sent = body


class JobError(models.Model):
    """How many calls of a job ended in an error of one class.

    Updated in the transaction that writes the ledger.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    error = models.CharField(max_length=64)
    calls = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "error"], name="job_error_once")]


class SentImage(models.Model):
    """An image that was sent to a model. Requests name its digest instead of its megabytes."""

    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of `data`
    media_type = models.CharField(max_length=40)
    data = models.BinaryField()


class ProviderBatch(Work):
    """Requests of one job that an endpoint answers together within a day (OpenAI batch protocol).

    A row of work: its holder advances it by one step, and nobody looks at it before `next_at`.

        prepared -> submitted -> collected          prepared | submitted -> dropped

    A batch is prepared before anything is uploaded. `asked_at`: from then on it may have been
    submitted, whether or not the answer reached us; it is then looked up at the provider by `mark`.
    Dropped: the endpoint refused it as a whole, or its job ended before it was submitted, so that
    none of its lines reached a model; or the endpoint no longer knows it (BatchLost).
    `error`, `detail`: the failure of the last step.
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
    file = models.CharField(max_length=200, blank=True)  # id of its input file at the endpoint
    batch = models.CharField(max_length=200, blank=True)  # its id at the endpoint
    remote_status = models.CharField(max_length=40, blank=True)  # its status in the endpoint's words
    asked_at = models.DateTimeField(null=True, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    next_at = models.DateTimeField()
    lines_count = models.PositiveIntegerField()
    answered = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)  # lines that ended in an error
    missing = models.PositiveIntegerField(default=0)  # lines that never reached the model
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
    """One request in a provider batch, under a random name that reveals nothing about the row.

    `call`: its line in the ledger, once written. `sent`: the request body, cleared when the line is
    written. `estimate`: what it may cost.
    """

    batch = models.ForeignKey(ProviderBatch, on_delete=models.PROTECT, related_name="lines", db_index=False)
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
    """The latest heartbeat of a worker process or the sweeper, written every few seconds.

    `name`: ``host:pid:random``, as in `Lane.worker`. `runs_lanes`: it works on jobs. `runs_tasks`:
    it takes short tasks, such as imports.
    """

    SWEEPER = "sweeper"  # the name of its beat
    VALID = timedelta(seconds=20)  # without a beat for so long, a worker was killed
    SWEEPER_VALID = timedelta(minutes=1)  # it sends one a round, and some rounds are long

    name = models.CharField(max_length=200, unique=True)
    seen_at = models.DateTimeField()
    runs_lanes = models.BooleanField(default=True, db_default=True)
    runs_tasks = models.BooleanField(default=True, db_default=True)

    def is_lost(self, now: datetime) -> bool:
        """Whether the process was killed, or hangs."""
        valid = self.VALID
        if self.name == self.SWEEPER:
            valid = self.SWEEPER_VALID
        return abs(now - self.seen_at) > valid  # a beat of the future: the clock was set back since
