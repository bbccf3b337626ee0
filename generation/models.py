"""Sources, endpoints and their ledger, batches, samples with their versions, releases. Services write, queries read."""

import math
import re
import uuid
from dataclasses import replace
from decimal import Decimal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from generation.jobs import Job, job_constraints
from generation.llm.access import Access
from generation.llm.errors import NotAllowed
from generation.llm.types import ModelSettings
from generation.work import Work, work_constraints
from review.machine import Ground
from review.models import Case, User

# An environment variable's name. Capitals only: a key that was pasted in its place by mistake is refused, not stored.
VARIABLE = r"^[A-Z_][A-Z0-9_]*$"


class Source(models.Model):
    """An imported data set, with its licence and citation."""

    name = models.SlugField(max_length=100, unique=True)
    format = models.CharField(max_length=40)
    label = models.CharField(max_length=200)
    licence = models.CharField(max_length=200)
    citation = models.TextField()
    restrictions = models.TextField(blank=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class SourceRecord(models.Model):
    """One record of a source under its own id. `private` is kept and never shown, exported or sent to a model.

    `match`: the digest of the text by which records of other sources refer to this one; '' where none can. Whom it refers to
    itself is in `refers`, resolved whenever it is read: so it does not matter which source was imported first.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="records")
    external_id = models.CharField(max_length=200)
    title = models.CharField(max_length=300)
    language = models.CharField(max_length=16, blank=True)
    content = models.JSONField()
    private = models.JSONField(default=dict, blank=True)
    match = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "external_id"], name="record_once_per_source")]
        indexes = [models.Index(fields=["match"], name="record_match")]

    def __str__(self) -> str:
        return self.external_id


class Reference(models.Model):
    """That a record refers to whatever record of a format has this `match`, whether or not there is one (yet)."""

    record = models.ForeignKey(SourceRecord, on_delete=models.CASCADE, related_name="refers", db_index=False)
    format = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["record", "format", "digest"], name="reference_once")]
        indexes = [models.Index(fields=["digest", "format", "record"], name="reference_digest")]


class ImportStatus(models.TextChoices):
    """Those of all work, and cancelled by somebody: what was added until then stays."""

    QUEUED = Work.Status.QUEUED.value, Work.Status.QUEUED.label
    RUNNING = Work.Status.RUNNING.value, Work.Status.RUNNING.label
    DONE = Work.Status.DONE.value, Work.Status.DONE.label
    FAILED = Work.Status.FAILED.value, Work.Status.FAILED.label
    CANCELLED = "cancelled", _("cancelled")


class Import(Work):
    """The reading of one file into a source. Reading it again adds nothing twice, so a killed import simply starts over."""

    status = models.CharField(max_length=10, choices=ImportStatus, default=ImportStatus.QUEUED)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="imports")
    file_name = models.CharField(max_length=300)
    path = models.CharField(max_length=1000)
    uploaded = models.BooleanField(default=False)  # ours to delete when it has been read
    layout = models.CharField(max_length=40, blank=True)
    rows = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    known = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    facets = models.JSONField(default=dict)  # name -> value -> good rows
    joined = models.JSONField(default=dict)  # format -> good rows that a record of it refers to, or that refer to one
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = work_constraints("import", ImportStatus)


class ImportRefusal(models.Model):
    """One bad row: where it stands in the file and why it was refused."""

    run = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="refusals")
    where = models.CharField(max_length=100)
    reason = models.TextField()


class Endpoint(models.Model):
    """A model at an OpenAI-compatible address. `key_env` names the environment variable; the key is never stored."""

    name = models.SlugField(max_length=100, unique=True)
    # No URLField: it wants a dot in the host, and a model's host may be a service's name (``http://models:8010/v1``).
    url = models.CharField(max_length=500, validators=[RegexValidator(r"^https?://[^\s/@]+(/\S*)?$")])
    model = models.CharField(max_length=200)
    key_env = models.CharField(max_length=100, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    max_tokens = models.PositiveIntegerField(null=True, blank=True)
    price_in = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    price_out = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    concurrency = models.PositiveSmallIntegerField(default=8)
    timeout = models.FloatField(default=120)
    rpm = models.PositiveIntegerField(null=True, blank=True)  # requests a minute; null: no limit
    tpm = models.PositiveIntegerField(null=True, blank=True)  # tokens a minute
    batches = models.BooleanField(default=False)  # it speaks the batch protocol (files and batches)
    batch_discount = models.DecimalField(max_digits=4, decimal_places=3, default=Decimal("0.5"))  # of the prices, there
    simulated = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(concurrency__gte=1), name="endpoint_concurrency_positive"),
            models.CheckConstraint(condition=Q(price_in__gte=0, price_out__gte=0), name="endpoint_prices_not_negative"),
            models.CheckConstraint(condition=Q(timeout__gt=0), name="endpoint_timeout_positive"),
            models.CheckConstraint(
                condition=(Q(rpm__isnull=True) | Q(rpm__gte=1)) & (Q(tpm__isnull=True) | Q(tpm__gte=1)),
                name="endpoint_rates_positive",
            ),
            models.CheckConstraint(
                condition=Q(batch_discount__gte=0, batch_discount__lte=1), name="endpoint_batch_discount_is_share"
            ),
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """What no page, route or command may store.

        A key in place of its variable's name; a variable or an address that the operator does not allow; numbers that JSON
        does not have.
        """
        if self.key_env and not re.fullmatch(VARIABLE, self.key_env):
            raise ValidationError(
                {"key_env": _("This is no name of a variable: capitals, digits and underscores. Not the key itself.")}
            )
        for name in ("temperature", "timeout"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValidationError({name: _("Enter a number.")})
        allowed: Access = settings.MHB_ENDPOINT_ACCESS
        try:
            allowed.check_url(self.url)
        except NotAllowed as error:
            told = _("Endpoints may not have this address. %(detail)s") % {"detail": error.detail}
            raise ValidationError({"url": told}) from None
        try:
            allowed.check_key(self.key_env, self.url)
        except NotAllowed as error:
            told = _("Endpoints may not use this variable. %(detail)s") % {"detail": error.detail}
            raise ValidationError({"key_env": told}) from None

    @property
    def batch_settings(self) -> ModelSettings:
        """The same at the prices of what is asked in a provider's batch: `batch_discount` times the prices."""
        settings, factor = self.settings, self.batch_discount
        return replace(settings, price_in=settings.price_in * factor, price_out=settings.price_out * factor)

    @property
    def settings(self) -> ModelSettings:
        """What the gateway needs to know."""
        return ModelSettings(
            name=self.name,
            url=self.url,
            model=self.model,
            key_env=self.key_env,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            price_in=self.price_in,
            price_out=self.price_out,
            concurrency=self.concurrency,
            timeout=self.timeout,
            rpm=self.rpm,
            tpm=self.tpm,
        )


class EndpointState(models.Model):
    """What the lanes know together of an endpoint: how long it is to be left alone, and why; whether it is down.

    `openings`: the pauses in a row that its failures have cost; `bears`: the share of its concurrency that it was found
    to bear.
    """

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="state")
    blocked_until = models.DateTimeField(null=True, blank=True)
    because = models.CharField(max_length=64, blank=True)
    detail = models.TextField(blank=True)
    openings = models.PositiveSmallIntegerField(default=0)
    down_since = models.DateTimeField(null=True, blank=True)
    bears = models.FloatField(default=1.0)


