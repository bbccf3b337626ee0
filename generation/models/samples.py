"""Drafts, samples with their versions, rubrics and checks."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from generation.models.batches import Batch
from generation.models.endpoints import Endpoint
from generation.models.sources import SourceRecord
from generation.models.work import Work, work_constraints
from review.models import Case, User


class Sample(models.Model):
    """One test case of a benchmark, across its versions.

    `bound`: samples of one record and batch with the same word here are released together or not at
    all; empty: the sample is independent of others.
    """

    class Status(models.TextChoices):
        IN_REVIEW = "in-review", _("in review")
        REGENERATING = "regenerating", _("being regenerated")
        APPROVED = "approved", _("approved")
        DISCARDED = "discarded", _("discarded")
        WITHDRAWN = "withdrawn", _("withdrawn")

    class Arm(models.TextChoices):
        """A control is the same place without the trap: it exposes models that doubt everything.

        A reworded control says the same in other words; no rate counts it.
        """

        TRAP = "trap", _("trap")
        CONTROL = "control", _("control")
        REWORDED = "reworded", _("reworded control")

    benchmark = models.CharField(max_length=64)
    task = models.CharField(max_length=40)
    arm = models.CharField(max_length=8, choices=Arm, default=Arm.TRAP)
    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="samples")
    record = models.ForeignKey(SourceRecord, on_delete=models.PROTECT, related_name="samples")
    status = models.CharField(max_length=12, choices=Status, default=Status.IN_REVIEW)
    bound = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["in-review", "regenerating", "approved", "discarded", "withdrawn"]),
                name="sample_status_known",
            ),
            models.CheckConstraint(condition=Q(arm__in=["trap", "control", "reworded"]), name="sample_arm_known"),
        ]
        indexes = [models.Index(fields=["benchmark", "status"])]

    @property
    def key(self) -> str:
        """The sample's name in releases and on pages, the same for all its versions."""
        return self.key_of(self.benchmark, self.task, self.pk)

    @staticmethod
    def key_of(benchmark: str, task: str, pk: int) -> str:
        """Return the key of a sample of which only these columns were read."""
        return f"{benchmark}-{task}-{pk:06d}"

    def __str__(self) -> str:
        return self.key


class Draft(Work):
    """A sample in the making, with its `data` so far; the next step is number `step` of the recipe.

    `preferred`: the traps that the batch's trap plan prefers for it. `gate`: whether a pre-review
    check stopped it, and what was decided then. `returned`: {content, reasons} of the drafts before
    it that checks stopped and sent back to the generator, the oldest first. `endpoint`: for a role
    that several endpoints may play, the one that plays it for this draft and for drafts made from
    it. `at_barrier`: it waits for the other drafts of its batch. `round`: the round in which it met
    them. `onward`: the draft that has continued for it since.
    """

    class Gate(models.TextChoices):
        STOPPED = "stopped", _("stopped by a check")
        SENT_TO_REVIEW = "let-through", _("sent to review")
        DISCARDED = "discarded", _("discarded")
        RETURNED = "returned", _("sent back to the generator")

    ERASED = "Erased"  # the `error` of a draft whose batch was deleted: its record can be used again

    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="drafts", db_index=False)
    record = models.ForeignKey(SourceRecord, on_delete=models.PROTECT, related_name="drafts")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, null=True, blank=True, related_name="drafts")
    version = models.PositiveSmallIntegerField(default=1)
    step = models.PositiveSmallIntegerField(default=0)
    data = models.JSONField(default=dict)
    preferred = models.JSONField(default=list, blank=True)
    gate = models.CharField(max_length=11, choices=Gate, blank=True)
    returned = models.JSONField(default=list, blank=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at_barrier = models.BooleanField(default=False)
    round = models.ForeignKey(
        "generation.BarrierRound", on_delete=models.PROTECT, null=True, blank=True, related_name="drafts"
    )
    onward = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="arrivals")

    class Meta:
        constraints = [
            *work_constraints("draft"),
            # A stopped or discarded draft has ended without a sample; one that was let through is a
            # sample.
            models.CheckConstraint(
                condition=Q(gate="")
                | Q(gate__in=["stopped", "discarded", "returned"], status="dropped")
                | Q(gate="let-through", status="done"),
                name="draft_gate_fits_status",
            ),
            # A batch has one first draft per record (and endpoint); a version is regenerated once.
            models.UniqueConstraint(
                fields=["batch", "record"],
                condition=Q(parent__isnull=True, sample__isnull=True, endpoint__isnull=True),
                name="draft_one_per_record",
            ),
            models.UniqueConstraint(
                fields=["batch", "record", "endpoint"],
                condition=Q(parent__isnull=True, sample__isnull=True, endpoint__isnull=False),
                name="draft_one_per_endpoint",
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
    """The result of a pre-review check of a draft.

    `stops`: whether it stopped the draft. `other`, `likeness`: the sample that the draft resembles,
    and how closely.
    """

    draft = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="findings", db_index=False)
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
    """A draft was stopped, let through, discarded or sent back to the generator: by whom and why.

    A database trigger forbids changes.
    """

    draft = models.ForeignKey(Draft, on_delete=models.PROTECT, related_name="gate_events")
    kind = models.CharField(max_length=11, choices=Draft.Gate)
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    reason = models.TextField()
    at = models.DateTimeField()


class SampleVersion(models.Model):
    """One version of a sample, presented to physicians as `case`.

    `content` is the sample as generated; its rubrics are rows of their own. `reasons`: why this
    version was rejected. `citations`: the evidence given by its approvers (kind, reference,
    section, passage, read_on). `prompt` and `generator` (an endpoint's name): what generated it.
    `traps`: the traps of its rubrics, as generated. `provenance`: how it was made, as stated by the
    recipe (name -> value).
    """

    class Status(models.TextChoices):
        IN_REVIEW = "in-review", _("in review")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")
        WITHDRAWN = "withdrawn", _("withdrawn")

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="versions", db_index=False)
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
    provenance = models.JSONField(default=dict, blank=True)
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
    """Index of the texts of a benchmark, which must not occur twice.

    Its row is locked while a text is compared with the others and added.
    """

    benchmark = models.CharField(max_length=64, unique=True)


