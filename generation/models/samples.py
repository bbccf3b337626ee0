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
    """One test case of a benchmark, whatever its version. `bound`: samples of one record and batch with the same word here are
    released together or not at all; empty: it stands by itself."""

    class Status(models.TextChoices):
        IN_REVIEW = "in-review", _("in review")
        REGENERATING = "regenerating", _("being regenerated")
        APPROVED = "approved", _("approved")
        DISCARDED = "discarded", _("discarded")
        WITHDRAWN = "withdrawn", _("withdrawn")

    class Arm(models.TextChoices):
        """A control is the same place without the trap: it measures models that doubt everything."""

        TRAP = "trap", _("trap")
        CONTROL = "control", _("control")

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
            models.CheckConstraint(condition=Q(arm__in=["trap", "control"]), name="sample_arm_known"),
        ]
        indexes = [models.Index(fields=["benchmark", "status"])]

    @property
    def key(self) -> str:
        """The sample's name in releases and pages, the same for all its versions."""
        return self.key_of(self.benchmark, self.task, self.pk)

    @staticmethod
    def key_of(benchmark: str, task: str, pk: int) -> str:
        """The same of a row that was read in parts."""
        return f"{benchmark}-{task}-{pk:06d}"

    def __str__(self) -> str:
        return self.key


class Draft(Work):
    """A sample in the making: `data` after each step. The row waits at step number `step` of the recipe.

    `preferred`: the traps that the batch's plan would like in it. `gate`: whether a check stopped it short of physicians.
    `endpoint`: the one that plays the role that several may play, for this draft and those made of it. `at_barrier`: it waits
    for the others of its batch; `round`: in which it met them, and `onward` the draft that goes on for it since.
    """

    class Gate(models.TextChoices):
        STOPPED = "stopped", _("stopped by a check")
        LET_THROUGH = "let-through", _("sent to review")
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
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at_barrier = models.BooleanField(default=False)
    round = models.ForeignKey(
        "generation.BarrierRound", on_delete=models.PROTECT, null=True, blank=True, related_name="drafts"
    )
    onward = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="arrivals")

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
            # The first draft of a record in a batch (of each endpoint), and the one regeneration of a version, exist once.
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
    """What is kept of a version's text to find it again (`generation.recipes.text_similarity`)."""

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

    `severity`: the harm they expect where a clinician follows the hallucination, if they were asked: the median of
    `severities`, the levels that each of them chose. `removed`: they took the rubric away, and it is kept to say so.
    `added`: a rubric of theirs. `polarity`: 'must',
    'must not', or '' where nobody said.
    """

    version = models.ForeignKey(SampleVersion, on_delete=models.PROTECT, related_name="rubrics")
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


class ReviewStratum(models.Model):
    """How many samples a stratum of a batch has so far; by it a share of them is chosen for review."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    samples = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "name"], name="review_stratum_once")]