class Lane(models.Model):
    """A worker's hold on a job, good until `until` and renewed every moment.

    `flying`: calls that it may have started and that are not in the ledger yet. `holds`: endpoint -> [what it wishes
    for, what it may have at once, what it has in flight]; the sum of what all living lanes hold of an endpoint never
    exceeds the endpoint's concurrency. `worker`: the process that works, ``host:pid``.
    """

    job = models.CharField(max_length=40, db_index=True)
    worker = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField()
    flying = models.PositiveIntegerField(default=0)
    holds = models.JSONField(default=dict)
    started_at = models.DateTimeField()


class Call(models.Model):
    """One HTTP attempt at a model: the ledger. `job` (``batch:7``, ``run:3``) and `subject` (``draft:12``) say what for.

    `identity` is the content hash of what was asked. A line with `hit_of` is no attempt: its reply had been paid for under that
    line. `repeated`: the row had been taken before by a worker that was lost, or that ended while it was trying again, so this
    may have been asked for already.
    `attempt_id`: by which it is known that it was written, where the database went away before it said so; null in old lines.
    """

    job = models.CharField(max_length=40)
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

    job = models.CharField(max_length=40)
    error = models.CharField(max_length=64)
    calls = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "error"], name="job_error_once")]


class EndpointDay(models.Model):
    """What the calls of an endpoint that began on one day (UTC) came to; kept in the transaction that writes the ledger."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="days")
    day = models.DateField()
    calls = models.PositiveIntegerField(default=0)
    hits = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_reasoning = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "day"], name="endpoint_day_once"),
            models.CheckConstraint(condition=Q(failed__lte=F("calls")), name="endpoint_day_failed_are_calls"),
        ]


class SentImage(models.Model):
    """An image that was sent to a model. The ledger's `sent` names it by its digest in place of its megabytes."""

    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of `data`
    media_type = models.CharField(max_length=40)
    data = models.BinaryField()