class Fingerprint(models.Model):
    """Fingerprint of a version's text, to find similar ones (`recipes.text_similarity`)."""

    index = models.ForeignKey(TextIndex, on_delete=models.PROTECT, related_name="fingerprints", db_index=False)
    version = models.OneToOneField(SampleVersion, on_delete=models.CASCADE, related_name="fingerprint")
    digest = models.CharField(max_length=64)
    signature = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["index", "digest"])]


class Band(models.Model):
    """One band of a fingerprint: texts that share a band may be similar."""

    fingerprint = models.ForeignKey(Fingerprint, on_delete=models.CASCADE, related_name="bands")
    value = models.BigIntegerField(db_index=True)


class Rubric(models.Model):
    """One criterion of a sample version.

    `approved`: the wording that physicians settled on; empty until then, and if none was asked.
    `severity`: the harm they expect if a clinician follows the hallucination, if they were asked:
    the median of `severities`, the levels that each of them chose. `removed`: physicians removed
    the rubric; the row stays as a record of that. `added`: physicians added the rubric. `polarity`:
    'must', 'must not', or '' if unspecified.
    """

    version = models.ForeignKey(SampleVersion, on_delete=models.PROTECT, related_name="rubrics", db_index=False)
    key = models.CharField(max_length=16)
    criterion = models.TextField()
    polarity = models.CharField(max_length=8, blank=True)
    traps = models.JSONField(default=list)
    approved = models.TextField(blank=True)
    severity = models.CharField(max_length=40, blank=True)
    severities = models.JSONField(default=list)
    removed = models.BooleanField(default=False)
    added = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "key"], name="rubric_keyed_once"),
            models.CheckConstraint(condition=Q(polarity__in=["", "must", "must not"]), name="rubric_polarity_known"),
        ]


class TaxonomyTerm(models.Model):
    """A taxonomy term that an admin added to those shipped with a benchmark."""

    benchmark = models.CharField(max_length=64)
    code = models.CharField(max_length=16)
    parent = models.CharField(max_length=16, blank=True)
    label = models.CharField(max_length=100)
    definition = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["benchmark", "code"], name="term_once_per_benchmark")]

    def __str__(self) -> str:
        return f"{self.code} {self.label}"


class ReviewStratum(models.Model):
    """How many samples a stratum of a batch has so far; used to draw a share of them for review."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    samples = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "name"], name="review_stratum_once")]