class ProviderBatch(Work):
    """Requests of one job that an endpoint answers together, within a day: a batch of the OpenAI batch protocol.

    A row of work: whoever holds it brings it a step further, and nobody looks at it before `next_at`.

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

    job = models.CharField(max_length=40, db_index=True)
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


class Comparison(models.Model):
    """Two batches over the same records, which differ in their set of prompts: which set makes what physicians approve?"""

    benchmark = models.CharField(max_length=64)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="comparisons")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = [F("id").desc()]


class Batch(Job):
    """One launch of a recipe over records, with endpoints bound to its roles.

    `plan`: {} or {"name", "targets": task -> subtype -> samples, "clusters": task -> cluster -> samples}, scaled to the
    batch. `checks`: the names of those that are made. `prompts`: the set of prompt files, "" for the usual one. `preset`: the
    name of the recipe's preset, "" where it has none; `settings`: its values as they were at the launch, but for those of them
    that the launch changed, whose names are in `changed`.
    """

    benchmark = models.CharField(max_length=64)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="batches")
    plan = models.JSONField(default=dict, blank=True)
    checks = models.JSONField(default=list, blank=True)
    prompts = models.CharField(max_length=64, blank=True)
    preset = models.CharField(max_length=64, blank=True)
    settings = models.JSONField(default=dict, blank=True)
    changed = models.JSONField(default=list, blank=True)
    comparison = models.ForeignKey(Comparison, on_delete=models.PROTECT, null=True, blank=True, related_name="batches")
    arm = models.CharField(max_length=1, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            *job_constraints("batch"),
            models.UniqueConstraint(fields=["comparison", "arm"], name="batch_arm_once"),
            models.CheckConstraint(
                condition=Q(comparison__isnull=True, arm="") | Q(comparison__isnull=False, arm__in=["A", "B"]),
                name="batch_arm_of_a_comparison",
            ),
        ]
        ordering = [F("id").desc()]


class BatchRole(models.Model):
    """Which endpoint plays a role of the recipe in a batch."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(max_length=40)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "role"], name="batch_role_bound_once")]


class Sample(models.Model):
    """One test case of a benchmark, whatever its version."""

    class Status(models.TextChoices):
        IN_REVIEW = "in-review", _("in review")
        REGENERATING = "regenerating", _("being regenerated")
        APPROVED = "approved", _("approved")
        DISCARDED = "discarded", _("discarded")
        WITHDRAWN = "withdrawn", _("withdrawn")

    benchmark = models.CharField(max_length=64)
    task = models.CharField(max_length=40)
    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="samples")
    record = models.ForeignKey(SourceRecord, on_delete=models.PROTECT, related_name="samples")
    status = models.CharField(max_length=12, choices=Status, default=Status.IN_REVIEW)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["in-review", "regenerating", "approved", "discarded", "withdrawn"]),
                name="sample_status_known",
            )
        ]
        indexes = [models.Index(fields=["benchmark", "status"])]

    @property
    def key(self) -> str:
        """The sample's name in releases and pages, the same for all its versions."""
        return f"{self.benchmark}-{self.task}-{self.pk:06d}"

    def __str__(self) -> str:
        return self.key


class Draft(Work):
    """A sample in the making: `data` after each step. The row waits at step number `step` of the recipe.

    `preferred`: the traps that the batch's plan would like in it. `gate`: whether a check stopped it short of physicians.
    """

    class Gate(models.TextChoices):
        STOPPED = "stopped", _("stopped by a check")
        LET_THROUGH = "let-through", _("let through")
        DISCARDED = "discarded", _("discarded")

    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="drafts")
    record = models.ForeignKey(SourceRecord, on_delete=models.PROTECT, related_name="drafts")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, null=True, blank=True, related_name="drafts")
    version = models.PositiveSmallIntegerField(default=1)
    step = models.PositiveSmallIntegerField(default=0)
    data = models.JSONField(default=dict)
    preferred = models.JSONField(default=list, blank=True)
    gate = models.CharField(max_length=11, choices=Gate, blank=True)

    class Meta:
        constraints = [
            *work_constraints("draft"),
            # What is stopped has ended and is no sample; what was let through is one.
            models.CheckConstraint(
                condition=Q(gate="")
                | Q(gate__in=["stopped", "discarded"], status="dropped")
                | Q(gate="let-through", status="done"),
                name="draft_gate_fits_status",
            ),
            # The first draft of a record in a batch, and the one regeneration of a version, exist once.
            models.UniqueConstraint(
                fields=["batch", "record"],
                condition=Q(parent__isnull=True, sample__isnull=True),
                name="draft_one_per_record",
            ),
            models.UniqueConstraint(
                fields=["sample", "version"],
                condition=Q(parent__isnull=True, sample__isnull=False),
                name="draft_one_per_version",
            ),
        ]
        indexes = [
            models.Index(fields=["batch", "status", "id"]),
            models.Index(fields=["status", "lease_until"]),
            models.Index(fields=["batch", "gate", "id"], condition=~Q(gate=""), name="draft_gated"),
        ]


class Finding(models.Model):
    """What a check found in a draft. `stops`: for that it was stopped. `other`: the sample that it is like, and how much."""

    draft = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="findings")
    check_name = models.CharField(max_length=40)
    stops = models.BooleanField()
    detail = models.TextField()
    other = models.ForeignKey(Sample, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    likeness = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["draft", "check_name"], name="finding_once_per_check")]
        indexes = [models.Index(fields=["check_name", "stops"])]


class GateEvent(models.Model):
    """A draft was stopped, let through or discarded, by whom and why: written once, by database trigger."""

    draft = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="gate_events")
    kind = models.CharField(max_length=11, choices=Draft.Gate)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    reason = models.TextField()
    at = models.DateTimeField()


class SampleVersion(models.Model):
    """One version of a sample, put before physicians as `case`.

    `content` is as generated, its rubrics stand beside it as rows. `reasons`: why this version was rejected; `citations`:
    the evidence of those who approved it (kind, reference, section, passage, read_on). `prompt` and `generator` (an
    endpoint's name) made it, `traps` are those of its rubrics, as generated. `made`: what the recipe says of how it was made,
    name -> value.
    """

    class Status(models.TextChoices):
        IN_REVIEW = "in-review", _("in review")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")
        WITHDRAWN = "withdrawn", _("withdrawn")

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveSmallIntegerField()
    draft = models.OneToOneField(Draft, on_delete=models.PROTECT, related_name="version_made")
    case = models.OneToOneField(Case, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=300)
    content = models.JSONField()
    status = models.CharField(max_length=10, choices=Status, default=Status.IN_REVIEW)
    reasons = models.JSONField(default=list)
    citations = models.JSONField(default=list)
    simulated = models.BooleanField(default=False)
    prompt = models.CharField(max_length=100, blank=True)
    generator = models.CharField(max_length=100, blank=True)
    traps = models.JSONField(default=list, blank=True)
    made = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sample", "number"], name="version_numbered_once"),
            models.UniqueConstraint(
                fields=["sample"], condition=Q(status__in=["in-review", "approved"]), name="version_one_alive"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["in-review", "approved", "rejected", "withdrawn"]), name="version_status_known"
            ),
        ]
        indexes = [models.Index(fields=["status", "id"])]


class TextIndex(models.Model):
    """The texts of a benchmark that are not to occur twice. Its row is locked while one is compared and added."""

    benchmark = models.CharField(max_length=64, unique=True)


class Fingerprint(models.Model):
    """What is kept of a version's text to find it again (`generation.checks`)."""

    index = models.ForeignKey(TextIndex, on_delete=models.PROTECT, related_name="fingerprints")
    version = models.OneToOneField(SampleVersion, on_delete=models.CASCADE, related_name="fingerprint")
    digest = models.CharField(max_length=64)
    signature = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["index", "digest"])]


class Band(models.Model):
    """One band of a fingerprint: texts that share one may be alike."""

    fingerprint = models.ForeignKey(Fingerprint, on_delete=models.CASCADE, related_name="bands")
    value = models.BigIntegerField(db_index=True)


class Rubric(models.Model):
    """One criterion of a sample version. `approved` is the wording that physicians settled on, empty until then, and where
    none was asked.

    `severity`: the harm they expect where a clinician follows the hallucination, if they were asked. `removed`: they took the
    rubric away, and it is kept to say so. `added`: a rubric of theirs.
    """

    version = models.ForeignKey(SampleVersion, on_delete=models.PROTECT, related_name="rubrics")
    key = models.CharField(max_length=16)
    criterion = models.TextField()
    traps = models.JSONField(default=list)
    approved = models.TextField(blank=True)
    severity = models.CharField(max_length=40, blank=True)
    removed = models.BooleanField(default=False)
    added = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "key"], name="rubric_keyed_once")]


class Release(models.Model):
    """A frozen, versioned, checksummed set of approved samples: never changed, by database trigger."""

    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField()
    benchmark = models.CharField(max_length=64)
    samples_count = models.PositiveIntegerField()
    rubrics_count = models.PositiveIntegerField()
    counts = models.JSONField()  # facet -> value -> {"samples": n, "rubrics": n}
    generators = models.JSONField()  # "model (endpoint)"
    made = models.JSONField(default=dict)  # how samples were made: name -> value -> samples
    grounds = models.JSONField(
        default=dict
    )  # why samples were approved: ground -> samples; {}: frozen before it was counted
    # Who reviewed: {"physicians": accounts, "simulated": of them, "simulated_samples": reviewed by them}; {}: not counted
    reviewers = models.JSONField(default=dict)
    sources = models.JSONField()  # name, label, licence, citation, restrictions, samples
    simulated = models.BooleanField()
    sha256 = models.CharField(max_length=64)  # of the JSON Lines export
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    trail_end = models.PositiveBigIntegerField(default=0)  # the last event in review's chain by then

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="release_versioned_once")]
        ordering = [F("id").desc()]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def unreviewed(self) -> int:
        """How many of its samples no physician has reviewed."""
        return int(self.grounds.get(Ground.UNREVIEWED, 0))

    @property
    def simulated_samples(self) -> int:
        """How many of its samples were reviewed by simulated reviewers, whoever reviewed them besides."""
        return int(self.reviewers.get("simulated_samples", 0))

    @property
    def reviewed(self) -> int:
        """How many of its samples physicians have reviewed."""
        return self.samples_count - self.unreviewed


class ReleasedSample(models.Model):
    """A sample as released. `exported` is the JSON object of the export, without its rubrics."""

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="samples")
    position = models.PositiveIntegerField()
    version = models.ForeignKey(SampleVersion, on_delete=models.PROTECT, related_name="released")
    key = models.CharField(max_length=100)
    task = models.CharField(max_length=40)
    exported = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["release", "position"], name="released_sample_positioned_once"),
            models.UniqueConstraint(fields=["release", "key"], name="released_sample_once"),
        ]


class ReleasedRubric(models.Model):
    """A rubric as released, in the wording physicians approved, with the severity they gave it; as generated where nobody
    reviewed it."""

    sample = models.ForeignKey(ReleasedSample, on_delete=models.PROTECT, related_name="rubrics")
    key = models.CharField(max_length=16)
    criterion = models.TextField()
    traps = models.JSONField(default=list)
    severity = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sample", "key"], name="released_rubric_keyed_once")]


class Facet(models.Model):
    """A value under which a released rubric is counted (``subtype`` = ``A1``); a rubric can have several of one name."""

    rubric = models.ForeignKey(ReleasedRubric, on_delete=models.PROTECT, related_name="facets")
    name = models.CharField(max_length=40)
    value = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rubric", "name", "value"], name="facet_once_per_rubric")]
        indexes = [models.Index(fields=["name", "value"])]


class TaxonomyTerm(models.Model):
    """A taxonomy entry that an admin added to those a benchmark ships."""

    benchmark = models.CharField(max_length=64)
    code = models.CharField(max_length=16)
    parent = models.CharField(max_length=16, blank=True)
    label = models.CharField(max_length=100)
    definition = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["benchmark", "code"], name="term_once_per_benchmark")]

    def __str__(self) -> str:
        return f"{self.code} {self.label}"


class WorkerBeat(models.Model):
    """A worker process that lives, as it says itself every few seconds."""

    name = models.CharField(max_length=200, unique=True)
    seen_at = models.DateTimeField()
